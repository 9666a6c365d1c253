"""Cheap values that need the whole batch, computed before the loop for all examples.

A loss that is divided by the number of tokens that count needs that number for each example. It is a sum over the
masks of all examples: what leads to it is written a second time, for the whole batch.
"""

from __future__ import annotations

import math

from hloom.distribute.propagation import DataflowGraph, Equation
from hloom.ir import Apply, Constant, Node, Parameter
from hloom.ops import CALLERS, INLINABLE, may_merge

MOST_SHARE = 0.05
"""The maximum share of the program's work that may be done before the loop, for the whole batch."""


def compute_whole(dataflow: DataflowGraph, node: Node) -> list[Node] | None:
    """Write what leads to a node a second time; the nodes that are whole then, or None where it costs much.

    The node itself reads the copies. Parameters and constants are not copied.
    """
    entry = dataflow.module.entry
    if node.graph is not entry:
        return None
    points = {equation.node: _points(equation) for equation in dataflow.equations}
    limit = MOST_SHARE * sum(points.values())
    needed, pending, cost = {node}, [node], 0
    while pending:
        current = pending.pop()
        cost += points.get(current, 0)
        if not isinstance(current, Apply) or not may_merge(current) or _calls(current) or cost > limit:
            return None
        fresh = {operand for operand in current.operands if not isinstance(operand, (Parameter, Constant))} - needed
        needed |= fresh
        pending += fresh
    copied = [other for other in entry.nodes if other in needed and other is not node]
    mapping: dict[Node, Node] = {}
    entry.copy_nodes(copied, mapping, before=node)
    entry.set_operands(node, [mapping.get(operand, operand) for operand in node.operands])
    return [node, *mapping.values()]


def _calls(node: Apply) -> bool:
    """Whether a node runs computations of its own, and not only a function of elements."""
    return node.opcode in CALLERS | INLINABLE | {"custom-call"}


def _points(equation: Equation) -> int:
    """How many points the iteration space of an instruction has."""
    return math.prod(factor.size for factor in equation.rule.factors)
