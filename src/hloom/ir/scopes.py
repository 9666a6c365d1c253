"""Which graph encloses which, answered at once for graphs nested to any depth; and cycles of calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hloom.ir.graph import Graph


class Scopes:
    """The forest of enclosing graphs; a graph that its own parents do not lead out of is not `in` it."""

    __slots__ = ("_spans",)

    def __init__(self, graphs: Sequence[Graph]) -> None:
        self._spans: dict[Graph, tuple[int, int]] = {}
        children: dict[Graph | None, list[Graph]] = {}
        for graph in graphs:
            children.setdefault(graph.parent, []).append(graph)
        self._walk(children)

    def __contains__(self, graph: Graph) -> bool:
        return graph in self._spans

    def encloses(self, outer: Graph, inner: Graph) -> bool:
        """Whether one graph is the parent of another, or the parent's parent, and so on."""
        if outer is inner or outer not in self._spans or inner not in self._spans:
            return False
        first, last = self._spans[outer]
        return first < self._spans[inner][0] <= last

    def _walk(self, children: Mapping[Graph | None, list[Graph]]) -> None:
        """Number the graphs in the order of entering them; a graph's span ends with its last descendant's number."""
        clock = 0
        pending: list[tuple[Graph, int | None]] = [(graph, None) for graph in reversed(children.get(None, []))]
        while pending:
            graph, entered = pending.pop()
            if entered is not None:
                self._spans[graph] = (entered, clock)
                continue
            clock += 1
            pending.append((graph, clock))
            pending.extend((child, None) for child in reversed(children.get(graph, [])))


def find_cycle(calls: Mapping[Graph, Iterable[Graph]]) -> list[Graph] | None:
    """A way from a graph back to itself along calls, the graph at both ends; None where there is none."""
    finished: set[Graph] = set()
    for start in calls:
        if start in finished:
            continue
        path = {start: iter(calls[start])}
        while path:
            graph, remaining = next(reversed(path.items()))
            called = next(remaining, None)
            if called is None:
                finished.add(graph)
                del path[graph]
            elif called in path:
                way = list(path)
                return [*way[way.index(called) :], called]
            elif called not in finished:
                path[called] = iter(calls.get(called, ()))
    return None
