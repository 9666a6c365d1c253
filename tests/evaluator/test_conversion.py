"""Changes of element type give XLA's bits: by value between every pair of types, by bits, and with fewer bits.

Covers `bitcast.py`.
"""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from hloom.evaluator import CannotEvaluate, evaluate
from hloom.formats.hlo import parse
from hloom.ir import DTYPES, DTypeKind
from hloom.ir.number_conversion import integer_range, round_doubles
from hloom.runtime import run_text
from tests.evaluator.batches import assert_all, batch, distance, is_same, joined, one, without_denormals
from tests.evaluator.xla import types

NAMES = [name for name in DTYPES if name not in ("s1", "u1")]  # XLA's CPU has no types of one bit
SOURCES = types(
    "pred s4 s64 u2 u64 f16 bf16 f32 f64 c64 f8e4m3fnuz f4e2m1fn",
    long="s2 s8 s16 s32 u4 u8 u16 u32 c128 f8e5m2 f8e4m3 f8e4m3fn f8e4m3b11fnuz f8e3m4 f8e5m2fnuz f8e8m0fnu",
)
REALS = [
    0, 1, 0.5, 1.5, 2.5, 0.75, 3.99, 7.5, 8, 15.6, 8.9, 127, 127.9, 128, 128.9, 129, 255, 255.7, 256, 32767.5, 32768, 65504,
    65519, 65520, 65535.9, 65536, 57344, 61439, 61440, 61441, 2**31 - 1, 2**31 - 0.5, 2**31, 2**31 + 1, 2**32 - 1, 2**32,
    2**53 + 1, 2.0**63, 1.5 * 2.0**63, 2.0**64, 2.0**64 * (1 - 2**-53), 1e30, 3.4028235e38, 3.4028235677973366e38, 1e300,
    1e-3, 2**-9, 1.0001 * 2**-10, 2**-10, 2**-14, 2**-15, 2**-16, 2**-17, 2**-24, 1.0001 * 2**-25, 2**-126, 448, 464, 465,
    240, 247, 248, 30, 31, 15.5, 15.75, 5, 5.1, 6, 7, 1 + 2**-8 + 2**-30, 1 + 2**-11 + 2**-40, 1.0625 + 2**-30, 1 + 2**-8,
    1 + 3 * 2**-8, 1 + 2**-24 + 2**-50, np.inf, np.nan,
]  # fmt: skip
"""Limits of types, halves between neighbours, and what is just above those: rounding twice would be seen."""
WHOLES = [
    *range(-9, 10), 127, 128, 129, -128, 255, 256, 257, 258, 259, 2049, 2051, 4097, 32767, 32768, 65504, 65519, 65520, 65535,
    2**24 + 1, 2**24 + 3, 2**25 + 1, 2**31 - 1, 2**31, -(2**31), 2**32 - 1, 2**53 + 1, 2**53 + 3, 2**62 + 2**38 + 1,
    2**62 + 2**54 + 2**38 + 1, 2**54 + 2**29 + 1, 2**40 + 2**32 + 1, 2**63 + 1025, 2**63 + 2**39 + 1, 2**64 - 1024,
]  # fmt: skip


def values_of(dtype: str) -> np.ndarray:
    """Every value of a type of a byte; limits, halves and random values of wider ones."""
    element_type, generator = DTYPES[dtype], np.random.default_rng(0)
    if element_type.kind is DTypeKind.BOOLEAN:
        return np.array([True, False])
    if element_type.is_integer:
        least, greatest = integer_range(element_type)
        if element_type.bits <= 8:
            return np.arange(least, greatest + 1).astype(element_type.numpy)
        held = np.array(
            [number for number in [*WHOLES, least, greatest, greatest - 1] if least <= number <= greatest], object
        )
        wide = generator.integers(least, greatest, 100, dtype=element_type.numpy, endpoint=True)
        return np.concatenate(
            [held.astype(element_type.numpy), wide, wide >> generator.integers(0, element_type.bits, 100).astype(element_type.numpy)]
        )
    if element_type.bits <= 8:
        return np.arange(2**element_type.bits, dtype=np.uint8).view(element_type.numpy)[dtype == "f8e8m0fnu" :]
    reals = np.array(
        [*REALS, *np.negative(REALS), *generator.standard_normal(100) * np.exp(generator.uniform(-20, 20, 100))]
    )
    with np.errstate(all="ignore"):
        if element_type.is_complex:
            return joined(reals, np.roll(reals, 7)).astype(element_type.numpy)
        return without_denormals(round_doubles(reals, element_type))


@pytest.mark.parametrize("source", SOURCES)
def test_convert(source):
    values = values_of(source)
    targets = [name for name in NAMES if (source[0], name) != ("c", "pred")]  # XLA dies of complex to pred
    for target, (_, theirs, ours) in zip(targets, batch(["convert"] * len(targets), [values], targets), strict=True):
        assert ours.dtype == theirs.dtype
        element_type = DTYPES[target]
        if element_type.is_complex:
            holds = is_same(theirs, ours)
        elif element_type.is_float:
            holds = distance(theirs, ours) == 0
        else:
            holds = theirs == ours
        if source == "f4e2m1fn":  # XLA takes 6, its greatest, for more than any integer type holds
            holds = holds | (np.abs(values.astype(np.float32)) == 6) & element_type.is_integer
        if (source, target) in (("f64", "f16"), ("c128", "f16")):  # processors with AVX512-FP16 round once
            with np.errstate(all="ignore"):
                holds = holds | (theirs == np.real(values).astype(np.float16))
        assert_all(holds, f"{target} convert", theirs, ours, [values])


