"""Ops that move, repeat or regroup elements: all of them linear."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from hloom.autodiff.backward import Backward
from hloom.autodiff.emitter import array_type
from hloom.autodiff.linear import FORWARD_FORMS, Linear, LinearOps
from hloom.autodiff.rules.sort import TAKEN
from hloom.autodiff.table import none, rules, transposition, zero
from hloom.ir import EMPTY, Apply, Attributes, Node, PaddingDimension, SliceDimension, TensorType, without_layout
from hloom.ops import OPS

zero("iota", because="it has no operand")
zero("get-dimension-size", because="its result is not a floating-point number")
none("set-dimension-size dynamic-reshape", because="arrays of dynamic dimensions have no derivative here")


@rules("slice")
def slice_(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    """The same slice; of elements that a sort or a top-k took, those alone are taken.

    slice(take(x, order)) -> take(x, slice(order)), along the dimension of the order
    """
    tangent, parts = tangents[0], node.attributes["slice"]
    if isinstance(tangent, Linear) and tangent.opcode == TAKEN:
        operand, order = tangent.operands
        along, dims = tangent.attributes["dimension"], array_type(order).dims
        if all(dim == along or part == SliceDimension(0, dims[dim]) for dim, part in enumerate(parts)):
            fewer = t.primal.op("slice", order, slice=parts)
            return t.op(TAKEN, operand, fewer, type=without_layout(node.type), dimension=along)  # pyright: ignore[reportArgumentType]
    return same(t, node, tangents)


@rules("broadcast reverse transpose")
def same(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    return t.applied(node.opcode, (tangents[0],), array_type(node), _meaning(node))


@rules("reshape")
def reshape(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    value_type = array_type(node)
    return tangents[0] if tangents[0].type is value_type else t.applied("reshape", (tangents[0],), value_type, EMPTY)


@rules("bitcast")
def bitcast(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    """A bitcast of the tangent, whose layout is the operand's."""
    source, target = node.operands[0].type, node.type
    if not isinstance(source, TensorType) or not isinstance(target, TensorType) or source.dtype is not target.dtype:
        return None
    if source.layout is None and target.layout is None:
        return t.reshape(tangents[0], target.dims)
    return t.op("laid-out-bitcast", tangents[0], type=without_layout(target), source=source, target=target)


