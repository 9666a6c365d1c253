"""Make samples of MindIR: small nets through MindSpore, as `.ir` text, `.mindir` and the numbers they yield.

    python3.11 -m venv /tmp/mindspore-venv && /tmp/mindspore-venv/bin/pip install 'mindspore==2.10.0' 'numpy<2'
    /tmp/mindspore-venv/bin/python scripts/make_mindspore_samples.py tests/dialects/mindir/samples

Writes, for each net, `NAME.validate.ir` (the graph that MindSpore runs), for those with control flow `NAME.optimize.ir`
(the graph before its closures are lifted), `NAME.mindir`, and `NAME.npz`: weights by name (`weight:...`), and for
each run arguments (`run_0_argument_0`, ...) and results (`run_0_result_0`, ...). Source lines of its own code are
left out. Further arguments are the names of the only nets to make. Of the steps of training, whose names begin with
`train_`, runs follow each other: `run_0_updated:...` are the weights behind the first. They have no `.mindir`.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

DUMPS = tempfile.mkdtemp(prefix="mindspore-ir-")
os.environ.update(MS_DEV_SAVE_GRAPHS="3", MS_DEV_SAVE_GRAPHS_PATH=DUMPS, GLOG_v="3")

import mindspore  # pyright: ignore[reportMissingImports]
import numpy as np
from mindspore import Tensor, jit, nn, ops  # pyright: ignore[reportMissingImports]

CONTROL_FLOW = ("loop", "branch", "nested", "closure", "recursion", "break", "early_return", "choices", "higher_order")
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


class Break(nn.Cell):
    """A loop that is left in its middle."""

    def construct(self, x, n):
        i = ops.zeros((), mindspore.int32)
        while i < n:
            x = x * 1.5 + i
            if x.sum() > 50:
                break
            i = i + 1
        return x, i


class EarlyReturn(nn.Cell):
    """A function that is left in the middle of a loop inside a loop."""

    def construct(self, x, n):
        i = ops.zeros((), mindspore.int32)
        while i < n:
            j = ops.zeros((), mindspore.int32)
            while j < 4:
                x = x * 0.9 + 1
                j = j + 1
                if j > i:
                    continue
                if x.sum() > 20:
                    return x - 100
            i = i + 1
        return x - i


class Choices(nn.Cell):
    """Choices whose arms return, go on together, and lead into a loop."""

    def construct(self, x, p, q):
        if p > 0:
            if q > 0:
                y = x + 1
            else:
                return x * 3
        else:
            y = x - 1
            if q < -1:
                y = y / 2
        while y.sum() < 10:
            y = y * 2 + 1
        if p + q > 3:
            return y
        return y - q


class HigherOrder(nn.Cell):
    """A function of functions, chosen by data and carried into a loop."""

    def construct(self, x, n):
        def twice(f):
            return lambda v: f(f(v))

        f = twice(lambda v: v + 1)
        if n > 0:
            f = twice(lambda v: v * 2)
        y = f(x)
        i = ops.zeros((), mindspore.int32)
        while i < n:
            y = f(y)
            i = i + 1
        return y


class Layers(nn.Cell):
    """One of several cells, by an index."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.CellList([nn.ReLU(), nn.Tanh(), nn.Sigmoid()])

    def construct(self, x, i):
        return self.layers[i](x) + 1


@jit
def gcd(a, b):
    if b == 0:
        return a
    return gcd(b, a % b)


class Gcd(nn.Cell):
    """Recursion in a tail call."""

    def construct(self, a, b):
        return gcd(a, b)


@jit
def is_even(n):
    if n == 0:
        return Tensor(True)
    return is_odd(n - 1)


@jit
def is_odd(n):
    if n == 0:
        return Tensor(False)
    return is_even(n - 1)


class Mutual(nn.Cell):
    """Two functions that call each other."""

    def construct(self, n):
        return is_even(n)


