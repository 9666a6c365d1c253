"""Values in a narrow format together with their scales and zero points, moved and dequantised as one.

    q = s8[64,8] transpose(s8[8,64] w)      scale = f32[1,8] transpose(f32[8,1] w.scale)

A companion (the scale, the zero point) has as many dimensions as the value, with one element per block of the value in
each. A movement that would split a block is rejected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any

from hloom.compress.quantization.formats import wide_type
from hloom.compress.quantization.insertion_point import InsertionPoint, packed
from hloom.compress.quantization.movement import is_mask_of
from hloom.ir import DTYPES, Apply, DType, Node, SliceDimension, TensorType

SCALE, ZERO = "scale", "zero_point"
F32, F64 = DTYPES["f32"], DTYPES["f64"]


@dataclass(frozen=True, slots=True)
class QuantizedValue:
    """A node of a narrow type, its companions by name, and the type that it has when it is dequantised.

    `blocks` says for every companion how many elements of every dimension share one of the companion's.
    """

    node: Node
    companions: Mapping[str, Node]
    blocks: Mapping[str, tuple[int, ...]]
    type: TensorType


def dequantize(value: QuantizedValue, before: Node | None) -> Node:
    """The value in its own type, in front of a node or at the end: (q - zero) * scale, in f32 or wider."""
    writer = InsertionPoint(value.node.graph, before)
    wide = wide_type(value.type.dtype)
    result = writer.convert(value.node, wide)
    dims = value.type.dims
    if ZERO in value.companions:
        zero = writer.convert(value.companions[ZERO], wide)
        result = writer.sub(result, stretch(writer, zero, dims, value.blocks[ZERO]))
    scale = writer.convert(value.companions[SCALE], wide)
    result = writer.mul(result, stretch(writer, scale, dims, value.blocks[SCALE]))
    return writer.convert(result, value.type.dtype)


def stretch(writer: InsertionPoint, node: Node, dims: Sequence[int], blocks: Sequence[int]) -> Node:
    """An array of one element per block as one of all elements."""
    counts = node.array_type.dims
    kept = [dim for dim, count in enumerate(counts) if count != 1]
    wide: list[int] = []
    into: list[int] = []
    padded: list[int] = []
    for dim, (size, block, count) in enumerate(zip(dims, blocks, counts, strict=True)):
        if dim in kept:
            into.append(len(wide))
        is_split = dim in kept and block > 1
        wide += [count, block] if is_split else [size]
        padded.append(count * block if is_split else size)
    result = writer.broadcast(writer.reshape(node, [counts[dim] for dim in kept]), wide, into)
    result = writer.reshape(result, padded)
    if padded != list(dims):
        result = writer.op("slice", result, slice=tuple(SliceDimension(0, size, 1) for size in dims))
    return result


@dataclass(frozen=True, slots=True)
class Movement:
    """What moving a value does to its companions: their blocks after it, and how they go along.

    That is by the value's own op with other attributes; or, where `shapes` are given, by a reshape.
    """

    blocks: Mapping[str, tuple[int, ...]]
    attributes: Mapping[str, Mapping[str, Any]]
    shapes: Mapping[str, tuple[int, ...]] | None = None


@dataclass(frozen=True, slots=True)
class Spread:
    """How a companion is spread over a value: the value's elements that share one of its own, and its dimensions."""

    blocks: tuple[int, ...]
    counts: tuple[int, ...]


def move(value: QuantizedValue, node: Apply) -> QuantizedValue | None:
    """The result of a node whose first operand is a quantised value, in parts; None if it would split a block.

    The parts are written in front of the node.
    """
    spreads = {
        name: Spread(value.blocks[name], companion.array_type.dims) for name, companion in value.companions.items()
    }
    movement = movement_of(value.type.dims, spreads, node)
    if movement is None:
        return None
    writer = InsertionPoint(node.graph, node)
    made = _narrow_copy(node, (value.node, *node.operands[1:]), value)
    companions: dict[str, Node] = {}
    own = {name: given for name, given in node.attributes.items() if name in node.op.attributes}
    for name, companion in value.companions.items():
        if movement.shapes is not None:
            companions[name] = writer.reshape(companion, movement.shapes[name])
            continue
        attributes = {**own, **movement.attributes.get(name, {})}
        companions[name] = writer.op(
            node.opcode, companion, *node.operands[1:], name=f"{node.name}.{name}", **attributes
        )
    return QuantizedValue(made, companions, movement.blocks, node.array_type.with_layout(None))