@rules("bitcast-convert")
def bitcast_convert(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    """None: bits are not numbers."""
    return None


@rules("concatenate")
def concatenate(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    parts = [
        tangent if tangent is not None else t.zero(operand)
        for tangent, operand in zip(tangents, node.operands, strict=True)
    ]
    return t.op("concatenate", *parts, dimensions=node.attributes["dimensions"])


@rules("pad")
def pad(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    operand, value = (
        tangent if tangent is not None else t.zero(given)
        for tangent, given in zip(tangents, node.operands, strict=True)
    )
    return t.op("pad", operand, value, padding=node.attributes["padding"])


@rules("tuple-select")
def tuple_select(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    first, second = (tangent or [None] * 1000 for tangent in tangents[1:])
    leaves = list(node.type.leaves())  # pyright: ignore[reportOptionalMemberAccess]
    result = []
    for leaf, a, b in zip(leaves, first, second, strict=False):
        assert isinstance(leaf, TensorType), "arrays alone are differentiable"
        predicate = t.primal.broadcast(node.operands[0], leaf.dims)
        result.append(t.select(predicate, a, b))
    return result


def _meaning(node: Apply) -> Attributes:
    """The attributes that change the values."""
    rows = node.op.attributes
    kept = {name: value for name, value in node.attributes.items() if not (rows[name].carried or name in _SCHEDULING)}
    return node.attributes if len(kept) == len(node.attributes) else Attributes(kept)


_SCHEDULING = ("control-predecessors", "backend_config")


@transposition("broadcast")
def transpose_broadcast(b: Backward, value: Linear, cotangent: Node) -> None:
    """The sum over the new dimensions, those kept brought into the operand's order."""
    new, order = _broadcast_back(array_type(cotangent).rank, tuple(value.attributes.get("dimensions") or ()))
    total = b.reduce("add", cotangent, new)
    b.give(value.operands[0], b.transpose(total, order) if order else total)


@lru_cache(1024)
def _broadcast_back(rank: int, kept: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The dimensions that a broadcast adds, and the order of those kept; nothing where they are in order."""
    new = tuple(dim for dim in range(rank) if dim not in kept)
    ranks = sorted(kept)
    order = tuple(ranks.index(dim) for dim in kept)
    return new, () if order == tuple(range(len(kept))) else order


@transposition("reshape")
def transpose_reshape(b: Backward, value: Linear, cotangent: Node) -> None:
    b.give(value.operands[0], b.reshape(cotangent, array_type(value.operands[0]).dims))


@transposition("laid-out-bitcast")
def transpose_bitcast(b: Backward, value: Linear, cotangent: Node) -> None:
    source, target = value.attributes["source"], value.attributes["target"]
    laid_out = b.graph.add_apply(OPS["copy"], (cotangent,), target, metadata=b.metadata)
    back = b.graph.add_apply(OPS["bitcast"], (laid_out,), source, metadata=b.metadata)
    b.give(value.operands[0], b.op("copy", back))


@transposition("reverse")
def transpose_reverse(b: Backward, value: Linear, cotangent: Node) -> None:
    b.give(value.operands[0], b.op("reverse", cotangent, dimensions=value.attributes["dimensions"]))


@transposition("transpose")
def transpose_transpose(b: Backward, value: Linear, cotangent: Node) -> None:
    dimensions = value.attributes["dimensions"]
    b.give(value.operands[0], b.transpose(cotangent, [dimensions.index(dim) for dim in range(len(dimensions))]))


@transposition("slice")
def transpose_slice(b: Backward, value: Linear, cotangent: Node) -> None:
    b.give_slice(value.operands[0], value.attributes["slice"], cotangent)


@transposition("concatenate")
def transpose_concatenate(b: Backward, value: Linear, cotangent: Node) -> None:
    (along,) = value.attributes["dimensions"]
    start, dims = 0, array_type(cotangent).dims
    for operand in value.operands:
        size = array_type(operand).dims[along]
        if isinstance(operand, Linear):
            parts = tuple(
                SliceDimension(start, start + size) if dim == along else SliceDimension(0, length)
                for dim, length in enumerate(dims)
            )
            b.give(operand, cotangent if size == dims[along] else b.op("slice", cotangent, slice=parts))
        start += size


@transposition("pad")
def transpose_pad(b: Backward, value: Linear, cotangent: Node) -> None:
    """The operand's elements are sliced out; the padding value has the sum of all others."""
    operand, filler = value.operands
    padding: tuple[PaddingDimension, ...] = value.attributes["padding"]
    taken = unpadded(b, cotangent, padding)
    b.give(operand, taken)
    if isinstance(filler, Linear):
        rank = range(array_type(cotangent).rank)
        b.give(filler, b.sub(b.reduce("add", cotangent, rank), b.reduce("add", taken, rank)))


def unpadded(b: Backward, node: Node, padding: tuple[PaddingDimension, ...]) -> Node:
    """The elements that a padding, negative ones included, put where they are; zeros for those that it cropped."""
    zero = b.constant(0, array_type(node).dtype)
    if any(value.low < 0 or value.high < 0 for value in padding):
        grown = tuple(PaddingDimension(max(-value.low, 0), max(-value.high, 0)) for value in padding)
        node = b.op("pad", node, zero, padding=grown)
    dims = array_type(node).dims
    parts = tuple(
        SliceDimension(max(value.low, 0), size - max(value.high, 0), value.interior + 1)
        for value, size in zip(padding, dims, strict=True)
    )
    if all(part == SliceDimension(0, size) for part, size in zip(parts, dims, strict=True)):
        return node
    return b.op("slice", node, slice=parts)


def _forward_bitcast(emitter: Any, operand: Node, *, type: Any, source: Any, target: Any) -> Node:
    laid_out = emitter.graph.add_apply(OPS["copy"], (operand,), source, metadata=emitter.metadata)
    made = emitter.graph.add_apply(OPS["bitcast"], (laid_out,), target, metadata=emitter.metadata)
    return emitter.op("copy", made)


FORWARD_FORMS["laid-out-bitcast"] = _forward_bitcast
