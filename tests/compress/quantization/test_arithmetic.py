"""Arrays in narrow formats, against the same arithmetic written out element by element. Covers `formats.py`."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes

from hloom.compress.quantization import FORMATS, quantize_array
from hloom.compress.quantization.arithmetic import scale_dims
from hloom.compress.quantization.formats import number_format
from hloom.text import HloomError

NAMES = [*FORMATS]


def blocks_of(shape: tuple[int, ...], blocks: tuple[int, ...]):
    """The indices of every block, and those of its scale."""
    for index in np.ndindex(scale_dims(shape, blocks)):
        yield index, tuple(slice(i * block, (i + 1) * block) for i, block in zip(index, blocks, strict=True))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_are_refused(value: float):
    array = np.array([[1, value], [2, 3]], np.float32)
    with pytest.raises(HloomError, match=r"^up cannot be quantised: 1 of its 4 values are NaN or infinite$"):
        quantize_array(array, FORMATS["int8"], (2, 1), name="up")


def test_an_unknown_format():
    with pytest.raises(HloomError, match="there is no number format 'int9'\n  near: int8"):
        number_format("int9")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 4), (1, 1)])
def test_empty_arrays_and_single_elements(name: str, shape: tuple[int, ...]):
    blocks = tuple(max(size, 1) for size in shape)
    array = np.full(shape, 2.0, np.float32)
    made = quantize_array(array, FORMATS[name], blocks)
    assert made.values.shape == shape and made.scale.shape == scale_dims(shape, blocks)
    assert (made.dequantized(array.dtype) == array).all()


@pytest.mark.parametrize("name", NAMES)
def test_channels_of_zeros_stay_zeros(name: str):
    array = np.zeros((4, 3), np.float32)
    array[:, 1] = [1, -2, 0.5, 0]
    made = quantize_array(array, FORMATS[name], (4, 1))
    again = made.dequantized(array.dtype)
    assert (again[:, [0, 2]] == 0).all() and np.isfinite(made.scale.astype(np.float32)).all()
    assert made.scale.astype(np.float32)[0, 0] == 1


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_largest_and_the_least_values(name: str, dtype: type):
    if dtype is np.float64 and FORMATS[name].is_block_scaled:
        pytest.skip("a scale of MX is at most 2^127")
    limits = np.finfo(dtype)
    array = np.array([[limits.max, limits.smallest_subnormal], [-limits.max, -limits.smallest_subnormal]], dtype)
    again = quantize_array(array, FORMATS[name], (2, 1)).dequantized(array.dtype)
    assert np.isfinite(again).all()
    assert np.allclose(again[:, 0] / limits.max, [1, -1], rtol=0.5)
    assert (np.abs(again[:, 1]) <= limits.tiny).all()


@settings(max_examples=60, deadline=None)
@given(shape=array_shapes(max_dims=3, max_side=9), data=st.data())
def test_symmetric_integers_are_the_nearest(shape: tuple[int, ...], data: st.DataObject):
    blocks = tuple(data.draw(st.integers(1, size)) for size in shape)
    name = data.draw(st.sampled_from(["int8", "int4", "int2"]))
    dtype = data.draw(st.sampled_from([np.float32, np.float16, ml_dtypes.bfloat16, np.float64]))
    array = np.random.default_rng(data.draw(st.integers(0, 99))).standard_normal(shape).astype(dtype)
    made = quantize_array(array, FORMATS[name], blocks)
    largest = {"int8": 127, "int4": 7, "int2": 1}[name]
    wide = np.float64 if dtype is np.float64 else np.float32
    for index, block in blocks_of(shape, blocks):
        values = array[block].astype(np.float64)
        extreme = values.flat[np.argmax(np.abs(values))]
        candidates = []
        beyond = (0,) if name == "int8" else (0, 0.5, 1, 1.5)
        unsigned = [largest + levels for levels in (*beyond, 0.5)]
        for divisor in dict.fromkeys([*unsigned, *(-np.sign(extreme) * (largest + 1 + levels) for levels in beyond)]):
            scale = wide(np.abs(extreme) / divisor) or wide(1)
            integers = np.clip(np.round(values / np.float64(scale)), -largest - 1, largest)
            candidates.append((float(np.sum((integers * np.float64(scale) - values) ** 2)), integers, scale))
        error, expected, scale = min(candidates, key=lambda candidate: candidate[0])
        if sorted(candidate[0] for candidate in candidates)[1] > 1.001 * error:
            assert made.scale[index] == scale
            assert (made.values[block].astype(np.float64) == expected).all()
        again = (made.values[block].astype(wide) * made.scale[index]).astype(dtype)
        assert (made.dequantized(np.dtype(dtype))[block] == again).all()
        assert np.sum((again.astype(np.float64) - values) ** 2) <= 1.1 * candidates[0][0] + 1e-4 * np.sum(values**2)


@settings(max_examples=40, deadline=None)
@given(shape=array_shapes(max_dims=2, max_side=9), data=st.data())
def test_zero_points(shape: tuple[int, ...], data: st.DataObject):
    blocks = tuple(data.draw(st.integers(1, size)) for size in shape)
    name = data.draw(st.sampled_from(["int8", "int4"]))
    bits = FORMATS[name].dtype.bits
    shift = data.draw(st.sampled_from([-3, 0, 3]))
    array = (np.random.default_rng(data.draw(st.integers(0, 99))).standard_normal(shape) + shift).astype(np.float32)
    made = quantize_array(array, FORMATS[name], blocks, is_symmetric=False)
    assert made.zero is not None
    again = made.dequantized(array.dtype)
    for index, block in blocks_of(shape, blocks):
        values = array[block].astype(np.float64)
        low, high = min(values.min(), 0), max(values.max(), 0)
        scale = np.float32(high / (2**bits - 1) - low / (2**bits - 1))
        assert made.scale[index] == scale
        assert -(2 ** (bits - 1)) <= int(made.zero[index]) < 2 ** (bits - 1)
        assert np.abs(again[block] - values).max() <= scale * 1.01, (
            "half a step of rounding, and half of the zero point"
        )


@pytest.mark.parametrize("name", ["e4m3", "e5m2"])
def test_fp8_uses_the_whole_range(name: str):
    array = np.random.default_rng(0).standard_normal((64, 4)).astype(np.float32)
    made = quantize_array(array, FORMATS[name], (64, 1))
    largest = float(ml_dtypes.finfo(FORMATS[name].dtype.numpy).max)
    assert (np.abs(made.values.astype(np.float64)).max(0) == largest).all()
    relative = 2.0 ** -(4 if name == "e4m3" else 3)
    error = np.abs(made.dequantized(array.dtype) - array)
    assert (error <= np.maximum(relative * np.abs(array) * 1.001, made.scale * 2.0**-9)).all()


@pytest.mark.parametrize(("name", "exponent"), [("mxfp8", 8), ("mxfp4", 2), ("mxint8", 6)])
def test_mx_scales_are_powers_of_two(name: str, exponent: int):
    """OCP MX 1.0, section 6.3: the shared exponent is floor(log2(max)) less that of the largest element."""
    array = np.random.default_rng(1).standard_normal((70, 3)).astype(np.float32) * np.array([1, 1e-6, 1e6], np.float32)
    made = quantize_array(array, FORMATS[name], (32, 1))
    assert made.scale.shape == (3, 3) and made.scale.dtype == ml_dtypes.float8_e8m0fnu
    for index, block in blocks_of((70, 3), (32, 1)):
        shared = 2.0 ** (math.floor(math.log2(np.abs(array[block]).max())) - exponent)
        assert float(made.scale[index]) == shared
        elements = made.values[block].astype(np.float64)
        limit = FORMATS[name].largest
        if FORMATS[name].is_integer:
            assert (elements == np.clip(np.round(array[block] / shared), -limit, limit)).all()
        else:
            assert (elements == np.clip(array[block] / shared, -limit, limit).astype(FORMATS[name].dtype.numpy)).all()