def test_where_conversions_differ_from_those_of_the_cpu():
    six = np.array([6, -6], ml_dtypes.float4_e2m1fn)
    assert one("convert", six, result="s32[2]").tolist() == [6, -6]
    assert one("convert", np.array([0, 1j, 2], np.complex64), result="pred[3]").tolist() == [False, True, True]
    assert one("convert", np.array([1e-40], np.float32), result="f64[1]").tolist() == [float(np.float32(1e-40))]


BITCASTS = [
    "f32[3]:u8[3,4]",
    "u8[3,4]:f32[3]",
    "s8[3]:u4[3,2]",
    "u4[3,2]:s8[3]",
    "s8[3]:s2[3,4]",
    "u2[3,4]:u8[3]",
    "s4[2,8]:f32[2]",
    "f32[2]:s4[2,8]",
    "u4[5]:s2[5,2]",
    "s2[5,2]:u4[5]",
    "s4[4]:u4[4]",
    "f4e2m1fn[4]:s4[4]",
    "f8e5m2[3]:u8[3]",
    "f64[2,3]:s16[2,3,4]",
    "s16[2,3,4]:f64[2,3]",
    "bf16[3]:u16[3]",
    "u32[]:f32[]",
    "u64[]:u16[4]",
    "u16[4]:u64[]",
    "u16[2,4]:s4[2,4,4]",
    "c64[2]:c64[2]",
    "u8[0,4]:f32[0]",
    "f32[0]:u4[0,8]",
]


@pytest.mark.parametrize("change", BITCASTS)
def test_bitcast_convert(change):
    source, target = change.split(":")
    name, dims = source.rstrip("]").split("[")
    shape = tuple(map(int, dims.split(","))) if dims else ()
    element_type = DTYPES[name]
    random = np.random.default_rng(1).integers(0, 256, (*shape, element_type.byte_count), dtype=np.uint8)
    if element_type.bits < 8:
        random &= 2**element_type.bits - 1
    operand = random.view(element_type.numpy).reshape(shape)
    text = f"HloModule m\nENTRY e {{\n  x = {source} parameter(0)\n  ROOT y = {target} bitcast-convert(x)\n}}"
    (theirs,), (ours,) = run_text(text, [operand]).outputs, evaluate(parse(text), [operand])
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    mask = np.uint8(2 ** min(DTYPES[target.split("[")[0]].bits, 8) - 1)
    assert np.array_equal(np.atleast_1d(ours).view(np.uint8) & mask, np.atleast_1d(theirs).view(np.uint8) & mask)


REDUCED = [(5, 10), (8, 7), (5, 2), (4, 3), (8, 23), (2, 0), (11, 52), (1, 1), (5, 0), (3, 60)]


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64", "f8e5m2", "f8e4m3fn", "f8e3m4"])
def test_reduce_precision(dtype):
    element_type = DTYPES[dtype]
    values = values_of(dtype)
    if element_type.bits == 16:
        values = without_denormals(np.arange(65536, dtype=np.uint16).view(element_type.numpy))
    opcodes = [f"reduce-precision, exponent_bits={e}, mantissa_bits={m}" for e, m in REDUCED]
    for opcode, theirs, ours in batch(opcodes, [values]):
        assert_all(distance(theirs, ours) == 0, opcode, theirs, ours, [values])


@pytest.mark.parametrize(("dtype", "random"), [("f16", "u16"), ("bf16", "u16"), ("f32", "u32"), ("f64", "u64")])
@pytest.mark.parametrize("target", ["s8", "u8", "s16", "s32"])
def test_stochastic_convert(dtype, random, target):
    generator = np.random.default_rng(0)
    values = np.concatenate([generator.uniform(-300, 300, 200), [np.inf, -np.inf, np.nan, -0.0, 1e9, -1e9]])
    with np.errstate(all="ignore"):
        values = values.astype(DTYPES[dtype].numpy)
    bits = generator.integers(0, 2 ** DTYPES[random].bits, values.size, dtype=DTYPES[random].numpy)
    converted = one("stochastic-convert", values, bits, result=f"{target}[{values.size}]")
    assert converted.tolist() == [at_random(float(x), int(n), random, target) for x, n in zip(values, bits, strict=True)]


def at_random(value: float, bits: int, random: str, target: str) -> int:
    """One further from zero where the random fraction is below the value's, in exact fractions."""
    least, greatest = integer_range(DTYPES[target])
    if np.isnan(value):
        return 0
    if np.isinf(value):
        return greatest if value > 0 else least
    size = abs(Fraction(value))
    whole = int(size)
    further = whole + (bits < int((size - whole) * 2 ** DTYPES[random].bits))
    return min(max(further if value > 0 else -further, least), greatest)


def test_what_is_refused():
    with pytest.raises(CannotEvaluate, match="to round at random to integers only, not to f16"):
        one("stochastic-convert", np.array([1], np.float32), np.array([1], np.uint32), result="f16[1]")
    with pytest.raises(CannotEvaluate, match="the bits of pred are the backend's own"):
        one("bitcast-convert", np.array([True]), result="u8[1]")
