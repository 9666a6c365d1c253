"""The call graph: graphs in post-order, control dependencies, and private copies of callees.

Post-order as in XLA's xla/hlo/ir/hlo_module.cc (MakeComputationPostOrder).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hloom.analysis import ScalarEvolution
from hloom.ir import Apply, Graph, Module, Node


def callees_first(module: Module) -> list[Graph]:
    """The graphs, each after all that it calls; of graphs that call each other, in the order of the module."""
    ordered: dict[Graph, None] = {}
    opened: dict[Graph, Iterator[Graph]] = {}
    for start in module.graphs:
        waiting: Graph | None = start if start not in ordered else None
        while waiting is not None or opened:
            if waiting is not None:
                opened[waiting] = iter(_called(waiting))
            graph = next(reversed(opened))
            waiting = next((callee for callee in opened[graph] if callee not in ordered and callee not in opened), None)
            if waiting is None:
                del opened[graph]
                ordered[graph] = None
    return list(ordered)


def _called(graph: Graph) -> dict[Graph, None]:
    return {callee: None for callee in graph.callees() if not callee.is_declared}


def own_copy(graph: Graph, caller: Node) -> Graph:
    """The graph itself where only this node calls it, once; else a copy that stands before the caller's graph.

    The caller is given the copy; where it calls the graph several times, in all places.
    """
    if graph.is_called_once:
        return graph
    module = graph.module
    copy = module.clone_graph(graph)
    module.graphs.remove(copy)
    module.graphs.insert(module.graphs.index(caller.graph), copy)
    caller.graph.set_attributes(caller, caller.attributes.mapped({graph: copy}))
    return copy


def has_control_dependencies(node: Node) -> bool:
    """Whether a node has control predecessors."""
    return any(not referent.is_graph for referent in node.attributes.referents())


def control_predecessors(graph: Graph) -> set[Node]:
    """The nodes of a graph that others name as their control predecessors."""
    attributes = [node.attributes for node in graph.nodes if node.attributes.refers]
    return {referent for holder in attributes for referent in holder.referents() if isinstance(referent, Node)}


def tracer() -> ScalarEvolution:
    """What follows the values of loop counters, through the module as it is now."""
    return ScalarEvolution(_Callers())


class _Callers(Mapping[Graph, "list[Apply]"]):
    """The callers of graphs, one that calls a graph twice being listed twice."""

    def __getitem__(self, graph: Graph) -> list[Apply]:
        callers = [caller for caller in graph.callers if isinstance(caller, Apply)]
        return [caller for caller in callers for callee in caller.called_graphs if callee is graph]

    def __iter__(self) -> Iterator[Graph]:
        return iter(())

    def __len__(self) -> int:
        return 0
