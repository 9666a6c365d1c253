"""Fine-tuning through the straight-through estimator. `fake_quantization.py`, `quantization.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hloom
from hloom import autodiff
from hloom.compress.quantization import FakeQuantization, fake_quantize
from hloom.text import HloomError
from tests.compress.quantization.programs import lowered

RECIPES: dict[str, dict[str, Any]] = {
    "int8": {"weights": "int8"},
    "int4, groups, zero points": {"weights": "int4:8", "symmetric": False},
    "e4m3": {"weights": "e4m3"},
    "mxfp8": {"weights": "mxfp8"},
    "dynamic": {"activations": "dynamic"},
    "static": {"activations": "static", "clipping": "percentile", "percentile": 99.0},
}
LAYER = """ENTRY layer {
  x = f32[1,4] parameter(0)
  h = f32[1,4] negate(x)
  w = f32[4,1] parameter(1)
  ROOT y = f32[1,1] dot(h, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}"""


def derivative(made: FakeQuantization, arrays: list, wrt: int, cotangent: np.ndarray) -> np.ndarray:
    """The product of a cotangent of the first output with the Jacobian by one input."""
    return hloom.run(autodiff.vjp(made.module, [wrt], stop=made.stops), [*arrays, cotangent]).outputs[0]


def adam(fake: FakeQuantization, given: list, numbers: list[int], target: np.ndarray, turns: int) -> None:
    """Steps of Adam on these arrays towards the target."""
    step = autodiff.vjp(fake.module, numbers, stop=fake.stops)
    moments: list[tuple[Any, Any]] = [(0.0, 0.0)] * len(numbers)
    for turn in range(1, turns + 1):
        difference = hloom.run(fake.module, given).outputs[0] - target
        gradients = hloom.run(step, [*given, 2 * difference / difference.size]).outputs
        for n, (number, gradient) in enumerate(zip(numbers, gradients, strict=True)):
            first, second = moments[n]
            moments[n] = first, second = 0.9 * first + 0.1 * gradient, 0.99 * second + 0.01 * gradient**2
            rate = 3e-3 * np.sqrt(1 - 0.99**turn) / (1 - 0.9**turn)
            given[number] = (given[number] - rate * first / (np.sqrt(second) + 1e-8)).astype(np.float32)


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("name", ["mlp", "language model"])
def test_a_program_of_floats_that_rounds_as_the_quantised_one(name: str, recipe: str):
    """In loops over layers too; the derivative by a weight is that of the original at the rounded weights."""
    module, arrays = lowered(name)
    options = dict(RECIPES[recipe])
    if options.get("activations") == "static":
        options["calibration"] = [arrays]
    made = hloom.quantize(module, **options)
    fake = fake_quantize(made)
    given = fake.convert(arrays)
    types = [parameter.array_type for parameter in fake.module.entry.parameters]
    assert types[: len(arrays)] == [parameter.array_type for parameter in module.entry.parameters]
    narrow = made.convert(arrays)
    assert all(np.array_equal(a, b) for a, b in zip(fake.quantized(given), narrow, strict=True))
    (after,), (expected,) = hloom.run(fake.module, given).outputs, hloom.run(made.module, narrow).outputs
    lost = np.linalg.norm(expected - hloom.run(module, arrays).outputs[0])
    is_exact = made.recipe.activations is None  # else sums of floats differ from those of integers, and round otherwise
    assert np.linalg.norm(after - expected) <= (0.1 if is_exact else 0.6) * lost
    if made.recipe.activations is None:
        number = made.weights[0].number
        own = derivative(fake, given, number, np.ones_like(after))
        plain = hloom.run(autodiff.vjp(module, [number]), [*made.dequantized(arrays), np.ones_like(after)]).outputs[0]
        assert np.linalg.norm(own - plain) <= 0.02 * np.linalg.norm(plain)


def test_derivatives_within_the_range_and_beyond_it():
    made = hloom.quantize(hloom.parse(LAYER), "int4")
    fake = fake_quantize(made)
    x, scale = np.array([[1, 2, 3, 4]], np.float32), np.array([[0.5]], np.float32)
    weights = np.array([[0.6], [-1.2], [9], [3.5]], np.float32)  # in units of the scale 1.2, -2.4, 18, 7
    arrays, one = [x, weights, scale], np.ones((1, 1), np.float32)
    assert hloom.run(fake.module, arrays).outputs[0] == -(1 * 0.5 + 2 * -1 + 3 * 3.5 + 4 * 3.5)
    assert derivative(fake, arrays, 1, one).ravel().tolist() == [-1, -2, 0, -4]
    slope = 1 * (1 - 1.2) + 2 * (-2 + 2.4) + 3 * 7 + 4 * (7 - 7)  # rounded less exact; the limit for what is beyond
    assert derivative(fake, arrays, 2, one).ravel() == pytest.approx([-slope], abs=0.04)


@pytest.mark.parametrize(("name", "form"), [("mlp", "int4"), ("language model", "int4"), ("mlp", "mxfp4")])
def test_fine_tuning_regains_what_rounding_loses(name: str, form: str):
    """Weights learn, by Adam, the outputs of the original on an input: the quantised program is nearer to them then."""
    module, arrays = lowered(name)
    made = hloom.quantize(module, form)
    fake = fake_quantize(made)
    target = hloom.run(module, arrays).outputs[0]
    numbers = [weight.number for weight in made.weights]
    given = fake.convert(arrays)
    adam(fake, given, numbers, target, 30)
    before = hloom.run(made.module, made.convert(arrays)).outputs[0]
    after = hloom.run(made.module, fake.quantized(given)).outputs[0]
    assert np.linalg.norm(after - target) < 0.6 * np.linalg.norm(before - target)


@pytest.mark.parametrize("name", ["mlp", "language model"])
@pytest.mark.parametrize("activations", ["dynamic", "static"])
def test_a_smoothed_program(name: str, activations: str):
    """Its own weights, divided by the scales of activations, are rounded, and learn; added scales are arrays too."""
    module, arrays = lowered(name)
    options: dict[str, Any] = {"activations": activations, "smoothing": 0.5, "calibration": [arrays]}
    made = hloom.quantize(module, "int4", **options)
    assert made.smoothing is not None and made.smoothing.activations
    fake = fake_quantize(made)
    given, base = fake.convert(arrays), made.base_arrays(arrays)
    assert all(np.array_equal(a, b) for a, b in zip(given, base, strict=False))
    assert all(np.array_equal(a, b) for a, b in zip(fake.quantized(given), made.convert(arrays), strict=True))
    target = hloom.run(module, arrays).outputs[0]
    before = hloom.run(made.module, made.convert(arrays)).outputs[0]
    lost = np.linalg.norm(before - target)
    assert np.linalg.norm(hloom.run(fake.module, given).outputs[0] - before) <= 0.6 * lost
    adam(fake, given, [weight.number for weight in made.weights], target, 30)
    after = hloom.run(made.module, fake.quantized(given)).outputs[0]
    assert np.linalg.norm(after - target) < 0.7 * lost


def test_what_cannot_be_fine_tuned():
    fake = fake_quantize(hloom.quantize(hloom.parse(LAYER)))
    with pytest.raises(HloomError, match="the program takes 3 arrays, 2 are given"):
        fake.quantized([np.zeros((1, 4), np.float32), np.zeros((4, 1), np.float32)])
    bad = [np.zeros((1, 4), np.float32), np.full((4, 1), np.inf, np.float32), np.ones((1, 1), np.float32)]
    with pytest.raises(HloomError, match="w cannot be quantised: some of its values are NaN or infinite"):
        fake.quantized(bad)


def test_powers_of_two_have_no_derivative():
    made = hloom.quantize(lowered("mlp")[0], "mxfp8")
    scale = made.weights[0].companions["scale"]
    with pytest.raises(HloomError, match=r"f8e8m0fnu.*: it has no derivative"):
        autodiff.vjp(made.module, [scale])
