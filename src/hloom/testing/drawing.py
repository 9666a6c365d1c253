"""Inputs that tell programs apart: ordinary numbers, numbers with meanings of their own, and very large or small ones.

To try another kind of input, add it to SETS.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import ml_dtypes
import numpy as np

from hloom.ir import DType, Kind, TensorType

Draw = Callable[[DType, tuple[int, ...], np.random.Generator], np.ndarray]

_SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 2.0, -0.5)


def draw(name: str, kinds: Sequence[TensorType], seed: int, *, positive: bool = False) -> list[np.ndarray]:
    """One array per type, of one of SETS; with `positive`, no number is below a small one above zero."""
    generator = np.random.default_rng(seed)
    return [_drawn(SETS[name], kind, generator, positive) for kind in kinds]


def _drawn(way: Draw, kind: TensorType, generator: np.random.Generator, positive: bool) -> np.ndarray:
    if kind.dtype.kind is Kind.BOOLEAN:
        return np.asarray(generator.integers(0, 2, kind.dims)).astype(bool)
    with np.errstate(all="ignore"):
        found = way(kind.dtype, kind.dims, generator)
        if positive:
            found = np.abs(found) + (1 if kind.dtype.is_integer else 0.125)
        return np.asarray(found).astype(kind.dtype.numpy)


def _ordinary(element: DType, dims: tuple[int, ...], generator: np.random.Generator) -> np.ndarray:
    if element.is_integer:
        low, high = bounds(element)
        return generator.integers(max(low, -9), min(high, 9), dims, endpoint=True)
    if element.is_complex:
        return generator.standard_normal(dims) + 1j * generator.standard_normal(dims)
    return generator.standard_normal(dims)


def _special(element: DType, dims: tuple[int, ...], generator: np.random.Generator) -> np.ndarray:
    if element.is_integer:
        low, high = bounds(element)
        choices = np.array([low, high, 0, 1, max(low, -1), high // 2, low + 1], object)
        found = generator.choice(len(choices), dims)
        return np.asarray(choices[found]).astype(np.uint64 if low == 0 else np.int64)
    ordinary = _ordinary(element, dims, generator)
    chosen = np.asarray(generator.choice(_SPECIAL, dims))
    if element.is_complex:
        chosen = chosen + 0j
    return np.where(generator.random(dims) < 0.6, chosen, ordinary)


def _extreme(element: DType, dims: tuple[int, ...], generator: np.random.Generator) -> np.ndarray:
    if element.is_integer:
        low, high = bounds(element)
        return generator.integers(low, high, dims, np.uint64 if low == 0 else np.int64, endpoint=True)
    if element.is_complex:
        return _ordinary(element, dims, generator)
    limits = ml_dtypes.finfo(element.numpy)
    largest, smallest = float(limits.max), float(limits.tiny)
    choices = np.array([largest * 0.75, largest**0.5, smallest * 4, smallest**0.5])
    chosen = np.asarray(generator.choice(choices, dims)) * generator.choice([-1.0, 1.0], dims)
    return np.where(generator.random(dims) < 0.5, chosen, generator.standard_normal(dims))


def bounds(element: DType) -> tuple[int, int]:
    """The least and the greatest value of an integer type."""
    if element.kind is Kind.UNSIGNED:
        return 0, (1 << element.bits) - 1
    return -(1 << (element.bits - 1)), (1 << (element.bits - 1)) - 1


SETS: Mapping[str, Draw] = {"ordinary": _ordinary, "special": _special, "extreme": _extreme}
