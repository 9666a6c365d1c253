"""What the tests of evaluators share: small programs, inputs with odd values in them, and XLA's numbers beside ours."""

import re
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from hloom.evaluator import evaluate
from hloom.formats.hlo import parse
from hloom.ir import DTYPES, DTypeKind
from hloom.runtime import compare, run


def types(quick: str, *, long: str) -> list[Any]:
    """Element types to test with: those of every run, and those of `make test-long`."""
    return [*quick.split(), *(pytest.param(name, marks=pytest.mark.long) for name in long.split())]


ALL = types(
    "pred s4 u16 f32 bf16 c64 f8e5m2",
    long="s8 s16 s32 s64 u4 u8 u32 u64 f16 f64 c128 f8e4m3fn f8e4m3b11fnuz f8e5m2fnuz f8e4m3fnuz f8e3m4 f8e4m3",
)
FLOATS = types("f32 bf16", long="f16 f64")
NUMBERS = types("s8 u32 f32 bf16", long="s16 s32 s64 u8 u16 u64 f16 f64")
"""Types that have an order and a sum."""

REDUCERS = """
add_T { a = T[] parameter(0) b = T[] parameter(1) ROOT c = T[] add(a, b) }
maximum_T { a = T[] parameter(0) b = T[] parameter(1) ROOT c = T[] maximum(a, b) }
minimum_T { a = T[] parameter(0) b = T[] parameter(1) ROOT c = T[] minimum(a, b) }
multiply_T { a = T[] parameter(0) b = T[] parameter(1) ROOT c = T[] multiply(a, b) }
second_T { a = T[] parameter(0) ROOT b = T[] parameter(1) }
"""
_NAME = re.compile(r"^\s*(\w+) = (?!.* (?:parameter|constant)\()", re.MULTILINE)


def program(body: str, dtype: str = "f32", graphs: str = "") -> str:
    """A module that yields every instruction of a body, `T` standing for an element type."""
    names = _NAME.findall(body)
    whole = f"HloModule m\n{graphs}\nENTRY e {{\n{body}\n  ROOT all = tuple({', '.join(names)})\n}}\n"
    return re.sub(r"\bT(?=\[)|(?<=_)T\b", dtype, whole)


def agree(
    text: str, inputs: Sequence[Any] | None = None, *, rtol: float | None = None, atol: float | None = None
) -> None:
    """Assert that XLA's outputs and ours differ by less than `compare` allows; integers not at all."""
    expected = run(text, inputs, seed=1)
    outputs = evaluate(parse(text), expected.inputs)
    differences = compare(outputs, expected.outputs, rtol, atol)
    assert not differences, "\n".join(map(str, differences))


def agree_in_every_bit(text: str, inputs: Sequence[Any] | None = None) -> None:
    """Assert that XLA's outputs and ours have the same bits, those of NaNs aside."""
    expected = run(text, inputs, seed=1)
    outputs = evaluate(parse(text), expected.inputs)
    for number, (ours, theirs) in enumerate(zip(outputs, expected.outputs, strict=True)):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape), number
        np.testing.assert_array_equal(bits(ours), bits(theirs), f"output {number}")


def bits(array: np.ndarray) -> np.ndarray:
    """The bits of an array, one pattern for all NaNs, sub-byte values without the bits above them."""
    element_type = DTYPES[next(name for name, row in DTYPES.items() if row.numpy == array.dtype)]
    if element_type.is_complex:
        return np.stack([bits(np.ascontiguousarray(array.real)), bits(np.ascontiguousarray(array.imag))])  # pyright: ignore[reportAttributeAccessIssue]
    words = np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")
    if element_type.bits < 8:
        words = words & np.uint8(2**element_type.bits - 1)
    return np.where(np.isnan(array), np.iinfo(words.dtype).max, words) if element_type.is_float else words


def odd(dtype: str, dims: Sequence[int], seed: int = 0) -> np.ndarray:
    """Random values of a type, a third of them the ones that are easily got wrong; there are ties."""
    generator = np.random.default_rng(seed)
    element_type = DTYPES[dtype]
    if element_type.kind is DTypeKind.BOOLEAN:
        return generator.integers(0, 2, dims).astype(bool)
    if element_type.is_complex:
        parts = [odd("f32" if dtype == "c64" else "f64", dims, seed + k) for k in (0, 1)]
        return (parts[0] + 1j * np.nan_to_num(parts[1])).astype(element_type.numpy)
    if element_type.is_integer:
        limits = ml_dtypes.iinfo(element_type.numpy)
        values = generator.integers(max(int(limits.min), -9), min(int(limits.max), 9), dims, endpoint=True)
        special: list[Any] = [int(limits.min), int(limits.max), 0]
    else:
        limits = ml_dtypes.finfo(element_type.numpy)
        values = np.round(generator.standard_normal(dims) * 4) / 2
        special = [np.nan, -0.0, 0.0, np.inf, -np.inf, float(limits.max), float(limits.smallest_normal)]
    result = values.astype(element_type.numpy)
    places = generator.integers(0, 3, dims) == 0
    chosen = generator.integers(0, len(special), dims)
    with np.errstate(all="ignore"):
        table = np.array(special, object if element_type.is_integer else np.float64).astype(element_type.numpy)
    return np.where(places, table[chosen], result)


def plain(dtype: str, dims: Sequence[int], seed: int = 0) -> np.ndarray:
    """Small random values of a type, of which sums and products do not overflow."""
    generator = np.random.default_rng(seed)
    element_type = DTYPES[dtype]
    if element_type.is_float or element_type.is_complex:
        values = generator.standard_normal(dims)
        return (values + 1j * generator.standard_normal(dims) if element_type.is_complex else values).astype(
            element_type.numpy
        )
    low = -3 if element_type.kind is DTypeKind.SIGNED else 0
    return generator.integers(low, 2 if element_type.kind is DTypeKind.BOOLEAN else 4, dims).astype(element_type.numpy)
