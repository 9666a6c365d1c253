"""Bitcasts: reads an array's memory, in the order of its layout, as another array."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hloom.evaluator.table import Runner, Value, Values, array_type, arrays_of, evaluator
from hloom.ir import COMBINED, Apply, TensorType, default_layout
from hloom.text import Unsupported


@evaluator("bitcast")
def _bitcast(node: Apply, operands: Values, run: Runner) -> Value:
    (operand,) = arrays_of(operands)
    source, target = node.operands[0].type, array_type(node)
    if not isinstance(source, TensorType) or source.dynamic or target.dynamic:
        raise Unsupported("the layouts of both sides must be known, and their dimensions static")
    given, made = source, target
    if any(type_.stored_count != type_.element_count for type_ in (source, target)) and not _have_same_memory_order(
        source, target
    ):
        given, made = in_whole_tiles(source), in_whole_tiles(target)
        operand = np.pad(operand.reshape(_ranked(source, given)), _padding(source, given))
    memory = in_memory(operand, given, made).reshape(-1)
    if source.dtype is not target.dtype:
        memory = reinterpreted(memory, source, target)
    whole = out_of_memory(memory, made, given)
    return whole[tuple(map(slice, _ranked(target, made)))].reshape(target.dims)


def in_whole_tiles(array_type: TensorType) -> TensorType:
    """The type of an array with the elements that pad its tiles, whose values are not defined, as elements.

    It has as many dimensions as the tile, at least. Raises Unsupported for tiles that join dimensions.
    """
    layout = array_type.layout
    if layout is None or not layout.tiles:
        return array_type
    tile = layout.tiles[0]
    added = max(0, len(tile) - array_type.rank)
    dims = [1] * added + list(array_type.dims)
    order = (*(dim + added for dim in layout.minor_to_major), *reversed(range(added)))
    for axis, length in zip(order, reversed(tile), strict=False):
        if length == COMBINED:
            raise Unsupported(f"the tiles of {array_type} join dimensions")
        dims[axis] = -(-dims[axis] // max(length, 1)) * max(length, 1)
    return TensorType(array_type.dtype, dims, replace(layout, minor_to_major=order))


def _ranked(array_type: TensorType, whole: TensorType) -> tuple[int, ...]:
    """The dimensions of an array, with ones in front where its padded form has more."""
    return (1,) * (whole.rank - array_type.rank) + array_type.dims


def _padding(array_type: TensorType, whole: TensorType) -> list[tuple[int, int]]:
    return [(0, size - own) for size, own in zip(whole.dims, _ranked(array_type, whole), strict=True)]


def scalar_bitcast(node: Apply, operand: np.ndarray) -> np.ndarray:
    """A bitcast of one scalar to another, on an array of many such scalars."""
    source, target = node.operands[0].type, array_type(node)
    if not isinstance(source, TensorType) or source.dtype is target.dtype:
        return operand
    return reinterpreted(operand.reshape(-1), source, target).reshape(operand.shape)


def in_memory(array: np.ndarray, array_type: TensorType, other: TensorType) -> np.ndarray:
    """An array with its dimensions cut and ordered in the order of memory.

    Where the type at the other end has the same dimensions and tiles (ones aside), the tiles are left out. Raises
    Unsupported where they are not the same and leave padding in memory.
    """
    cut, order = memory_order(array_type, other)
    return array.reshape(cut).transpose(order)


def out_of_memory(memory: np.ndarray, array_type: TensorType, other: TensorType) -> np.ndarray:
    """The array of a type whose memory is given: the inverse of `in_memory`."""
    cut, order = memory_order(array_type, other)
    return memory.reshape([cut[dim] for dim in order]).transpose(np.argsort(order)).reshape(array_type.dims)


def memory_order(array_type: TensorType, other: TensorType) -> tuple[list[int], list[int]]:
    """The dimensions cut into the pieces that are together in memory, and their order there."""
    layout = array_type.layout or default_layout(array_type.rank)
    major_to_minor = list(reversed(layout.minor_to_major))
    if not layout.tiles or _have_same_memory_order(array_type, other):
        return list(array_type.dims), major_to_minor
    memory = [(axis, array_type.dims[axis], 1) for axis in major_to_minor]  # (axis, size, step) per place in memory
    for tile in layout.tiles:
        memory = _tiled(memory, tile, array_type)
    places = sorted(range(len(memory)), key=lambda dim: (memory[dim][0], -memory[dim][2]))
    return [memory[dim][1] for dim in places], [places.index(dim) for dim in range(len(memory))]


def _tiled(
    memory: list[tuple[int, int, int]], tile: tuple[int, ...], array_type: TensorType
) -> list[tuple[int, int, int]]:
    if COMBINED in tile or len(tile) > len(memory):
        raise Unsupported(f"the tiles of {array_type} join dimensions")
    kept = len(memory) - len(tile)
    outer, inner = memory[:kept], []
    for (axis, size, step), length in zip(memory[kept:], tile, strict=True):
        if length < 1 or size % length:
            raise Unsupported(f"the tiles of {array_type} leave padding in memory")
        outer.append((axis, size // length, step * length))
        inner.append((axis, length, step))
    return outer + inner


def _have_same_memory_order(one: TensorType, other: TensorType) -> bool:
    """Whether two arrays have the same dimensions in memory, ones aside, and the same tiles."""
    layouts = [type_.layout or default_layout(type_.rank) for type_ in (one, other)]
    sizes = [
        [array_type.dims[axis] for axis in reversed(layout.minor_to_major) if array_type.dims[axis] != 1]
        for array_type, layout in zip((one, other), layouts, strict=True)
    ]
    return sizes[0] == sizes[1] and layouts[0].tiles == layouts[1].tiles


def reinterpreted(memory: np.ndarray, source: TensorType, target: TensorType) -> np.ndarray:
    """The bits of elements read as another type; several narrow elements make up a wide one, the first lowest."""
    for type_ in (source, target):
        stored = (type_.layout.element_bits if type_.layout else 0) or type_.dtype.byte_count * 8
        if stored != type_.dtype.bits:
            raise Unsupported(f"the elements of {type_} are stored in {stored} bits each")
    return np.ascontiguousarray(memory).view(target.dtype.numpy)
