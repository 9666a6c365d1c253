"""Whether one node is computed from another; answered by searching backwards from the later one.

XLA keeps a bit matrix instead (xla/hlo/analysis/hlo_reachability.h, `HloReachabilityMap`), which takes memory
quadratic in the number of instructions.
"""

from __future__ import annotations

from collections.abc import Collection
from heapq import heappop, heappush

from hloom.ir import Graph, Node

MAX_VISITS = 2000
"""Nodes that a search visits at most; then the answer is yes. Nodes that far apart are mostly connected, and searches
over whole programs would take quadratic time."""


class Reachability:
    """Answers for one graph, by the order of its nodes when it was made; nodes added since are found as well."""

    def __init__(self, graph: Graph) -> None:
        self._positions = {node: position for position, node in enumerate(graph.nodes)}

    def reaches(self, source: Node, target: Node) -> bool:
        """Whether the target is computed from the source."""
        return self.reaches_any(source, (target,))

    def reaches_any(self, source: Node, targets: Collection[Node]) -> bool:
        """Whether one of the targets is computed from the source; the source itself does not count."""
        first = self._positions.get(source, 0)
        seen: set[Node] = set()
        pending: list[tuple[int, int, Node]] = []
        for target in targets:
            self._push_operands(target, first, seen, pending)
        for _ in range(MAX_VISITS):
            if source in seen:
                return True
            if not pending:
                return False
            self._push_operands(heappop(pending)[2], first, seen, pending)
        return True

    def _push_operands(self, node: Node, first: int, seen: set[Node], pending: list[tuple[int, int, Node]]) -> None:
        for operand in node.operands:
            position = self._positions.get(operand, first)
            if position >= first and operand not in seen:
                seen.add(operand)
                heappush(pending, (position, len(seen), operand))
