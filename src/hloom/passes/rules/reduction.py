"""Reductions of one array: their parts, and the rewrites that exact and inexact rules share.

Follows XLA's xla/hlo/transforms/simplifiers/algebraic_simplifier.cc (HandleReduce).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from hloom.ir import Apply, Graph, Node, PaddingDimension, TensorType, same_shape
from hloom.passes.rules.dimensions import broadcast_dims
from hloom.passes.rules.reducers import combine, combiner_of, is_idempotent, is_identity, same_constant
from hloom.rewrite import Builder, register_builder, register_condition, tensor_type, used_once


class Reduction(NamedTuple):
    """A reduction of one array to one: what it reduces, from where, along which dimensions, to what, and how."""

    operand: Node
    start: Node
    operand_type: TensorType
    result: TensorType
    dimensions: tuple[int, ...]
    graph: Graph
    combiner: str

    @property
    def kept(self) -> list[int]:
        """The dimensions that are not reduced."""
        return [dim for dim in range(self.operand_type.rank) if dim not in self.dimensions]


def reduction_of(node: Node) -> Reduction | None:
    """The parts of a reduction of one static array in its own element type; None for all else."""
    if not isinstance(node, Apply) or node.opcode != "reduce" or len(node.operands) != 2:
        return None
    array_type, result, start = tensor_type(node.operands[0]), tensor_type(node), tensor_type(node.operands[1])
    if array_type is None or result is None or start is None or not array_type.dtype is result.dtype is start.dtype:
        return None
    graph, dimensions = node.attribute("to_apply"), node.attribute("dimensions")
    if graph is None or dimensions is None or any(dim >= array_type.rank for dim in dimensions):
        return None
    combiner = combiner_of(graph)
    scalar = graph.parameters[0].type if combiner else None
    if isinstance(scalar, TensorType) and scalar.dtype is not array_type.dtype:
        combiner = ""
    return Reduction(*node.operands, array_type, result, tuple(dimensions), graph, combiner)


def make_reduce(build: Builder, like: Reduction, operand: Node, dimensions: Iterable[int]) -> Node:
    """A reduction of another array by the same computation from the same start; the array itself for no dimensions."""
    ordered = tuple(sorted(dimensions))
    return build.op("reduce", operand, like.start, dimensions=ordered, to_apply=like.graph) if ordered else operand


def merged_reduces(build: Builder, outer: Reduction, inner: Reduction) -> Node:
    """One reduction along the dimensions of two, one upon the other."""
    return make_reduce(build, outer, inner.operand, [*inner.dimensions, *(inner.kept[at] for at in outer.dimensions)])


def reduce_below_transpose(build: Builder, outer: Reduction) -> Node:
    """A reduction of what a transpose reads, then the transpose of what is left."""
    transpose = outer.operand
    order: tuple[int, ...] = transpose.attributes["dimensions"]
    reduced = [order[dim] for dim in outer.dimensions]
    kept = [order[dim] for dim in outer.kept]
    inner = make_reduce(build, outer, transpose.operands[0], reduced)
    return build.transpose(inner, [sorted(kept).index(dim) for dim in kept])


def may_pass_transpose(outer: Reduction) -> bool:
    """Whether a reduction may read what the transpose below it reads: nothing large is then moved twice."""
    if outer.operand.opcode != "transpose" or tensor_type(outer.operand.operands[0]) is None:
        return False
    alone = used_once(outer.operand) or all(user.opcode == "reduce" for user in outer.operand.users)
    return outer.result.rank < 2 or alone


def combined_reduces(build: Builder, outer: Reduction) -> Node:
    """The parts of a concatenation, each reduced by itself, combined in order."""
    total: Node | None = None
    for part in outer.operand.operands:
        reduced = make_reduce(build, outer, part, outer.dimensions)
        total = reduced if total is None else build.op(outer.combiner, total, reduced)
    assert total is not None, "a concatenation has operands"
    return total


def concatenates_reduced_dim(outer: Reduction) -> bool:
    """Whether a reduction reads a concatenation along a dimension that it reduces, of several static arrays."""
    parts = outer.operand
    if parts.opcode != "concatenate" or len(parts.operands) < 2:
        return False
    along = parts.attributes["dimensions"][0]
    return along in outer.dimensions and all(tensor_type(part) is not None for part in parts.operands)


def repetitions(outer: Reduction) -> int | None:
    """How often a reduction meets each element of what is broadcast; None where it reduces other dimensions too."""
    if outer.operand.opcode != "broadcast" or not outer.dimensions:
        return None
    if tensor_type(outer.operand.operands[0]) is None or set(broadcast_dims(outer.operand)) & set(outer.dimensions):
        return None
    return math.prod(outer.operand_type.dims[dim] for dim in outer.dimensions)


def broadcast_remaining(build: Builder, outer: Reduction, source: Node) -> Node:
    """What is broadcast, changed element by element, broadcast to what the reduction leaves."""
    dimensions = tuple(outer.kept.index(dim) for dim in broadcast_dims(outer.operand))
    if same_shape(source.type, outer.result) and dimensions == tuple(range(outer.result.rank)):
        return source
    return build.op("broadcast", source, type=outer.result.with_layout(None), dimensions=dimensions)


def passed_through_broadcast(outer: Reduction) -> list[int] | None:
    """The dimensions of what is broadcast along which a reduction goes, in the order in which it meets elements.

    None where it reduces what the broadcast repeats.
    """
    if outer.operand.opcode != "broadcast" or tensor_type(outer.operand.operands[0]) is None:
        return None
    dimensions = broadcast_dims(outer.operand)
    if not outer.dimensions or any(dim not in dimensions for dim in outer.dimensions):
        return None
    return [dimensions.index(dim) for dim in sorted(outer.dimensions)]


def broadcast_of_reduced(build: Builder, outer: Reduction, reduced: list[int]) -> Node:
    """A reduction of what is broadcast, then the broadcast of what is left."""
    inner = make_reduce(build, outer, outer.operand.operands[0], reduced)
    rest = tuple(outer.kept.index(dim) for dim in broadcast_dims(outer.operand) if dim not in outer.dimensions)
    return build.op("broadcast", inner, type=outer.result.with_layout(None), dimensions=rest)


def sum_of_repeated(build: Builder, outer: Reduction, count: int) -> Node:
    """A sum of equal numbers: their number times one of them, from the start on."""
    source = outer.operand.operands[0]
    node_type = source.type
    assert isinstance(node_type, TensorType)
    product = build.op("multiply", source, build.constant(count, node_type.with_layout(None)))
    combine_with_init = combine_from_left(build, outer.start, product)
    return broadcast_remaining(build, outer, combine_with_init)


def combine_from_left(build: Builder, start: Node, value: Node) -> Node:
    """The sum of a scalar, in every element, and an array: the scalar on the left, as XLA writes it."""
    node_type = value.type
    assert isinstance(node_type, TensorType)
    spread = build.broadcast(start, node_type.with_layout(None)) if node_type.rank else start
    return build.op("add", spread, value)


def pads_reduced_dims(outer: Reduction) -> bool:
    """Whether a reduction reads a pad that only adds elements, and only along what is reduced."""
    if outer.operand.opcode != "pad" or tensor_type(outer.operand.operands[0]) is None:
        return False
    padding: tuple[PaddingDimension, ...] = outer.operand.attributes["padding"]
    for dim, amount in enumerate(padding):
        if min(amount.low, amount.high) < 0 or (amount != PaddingDimension(0, 0) and dim not in outer.dimensions):
            return False
    return True


def combine_with_init(build: Builder, outer: Reduction, value: Node) -> Node:
    """An array in place of a reduction that leaves it as it is but for the start."""
    return combine(build, outer.combiner, value, outer.start)


def is_idempotent_reduction(outer: Reduction) -> bool:
    """Whether meeting an element again, or the start, changes nothing."""
    return bool(outer.combiner) and is_idempotent(outer.combiner)


def _reduced(build: Builder, like: Node, operand: Node) -> Node:
    """A reduction of another array along the same dimensions."""
    outer = reduction_of(like)
    assert outer is not None, f"{like!r} is a reduction of one array"
    return make_reduce(build, outer, operand, outer.dimensions)


def _is_sum(node: Node) -> bool:
    outer = reduction_of(node)
    return outer is not None and outer.combiner == "add"


def _is_padded_along_reduced(node: Node) -> bool:
    outer = reduction_of(node)
    return outer is not None and pads_reduced_dims(outer)


def _is_neutral_in(value: Node, node: Node) -> bool:
    """Whether combining a value too changes no bit of a reduction."""
    outer = reduction_of(node)
    if outer is None or not outer.combiner:
        return False
    return (is_idempotent_reduction(outer) and same_constant(value, outer.start)) or is_identity(outer.combiner, value)


register_condition("sum-of-one", _is_sum)
register_condition("padded-along-reduced", _is_padded_along_reduced)
register_condition("neutral-in", _is_neutral_in)
register_builder("reduced", _reduced)
