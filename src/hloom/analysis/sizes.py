"""Bytes of values as XLA's cost analysis counts them.

Source: xla/service/hlo_cost_analysis.cc and the CPU client's shape size, observed with jaxlib 0.10.2. A dimension
without a bound has no size there and counts as 0.
"""

from __future__ import annotations

import math
from functools import lru_cache

from hloom.ir import UNBOUNDED, BufferType, OpaqueType, TensorType, TupleType, Type

POINTER_BYTES = 8
"""Bytes of one entry of a tuple's pointer table, and of an opaque value."""
DYNAMIC_BYTES = 4
"""Bytes stored with a dynamic array for each of its dimensions: its size."""


@lru_cache(maxsize=1 << 16)
def shape_bytes(value_type: Type | None) -> int:
    """The bytes of a value as an operand: an array's elements or a tuple's pointer table; tokens take none."""
    if isinstance(value_type, TensorType):
        return _array_bytes(value_type)
    if isinstance(value_type, TupleType):
        return POINTER_BYTES * len(value_type.elements)
    if isinstance(value_type, BufferType):
        return shape_bytes(value_type.element)
    return POINTER_BYTES if isinstance(value_type, OpaqueType) else 0


@lru_cache(maxsize=1 << 16)
def leaf_bytes(value_type: Type | None) -> int:
    """The bytes of all arrays in a value without pointer tables: how a result is counted."""
    return sum(map(shape_bytes, value_type.leaves())) if value_type is not None else 0


@lru_cache(maxsize=1 << 16)
def elements(value_type: Type | None) -> int:
    """The maximum number of elements of an array; 0 for other types, and for a dimension without a bound."""
    if not isinstance(value_type, TensorType) or UNBOUNDED in value_type.dims:
        return 0
    return math.prod(value_type.dims)


@lru_cache(maxsize=1 << 16)
def leaf_elements(value_type: Type | None) -> int:
    """The total number of elements of all arrays in a value."""
    return sum(map(elements, value_type.leaves())) if value_type is not None else 0


def first_array(value_type: Type | None) -> Type | None:
    """An array itself, or a tuple's first element."""
    return value_type.elements[0] if isinstance(value_type, TupleType) and value_type.elements else value_type


def _array_bytes(value_type: TensorType) -> int:
    bits = value_type.layout.element_bits if value_type.layout is not None else 0
    count = elements(value_type)
    data = -(-count * bits // 8) if bits else count * value_type.dtype.byte_count
    return data + (DYNAMIC_BYTES * value_type.rank if value_type.dynamic is not None else 0)
