"""Quantised programs in other transformations: derivatives and plans. `quantize.py`, `integer_products.py`."""

from __future__ import annotations

import numpy as np
import pytest

import hloom
from hloom import autodiff
from hloom.text import HloomError
from tests.quantization.programs import lowered

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
    with pytest.raises(HloomError, match="straight_through is for products of integers"):
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
