"""Products of integers, against the same arithmetic with numpy's integers. Covers `integer_products.py`, `calibration.py`."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hloom
from hloom.compress.quantization import FORMATS, fake_quantize
from hloom.compress.quantization.calibration import MagnitudeHistogram
from hloom.compress.quantization.integer_products import MOST_SUMMED, static_scale
from hloom.ir import Constant, Literal
from hloom.text import HloomError
from tests.compress.quantization.programs import ARGUMENTS, lowered, normal


def quantized_rows(x: np.ndarray, axes: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Integers and scales of activations, as the program has them: all in f32."""
    scale = np.abs(x).max(axes, keepdims=True, initial=0) * np.float32(1 / 127)
    scale = np.maximum(scale, np.finfo(np.float32).tiny)
    return np.clip(np.round(x / scale), -127, 127).astype(np.int8), scale


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"activations": "rare"}, "activations cannot be quantised as 'rare'"),
        ({"activations": "dynamic", "weights": "mxint8"}, "products of narrow types need weights that are integers or fp8"),
        ({"activations": "dynamic", "symmetric": False}, "products of narrow types need weights that are integers or fp8"),
        ({"activations": "dynamic", "per": "group", "group": 4}, "products of narrow types need weights that are integers or fp8"),
        ({"activations": "static"}, "static activations need inputs to measure"),
        ({"activations": "static", "clipping": "median"}, "ranges are not chosen by 'median'"),
        ({"activations": "static", "percentile": 0}, "0 is not a valid percentile"),
        ({"calibration": [[1]]}, "inputs are measured for static activations, and for smoothing"),
        (
            {"activations": "dynamic", "opcodes": ["gather"]},
            "jit_language_model has no product that can be of narrow types",
        ),
    ],
)
def test_recipes_that_make_no_sense(options: dict, message: str):
    with pytest.raises(HloomError) as raised:
        hloom.quantize(lowered("language model")[0], **options)
    assert raised.value.message.startswith(message)


def test_sums_that_s32_does_not_hold():
    size = MOST_SUMMED + 1
    assert MOST_SUMMED * 127 * 128 < 2**31 <= size * 127 * 128
    text = f"""ENTRY e {{
      x = f32[1,{size}] parameter(0)
      h = f32[1,{size}] tanh(x)
      w = f32[{size},2] parameter(1)
      ROOT y = f32[1,2] dot(h, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
    }}"""
    with pytest.raises(
        HloomError, match=f"y: its activation stays: it sums {size:,} products: s32 holds {MOST_SUMMED:,}"
    ):
        hloom.quantize(hloom.parse(text), activations="dynamic")


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_dots_are_exact(data: st.DataObject):
    """Batch, free and contracted dimensions in any order, on either side: integers are summed without rounding."""
    sizes = {letter: data.draw(st.integers(1, 5)) for letter in "bmnk"}
    left = "".join(data.draw(st.permutations("bmk")))
    right = "".join(data.draw(st.permutations("bkn")))
    x, w = (normal(*(sizes[letter] for letter in side), seed=data.draw(st.integers(0, 9))) for side in (left, right))
    is_swapped = data.draw(st.booleans())
    sides = [("h", left), ("w", right)][:: -1 if is_swapped else 1]
    numbers = ", ".join(
        f"{name}_{what}_dims={{{side.index(letter)}}}"
        for name, (_, side) in zip(("lhs", "rhs"), sides, strict=True)
        for what, letter in (("batch", "b"), ("contracting", "k"))
    )
    result = "bnm" if is_swapped else "bmn"
    dims = [sizes[letter] for letter in result]
    text = f"""ENTRY e {{
      x = f32[{",".join(map(str, x.shape))}] parameter(0)
      h = f32[{",".join(map(str, x.shape))}] tanh(x)
      w = f32[{",".join(map(str, w.shape))}] parameter(1)
      ROOT y = f32[{",".join(map(str, dims))}] dot({sides[0][0]}, {sides[1][0]}), {numbers}
    }}"""
    module = hloom.parse(text)
    made = hloom.quantize(module, activations="dynamic")
    outputs = hloom.run(made.module, made.convert([x, w])).outputs
    (h,) = hloom.run(
        "ENTRY e { x = f32[%s] parameter(0) ROOT h = f32[%s] tanh(x) }" % ((",".join(map(str, x.shape)),) * 2), [x]
    ).outputs
    hq, h_scale = quantized_rows(h, (left.index("k"),))
    (weight,) = made.weights
    wq = made.quantized(weight, w)
    sums = np.einsum(f"{left},{right}->{result}", hq.astype(np.int64), wq.values.astype(np.int64)).astype(np.float32)
    spread = [
        np.einsum(f"{side}->{''.join(c for c in result if c in side)}", scale)
        for side, scale in ((left, h_scale), (right, wq.scale))
    ]
    rows = spread[0].reshape([sizes[c] if c in left else 1 for c in result])
    columns = spread[1].reshape([sizes[c] if c in right else 1 for c in result])
    assert np.allclose(outputs[0], sums * rows * columns, rtol=1e-6, atol=0)


