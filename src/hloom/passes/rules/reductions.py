"""Reductions of one array: their parts, made anew, and the rewrites that the strict and the relaxed rules share."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from hloom.ir import Apply, Graph, Node, PaddingDimension, TensorType, same_shape
from hloom.passes.rules.combining import combine, combiner_of, is_idempotent
from hloom.rewrite import Builder, tensor_type, used_once


class Reduction(NamedTuple):
    """A reduction of one array to one: what it reduces, from where, along which dimensions, to what, and how."""

    operand: Node
    start: Node
    kind: TensorType
    result: TensorType
    dimensions: tuple[int, ...]
    graph: Graph
    combiner: str

    @property
    def kept(self) -> list[int]:
        """The dimensions that are not reduced."""
        return [place for place in range(self.kind.rank) if place not in self.dimensions]


def reduction_of(node: Node) -> Reduction | None:
    """The parts of a reduction of one static array in its own element type; None for all else."""
    if not isinstance(node, Apply) or node.opcode != "reduce" or len(node.inputs) != 2:
        return None
    kind, result, start = tensor_type(node.inputs[0]), tensor_type(node), tensor_type(node.inputs[1])
    if kind is None or result is None or start is None or not kind.dtype is result.dtype is start.dtype:
        return None
    graph, dimensions = node.attribute("to_apply"), node.attribute("dimensions")
    if graph is None or dimensions is None or any(place >= kind.rank for place in dimensions):
        return None
    combiner = combiner_of(graph)
    scalar = graph.parameters[0].type if combiner else None
    if isinstance(scalar, TensorType) and scalar.dtype is not kind.dtype:
        combiner = ""
    return Reduction(*node.inputs, kind, result, tuple(dimensions), graph, combiner)


def make_reduce(build: Builder, like: Reduction, operand: Node, dimensions: Iterable[int]) -> Node:
    """A reduction of another array by the same computation from the same start; the array itself for no dimensions."""
    places = tuple(sorted(dimensions))
    return build.op("reduce", operand, like.start, dimensions=places, to_apply=like.graph) if places else operand


def merged_reduces(build: Builder, outer: Reduction, inner: Reduction) -> Node:
    """One reduction along the dimensions of two, one upon the other."""
    return make_reduce(build, outer, inner.operand, [*inner.dimensions, *(inner.kept[at] for at in outer.dimensions)])


def reduce_below_transpose(build: Builder, outer: Reduction) -> Node:
    """A reduction of what a transpose reads, then the transpose of what is left."""
    transpose = outer.operand
    order: tuple[int, ...] = transpose.attributes["dimensions"]
    reduced = [order[place] for place in outer.dimensions]
    kept = [order[place] for place in outer.kept]
    inner = make_reduce(build, outer, transpose.inputs[0], reduced)
    return build.transpose(inner, [sorted(kept).index(place) for place in kept])


def may_pass_transpose(outer: Reduction) -> bool:
    """Whether a reduction may read what the transpose below it reads: nothing large is then moved twice."""
    if outer.operand.opcode != "transpose" or tensor_type(outer.operand.inputs[0]) is None:
        return False
    alone = used_once(outer.operand) or all(user.opcode == "reduce" for user in outer.operand.users)
    return outer.result.rank < 2 or alone


def combined_reduces(build: Builder, outer: Reduction) -> Node:
    """The parts of a concatenation, each reduced by itself, combined in order."""
    total: Node | None = None
    for part in outer.operand.inputs:
        found = make_reduce(build, outer, part, outer.dimensions)
        total = found if total is None else build.op(outer.combiner, total, found)
    assert total is not None, "a concatenation has operands"
    return total


def is_along_reduced(outer: Reduction) -> bool:
    """Whether a reduction reads a concatenation along a dimension that it reduces, of several static arrays."""
    parts = outer.operand
    if parts.opcode != "concatenate" or len(parts.inputs) < 2:
        return False
    along = parts.attributes["dimensions"][0]
    return along in outer.dimensions and all(tensor_type(part) is not None for part in parts.inputs)


def repetitions(outer: Reduction) -> int | None:
    """How often a reduction meets each element of what is broadcast; None where it reduces other dimensions too."""
    if outer.operand.opcode != "broadcast" or not outer.dimensions:
        return None
    if tensor_type(outer.operand.inputs[0]) is None or set(places_of(outer.operand)) & set(outer.dimensions):
        return None
    return math.prod(outer.kind.dims[place] for place in outer.dimensions)


def broadcast_of_rest(build: Builder, outer: Reduction, source: Node) -> Node:
    """What is broadcast, changed element by element, broadcast to what the reduction leaves."""
    places = tuple(outer.kept.index(place) for place in places_of(outer.operand))
    if same_shape(source.type, outer.result) and places == tuple(range(outer.result.rank)):
        return source
    return build.op("broadcast", source, type=outer.result.with_layout(None), dimensions=places)


def passed_through_broadcast(outer: Reduction) -> list[int] | None:
    """The dimensions of what is broadcast along which a reduction goes, in the order in which it meets elements.

    None where it reduces what the broadcast repeats.
    """
    if outer.operand.opcode != "broadcast" or tensor_type(outer.operand.inputs[0]) is None:
        return None
    places = places_of(outer.operand)
    if not outer.dimensions or any(place not in places for place in outer.dimensions):
        return None
    return [places.index(place) for place in sorted(outer.dimensions)]


def broadcast_of_reduced(build: Builder, outer: Reduction, reduced: list[int]) -> Node:
    """A reduction of what is broadcast, then the broadcast of what is left."""
    inner = make_reduce(build, outer, outer.operand.inputs[0], reduced)
    rest = tuple(outer.kept.index(place) for place in places_of(outer.operand) if place not in outer.dimensions)
    return build.op("broadcast", inner, type=outer.result.with_layout(None), dimensions=rest)


def sum_of_repeated(build: Builder, outer: Reduction, count: int) -> Node:
    """A sum of equal numbers: their number times one of them, from the start on."""
    source = outer.operand.inputs[0]
    kind = source.type
    assert isinstance(kind, TensorType)
    product = build.op("multiply", source, build.constant(count, kind.with_layout(None)))
    started = combine_from_left(build, outer.start, product)
    return broadcast_of_rest(build, outer, started)


def combine_from_left(build: Builder, start: Node, value: Node) -> Node:
    """The sum of a scalar, in every place, and an array: the scalar on the left, as XLA writes it."""
    kind = value.type
    assert isinstance(kind, TensorType)
    spread = build.broadcast(start, kind.with_layout(None)) if kind.rank else start
    return build.op("add", spread, value)


def places_of(broadcast: Node) -> tuple[int, ...]:
    """Where the dimensions of what is broadcast stand."""
    return tuple(broadcast.attributes.get("dimensions") or ())


def padded_along(outer: Reduction) -> bool:
    """Whether a reduction reads a pad that only adds elements, and only along what is reduced."""
    if outer.operand.opcode != "pad" or tensor_type(outer.operand.inputs[0]) is None:
        return False
    padding: tuple[PaddingDimension, ...] = outer.operand.attributes["padding"]
    for place, each in enumerate(padding):
        if min(each.low, each.high) < 0 or (each != PaddingDimension(0, 0) and place not in outer.dimensions):
            return False
    return True


def started(build: Builder, outer: Reduction, value: Node) -> Node:
    """An array in place of a reduction that leaves it as it is but for the start."""
    return combine(build, outer.combiner, value, outer.start)


def repeats_change_nothing(outer: Reduction) -> bool:
    """Whether meeting an element again, or the start, changes nothing."""
    return bool(outer.combiner) and is_idempotent(outer.combiner)
