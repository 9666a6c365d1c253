"""Reductions: sums are linear, extremes share ties, other combiners become a tree of their own instructions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hloom.autodiff.backward import Backward
from hloom.autodiff.emitter import Emitter, array_type, identity_value
from hloom.autodiff.linear import Linear, LinearOps
from hloom.autodiff.recognition import splat
from hloom.autodiff.rules.combiners import expanded, on_arrays
from hloom.autodiff.table import expansion, rules, transposition
from hloom.ir import Apply, Graph, Node, SliceDimension, Trait, TupleType
from hloom.ops import EXTREMES, reducer_of, with_trait

DIRECT = EXTREMES | {"add"}
"""Opcodes whose reductions have derivatives of their own; others are written as trees first."""


def kept_dims(rank: int, reduced: Any) -> list[int]:
    return [dim for dim in range(rank) if dim not in reduced]


def sum_tangent(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    """The sum of the tangents, in the element type of the result, and the initial value's."""
    dimensions = node.attributes["dimensions"]
    element = array_type(node).dtype
    total = t.sum(t.convert(tangents[0], element), dimensions)
    if tangents[1] is not None:
        total = t.add(total, t.broadcast(t.convert(tangents[1], element), array_type(node).dims))
    return total


def extreme_tangent(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    """The mean of the tangents at the elements that equal the result; zero where none does but the initial value.

    Source: jax/_src/lax/lax.py, _reduce_chooser_jvp_rule.
    """
    p, x = t.primal, node.operands[0]
    dimensions = node.attributes["dimensions"]
    dims = array_type(x).dims
    kept = kept_dims(len(dims), dimensions)
    direction, bound = extreme_bound(p, x, node, reduce_opcode(node))
    at = p.compare(direction, x, p.broadcast(bound, dims, kept))
    weights = p.convert(at, array_type(x).dtype)
    count = p.reduce("add", weights, dimensions)
    if direction != "EQ" or not begins_at_identity(node):
        count = p.op("maximum", count, p.like(1, count))
    return t.div(t.sum(t.mul(weights, tangents[0]), dimensions), count)


def extreme_bound(p: Emitter, x: Node, extreme: Node, opcode: str) -> tuple[str, Node]:
    """How elements are compared, and with what, to see which equal the extreme that was made of them.

    XLA may compute elements once more beside the comparison, rounded otherwise: then those count that differ from the
    extreme by few units of the last digit. In types of 16 bits or less these are different numbers: they are compared
    exactly.
    """
    element = array_type(x).dtype
    if element.name not in _NEAR or not _is_rounded_anew(x):
        return "EQ", extreme
    near = _NEAR[element.name]
    scaled = [p.mul(extreme, p.like(factor, extreme)) for factor in (1 - near, 1 + near)]
    if opcode == "maximum":
        return "GE", p.elementwise("minimum", *scaled)
    return "LE", p.elementwise("maximum", *scaled)


_NEAR = {"f32": 4 * float(np.finfo(np.float32).eps), "f64": 4 * float(np.finfo(np.float64).eps)}
_ROUNDED = with_trait(Trait.ELEMENTWISE) & with_trait(Trait.ROUNDS)
_EXACT = (with_trait(Trait.ELEMENTWISE) | with_trait(Trait.MOVES_DATA)) - _ROUNDED
"""Ops that fusions compute without rounding: whether their result is rounded anew is for their operands to say."""
MOST_FOLLOWED = 50


def _is_rounded_anew(node: Node) -> bool:
    """Whether a value is made by arithmetic that XLA may repeat in another fusion."""
    pending, seen = [node], {node}
    while pending and len(seen) <= MOST_FOLLOWED:
        current = pending.pop()
        if current.opcode in _ROUNDED or (current.opcode == "abs" and array_type(current.operands[0]).dtype.is_complex):
            return True
        if current.opcode in _EXACT or current.opcode == "select":
            operands = current.operands[1:] if current.opcode == "select" else current.operands
            pending += [operand for operand in operands if operand not in seen]
            seen.update(operands)
    return bool(pending)


@transposition("reduce")
def transpose_reduce(b: Backward, value: Linear, cotangent: Node) -> None:
    operand = value.operands[0]
    dims = array_type(operand).dims
    b.give(operand, b.broadcast(cotangent, dims, kept_dims(len(dims), value.attributes["dimensions"])))


def reduce_opcode(node: Apply) -> str:
    """The opcode by which a reduction of one operand combines; empty where it does so otherwise."""
    if isinstance(node.type, TupleType) or len(node.operands) != 2:
        return ""
    return reducer_of(node.attributes["to_apply"])


def begins_at_identity(node: Apply) -> bool:
    """Whether the initial value of a maximum or minimum, of windows too, is the infinity that any element replaces."""
    operand, start = node.operands[0], node.operands[len(node.operands) // 2]
    combine: Graph = node.attributes["to_apply"]
    opcode = reducer_of(combine) if len(node.operands) == 2 else ""
    value = splat(start)
    if value is None or opcode not in EXTREMES:
        return False
    return value == identity_value(opcode, array_type(operand).dtype)


def as_tree(session: Any, node: Apply) -> Graph | None:
    """A reduction by any combiner: the combiner on halves, on halves of those, and at last on the initial values.

    reduce(f32[7], init), to_apply=f   ->   f(init, f(f(f(ab, cd), ef), g)), the combiner on arrays
    """
    if reduce_opcode(node) in DIRECT:
        return None
    combine, dimensions = node.attributes["to_apply"], node.attributes["dimensions"]

    def make(emitter: Emitter, operands: list[Node]) -> Node | list[Node]:
        count = len(operands) // 2
        starts = operands[count:]
        values = [_reduced_last(emitter, operand, dimensions) for operand in operands[:count]]
        wanted = [array_type(value).dtype for value in starts]
        values = [emitter.convert(value, element) for value, element in zip(values, wanted, strict=True)]
        dims = array_type(values[0]).dims[:-1]
        values = halved(emitter, combine, values)
        wide = [emitter.broadcast(start, dims) for start in starts]
        if values:
            wide = on_arrays(emitter, combine, [*wide, *values])
        return wide if isinstance(node.type, TupleType) else wide[0]

    return expanded(session, node, make)


def _reduced_last(emitter: Emitter, node: Node, dimensions: Any) -> Node:
    """The reduced dimensions as one, the last."""
    dims = array_type(node).dims
    kept = kept_dims(len(dims), dimensions)
    turned = emitter.transpose(node, [*kept, *sorted(dimensions)])
    return emitter.reshape(turned, [*[dims[dim] for dim in kept], math.prod(dims[dim] for dim in dimensions)])


def halved(emitter: Emitter, combine: Graph, values: list[Node]) -> list[Node]:
    """The combination of all elements along the last dimension, which goes; nothing where it is empty."""
    size = array_type(values[0]).dims[-1]
    if not size:
        return []
    while size > 1:
        half = size // 2
        first = [part(emitter, value, 0, half) for value in values]
        second = [part(emitter, value, half, 2 * half) for value in values]
        combined = on_arrays(emitter, combine, [*first, *second])
        if size % 2:
            last = len(array_type(values[0]).dims) - 1
            rest = [part(emitter, value, size - 1, size) for value in values]
            combined = [
                emitter.op("concatenate", value, single, dimensions=(last,))
                for value, single in zip(combined, rest, strict=True)
            ]
        values, size = combined, half + size % 2
    return [emitter.reshape(value, array_type(value).dims[:-1]) for value in values]


def part(emitter: Emitter, node: Node, start: int, limit: int) -> Node:
    """A part of the last dimension."""
    *outer, last = array_type(node).dims
    if (start, limit) == (0, last):
        return node
    whole = [SliceDimension(0, size) for size in outer]
    return emitter.op("slice", node, slice=(*whole, SliceDimension(start, limit)))


@rules("reduce", expand=as_tree)
def reduce(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    return sum_tangent(t, node, tangents) if reduce_opcode(node) == "add" else _extreme(t, node, tangents)


def _extreme(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    """The extreme of the elements and the initial value: ties are shared among the elements alone."""
    p, start = t.primal, node.operands[1]
    result = extreme_tangent(t, node, tangents) if tangents[0] is not None else None
    if tangents[1] is None:
        return result
    value_type = array_type(node)
    equals = p.compare("EQ", node, p.broadcast(start, value_type.dims))
    return t.select(equals, t.broadcast(tangents[1], value_type.dims), result)


@expansion("map")
def map_on_arrays(session: Any, node: Apply) -> Graph:
    """The mapped computation on whole arrays."""
    return expanded(session, node, lambda emitter, given: on_arrays(emitter, node.attributes["to_apply"], given)[0])
