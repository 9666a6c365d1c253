"""What graphs refer to: each other, and nodes of the graphs that enclose them."""

from __future__ import annotations

from collections.abc import Iterable

from hloom.ir import Apply, Constant, Graph, Module, Node, reachable


class References:
    """References between the graphs of a module, and their free variables, those of the graphs they hold included."""

    def __init__(self, module: Module) -> None:
        self.graphs: dict[Graph, tuple[Graph, ...]] = {}
        self.counts: dict[Graph, int] = {}
        for graph in module.graphs:
            held = [called for node in graph.nodes if isinstance(node, Constant) for called in node.called_graphs]
            self.graphs[graph] = tuple(dict.fromkeys(held))
        for node in module.nodes():
            for used in (*node.operands, *([node.function] if isinstance(node, Apply) else [])):
                if isinstance(used, Constant) and isinstance(used.value, Graph):
                    self.counts[used.value] = self.counts.get(used.value, 0) + 1
        self.free = self._free_variables(module)
        self.recursive = self._recursive(module)

    def _free_variables(self, module: Module) -> dict[Graph, tuple[Node, ...]]:
        """By graph, least sets: the own free variables, and those of held graphs that are not the graph's nodes."""
        free = {graph: dict.fromkeys(graph.free_variables()) for graph in module.graphs}
        holders: dict[Graph, list[Graph]] = {graph: [] for graph in module.graphs}
        for graph, held in self.graphs.items():
            for called in held:
                if called in holders:
                    holders[called].append(graph)
        waiting = list(module.graphs)
        while waiting:
            graph = waiting.pop()
            for holder in holders[graph]:
                fresh = [node for node in free[graph] if node.graph is not holder and node not in free[holder]]
                if fresh:
                    free[holder].update(dict.fromkeys(fresh))
                    waiting.append(holder)
        return {graph: tuple(nodes) for graph, nodes in free.items()}

    def _recursive(self, module: Module) -> frozenset[Graph]:
        """The graphs that lead to themselves: Tarjan's strongly connected components, without recursion."""
        index: dict[Graph, int] = {}
        low: dict[Graph, int] = {}
        open_: dict[Graph, None] = {}
        recursive: set[Graph] = set()
        for root in module.graphs:
            stack = [] if root in index else [(root, iter(self.graphs[root]))]
            while stack:
                graph, rest = stack[-1]
                if graph not in index:
                    index[graph] = low[graph] = len(index)
                    open_[graph] = None
                called = next((other for other in rest if other in self.graphs), None)
                if called is None:
                    stack.pop()
                    if stack:
                        low[stack[-1][0]] = min(low[stack[-1][0]], low[graph])
                    if low[graph] == index[graph]:
                        recursive |= self._closed(graph, open_)
                elif called not in index:
                    stack.append((called, iter(self.graphs[called])))
                elif called in open_:
                    low[graph] = min(low[graph], index[called])
        return frozenset(recursive)

    def _closed(self, graph: Graph, open_: dict[Graph, None]) -> set[Graph]:
        """Take a component, which a graph began, off those that are open; its graphs, where they lead to themselves."""
        component: set[Graph] = set()
        while graph not in component:
            component.add(open_.popitem()[0])
        return component if len(component) > 1 or graph in self.graphs[graph] else set()

    def reachable(self, starts: Iterable[Graph], barrier: frozenset[Graph]) -> set[Graph]:
        """The graphs that can be reached from some, these included, without going through those of the barrier."""

        def within(graphs: Iterable[Graph]) -> list[Graph]:
            return [graph for graph in graphs if graph not in barrier]

        return set(reachable(within(starts), lambda graph: within(self.graphs.get(graph, ()))))

    def reaches(self, starts: Iterable[Graph], target: Graph, barrier: frozenset[Graph]) -> bool:
        """Whether a graph can be reached from some."""
        return target in self.reachable(starts, barrier - {target})
