"""Expands bitcasts, whose meaning depends on layouts, into reshapes and transposes, whose meaning does not.

A bitcast reads the operand's memory as another array. The operand is transposed to memory order, split into the
result's dimensions, and transposed to the result's logical order:

    f32[3,2]{1,0} bitcast(f32[2,3]{0,1} x)  ->  transpose(x), dimensions={1,0}
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from hloom.ir import COMBINED, Node, TensorType, default_layout
from hloom.runtime.emitter import ReplacementEmitter
from hloom.text import Unsupported


@dataclass(frozen=True, slots=True)
class MemoryOrder:
    """The order of an array's elements in memory: its dimensions split into `cut`, taken in the order `permutation`."""

    dims: tuple[int, ...]
    cut: tuple[int, ...]
    permutation: tuple[int, ...]

    @property
    def memory_dims(self) -> tuple[int, ...]:
        """The dimensions in the order of memory, major to minor."""
        return tuple(self.cut[axis] for axis in self.permutation)


def expand_bitcast(node: Node, operand_type: TensorType, result_type: TensorType) -> None:
    """Replace a bitcast; the types are given with their layouts. Raises Unsupported where memory holds padding."""
    emitter = ReplacementEmitter(node)
    value = node.operands[0]
    source, target = memory_order(operand_type, result_type), memory_order(result_type, operand_type)
    value = _to_memory_order(emitter, value, operand_type, source)
    if operand_type.dtype is result_type.dtype:
        value = _reshape(emitter, value, result_type, source.memory_dims, target.memory_dims)
    else:
        value = _reinterpret(emitter, value, operand_type, result_type, target.memory_dims)
    emitter.finish(_from_memory_order(emitter, value, result_type, target))


def memory_order(array_type: TensorType, other: TensorType) -> MemoryOrder:
    """The order in memory of an array with its layout, tiles included.

    If the other type has the same dimensions and tiles (apart from ones), tiles are ignored. Raises Unsupported if they
    differ and leave padding in memory.
    """
    layout = array_type.layout or default_layout(array_type.rank)
    major_to_minor = tuple(reversed(layout.minor_to_major))
    if not layout.tiles or _has_same_layout(array_type, other):
        return MemoryOrder(array_type.dims, array_type.dims, major_to_minor)
    return _tiled_order(array_type, major_to_minor, layout.tiles)


def _tiled_order(
    array_type: TensorType, major_to_minor: tuple[int, ...], tiles: tuple[tuple[int, ...], ...]
) -> MemoryOrder:
    pieces = [[(axis, array_type.dims[axis], 1)] for axis in major_to_minor]  # as in memory: (axis, size, step)
    memory = [pieces[position][0] for position in range(array_type.rank)]
    for tile in tiles:
        if COMBINED in tile or len(tile) > len(memory):
            raise Unsupported(f"the tiles of {array_type} join dimensions")
        outer, inner = memory[: len(memory) - len(tile)], []
        for (axis, size, step), length in zip(memory[len(memory) - len(tile) :], tile, strict=True):
            if length < 1 or size % length:
                raise Unsupported(f"the tiles of {array_type} leave padding in memory")
            outer.append((axis, size // length, step * length))
            inner.append((axis, length, step))
        memory = outer + inner
    order = sorted(range(len(memory)), key=lambda position: (memory[position][0], -memory[position][2]))
    cut = tuple(memory[position][1] for position in order)
    return MemoryOrder(array_type.dims, cut, tuple(order.index(position) for position in range(len(memory))))


def _has_same_layout(one: TensorType, other: TensorType) -> bool:
    """Whether two arrays have the same dimensions in memory, ones aside, and the same tiles."""
    layouts = [array_type.layout or default_layout(array_type.rank) for array_type in (one, other)]
    sizes = [
        [array_type.dims[axis] for axis in reversed(layout.minor_to_major) if array_type.dims[axis] != 1]
        for array_type, layout in zip((one, other), layouts, strict=True)
    ]
    return sizes[0] == sizes[1] and layouts[0].tiles == layouts[1].tiles


def _to_memory_order(emitter: ReplacementEmitter, value: Node, array_type: TensorType, order: MemoryOrder) -> Node:
    value = _reshape(emitter, value, array_type, order.dims, order.cut)
    return _transpose(emitter, value, array_type, order.cut, order.permutation)


def _from_memory_order(emitter: ReplacementEmitter, value: Node, array_type: TensorType, order: MemoryOrder) -> Node:
    inverse = tuple(order.permutation.index(axis) for axis in range(len(order.cut)))
    value = _transpose(emitter, value, array_type, order.memory_dims, inverse)
    return _reshape(emitter, value, array_type, order.cut, order.dims)


def _reshape(
    emitter: ReplacementEmitter, value: Node, array_type: TensorType, before: tuple[int, ...], after: tuple[int, ...]
) -> Node:
    if math.prod(before) != math.prod(after):
        raise Unsupported(f"a bitcast between {math.prod(before)} and {math.prod(after)} elements")
    return value if before == after else emitter.reshape(value, array_type.dtype, after)


def _transpose(
    emitter: ReplacementEmitter,
    value: Node,
    array_type: TensorType,
    before: tuple[int, ...],
    permutation: tuple[int, ...],
) -> Node:
    if permutation == tuple(range(len(permutation))):
        return value
    after = TensorType(array_type.dtype, tuple(before[axis] for axis in permutation))
    return emitter.apply("transpose", (value,), after, dimensions=permutation)


def _reinterpret(
    emitter: ReplacementEmitter, value: Node, source: TensorType, target: TensorType, dims: tuple[int, ...]
) -> Node:
    """Read the bits of elements in memory order as another type: several narrow ones per wide one, or the reverse."""
    wide, narrow = _stored_bits(source), _stored_bits(target)
    count = source.element_count
    if count * wide != target.element_count * narrow:
        raise Unsupported(f"a bitcast from {source} to {target}, which take different numbers of bits")
    ratio = max(wide, narrow) // min(wide, narrow)
    if wide < narrow:
        value = emitter.reshape(value, source.dtype, (count // ratio, ratio))
    else:
        value = emitter.reshape(value, source.dtype, (count,))
    parts = (count, ratio) if wide > narrow else (target.element_count,)
    value = emitter.apply("bitcast-convert", (value,), TensorType(target.dtype, parts))
    return emitter.reshape(value, target.dtype, dims)


def _stored_bits(array_type: TensorType) -> int:
    stored = (array_type.layout.element_bits if array_type.layout else 0) or array_type.dtype.byte_count * 8
    if stored != array_type.dtype.bits:
        raise Unsupported(f"a bitcast of {array_type} to another type: its elements are stored in {stored} bits each")
    return stored
