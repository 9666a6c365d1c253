"""The minimum cut of a small flow network: which of its nodes are behind the cheapest cut."""

from __future__ import annotations

from collections import deque

SOURCE, SINK = 0, 1
UNCUT = 1 << 30
"""The capacity of an arc that no cut goes through."""


class FlowNetwork:
    """Nodes by number, of which SOURCE and SINK are there from the start, and arcs with capacities."""

    def __init__(self) -> None:
        self._arcs: list[list[int]] = [[], []]
        self._heads: list[int] = []
        self._left: list[int] = []

    def add_node(self) -> int:
        """Add a node; gives its number."""
        self._arcs.append([])
        return len(self._arcs) - 1

    def add_arc(self, tail: int, head: int, capacity: int = UNCUT) -> None:
        """Add an arc; what it lets through backwards is what has gone through it."""
        for node, other, left in ((tail, head, capacity), (head, tail, 0)):
            self._arcs[node].append(len(self._heads))
            self._heads.append(other)
            self._left.append(left)

    def behind(self, most_paths: int) -> set[int] | None:
        """The fewest nodes that are behind a cheapest cut, SINK among them; None where more paths have to be filled.

        Source: L. R. Ford and D. R. Fulkerson, Maximal flow through a network, shortest paths first (J. Edmonds and
        R. M. Karp).

        >>> network = FlowNetwork()
        >>> node = network.add_node()
        >>> network.add_arc(SOURCE, node, 1)
        >>> network.add_arc(node, SINK, 2)
        >>> sorted(network.behind(9))
        [1, 2]
        """
        for _ in range(most_paths):
            path = self._path()
            if path is None:
                return self._leading_to_sink()
            flow = min(self._left[arc] for arc in path)
            for arc in path:
                self._left[arc] -= flow
                self._left[arc ^ 1] += flow
        return None

    def _path(self) -> list[int] | None:
        """The arcs of a shortest path with capacity left, from the sink back."""
        came_by: dict[int, int] = {SOURCE: -1}
        waiting = deque([SOURCE])
        while waiting and SINK not in came_by:
            node = waiting.popleft()
            for arc in self._arcs[node]:
                head = self._heads[arc]
                if self._left[arc] and head not in came_by:
                    came_by[head] = arc
                    waiting.append(head)
        if SINK not in came_by:
            return None
        path: list[int] = []
        node = SINK
        while node != SOURCE:
            path.append(came_by[node])
            node = self._heads[came_by[node] ^ 1]
        return path

    def _leading_to_sink(self) -> set[int]:
        """The nodes from which capacity is left up to the sink."""
        behind = {SINK}
        waiting = [SINK]
        while waiting:
            for arc in self._arcs[waiting.pop()]:
                tail = self._heads[arc]
                if self._left[arc ^ 1] and tail not in behind:
                    behind.add(tail)
                    waiting.append(tail)
        return behind
