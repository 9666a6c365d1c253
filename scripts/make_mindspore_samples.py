"""Make samples of MindIR: small nets through MindSpore, as `.ir` text, `.mindir` and the numbers they yield.

    python3.11 -m venv /tmp/mindspore-venv && /tmp/mindspore-venv/bin/pip install 'mindspore==2.10.0' 'numpy<2'
    /tmp/mindspore-venv/bin/python scripts/make_mindspore_samples.py tests/dialects/mindir/samples

Writes, for each net, `NAME.validate.ir` (the graph that MindSpore runs), for those with control flow `NAME.optimize.ir`
(the graph before its closures are lifted), `NAME.mindir`, and `NAME.npz`: arguments (`argument_0`, ...), weights by
their names (`weight:...`) and results (`result_0`, ...). Source lines of MindSpore's own code are left out.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

DUMPS = tempfile.mkdtemp(prefix="mindspore-ir-")
os.environ.update(MS_DEV_SAVE_GRAPHS="3", MS_DEV_SAVE_GRAPHS_PATH=DUMPS, GLOG_v="3")

import mindspore  # pyright: ignore[reportMissingImports]
import numpy as np
from mindspore import Tensor, jit, nn, ops  # pyright: ignore[reportMissingImports]

CONTROL_FLOW = ("loop", "branch", "nested", "closure", "recursion")
RANDOM = np.random.default_rng(0)


def array(*dims: int) -> np.ndarray:
    """Random numbers in [-1, 1)."""
    return RANDOM.uniform(-1, 1, dims).astype(np.float32)


class MLP(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Dense(8, 16, activation="relu")
        self.second = nn.Dense(16, 4)

    def construct(self, x):
        return ops.softmax(self.second(self.first(x)))


class LeNet(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 2, 5, pad_mode="valid", has_bias=True)
        self.conv2 = nn.Conv2d(2, 3, 5, pad_mode="same")
        self.pool = nn.MaxPool2d(2, 2)
        self.average = nn.AvgPool2d(2, 2)
        self.flatten = nn.Flatten()
        self.fc1 = nn.Dense(27, 6, activation="tanh")
        self.fc2 = nn.Dense(6, 4)
        self.relu = nn.ReLU()

    def construct(self, x):
        x = self.pool(self.relu(self.conv1(x)))
        x = self.average(self.relu(self.conv2(x)))
        x = self.fc2(self.fc1(self.flatten(x)))
        return ops.log_softmax(x)


class ResidualBlock(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(2, 4, 3, stride=2, pad_mode="pad", padding=1)
        self.norm1 = nn.BatchNorm2d(4)
        self.conv2 = nn.Conv2d(4, 4, 3)
        self.norm2 = nn.BatchNorm2d(4)
        self.down = nn.SequentialCell([nn.Conv2d(2, 4, 1, stride=2), nn.BatchNorm2d(4)])
        self.relu = nn.ReLU()

    def construct(self, x):
        y = self.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        return ops.mean(self.relu(y + self.down(x)), (2, 3))


class TransformerLayer(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.heads, self.size = 2, 4
        self.norm1 = nn.LayerNorm([8])
        self.norm2 = nn.LayerNorm([8])
        self.qkv = nn.Dense(8, 24)
        self.out = nn.Dense(8, 8)
        self.up = nn.Dense(8, 16)
        self.down = nn.Dense(16, 8)
        self.gelu = nn.GELU()

    def construct(self, x, mask):
        batch, length, width = x.shape
        q, k, v = ops.split(self.qkv(self.norm1(x)), width, axis=2)
        shape = (batch, length, self.heads, self.size)
        q = q.reshape(shape).transpose(0, 2, 1, 3)
        k = k.reshape(shape).transpose(0, 2, 1, 3)
        v = v.reshape(shape).transpose(0, 2, 1, 3)
        scores = ops.matmul(q, k.swapaxes(2, 3)) / 2.0
        scores = ops.masked_fill(scores, mask, -1e9)
        weights = ops.softmax(scores, -1)
        mixed = ops.matmul(weights, v).transpose(0, 2, 1, 3).reshape(batch, length, width)
        x = x + self.out(mixed)
        return x + self.down(self.gelu(self.up(self.norm2(x))))


class Loop(nn.Cell):
    """Newton's square root: a loop whose length the data decide."""

    def construct(self, a):
        x = a
        count = ops.zeros((), mindspore.int32)
        while ops.abs(x * x - a) > 1e-5:
            x = 0.5 * (x + a / x)
            count = count + 1
        return x, count