@pytest.mark.parametrize("name", ARGUMENTS)
@pytest.mark.parametrize("activations", ["dynamic", "static"])
def test_programs_of_jax(name: str, activations: str):
    """Every product of a weight is one of integers, in loops too; XLA and numpy compute the same."""
    module, arrays = lowered(name)
    calibration = [arrays] if activations == "static" else ()
    made = hloom.quantize(module, activations=activations, calibration=calibration)
    integer = [
        node
        for node in made.module.nodes()
        if node.opcode in ("dot", "convolution") and str(node.type).startswith("s32")
    ]
    assert len(integer) == {"mlp": 2, "attention": 4, "language model": 7, "convolutions": 3}[name]
    converted = made.convert(arrays)
    outputs = hloom.run(made.module, converted).outputs
    assert not hloom.compare(outputs, hloom.evaluate(made.module, converted), rtol=1e-4)
    original = hloom.run(module, arrays).outputs[0]
    assert np.linalg.norm(outputs[0] - original) / np.linalg.norm(original) < 0.3


def test_rows_of_zeros():
    module, arrays = lowered("mlp")
    made = hloom.quantize(module, activations="dynamic")
    zeros = [*arrays[:3], np.zeros_like(arrays[3])]
    outputs = hloom.run(made.module, made.convert(zeros)).outputs[0]
    assert np.isfinite(outputs).all() and not hloom.compare([outputs], hloom.run(module, zeros).outputs, rtol=0.05)


def test_static_scales_are_those_of_the_inputs():
    module, arrays = lowered("mlp")
    made = hloom.quantize(module, activations="static", calibration=[arrays, [*arrays[:3], arrays[3] * 2]])
    literals = [n.value for n in made.module.entry.nodes if isinstance(n, Constant) and isinstance(n.value, Literal)]
    constants = {float(literal.numpy()) for literal in literals if literal.numpy().ndim == 0}
    assert float(static_scale(float(np.abs(arrays[3] * 2).max()))) in constants
    assert not any(node.opcode == "reduce" for node in made.module.entry.nodes)


def test_inputs_of_the_calibration_that_are_not_finite():
    module, arrays = lowered("mlp")
    broken = arrays[3].copy()
    broken[0, 0] = np.nan
    with pytest.raises(HloomError, match="an activation is NaN or infinite on the inputs of the calibration"):
        hloom.quantize(module, activations="static", calibration=[[*arrays[:3], broken]])


def test_histograms_widen():
    values = [normal(500, scale=scale, seed=n) for n, scale in enumerate((1e-3, 1.0, 300.0))]
    one, other = MagnitudeHistogram(), MagnitudeHistogram()
    for array in values:
        one.add(array)
    other.add(np.concatenate(values))
    assert (one.limit, one.greatest, one.counts.sum()) == (other.limit, other.greatest, 1500)
    assert np.abs(np.cumsum(one.counts) - np.cumsum(other.counts)).max() <= 1000, "what was counted before is coarser"
    assert one.clip("minmax", FORMATS["int8"]) == np.abs(np.concatenate(values)).max()