def mask(value: QuantizedValue, node: Apply, operand_index: int) -> QuantizedValue | None:
    """What a mask of a value leaves, in the narrow type, where zero is zero; None where it is not, or no mask."""
    if not is_mask_of(node, operand_index) or ZERO in value.companions:
        return None
    writer = InsertionPoint(node.graph, node)
    operands = [writer.constant(0, value.node.array_type.with_layout(None))] * 2
    operands[operand_index - 1] = value.node
    made = _narrow_copy(node, (node.operands[0], *operands), value)
    return QuantizedValue(made, value.companions, value.blocks, node.array_type.with_layout(None))


def _narrow_copy(node: Apply, operands: Sequence[Node], value: QuantizedValue) -> Apply:
    """The same op of other operands, in front of a node, in the narrow type of a value."""
    type_ = packed(node.array_type.with_dtype(value.node.array_type.dtype))
    metadata = node.raw_metadata
    return node.graph.add_apply(node.op, operands, type_, node.attributes, node.name, before=node, metadata=metadata)


def movement_of(dims: Sequence[int], spreads: Mapping[str, Spread], node: Apply) -> Movement | None:
    """What a node does to the companions of a value of some dimensions; None where it would cut a block."""
    movement = _MOVEMENTS.get(node.opcode)
    return None if movement is None or not isinstance(node.type, TensorType) else movement(dims, spreads, node)


def _copy(dims: Sequence[int], spreads: Mapping[str, Spread], node: Apply) -> Movement:
    return Movement({name: spread.blocks for name, spread in spreads.items()}, {})


def _transpose(dims: Sequence[int], spreads: Mapping[str, Spread], node: Apply) -> Movement:
    order = node.attributes["dimensions"]
    return Movement({name: tuple(spread.blocks[dim] for dim in order) for name, spread in spreads.items()}, {})


def _slice(dims: Sequence[int], spreads: Mapping[str, Spread], node: Apply) -> Movement | None:
    attributes = {}
    for name, spread in spreads.items():
        slices = []
        for size, block, count, cut in zip(dims, spread.blocks, spread.counts, node.attributes["slice"], strict=True):
            keeps_all = (cut.start, cut.limit, cut.stride) == (0, size, 1)
            if count == size and block == 1:
                slices.append(cut)
            elif count == 1 or keeps_all:
                slices.append(SliceDimension(0, count, 1))
            else:
                return None
        attributes[name] = {"slice": tuple(slices)}
    return Movement(_cut_blocks(spreads, node.array_type.dims), attributes)


def _dynamic_slice(dims: Sequence[int], spreads: Mapping[str, Spread], node: Apply) -> Movement | None:
    attributes = _window_sizes(dims, spreads, node.attributes["dynamic_slice_sizes"], "dynamic_slice_sizes")
    return None if attributes is None else Movement(_cut_blocks(spreads, node.array_type.dims), attributes)


def _gather(dims: Sequence[int], spreads: Mapping[str, Spread], node: Apply) -> Movement | None:
    sizes = node.attributes["slice_sizes"]
    attributes = _window_sizes(dims, spreads, sizes, "slice_sizes")
    batching = tuple(node.attribute("operand_batching_dims") or ())
    gone = {*node.attributes["collapsed_slice_dims"], *batching}
    offset_dims = node.attributes["offset_dims"]
    if attributes is None or any(spread.counts[dim] != dims[dim] for spread in spreads.values() for dim in batching):
        return None
    result = node.array_type.dims
    blocks = {}
    for name, spread in spreads.items():
        made = [1] * len(result)
        for target, dim in zip(offset_dims, (d for d in range(len(sizes)) if d not in gone), strict=True):
            made[target] = min(spread.blocks[dim], result[target]) if spread.blocks[dim] > 1 else 1
        blocks[name] = tuple(made)
    return Movement(blocks, attributes)


