"""Random inputs that tell programs apart: ordinary numbers, special values (NaN, infinities, zeros), extreme ones.

To try other inputs, add a function to INPUT_SETS.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import ml_dtypes
import numpy as np

from hloom.ir import DType, DTypeKind, TensorType

DrawValues = Callable[[DType, tuple[int, ...], np.random.Generator], np.ndarray]

_SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 2.0, -0.5)


def draw_inputs(name: str, kinds: Sequence[TensorType], seed: int, *, positive: bool = False) -> list[np.ndarray]:
    """One array per type, of one of SETS; with `positive`, no number is below a small one above zero."""
    generator = np.random.default_rng(seed)
    return [_draw_array(INPUT_SETS[name], array_type, generator, positive) for array_type in kinds]


def _draw_array(
    draw_values: DrawValues, array_type: TensorType, generator: np.random.Generator, positive: bool
) -> np.ndarray:
    if array_type.dtype.kind is DTypeKind.BOOLEAN:
        return np.asarray(generator.integers(0, 2, array_type.dims)).astype(bool)
    with np.errstate(all="ignore"):
        values = draw_values(array_type.dtype, array_type.dims, generator)
        if positive:
            values = np.abs(values) + (1 if array_type.dtype.is_integer else 0.125)
        return np.asarray(values).astype(array_type.dtype.numpy)


def _draw_ordinary(element: DType, dims: tuple[int, ...], generator: np.random.Generator) -> np.ndarray:
    if element.is_integer:
        low, high = bounds(element)
        return generator.integers(max(low, -9), min(high, 9), dims, endpoint=True)
    if element.is_complex:
        return generator.standard_normal(dims) + 1j * generator.standard_normal(dims)
    return generator.standard_normal(dims)


def _draw_special(element: DType, dims: tuple[int, ...], generator: np.random.Generator) -> np.ndarray:
    if element.is_integer:
        low, high = bounds(element)
        choices = np.array([low, high, 0, 1, max(low, -1), high // 2, low + 1], object)
        chosen = generator.choice(len(choices), dims)
        return np.asarray(choices[chosen]).astype(np.uint64 if low == 0 else np.int64)
    ordinary = _draw_ordinary(element, dims, generator)
    chosen = np.asarray(generator.choice(_SPECIAL, dims))
    if element.is_complex:
        chosen = chosen + 0j
    return np.where(generator.random(dims) < 0.6, chosen, ordinary)


def _draw_extreme(element: DType, dims: tuple[int, ...], generator: np.random.Generator) -> np.ndarray:
    if element.is_integer:
        low, high = bounds(element)
        return generator.integers(low, high, dims, np.uint64 if low == 0 else np.int64, endpoint=True)
    if element.is_complex:
        return _draw_ordinary(element, dims, generator)
    limits = ml_dtypes.finfo(element.numpy)
    largest, smallest = float(limits.max), float(limits.tiny)
    choices = np.array([largest * 0.75, largest**0.5, smallest * 4, smallest**0.5])
    chosen = np.asarray(generator.choice(choices, dims)) * generator.choice([-1.0, 1.0], dims)
    return np.where(generator.random(dims) < 0.5, chosen, generator.standard_normal(dims))


def bounds(element: DType) -> tuple[int, int]:
    """The least and the greatest value of an integer type."""
    if element.kind is DTypeKind.UNSIGNED:
        return 0, (1 << element.bits) - 1
    return -(1 << (element.bits - 1)), (1 << (element.bits - 1)) - 1


INPUT_SETS: Mapping[str, DrawValues] = {"ordinary": _draw_ordinary, "special": _draw_special, "extreme": _draw_extreme}