class Elementwise(nn.Cell):
    """Primitives that work element by element."""

    def construct(self, x, y, i, j, b):
        arithmetic = (x + y, x - y, x * y, x / y, x // y, x % y, i + j, i - j, i * j, i / j, i // j, i % j, -i, x + i)
        scalars = (x + 2, 2 - x, x * 3, 3 / x, x % 2, i // 2, i % -3, x**2, 2**x, i + 1.5, i % 5, 1 - i)
        functions = (ops.exp(x), ops.log(ops.abs(x)), ops.sqrt(ops.abs(x)), ops.rsqrt(ops.abs(x)), ops.tanh(x))
        activations = (
            *(ops.relu(x), ops.sigmoid(x), ops.gelu(x), ops.gelu(x, approximate="tanh"), ops.silu(x)),
            *(ops.relu6(x * 8), ops.leaky_relu(x, 0.1), ops.elu(x), ops.hardswish(x * 4), ops.hardsigmoid(x * 4)),
            *(ops.softplus(x), ops.mish(x), ops.erf(x), ops.sin(x), ops.cos(x), ops.atan(x), ops.reciprocal(x)),
        )
        comparisons = (x > y, x >= 0.5, i == j, i != 2, i < j, x <= y, i > 1.5)
        logic = (ops.logical_and(b, x > 0), ops.logical_or(b, x > 0), ops.logical_not(b), ops.logical_xor(b, x > 0))
        others = (
            *(ops.maximum(x, y), ops.minimum(x, y), ops.square(x), ops.sign(x), ops.floor(x), ops.ceil(x)),
            *(ops.round(x * 4), ops.clamp(x, -0.5, 0.25), ops.where(b, x, y), ops.select(b, x, 1.0), ops.pow(y, 2.0)),
            *(
                x.astype(mindspore.int32),
                i.astype(mindspore.float32),
                b.astype(mindspore.int32),
                i.astype(mindspore.bool_),
            ),
            *(
                x.astype(mindspore.float16),
                ops.masked_fill(x, b, 7.0),
                ops.zeros_like(x),
                ops.ones_like(i),
                ops.expm1(x),
            ),
            *(ops.log1p(ops.abs(x)), ops.addn([x, y, x]), ops.isnan(x / 0), ops.isfinite(x), ops.trunc(x * 3)),
        )
        return arithmetic + scalars + functions + activations + comparisons + logic + others


class Shapes(nn.Cell):
    """Primitives that move elements."""

    def construct(self, x, y, i):
        views = (
            *(x.reshape(-1, 4), x.transpose(2, 0, 1), x.swapaxes(0, 2), x.flatten(), ops.flatten(x, start_dim=1)),
            *(x.expand_dims(1), x[:, None].squeeze(1), ops.broadcast_to(y, (2, 3, 4)), ops.tile(y, (2, 1, 2)), x.T),
        )
        parts = (
            *(ops.concat((x, x), 1), ops.stack((x, x), 1), *ops.split(x, 2, axis=2), *ops.split(x, [1, 2], axis=1)),
            *(x[0], x[:, 1:], x[..., ::2], x[1, 2, 3], x[:, -1], x[:, :, 1:3], *ops.chunk(x, 2, 2)),
        )
        indexed = (ops.gather(x, i, 1), x[:, i], ops.one_hot(i, 4, Tensor(2.0), Tensor(-1.0)), ops.flip(x, (1, 2)))
        made = (
            *(ops.zeros((2, 3), mindspore.float32), ops.ones((2,), mindspore.int32), ops.full((2, 2), 7.0)),
            *(
                ops.arange(0, 10, 3),
                ops.tril(x),
                ops.triu(x, 1),
                ops.pad(x, (1, 2)),
                ops.pad(x, (1, 0, 2, 1), value=3.0),
            ),
            *(ops.full_like(x, 2.0), ops.range(Tensor(0), Tensor(6), Tensor(2))),
        )
        return views + parts + indexed + made


class Reductions(nn.Cell):
    """Primitives that put elements together, products of matrices, pooling, normalisation."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(4, 6, 3, stride=2, group=2, dilation=1, has_bias=True)
        self.conv2 = nn.Conv2d(4, 2, (3, 2), pad_mode="pad", padding=(1, 0, 2, 1), dilation=2)
        self.max_pool = nn.MaxPool2d(3, 2, pad_mode="same")
        self.avg_pool = nn.AvgPool2d(3, 2, pad_mode="same")
        self.group_norm = nn.LayerNorm([4, 6, 6], begin_norm_axis=1, begin_params_axis=1)
        self.dense = nn.Dense(6, 3, has_bias=False)
        self.embedding = nn.Embedding(5, 3)

    def construct(self, x, i, a, b):
        sums = (
            *(x.sum(), x.sum(1), ops.sum(x, (2, 3), keepdim=True), x.mean(), ops.mean(x, (1, 2)), i.sum()),
            *(ops.mean(x, -1, True), x.max(), x.min(), ops.amax(x, (0, 1)), ops.amin(x, 2, True), ops.prod(x, 3)),
            *(ops.all(x > -2, 1), ops.any(x > 0.9, 1), ops.argmax(x, 1), ops.argmin(x, 2), ops.cumsum(x, 2)),
            *(ops.softmax(x, 1), ops.log_softmax(x, 2)),
        )
        products = (
            *(ops.matmul(a, b), ops.matmul(a[0, 0], b[0, 0]), ops.bmm(a[0], b[0, :1]), ops.matmul(a, b[0, 0, :, 0])),
            *(ops.matmul(a[0, 0, 0], b), self.dense(x), self.embedding(i)),
        )
        nets = (
            *(self.conv1(x), self.conv2(x), self.max_pool(x), self.avg_pool(x), self.group_norm(x)),
            ops.adaptive_avg_pool2d(x, (3, 2)),
        )
        return sums + products + nets


class Recurrent(nn.Cell):
    """A cell with gates, over the steps of a sequence; a list is filled."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Dense(4, 20)
        self.outer = nn.Dense(5, 20, has_bias=False)

    def construct(self, x, h, c):
        outputs = []
        for step in range(3):
            i, f, o, u = ops.split(self.inner(x[:, step]) + self.outer(h), 5, axis=1)
            c = ops.sigmoid(f) * c + ops.sigmoid(i) * ops.tanh(u)
            h = ops.sigmoid(o) * ops.tanh(c)
            outputs.append(h)
        return ops.stack(outputs, 1), h, c


class UNet(nn.Cell):
    """Down, up by a transposed convolution, and what came before beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(2, 4, 3)
        self.deep = nn.Conv2d(4, 8, 3)
        self.pool = nn.MaxPool2d(2, 2)
        self.up = nn.Conv2dTranspose(8, 4, 3, stride=2)
        self.last = nn.Conv2d(8, 2, 1)

    def construct(self, x):
        before = ops.relu(self.down(x))
        deep = self.up(ops.relu(self.deep(self.pool(before))))
        return ops.sigmoid(self.last(ops.concat((before, deep), 1)))


class Classifier(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Dense(8, 16, activation="relu")
        self.second = nn.Dense(16, 6, activation="tanh")
        self.third = nn.Dense(6, 4, activation="sigmoid")

    def construct(self, x):
        return self.third(self.second(self.first(x)))


class Training(nn.Cell):
    """A step of training: the loss, and an update of all weights."""

    def __init__(self, optimizer) -> None:
        super().__init__()
        self.net = Classifier()
        self.loss = nn.MSELoss()
        self.optimizer = optimizer(self.net.trainable_params())
        self.gradients = ops.value_and_grad(self.forward, None, self.optimizer.parameters)

    def forward(self, x, y):
        return self.loss(self.net(x), y)

    def construct(self, x, y):
        loss, gradients = self.gradients(x, y)
        return ops.depend(loss, self.optimizer(gradients))


class Pictures(nn.Cell):
    """A net whose normalisation learns the statistics of batches."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(2, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.pool = nn.MaxPool2d(2, 2)
        self.conv2 = nn.Conv2d(4, 2, 2, stride=2, pad_mode="valid")
        self.dense = nn.Dense(2, 3)
        self.flatten = nn.Flatten()

    def construct(self, x):
        return self.dense(self.flatten(self.conv2(self.pool(ops.relu(self.norm(self.conv1(x)))))))


class Normalised(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Dense(4, 6)
        self.norm = nn.LayerNorm([6])
        self.second = nn.Dense(6, 3)

    def construct(self, x):
        return self.second(ops.gelu(self.norm(self.first(x))))


class Words(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 4)
        self.dense = nn.Dense(4, 3)

    def construct(self, i):
        return self.dense(self.embedding(i).mean(1))


class Step(Training):
    """A step of training of any net."""

    def __init__(self, net, loss, optimizer) -> None:
        nn.Cell.__init__(self)
        self.net, self.loss = net, loss
        self.optimizer = optimizer(self.net.trainable_params())
        self.gradients = ops.value_and_grad(self.forward, None, self.optimizer.parameters)


class Adversaries(nn.Cell):
    """A step of training of two nets against each other."""

    def __init__(self) -> None:
        super().__init__()
        self.maker = nn.SequentialCell([nn.Dense(3, 6), nn.ReLU(), nn.Dense(6, 4), nn.Tanh()])
        self.critic = nn.SequentialCell([nn.Dense(4, 6), nn.ReLU(), nn.Dense(6, 1)])
        self.maker_optimizer = nn.Adam(self.maker.trainable_params(), 0.01)
        self.critic_optimizer = nn.Adam(self.critic.trainable_params(), 0.01)
        self.loss = nn.BCEWithLogitsLoss()
        self.maker_gradients = ops.value_and_grad(self.deceive, None, self.maker_optimizer.parameters)
        self.critic_gradients = ops.value_and_grad(self.detect, None, self.critic_optimizer.parameters)

    def deceive(self, z):
        scores = self.critic(self.maker(z))
        return self.loss(scores, ops.ones_like(scores))

    def detect(self, z, x):
        made, real = self.critic(self.maker(z)), self.critic(x)
        return self.loss(made, ops.zeros_like(made)) + self.loss(real, ops.ones_like(real))

    def construct(self, z, x):
        critic_loss, critic_gradients = self.critic_gradients(z, x)
        critic_loss = ops.depend(critic_loss, self.critic_optimizer(critic_gradients))
        maker_loss, maker_gradients = self.maker_gradients(z)
        return critic_loss, ops.depend(maker_loss, self.maker_optimizer(maker_gradients))


def trainings():
    """Each step of training with its name and the arguments of its runs."""
    steps = [(array(4, 8), array(4, 4)) for _ in range(3)]
    yield "train_momentum", Training(lambda weights: nn.Momentum(weights, 0.1, 0.9)), steps
    yield "train_sgd", Training(lambda weights: nn.SGD(weights, 0.1, momentum=0.9, dampening=0.2)), steps
    yield "train_sgd_alone", Training(lambda weights: nn.SGD(weights, 0.1)), steps
    classes = np.array([0, 2, 1, 1], np.int32)
    sparse = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    pictures = Step(Pictures(), sparse, lambda weights: nn.Momentum(weights, 0.1, 0.9))
    yield "train_batch_norm", pictures, [(array(4, 2, 6, 6), classes) for _ in range(2)]
    adam = Step(Normalised(), nn.CrossEntropyLoss(), lambda weights: nn.Adam(weights, 0.01, weight_decay=0.1))
    yield "train_adam", adam, [(array(4, 4), classes) for _ in range(2)]
    decay = Step(Normalised(), nn.MSELoss(), lambda weights: nn.AdamWeightDecay(weights, 0.01, weight_decay=0.1))
    yield "train_adam_decay", decay, [(array(4, 4), array(4, 3)) for _ in range(2)]
    words = Step(Words(), nn.CrossEntropyLoss(), lambda weights: nn.RMSProp(weights, 0.01))
    yield "train_rms_prop", words, [(RANDOM.integers(0, 7, (4, 5)).astype(np.int32), classes) for _ in range(2)]
    yield "train_adversaries", Adversaries(), [(array(5, 3), array(5, 4)) for _ in range(2)]


def nets():
    """Each net with its name and the arguments of its runs."""
    mask = np.triu(np.ones((3, 3), bool), 1)[None, None]
    yield "mlp", MLP(), [(array(4, 8),)]
    yield "lenet", LeNet(), [(array(2, 1, 16, 16),)]
    yield "residual_block", ResidualBlock(), [(array(2, 2, 8, 8),)]
    yield "transformer_layer", TransformerLayer(), [(array(2, 3, 8), mask)]
    yield "loop", Loop(), [(np.array(2, np.float32),), (np.array(9, np.float32),)]
    yield "branch", Branch(), [(array(2),), (-np.ones(2, np.float32),), (np.ones(2, np.float32),)]
    yield "nested", Nested(), [(integer(7),), (integer(0),)]
    yield "closure", Closure(), [(array(3), array(3)), (np.ones(3, np.float32), array(3))]
    yield "recursion", Recursion(), [(array(3), integer(5))]
    yield "break", Break(), [(np.ones(3, np.float32), integer(n)) for n in (0, 2, 9)]
    yield "early_return", EarlyReturn(), [(np.ones(3, np.float32), integer(n)) for n in (0, 2, 6)]
    yield "choices", Choices(), [(array(3), integer(p), integer(q)) for p in (-1, 1, 3) for q in (-2, 0, 2)]
    yield "higher_order", HigherOrder(), [(array(3), integer(n)) for n in (-1, 2)]
    yield "layers", Layers(), [(array(3), integer(i)) for i in (0, 2, -2)]
    yield "gcd", Gcd(), [(integer(48), integer(36)), (integer(7), integer(0))]
    yield "mutual", Mutual(), [(integer(7),), (integer(4),)]
    yield "recurrent", Recurrent(), [(array(2, 3, 4), array(2, 5), array(2, 5))]
    yield "unet", UNet(), [(array(1, 2, 8, 8),)]
    i, j = np.array([[7, -7, 7, -7, 0, 6]], np.int32), np.array([[3, 3, -3, -3, 2, 3]], np.int32)
    bools = np.array([[True, False, True, False, True, True]])
    yield "elementwise", Elementwise(), [(array(2, 6), array(2, 6) + 2, i, j, bools)]
    yield "shapes", Shapes(), [(array(2, 3, 4), array(3, 1), np.array([2, 0, 1], np.int32))]
    yield (
        "reductions",
        Reductions(),
        [(array(2, 4, 6, 6), np.array([[4, 0], [1, 2]], np.int32), array(2, 1, 3, 4), array(1, 3, 4, 5))],
    )


def integer(value: int) -> np.ndarray:
    return np.array(value, np.int32)


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


def make_training(folder: Path, name: str, net: nn.Cell, runs: list) -> None:
    """Write the graph of a step, and its weights before and behind each run."""
    net.set_train()
    before = set(Path(DUMPS).rglob("*.ir"))
    arrays = {f"weight:{parameter.name}": parameter.asnumpy().copy() for parameter in net.get_parameters()}
    for number, arguments in enumerate(runs):
        results = net(*map(Tensor, arguments))
        results = results if isinstance(results, tuple) else (results,)
        arrays |= {f"run_{number}_result_{index}": result.asnumpy() for index, result in enumerate(results)}
        arrays |= {f"run_{number}_argument_{index}": argument for index, argument in enumerate(arguments)}
        for parameter in net.get_parameters():
            arrays[f"run_{number}_updated:{parameter.name}"] = parameter.asnumpy().copy()
    np.savez_compressed(folder / f"{name}.npz", allow_pickle=False, **arrays)
    (folder / f"{name}.validate.ir").write_text(dumped("*_validate_*.ir", before))


def main(folder: Path) -> None:
    mindspore.set_context(mode=mindspore.GRAPH_MODE)
    mindspore.set_seed(1)
    for name, net, runs in nets():
        if sys.argv[2:] and name not in sys.argv[2:]:
            continue
        net.set_train(False)
        set_norms(net)
        before = set(Path(DUMPS).rglob("*.ir"))
        arrays = {f"weight:{parameter.name}": parameter.asnumpy() for parameter in net.get_parameters()}
        for number, arguments in enumerate(runs):
            results = net(*map(Tensor, arguments))
            results = results if isinstance(results, tuple) else (results,)
            arrays |= {f"run_{number}_argument_{index}": argument for index, argument in enumerate(arguments)}
            arrays |= {f"run_{number}_result_{index}": result.asnumpy() for index, result in enumerate(results)}
        np.savez_compressed(folder / f"{name}.npz", allow_pickle=False, **arrays)
        (folder / f"{name}.validate.ir").write_text(dumped("*_validate_*.ir", before))
        if name in CONTROL_FLOW:
            (folder / f"{name}.optimize.ir").write_text(dumped("*_optimize_parallel_*.ir", before))
        target = folder / f"{name}.mindir"
        target.unlink(missing_ok=True)
        mindspore.export(net, *map(Tensor, runs[0]), file_name=str(target), file_format="MINDIR")
        target.chmod(0o644)
    for name, net, runs in trainings():
        if not sys.argv[2:] or name in sys.argv[2:]:
            make_training(folder, name, net, runs)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    finally:
        shutil.rmtree(DUMPS)
