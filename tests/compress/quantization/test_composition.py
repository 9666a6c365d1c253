"""Quantised programs in other transformations: derivatives and plans. `quantize.py`, `integer_products.py`."""

from __future__ import annotations

import numpy as np
import pytest

import hloom
from hloom import autodiff
from hloom.text import HloomError
from tests.compress.quantization.programs import lowered

INPUTS = {"mlp": 3, "attention": 4, "convolutions": 3}


def pulled_back(module: hloom.Module, arrays: list, wrt: int, stop: tuple[str, ...] = ()) -> np.ndarray:
    """The product of a cotangent of ones with the Jacobian by one input."""
    cotangents = [np.ones_like(output) for output in hloom.run(module, arrays).outputs]
    return hloom.run(autodiff.vjp(module, [wrt], stop=stop), [*arrays, *cotangents]).outputs[0]


@pytest.mark.parametrize("name", INPUTS)
def test_derivatives_see_dequantised_weights(name: str):
    module, arrays = lowered(name)
    made = hloom.quantize(module, "int4")
    expected = pulled_back(module, made.dequantized(arrays), INPUTS[name])
    assert not hloom.compare([pulled_back(made.module, made.convert(arrays), INPUTS[name])], [expected])


@pytest.mark.parametrize("name", INPUTS)
def test_straight_through(name: str):
    """Values are those of integers, derivatives those of the products that they stand for, at these values."""
    module, arrays = lowered(name)
    plain = hloom.quantize(module, activations="dynamic")
    made = hloom.quantize(module, activations="dynamic", straight_through=True)
    assert plain.stops == () and len(made.stops) == len(plain.weights)
    converted = made.convert(arrays)
    outputs = hloom.run(made.module, converted).outputs
    assert not hloom.compare(outputs, hloom.run(plain.module, converted).outputs, rtol=1e-4)
    derivative = pulled_back(made.module, converted, INPUTS[name], made.stops)
    expected = pulled_back(module, made.dequantized(arrays), INPUTS[name])
    assert np.linalg.norm(derivative - expected) / np.linalg.norm(expected) < 0.15
    assert np.linalg.norm(pulled_back(plain.module, converted, INPUTS[name]) - expected) > 0.5 * np.linalg.norm(
        expected
    )


def test_straight_through_without_integers():
    with pytest.raises(HloomError, match="straight_through is for products of narrow types"):
        hloom.quantize(lowered("mlp")[0], straight_through=True)


def test_a_plan():
    made = hloom.quantize(lowered("language model")[0])
    planned = hloom.plan(made.module, mesh="data=2,model=2")
    assert "s8[" in hloom.print(planned.annotate())


@pytest.mark.long
@pytest.mark.parametrize("activations", [None, "dynamic"])
def test_the_best_mix_for_devices(activations: str | None):
    """Loops that carry scales beside their weights fit as the original's do."""
    made = hloom.quantize(lowered("language model")[0], activations=activations)
    fitted = hloom.fit(made.module, devices=2, memory="1GiB")
    assert fitted.best.fits(2**30)


MASKED = hloom.parse("""ENTRY main {
  x = f32[4,64] parameter(0)
  up = f32[64,96] parameter(1)
  h = f32[4,96] dot(x, up), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[4,96] tanh(h)
  down = f32[64,96] parameter(2)
  ROOT y = f32[4,64] dot(t, down), lhs_contracting_dims={1}, rhs_contracting_dims={1}
}""")


@pytest.mark.parametrize(
    "options",
    [{}, {"weights": "int4", "per": "group", "group": 16}, {"weights": "mxfp8"}, {"symmetric": False}],
    ids=["int8", "groups", "mx", "zero points"],
)
def test_masked_weights(options: dict):
    """A pruned program that takes its masks: weights are narrow behind the masks, and the input stays one."""
    values = np.random.default_rng(0)
    arrays = [values.standard_normal(dims).astype(np.float32) for dims in ((4, 64), (64, 96), (64, 96))]
    weights = {"up": arrays[1], "down": arrays[2]}
    pruned = hloom.prune(MASKED, weights, pattern="2:4", masks=True, only=["up", "down"])
    given = pruned.convert(arrays)
    made = hloom.quantize(pruned.module, only=["up", "down"], **options)
    assert not made.exclusions
    expected = hloom.run(pruned.module, made.dequantized(given)).outputs
    assert not hloom.compare(hloom.run(made.module, made.convert(given)).outputs, expected)


def test_products_of_masked_integers():
    masked = hloom.parse("""ENTRY main {
  h = f32[4,8] parameter(0)
  w = f32[6,8] parameter(1)
  kept = pred[8,6] parameter(2)
  t = f32[8,6] transpose(w), dimensions={1,0}
  zero = f32[] constant(0)
  zeros = f32[8,6] broadcast(zero), dimensions={}
  m = f32[8,6] select(kept, t, zeros)
  ROOT y = f32[4,6] dot(h, m), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}""")
    made = hloom.quantize(masked, only=["w"], activations="dynamic")
    assert "s8[8,6] select(kept" in hloom.print(made.module, "short")
    assert [str(node.type) for node in made.module.entry.nodes if node.opcode == "dot"] == ["s32[4,6]"]


def test_what_takes_the_elements_that_a_mask_leaves_is_no_mask():
    """select(p, w, 1) is computed, and so w is not a weight."""
    chosen = hloom.parse("""ENTRY main {
  h = f32[4,8] parameter(0)
  w = f32[8,6] parameter(1)
  kept = pred[8,6] parameter(2)
  one = f32[] constant(1)
  ones = f32[8,6] broadcast(one), dimensions={}
  m = f32[8,6] select(kept, w, ones)
  ROOT y = f32[4,6] dot(h, m), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}""")
    with pytest.raises(HloomError, match="w is not a weight"):
        hloom.quantize(chosen, only=["w"])