def _window_sizes(
    dims: Sequence[int], spreads: Mapping[str, Spread], sizes: Sequence[int], attribute: str
) -> dict[str, dict[str, Any]] | None:
    """The sizes of the slices that are taken of the companions; None where a block would be cut.

    Of a dimension with one element that is always the one, since starts are clamped to where a slice fits.
    """
    attributes = {}
    for name, spread in spreads.items():
        taken = []
        for whole, block, count, size in zip(dims, spread.blocks, spread.counts, sizes, strict=True):
            if count == whole and block == 1:
                taken.append(size)
            elif count == 1 or size == whole:
                taken.append(count)
            else:
                return None
        attributes[name] = {attribute: tuple(taken)}
    return attributes


def _cut_blocks(spreads: Mapping[str, Spread], dims: Sequence[int]) -> dict[str, tuple[int, ...]]:
    return {
        name: tuple(max(min(block, size), 1) for block, size in zip(spread.blocks, dims, strict=True))
        for name, spread in spreads.items()
    }


def _reshape(dims: Sequence[int], spreads: Mapping[str, Spread], node: Apply) -> Movement | None:
    targets = node.array_type.dims
    if 0 in targets:
        return None
    spans = common_factors(dims, targets)
    blocks: dict[str, tuple[int, ...]] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    for name, spread in spreads.items():
        made, shape = [1] * len(targets), [1] * len(targets)
        for sources, results in spans:
            split = _reshaped_blocks(
                [(dims[dim], spread.blocks[dim], spread.counts[dim]) for dim in sources],
                [targets[dim] for dim in results],
            )
            if split is None:
                return None
            for dim, (block, count) in zip(results, split, strict=True):
                made[dim], shape[dim] = block, count
        blocks[name], shapes[name] = tuple(made), tuple(shape)
    return Movement(blocks, {}, shapes)


def _reshaped_blocks(sources: Sequence[tuple[int, int, int]], results: Sequence[int]) -> list[tuple[int, int]] | None:
    """Blocks and counts of the dimensions that some become, of (size, block, count) of those; or None.

    Dimensions are products of factors that are counted and factors that are shared; a dimension has blocks where all
    that are counted are major to all that are shared.
    """
    wide = [(size, block, count) for size, block, count in sources if size != 1]
    large = [position for position, size in enumerate(results) if size != 1]
    made = [(1, 1)] * len(results)
    if len(wide) == len(large) == 1:
        _, block, count = wide[0]
        made[large[0]] = (block, count)
        return made
    waiting: list[tuple[int, bool]] = []
    for size, block, count in wide:
        if count * block != size and count != 1:
            return None
        waiting += [(count, False), (size // count, True)]
    waiting = [(factor, is_shared) for factor, is_shared in waiting if factor > 1][::-1]
    for position in large:
        left, block, count = results[position], 1, 1
        while left > 1:
            factor, is_shared = waiting.pop()
            taken = gcd(left, factor)
            if taken == 1 or (block > 1 and not is_shared) or (taken < factor and taken < left):
                return None
            if taken < factor:
                waiting.append((factor // taken, is_shared))
            left //= taken
            block, count = (block * taken, count) if is_shared else (block, count * taken)
        made[position] = (block, count)
    return made


def common_factors(sources: Sequence[int], targets: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """The shortest runs of dimensions of a reshape that hold the same elements (XLA: CommonFactors)."""
    spans: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(sources) or j < len(targets):
        left, right = [], []
        a = b = 1
        if i < len(sources):
            a, i = sources[i], i + 1
            left.append(i - 1)
        if j < len(targets) and (a != 1 or not left):
            b, j = targets[j], j + 1
            right.append(j - 1)
        while a != b:
            if a < b:
                a, i = a * sources[i], i + 1
                left.append(i - 1)
            else:
                b, j = b * targets[j], j + 1
                right.append(j - 1)
        spans.append((left, right))
    return spans


_MOVEMENTS = {
    "copy": _copy,
    "transpose": _transpose,
    "slice": _slice,
    "dynamic-slice": _dynamic_slice,
    "gather": _gather,
    "reshape": _reshape,
}
"""The opcodes that values pass through in their narrow type."""


def companion_type(dims: Sequence[int], element: DType) -> TensorType:
    """The type of a companion that is a parameter."""
    return packed(TensorType(element, tuple(dims)))