class Branch(nn.Cell):
    """A choice on data whose arms use what stands outside of them."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = mindspore.Parameter(Tensor([2.0, 3.0], mindspore.float32), name="scale")

    def construct(self, x):
        y = x * self.scale
        if y.sum() > 0:  # noqa: SIM108 - MindSpore makes other graphs of expressions
            z = ops.exp(y)
        else:
            z = y - x
        return z + 1.0


class Nested(nn.Cell):
    """A choice inside a loop inside a loop."""

    def construct(self, n):
        total = ops.zeros((), mindspore.int32)
        i = ops.zeros((), mindspore.int32)
        while i < n:
            j = ops.zeros((), mindspore.int32)
            while j < i:
                if (i + j) % 2 == 0:  # noqa: SIM108
                    total = total + i * j
                else:
                    total = total - j
                j = j + 1
            i = i + 1
        return total


class Closure(nn.Cell):
    """A function that gives a function."""

    def construct(self, x, y):
        def scaled_by(factor):
            def scaled(value):
                return ops.tanh(value * factor)

            return scaled

        f = scaled_by(y)
        g = scaled_by(x)
        h = f if x.sum() > y.sum() else g
        return h(x) + h(f(y))


@jit
def power(x, n):
    if n <= 0:
        return ops.ones_like(x)
    return x * power(x, n - 1)


class Recursion(nn.Cell):
    """A power by recursion: no tail call."""

    def construct(self, x, n):
        return power(x, n)


def nets():
    mask = np.triu(np.ones((3, 3), bool), 1)[None, None]
    two = np.array(2, np.float32)
    yield "mlp", MLP(), (array(4, 8),)
    yield "lenet", LeNet(), (array(2, 1, 16, 16),)
    yield "residual_block", ResidualBlock(), (array(2, 2, 8, 8),)
    yield "transformer_layer", TransformerLayer(), (array(2, 3, 8), mask)
    yield "loop", Loop(), (two,)
    yield "branch", Branch(), (array(2),)
    yield "nested", Nested(), (np.array(7, np.int32),)
    yield "closure", Closure(), (array(3), array(3))
    yield "recursion", Recursion(), (array(3), np.array(5, np.int32))


def dumped(pattern: str, before: set[Path]) -> str:
    """The last graph that MindSpore wrote since, of those whose files' names match, without source lines of its own."""
    paths = [path for path in Path(DUMPS).rglob(pattern) if path not in before]
    lines = max(paths, key=lambda path: path.name).read_text().splitlines(keepends=True)
    kept = [line for line in lines if "# In file" not in line or __file__ in line]
    return "".join(kept).replace(__file__, Path(__file__).name)


def set_norms(net: nn.Cell) -> None:
    """Give normalisations statistics and scales that are not those of a net that has seen nothing."""
    for _, parameter in net.parameters_and_names():
        if parameter.name.endswith(("gamma", "beta", "moving_mean", "moving_variance")):
            parameter.set_data(Tensor(np.abs(array(*parameter.shape)) + 0.5))


def main(folder: Path) -> None:
    mindspore.set_context(mode=mindspore.GRAPH_MODE)
    mindspore.set_seed(1)
    for name, net, arguments in nets():
        net.set_train(False)
        set_norms(net)
        before = set(Path(DUMPS).rglob("*.ir"))
        tensors = [Tensor(argument) for argument in arguments]
        results = net(*tensors)
        results = results if isinstance(results, tuple) else (results,)
        arrays = {f"argument_{index}": argument for index, argument in enumerate(arguments)}
        arrays |= {f"weight:{parameter.name}": parameter.asnumpy() for parameter in net.get_parameters()}
        arrays |= {f"result_{index}": result.asnumpy() for index, result in enumerate(results)}
        np.savez_compressed(folder / f"{name}.npz", allow_pickle=False, **arrays)
        (folder / f"{name}.validate.ir").write_text(dumped("*_validate_*.ir", before))
        if name in CONTROL_FLOW:
            (folder / f"{name}.optimize.ir").write_text(dumped("*_optimize_parallel_*.ir", before))
        target = folder / f"{name}.mindir"
        target.unlink(missing_ok=True)
        mindspore.export(net, *tensors, file_name=str(target), file_format="MINDIR")
        target.chmod(0o644)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
