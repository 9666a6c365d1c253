"""Reductions: sums are linear, extremes share ties, other combiners are said by their own instructions, in a tree."""

from __future__ import annotations

from typing import Any

from hloom.autodiff.backward import Backward
from hloom.autodiff.emitter import Emitter, array_type
from hloom.autodiff.linear import Linear, LinearOps
from hloom.autodiff.rules.table import rules, transposition
from hloom.ir import Apply, Node
from hloom.ops.reducers import reducer_of


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
    """The mean of the tangents at the elements that equal the result.

    Source: jax/_src/lax/lax.py, _reduce_chooser_jvp_rule.
    """
    p, x = t.primal, node.inputs[0]
    dimensions = node.attributes["dimensions"]
    dims = array_type(x).dims
    kept = kept_dims(len(dims), dimensions)
    at = p.compare("EQ", x, p.broadcast(node, dims, kept))
    weights = p.convert(at, array_type(x).dtype)
    count = p.reduce("add", weights, dimensions)
    return t.div(t.sum(t.mul(weights, tangents[0]), dimensions), count)


@transposition("reduce")
def transpose_reduce(b: Backward, value: Linear, cotangent: Node) -> None:
    operand = value.operands[0]
    dims = array_type(operand).dims
    b.give(operand, b.broadcast(cotangent, dims, kept_dims(len(dims), value.attributes["dimensions"])))


def reduce_opcode(node: Apply) -> str:
    """The opcode by which a reduction of one operand combines; empty where it does so otherwise."""
    return reducer_of(node.attributes["to_apply"]) if len(node.inputs) == 2 else ""


@rules("reduce")
def reduce(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    opcode = reduce_opcode(node)
    return sum_tangent(t, node, tangents) if opcode == "add" else extreme_tangent(t, node, tangents)


def emitter_of(t: LinearOps) -> Emitter:
    return t.primal
