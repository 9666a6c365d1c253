"""Patterns and Wanda on random matrices and experts, against formulas written out; and what is at the edge.

Covers `pattern.py`, `masks.py`, `prune.py`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hloom
from hloom.text import HloomError
from tests.compress.pruning.test_structured import check, traced
from tests.compress.quantization.programs import normal


def product(tokens: int, summed: int, free: int) -> hloom.Module:
    return hloom.parse(f"""ENTRY product {{
  x = f32[{tokens},{summed}] parameter(0)
  h = f32[{tokens},{summed}] tanh(x)
  w = f32[{summed},{free}] parameter(1)
  ROOT y = f32[{tokens},{free}] dot(h, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}""")


def official_wanda(weight: np.ndarray, inputs: list[np.ndarray], sparsity: float) -> np.ndarray:
    """Which elements of a weight [outputs, inputs] go, as github.com/locuslab/wanda computes it in lib/layerwrapper.py and
    lib/prune.py: a running mean of squared norms, and the lowest of every row by a stable sort.
    """
    scaler_row, samples = np.zeros(weight.shape[1]), 0
    for x in inputs:
        scaler_row *= samples / (samples + len(x))
        samples += len(x)
        scaler_row += np.square(np.linalg.norm(x.astype(np.float64), axis=0)) / samples
    metric = np.abs(weight) * np.sqrt(scaler_row)[None]
    mask = np.zeros(weight.shape, bool)
    lowest = np.argsort(metric, axis=-1, kind="stable")[:, : int(weight.shape[1] * sparsity)]
    np.put_along_axis(mask, lowest, True, -1)
    return mask


@settings(max_examples=30, deadline=None)
@given(
    tokens=st.integers(1, 9),
    groups=st.integers(1, 6),
    free=st.integers(1, 9),
    sparsity=st.sampled_from([0.25, 0.5, 0.75]),
    seed=st.integers(0, 1000),
)
def test_wanda_on_random_matrices(tokens: int, groups: int, free: int, sparsity: float, seed: int):
    module, weight = product(tokens, 4 * groups, free), normal(4 * groups, free, seed=seed)
    inputs = [normal(tokens, 4 * groups, seed=seed + n) for n in range(2)]
    calibration = [[x, weight] for x in inputs]
    made = hloom.prune(module, [inputs[0], weight], sparsity, method="wanda", calibration=calibration)
    expected = official_wanda(weight.T, [np.tanh(x) for x in inputs], sparsity)
    assert (~made.weights[0].mask == expected.T).all()


@settings(max_examples=30, deadline=None)
@given(
    stack=st.integers(1, 3),
    groups=st.integers(1, 5),
    free=st.integers(1, 7),
    pattern=st.sampled_from([(1, 2), (2, 4), (1, 4), (3, 4), (4, 8), (4, 4)]),
    seed=st.integers(0, 1000),
)
def test_groups_on_random_matrices(stack: int, groups: int, free: int, pattern: tuple[int, int], seed: int):
    """Of every group the greatest are kept, in every matrix of a batch."""
    kept, size = pattern
    summed = groups * size
    module = hloom.parse(f"""ENTRY product {{
  x = f32[{stack},2,{summed}] parameter(0)
  h = f32[{stack},2,{summed}] tanh(x)
  w = f32[{stack},{summed},{free}] parameter(1)
  ROOT y = f32[{stack},2,{free}] dot(h, w), lhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, rhs_batch_dims={{0}}, rhs_contracting_dims={{1}}
}}""")
    weight = normal(stack, summed, free, seed=seed)
    mask = hloom.prune(module, {"w": weight}, pattern=f"{kept}:{size}").weights[0].mask
    for matrix, row, column in np.ndindex(stack, groups, free):
        part = slice(row * size, (row + 1) * size)
        order = np.abs(weight[matrix, part, column]).argsort()
        assert set(np.flatnonzero(mask[matrix, part, column])) == set(order[size - kept :])


def mixture(params: Any, x: Any) -> Any:
    gates = jax.nn.softmax(x @ params["router"])
    h = jax.nn.gelu(jnp.einsum("td,edf->tef", x, params["up"]))
    return jnp.einsum("te,ted->td", gates, jnp.einsum("tef,efd->ted", h, params["down"]))


EXPERTS = {"router": normal(8, 6), "up": normal(6, 8, 12), "down": normal(6, 12, 8)}


def test_experts_are_matrices_of_their_own():
    module, weights, arrays = traced(mixture, EXPERTS, normal(5, 8))
    groups = {weight.name: weight for weight in hloom.prune(module, weights, pattern="2:4").weights}
    up = next(weight for weight in groups.values() if weight.type.dims == (6, 8, 12))
    assert (up.mask.reshape(6, 2, 4, 12).sum(2) == 2).all()
    blocks = hloom.prune(module, weights, 0.5, pattern="4x4")
    up = next(weight for weight in blocks.weights if weight.type.dims == (6, 8, 12))
    parts = up.mask.reshape(6, 2, 4, 3, 4).swapaxes(2, 3).reshape(36, 16)
    assert (parts.all(1) | ~parts.any(1)).all() and parts.all(1).sum() == 18
    wanda = hloom.prune(module, weights, 0.5, method="wanda", calibration=[arrays])
    down = next(weight for weight in wanda.weights if weight.type.dims == (6, 12, 8))
    hidden = np.asarray(jax.nn.gelu(np.einsum("td,edf->tef", arrays[-1], EXPERTS["up"])))
    scores = np.abs(EXPERTS["down"]) * np.linalg.norm(hidden, axis=0)[:, :, None]
    assert (down.mask == (scores > np.sort(scores, axis=1)[:, 5:6])).mean() > 0.99
    assert (down.mask.sum(1) == 6).all()


@pytest.mark.parametrize(
    "options", [{"pattern": "2:4"}, {"sparsity": 0.5, "pattern": "4x4"}, {"sparsity": 0.5}], ids=str
)
def test_experts_without_some_and_with_masks(options: dict):
    """Experts and channels go first, and elements of what is left then."""
    module, weights, arrays = traced(mixture, EXPERTS, normal(5, 8))
    made = check(module, weights, arrays, 1 / 3)
    assert {axis.role for axis in made.axes} == {"experts", "channels"}
    smaller = made.convert(arrays)
    sparse = hloom.prune(made.module, smaller, masks=True, **options)
    plain = hloom.prune(made.module, smaller, **options)
    expected = hloom.run(made.module, plain.convert(smaller)).outputs
    assert not hloom.compare(hloom.run(sparse.module, sparse.convert(smaller)).outputs, expected, rtol=1e-5)


@pytest.mark.parametrize(
    "options", [{"sparsity": 0.5}, {"pattern": "2:4"}, {"sparsity": 0.5, "pattern": "2x2"}], ids=str
)
def test_a_weight_of_zeros(options: dict):
    """Equal scores: the first go, and the share is what was asked for."""
    weight = np.zeros((8, 6), np.float32)
    made = hloom.prune(product(3, 8, 6), {"w": weight}, **options)
    assert made.weights[0].sparsity == 0.5
    calibration = [[np.zeros((3, 8), np.float32), weight]]
    made = hloom.prune(product(3, 8, 6), {"w": weight}, 0.5, method="wanda", calibration=calibration)
    assert made.weights[0].sparsity == 0.5


def mlp(params: Any, x: Any) -> Any:
    return jnp.tanh(x @ params["up"]) @ params["down"]


def test_channels_of_weights_of_zeros():
    module, weights, arrays = traced(mlp, {"up": np.zeros((8, 12), np.float32), "down": normal(12, 3)}, normal(5, 8))
    assert check(module, weights, arrays, 0.5).axes[0].kept == 6
    zeros = {name: np.zeros_like(array) for name, array in weights.items()}
    arrays = [*zeros.values(), arrays[-1]]
    assert check(module, zeros, arrays, 0.5).kept()["params__up__.1.1"].tolist() == [6, 7, 8, 9, 10, 11]


def test_structured_pruning_of_what_is_no_program():
    with pytest.raises(HloomError, match="is a fragment, and cannot be pruned"):
        hloom.prune_structured(hloom.parse("ENTRY e { ROOT y = f32[2] negate(x) }"), {})
    with pytest.raises(HloomError, match="e has no axis to prune"):
        hloom.prune_structured(hloom.parse("ENTRY e { ROOT t = () tuple() }"), {})


def test_structured_pruning_of_sizes_that_no_array_has():
    text = """ENTRY e {
  x = f32[2,4] parameter(0)
  up = f32[4,1099511627776] parameter(1)
  h = f32[2,1099511627776] dot(x, up), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  down = f32[1099511627776,3] parameter(2)
  ROOT y = f32[2,3] dot(h, down), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}"""
    with pytest.raises(HloomError, match=r"up is float32.4,6., the program takes f32.4,1099511627776."):
        hloom.prune_structured(hloom.parse(text), {"up": normal(4, 6), "down": normal(6, 3)})
    empty = text.replace("1099511627776", "0")
    with pytest.raises(HloomError, match="e has no axis to prune"):
        hloom.prune_structured(hloom.parse(empty), {"up": normal(4, 0), "down": normal(0, 3)}, only=["up"])
