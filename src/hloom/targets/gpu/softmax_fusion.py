"""Normalisations by rows, such as softmax, which one kernel computes with the reductions in them.

    divide(x, broadcast(reduce(x)))     the reduction of a row and what divides by it see the same tile

Follows `MatchesTritonCompatibleClosedReductionDiamond` and `IsTriviallyFusible` (xla/backends/gpu/transforms/
softmax_rewriter_triton.cc).
"""

from __future__ import annotations

from collections.abc import Iterator

from hloom.analysis import BROADCASTS, ELEMENTWISE, VIEWS
from hloom.ir import Apply, Graph, Node

MOST_STEPS = 100
"""The maximum number of instructions to follow from where two values meet."""


def reduction_diamonds(graph: Graph) -> dict[Node, Node]:
    """For each reduction of rows that is read by elements of the same rows, the instruction where both meet."""
    diamonds: dict[Node, Node] = {}
    for root in graph.nodes:
        if root.opcode not in ELEMENTWISE or len(root.operands) != 2:
            continue
        for side, other in ((0, 1), (1, 0)):
            reduction = _reduction_behind(root.operands[side])
            if reduction is not None and _meet(reduction.operands[0], root.operands[other]):
                diamonds[reduction] = root
    return diamonds


def _reduction_behind(node: Node) -> Apply | None:
    """The reduction of the last dimension that is spread over a result."""
    is_spread = False
    for _ in range(MOST_STEPS):
        if node.opcode != "broadcast" and not _is_trivial(node):
            break
        is_spread |= node.opcode == "broadcast"
        node = _source(node)
    if not is_spread or node.opcode != "reduce" or not isinstance(node, Apply) or len(node.operands) != 2:
        return None
    return node if tuple(node.attributes.get("dimensions") or ()) == (node.operands[0].rank - 1,) else None


def _meet(one: Node, other: Node) -> bool:
    """Whether two values are computed from one by elementwise instructions of a single operand."""
    reached = {one, *_sources(one)}
    return other in reached or not reached.isdisjoint(_sources(other))


def _sources(node: Node) -> Iterator[Node]:
    """What a node is computed from by such instructions, latest first."""
    for _ in range(MOST_STEPS):
        if not _is_trivial(node):
            break
        node = _source(node)
        yield node


def _is_trivial(node: Node) -> bool:
    """Whether a node changes elements of one array alone, in their order."""
    if node.opcode in VIEWS:
        return True
    return node.opcode in ELEMENTWISE and len({one for one in node.operands if not _is_filled(one)}) == 1


def _source(node: Node) -> Node:
    return next((operand for operand in node.operands if not _is_filled(operand)), node.operands[0])


def _is_filled(node: Node) -> bool:
    """Whether all elements are one number."""
    return node.opcode in BROADCASTS and bool(node.operands) and not node.operands[0].dims
