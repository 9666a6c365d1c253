"""Bytes of values as XLA's cost analysis counts them.

Source: xla/service/hlo_cost_analysis.cc and the CPU client's shape size, found by trying jaxlib 0.10.2. A dimension
without a bound has no size there: it counts as nought.
"""

from __future__ import annotations

import math
from functools import lru_cache

from hloom.ir import UNBOUNDED, BufferType, OpaqueType, TensorType, TupleType, Type

POINTER_BYTES = 8
"""What one entry of a tuple's table, and an opaque value, take."""
DYNAMIC_BYTES = 4
"""What is stored beside a dynamic array for each of its dimensions: its size."""


@lru_cache(maxsize=1 << 16)
def shape_bytes(kind: Type | None) -> int:
    """The bytes of a value as an operand: an array's elements, a tuple's table of pointers; tokens have none."""
    if isinstance(kind, TensorType):
        return _array_bytes(kind)
    if isinstance(kind, TupleType):
        return POINTER_BYTES * len(kind.elements)
    if isinstance(kind, BufferType):
        return shape_bytes(kind.element)
    return POINTER_BYTES if isinstance(kind, OpaqueType) else 0


@lru_cache(maxsize=1 << 16)
def leaf_bytes(kind: Type | None) -> int:
    """The bytes of all arrays in a value, tables of pointers aside: how a result is counted."""
    return sum(map(shape_bytes, kind.leaves())) if kind is not None else 0


@lru_cache(maxsize=1 << 16)
def elements(kind: Type | None) -> int:
    """How many elements an array has, at most; none for what is no array, or has a dimension without a bound."""
    if not isinstance(kind, TensorType) or UNBOUNDED in kind.dims:
        return 0
    return math.prod(kind.dims)


@lru_cache(maxsize=1 << 16)
def leaf_elements(kind: Type | None) -> int:
    """How many elements all arrays in a value have together."""
    return sum(map(elements, kind.leaves())) if kind is not None else 0


def first_array(kind: Type | None) -> Type | None:
    """An array itself, or a tuple's first element."""
    return kind.elements[0] if isinstance(kind, TupleType) and kind.elements else kind


def _array_bytes(kind: TensorType) -> int:
    bits = kind.layout.element_bits if kind.layout is not None else 0
    count = elements(kind)
    data = -(-count * bits // 8) if bits else count * kind.dtype.byte_count
    return data + (DYNAMIC_BYTES * kind.rank if kind.dynamic is not None else 0)