def test_clipping():
    histogram = MagnitudeHistogram()
    assert histogram.clip("mse", FORMATS["int8"]) == 0
    histogram.add(np.zeros(4, np.float32))
    assert histogram.clip("percentile", FORMATS["int8"]) == 0
    values = np.concatenate([normal(100_000), [60.0]]).astype(np.float32)
    histogram.add(values)
    assert histogram.clip("minmax", FORMATS["int8"]) == 60
    magnitudes = np.sort(np.abs(values))
    assert histogram.clip("percentile", FORMATS["int8"], 99.9) == pytest.approx(magnitudes[int(0.999 * len(values))], rel=0.02)

    def error(clip: float, round_steps) -> float:
        return float(np.sum((values - round_steps(values, clip)) ** 2))

    def narrow(dtype, largest):
        return lambda values, clip: (
            np.clip(values * (largest / clip), -largest, largest).astype(dtype).astype(np.float64) * (clip / largest)
        )

    rounding = {
        "int8": lambda values, clip: np.clip(np.round(values * (127 / clip)), -127, 127) * (clip / 127),
        "int4": lambda values, clip: np.clip(np.round(values * (7 / clip)), -7, 7) * (clip / 7),
        "e4m3": narrow(ml_dtypes.float8_e4m3fn, 448),
        "e5m2": narrow(ml_dtypes.float8_e5m2, 57344),
    }
    for name, round_steps in rounding.items():
        best = histogram.clip("mse", FORMATS[name])
        candidates = [60 * step / 100 for step in range(1, 101)]
        assert error(best, round_steps) <= 1.05 * min(error(clip, round_steps) for clip in candidates)
        if FORMATS[name].is_integer:
            assert error(best, round_steps) <= error(60, round_steps)


def test_products_without_elements_keep_their_activations():
    empty = """ENTRY layer {
      x = f32[4,0] parameter(0)
      h = f32[4,0] tanh(x)
      w = f32[0,8] parameter(1)
      ROOT y = f32[4,8] dot(h, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    }"""
    with pytest.raises(
        HloomError, match="no product that can be of narrow types; y: its activation stays: it sums up nothing"
    ):
        hloom.quantize(hloom.parse(empty), activations="dynamic")


FLOATS = {"e4m3": (ml_dtypes.float8_e4m3fn, 448), "e5m2": (ml_dtypes.float8_e5m2, 57344)}


def as_floats(array: np.ndarray, name: str, greatest: np.ndarray | float) -> np.ndarray:
    """What an array is in fp8, when a greatest magnitude is the format's largest number; in f64."""
    dtype, largest = FLOATS[name]
    scale = np.float64(np.where(np.equal(greatest, 0), 1, greatest)) / largest
    return np.clip(array / scale, -largest, largest).astype(dtype).astype(np.float64) * scale


@pytest.mark.parametrize("name", [*FLOATS])
@pytest.mark.parametrize("activations", ["dynamic", "static"])
def test_dots_of_fp8(name: str, activations: str):
    """Heads are summed up with their elements: rows of 4x16 of the activation, and columns of the weight."""
    module = hloom.parse("""ENTRY e {
      x = f32[2,5,4,16] parameter(0)
      w = f32[16,4,6] parameter(1)
      ROOT y = f32[2,5,6] dot(x, w), lhs_contracting_dims={2,3}, rhs_contracting_dims={1,0}
    }""")
    x, w = normal(2, 5, 4, 16) * np.float32(100), normal(16, 4, 6)
    calibration = [[x, w]] if activations == "static" else ()
    made = hloom.quantize(module, name, activations=activations, calibration=calibration, only=["w"])
    (product,) = [node for node in made.module.nodes() if node.opcode == "dot"]
    types = [str(operand.type).partition("[")[0] for operand in product.operands]
    assert types == [f"f8{name}{'fn' if name == 'e4m3' else ''}"] * 2
    y = hloom.run(made.module, made.convert([x, w])).outputs[0]
    greatest = np.abs(x).max() if activations == "static" else np.abs(x).max((2, 3), keepdims=True)
    narrow_x = as_floats(x.astype(np.float64), name, greatest)
    narrow_w = as_floats(w.astype(np.float64), name, np.abs(w).max((0, 1)))
    expected = np.einsum("bshk,khd->bsd", narrow_x, narrow_w)
    exact = np.einsum("bshk,khd->bsd", x.astype(np.float64), w.astype(np.float64))
    # a quotient in f32 beside the middle of two numbers may be rounded to the other one
    assert np.linalg.norm(y - expected) < 0.03 * np.linalg.norm(expected - exact)
    assert np.linalg.norm(y - exact) < (0.05 if name == "e4m3" else 0.1) * np.linalg.norm(exact)


