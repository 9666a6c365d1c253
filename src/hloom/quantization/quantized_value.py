"""Values in a narrow format with what tells their meaning, moved together and dequantised.

    q = s8[64,8] transpose(s8[8,64] w)      scale = f32[1,8] transpose(f32[8,1] w.scale)

A companion (the scale, the zero point) has as many dimensions as the value, and in every dimension one element per
block of the value's. A movement is refused where it would cut a block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from hloom.ir import DTYPES, Apply, DType, Node, SliceDimension, TensorType
from hloom.quantization.insertion_point import InsertionPoint, array_type, packed

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
    wide = F64 if value.type.dtype is F64 else F32
    result = writer.convert(value.node, wide)
    dims = value.type.dims
    if ZERO in value.companions:
        zero = writer.convert(value.companions[ZERO], wide)
        result = writer.subtract(result, stretch(writer, zero, dims, value.blocks[ZERO]))
    scale = writer.convert(value.companions[SCALE], wide)
    result = writer.multiply(result, stretch(writer, scale, dims, value.blocks[SCALE]))
    return writer.convert(result, value.type.dtype)


def stretch(writer: InsertionPoint, node: Node, dims: Sequence[int], blocks: Sequence[int]) -> Node:
    """An array of one element per block as one of all elements."""
    counts = array_type(node).dims
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


def move(value: QuantizedValue, node: Apply) -> QuantizedValue | None:
    """What a node makes of a value that is its first operand, of the value's parts; None where it would cut a block.

    The parts are written in front of the node.
    """
    movement = _MOVEMENTS.get(node.opcode)
    return None if movement is None or not isinstance(node.type, TensorType) else movement(value, node)


def _moved(
    value: QuantizedValue,
    node: Apply,
    attributes: Mapping[str, Mapping[str, Any]],
    blocks: Mapping[str, tuple[int, ...]],
) -> QuantizedValue:
    """The value and its companions through the op of a node, its attributes changed for the companions."""
    writer = InsertionPoint(node.graph, node)
    type_ = array_type(node)
    own = {name: given for name, given in node.attributes.items() if name in node.op.attributes}
    made = node.graph.add_apply(
        node.op,
        (value.node, *node.inputs[1:]),
        packed(type_.with_dtype(array_type(value.node).dtype)),
        node.attributes,
        node.name,
        before=node,
        metadata=node.raw_metadata,
    )
    companions = {
        name: writer.op(
            node.opcode,
            companion,
            *node.inputs[1:],
            name=f"{node.name}.{name}",
            **{**own, **attributes.get(name, {})},
        )
        for name, companion in value.companions.items()
    }
    return QuantizedValue(made, companions, blocks, type_.with_layout(None))


def _copy(value: QuantizedValue, node: Apply) -> QuantizedValue:
    return _moved(value, node, {}, value.blocks)


def _transpose(value: QuantizedValue, node: Apply) -> QuantizedValue:
    order = node.attributes["dimensions"]
    blocks = {name: tuple(blocks[dim] for dim in order) for name, blocks in value.blocks.items()}
    return _moved(value, node, {}, blocks)


def _slice(value: QuantizedValue, node: Apply) -> QuantizedValue | None:
    sizes, attributes = value.type.dims, {}
    for name, blocks in value.blocks.items():
        counts = array_type(value.companions[name]).dims
        slices = []
        for size, block, count, cut in zip(sizes, blocks, counts, node.attributes["slice"], strict=True):
            keeps_all = (cut.start, cut.limit, cut.stride) == (0, size, 1)
            if count == size and block == 1:
                slices.append(cut)
            elif count == 1 or keeps_all:
                slices.append(SliceDimension(0, count, 1))
            else:
                return None
        attributes[name] = {"slice": tuple(slices)}
    return _moved(value, node, attributes, _cut_blocks(value, array_type(node).dims))


def _dynamic_slice(value: QuantizedValue, node: Apply) -> QuantizedValue | None:
    attributes = _window_sizes(value, node.attributes["dynamic_slice_sizes"], "dynamic_slice_sizes")
    if attributes is None:
        return None
    return _moved(value, node, attributes, _cut_blocks(value, array_type(node).dims))


def _gather(value: QuantizedValue, node: Apply) -> QuantizedValue | None:
    sizes = node.attributes["slice_sizes"]
    attributes = _window_sizes(value, sizes, "slice_sizes")
    gone = {*node.attributes["collapsed_slice_dims"], *(node.attribute("operand_batching_dims") or ())}
    offset_dims = node.attributes["offset_dims"]
    if attributes is None or any(
        array_type(value.companions[name]).dims[dim] != value.type.dims[dim] and dim in gone
        for name in value.companions
        for dim in (node.attribute("operand_batching_dims") or ())
    ):
        return None
    result = array_type(node).dims
    blocks = {}
    for name, old in value.blocks.items():
        made = [1] * len(result)
        for target, dim in zip(offset_dims, (d for d in range(len(sizes)) if d not in gone), strict=True):
            made[target] = min(old[dim], result[target]) if old[dim] > 1 else 1
        blocks[name] = tuple(made)
    return _moved(value, node, attributes, blocks)


def _window_sizes(value: QuantizedValue, sizes: Sequence[int], attribute: str) -> dict[str, dict[str, Any]] | None:
    """The sizes of the slices that are taken of the companions; None where a block would be cut.

    Of a dimension with one element that is always the one, since starts are clamped to where a slice fits.
    """
    attributes = {}
    for name, blocks in value.blocks.items():
        counts = array_type(value.companions[name]).dims
        taken = []
        for whole, block, count, size in zip(value.type.dims, blocks, counts, sizes, strict=True):
            if count == whole and block == 1:
                taken.append(size)
            elif count == 1 or size == whole:
                taken.append(count)
            else:
                return None
        attributes[name] = {attribute: tuple(taken)}
    return attributes


def _cut_blocks(value: QuantizedValue, dims: Sequence[int]) -> dict[str, tuple[int, ...]]:
    return {
        name: tuple(max(min(block, size), 1) for block, size in zip(blocks, dims, strict=True))
        for name, blocks in value.blocks.items()
    }


def _reshape(value: QuantizedValue, node: Apply) -> QuantizedValue | None:
    targets = array_type(node).dims
    if 0 in targets:
        return None
    spans = common_factors(value.type.dims, targets)
    blocks: dict[str, tuple[int, ...]] = {}
    shapes: dict[str, list[int]] = {}
    for name, old in value.blocks.items():
        counts = array_type(value.companions[name]).dims
        made, shape = [1] * len(targets), [1] * len(targets)
        for sources, results in spans:
            split = _reshaped_blocks(
                [(value.type.dims[dim], old[dim], counts[dim]) for dim in sources], [targets[dim] for dim in results]
            )
            if split is None:
                return None
            for dim, (block, count) in zip(results, split, strict=True):
                made[dim], shape[dim] = block, count
        blocks[name], shapes[name] = tuple(made), shape
    writer = InsertionPoint(node.graph, node)
    type_ = array_type(node)
    made_node = node.graph.add_apply(
        node.op, (value.node,), packed(type_.with_dtype(array_type(value.node).dtype)), node.attributes, node.name,
        before=node, metadata=node.raw_metadata,
    )  # fmt: skip
    companions = {name: writer.reshape(companion, shapes[name]) for name, companion in value.companions.items()}
    return QuantizedValue(made_node, companions, blocks, type_.with_layout(None))


def _reshaped_blocks(sources: Sequence[tuple[int, int, int]], results: Sequence[int]) -> list[tuple[int, int]] | None:
    """Blocks and counts of the dimensions that some become, of (size, block, count) of those; or None."""
    wide = [(size, block, count) for size, block, count in sources if size != 1]
    if all(count == 1 for _, _, count in wide):
        return [(max(size, 1), 1) for size in results]
    if all(count == size and block == 1 for size, block, count in wide):
        return [(1, size) for size in results]
    large = [position for position, size in enumerate(results) if size != 1]
    if len(large) != 1 or not all(count == size and block == 1 for size, block, count in wide[:-1]):
        return None
    size, block, count = wide[-1]
    if len(wide) > 1 and size % block:
        return None
    made = [(1, 1)] * len(results)
    made[large[0]] = (block, count * prod(outer for outer, _, _ in wide[:-1]))
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
