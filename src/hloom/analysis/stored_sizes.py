"""The bytes of values in a device's memory: arrays in whole tiles of their layouts, tuples as pointer tables.

A TPU stores whole tiles, so small dimensions and scalars are padded:

    f32[8388608,8,4]{2,1,0:T(8,128)}: 4 is padded to 128, 32 times the bytes
    bf16[128,40]{1,0:T(8,128)(2,1)}: tiles of (8,128), and pairs of rows within a tile
    s32[]{:T(128)}: 512 bytes

Source: xla/shape_util.cc, ShapeUtil::ArraySize; the semantics of tiles are those of xla's docs on tiled layouts.
"""

from __future__ import annotations

import math
from functools import lru_cache

from hloom.analysis.memory_model import CPU, DEVICE_MEMORY, MemoryModel
from hloom.analysis.sizes import shape_bytes
from hloom.ir import Module, TensorType, TupleType, Type


@lru_cache(maxsize=1 << 16)
def buffer_bytes(value_type: Type | None, model: MemoryModel = CPU) -> int:
    """The bytes of one buffer in its memory space: an array in whole tiles of its layout, a tuple's pointer table."""
    if isinstance(value_type, TupleType):
        return _rounded(model.pointer_bytes * len(value_type.elements), model.table_granule)
    stored = _tiled_bytes(value_type)
    if not stored or not isinstance(value_type, TensorType) or (value_type.layout and value_type.layout.tiles):
        return stored
    return _rounded(stored, model.space(memory_space(value_type)).granule)


def stored_bytes(value_type: Type | None, space: int = DEVICE_MEMORY, model: MemoryModel = CPU) -> int:
    """The bytes of one buffer, or 0 if it is in another memory space than the given one.

    >>> from hloom import parse
    >>> x = parse("ENTRY e { ROOT x = s32[64,8,4]{2,1,0:T(8,128)} parameter(0) }").entry.root
    >>> stored_bytes(x.type) // x.type.byte_count, stored_bytes(x.type, space=5)
    (32, 0)
    """
    return buffer_bytes(value_type, model) if memory_space(value_type) == space else 0


def stored_in_all(value_type: Type | None, space: int = DEVICE_MEMORY, model: MemoryModel = CPU) -> int:
    """The bytes of all buffers of a value in a memory space: its arrays, and the pointer tables of its tuples."""
    total, pending = 0, [value_type]
    while pending:
        part = pending.pop()
        total += stored_bytes(part, space, model)
        if isinstance(part, TupleType):
            pending.extend(part.elements)
    return total


def memory_space(value_type: Type | None) -> int:
    """The memory space of a buffer, as its layout says; pointer tables are in the device's memory."""
    layout = value_type.layout if isinstance(value_type, TensorType) else None
    return layout.memory_space if layout is not None else DEVICE_MEMORY


def other_spaces(module: Module) -> list[int]:
    """The memory spaces that layouts in a module name, except the device's main memory."""
    types = {node.type for node in module.nodes()}
    spaces = {memory_space(leaf) for value_type in types if value_type is not None for leaf in value_type.leaves()}
    return sorted(spaces - {DEVICE_MEMORY})


def _rounded(size: int, granule: int) -> int:
    return -(-size // granule) * granule


def _tiled_bytes(leaf: Type | None) -> int:
    plain = shape_bytes(leaf)
    layout = leaf.layout if isinstance(leaf, TensorType) else None
    if not isinstance(leaf, TensorType) or layout is None or not layout.tiles or not plain:
        return plain
    dims = layout.tiled_dims(leaf.dims)
    bits = layout.element_bits or 8 * leaf.dtype.byte_count
    return max(plain, -(-math.prod(dims) * bits // 8))