@pytest.mark.parametrize("name", [*FLOATS])
def test_convolutions_of_fp8(name: str):
    """A convolution's activation has one scale per example, its kernel one per output feature."""
    module = hloom.parse("""ENTRY e {
      x = f32[3,6,6,8] parameter(0)
      w = f32[5,3,3,8] parameter(1)
      ROOT y = f32[3,4,4,5] convolution(x, w), window={size=3x3}, dim_labels=b01f_o01i->b01f
    }""")
    x, w = normal(3, 6, 6, 8) * np.array([[[[1]]], [[[50]]], [[[1e-3]]]], np.float32), normal(5, 3, 3, 8)
    made = hloom.quantize(module, name, activations="dynamic", only=["w"])
    y = hloom.run(made.module, made.convert([x, w])).outputs[0]
    narrow_x = as_floats(x.astype(np.float64), name, np.abs(x).max((1, 2, 3), keepdims=True))
    narrow_w = as_floats(w.astype(np.float64), name, np.abs(w).max((1, 2, 3), keepdims=True))

    def convolved(image: np.ndarray, kernel: np.ndarray) -> np.ndarray:
        windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3), (1, 2))
        return np.einsum("bhwiuv,ouvi->bhwo", windows, kernel)

    expected, exact = convolved(narrow_x, narrow_w), convolved(x.astype(np.float64), w.astype(np.float64))
    for example in range(3):
        distance = np.linalg.norm(y[example] - expected[example])
        assert distance < 0.03 * np.linalg.norm(expected[example] - exact[example])


@pytest.mark.parametrize("name", [*FLOATS])
@pytest.mark.parametrize("program", ["mlp", "language model", "convolutions"])
def test_programs_of_jax_with_fp8(name: str, program: str):
    """Every product of a weight is of fp8, in loops too; XLA, numpy and fake quantisation compute the same."""
    module, arrays = lowered(program)
    made = hloom.quantize(module, name, activations="static", calibration=[arrays], clipping="mse")
    narrow = [
        node
        for node in made.module.nodes()
        if node.opcode in ("dot", "convolution") and all("f8" in str(operand.type) for operand in node.operands)
    ]
    assert len(narrow) == {"mlp": 2, "language model": 7, "convolutions": 3}[program]
    converted = made.convert(arrays)
    y = hloom.run(made.module, converted).outputs[0]
    original = hloom.run(module, arrays).outputs[0]
    error = np.linalg.norm(y - original) / np.linalg.norm(original)
    assert error < 0.6
    (again,) = hloom.evaluate(made.module, converted)
    assert np.linalg.norm(y - again) < 0.2 * np.linalg.norm(y - original)
    fake = fake_quantize(made)
    z = hloom.run(fake.module, fake.convert(arrays)).outputs[0]
    assert np.linalg.norm(y - z) < 0.2 * np.linalg.norm(y - original)


def test_fp8_with_smoothing_and_derivatives():
    module, arrays = lowered("mlp")
    outliers = np.ones(arrays[3].shape[-1], np.float32)
    outliers[3] = 2000
    batches = [[*arrays[:3], normal(*arrays[3].shape, seed=seed) * outliers] for seed in range(9)]
    exact = hloom.run(module, batches[0]).outputs[0]
    errors = []
    for smoothing in (None, "search"):
        options = {"activations": "static", "calibration": batches[1:], "smoothing": smoothing}
        made = hloom.quantize(module, "e4m3", straight_through=True, **options)
        assert len(made.stops) == 2
        y = hloom.run(made.module, made.convert(batches[0])).outputs[0]
        errors.append(np.linalg.norm(y - exact) / np.linalg.norm(exact))
    assert errors[1] <= 1.1 * errors[0] < 0.2
