"""Whether one node is computed from another, looked for from the later one backwards, the earliest places first."""

from __future__ import annotations

from collections.abc import Collection
from heapq import heappop, heappush

from hloom.ir import Graph, Node

MOST_VISITS = 2000
"""Nodes that are looked at before the answer is taken to be yes: what is far apart mostly hangs together."""


class Reaching:
    """Answers for one graph, by the places of its nodes in the text; nodes that were added since are found as well."""

    def __init__(self, graph: Graph) -> None:
        self._places = {node: place for place, node in enumerate(graph.nodes)}

    def leads(self, source: Node, target: Node) -> bool:
        """Whether the target is computed from the source."""
        return self.leads_to_any(source, (target,))

    def leads_to_any(self, source: Node, targets: Collection[Node]) -> bool:
        """Whether one of the targets is computed from the source; a target is not from itself."""
        first = self._places.get(source, 0)
        seen: set[Node] = set()
        pending: list[tuple[int, int, Node]] = []
        for target in targets:
            self._push(target, first, seen, pending)
        for _ in range(MOST_VISITS):
            if source in seen:
                return True
            if not pending:
                return False
            self._push(heappop(pending)[2], first, seen, pending)
        return True

    def _push(self, node: Node, first: int, seen: set[Node], pending: list[tuple[int, int, Node]]) -> None:
        for operand in node.inputs:
            place = self._places.get(operand, first)
            if place >= first and operand not in seen:
                seen.add(operand)
                heappush(pending, (place, len(seen), operand))
