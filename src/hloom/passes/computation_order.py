"""Which computations run, nodes operands first, control dependencies, and private copies of callees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hloom.analysis import ScalarEvolution
from hloom.ir import Apply, Graph, Missing, Module, Node
from hloom.ops import CALLERS
from hloom.text import HloomError


def running_graphs(module: Module) -> Iterator[Graph]:
    """The computations whose instructions run one by one: the entry, and what only loops, branches and calls run."""
    for graph in list(module.graphs):  # each is asked about when its turn comes: changes of earlier ones count
        if module.is_entry(graph) or all(caller.opcode in CALLERS for caller in graph.callers):
            yield graph


def own_copy(graph: Graph, caller: Node) -> Graph:
    """The graph itself if this node is its only caller, once; else a copy placed before the caller's graph.

    The caller is changed to call the copy in all places where it called the graph.
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


def is_awaited(node: Node) -> bool:
    """Whether another node names a node as its control predecessor."""
    return any(user.attributes.refers and node in user.attributes.referents() for user in node.users)


def control_predecessors(graph: Graph) -> set[Node]:
    """The nodes of a graph that others name as their control predecessors."""
    attributes = [node.attributes for node in graph.nodes if node.attributes.refers]
    return {referent for holder in attributes for referent in holder.referents() if isinstance(referent, Node)}


def tracer() -> ScalarEvolution:
    """An analysis of loop counters in the module's current state."""
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


def sort_topologically(graph: Graph) -> None:
    """Sort nodes so that operands come first, and otherwise keep their order."""
    ordered: dict[Node, None] = {}
    entered: set[Node] = set()
    for start in graph.nodes:
        pending = [start]
        while pending:
            node = pending[-1]
            if node in ordered:
                pending.pop()
                continue
            before = [*node.operands, *(node.attributes.get("control-predecessors") or ())]
            waiting = [
                operand
                for operand in before
                if operand not in ordered and operand.graph is graph and not isinstance(operand, Missing)
            ]
            if not waiting:
                ordered[node] = None
                pending.pop()
                continue
            if node in entered:
                raise HloomError(f"{node.name} in {graph.name} needs itself")
            entered.add(node)
            pending += reversed(waiting)
    order = list(ordered)
    for node, successor in zip(reversed(order[:-1]), reversed(order[1:]), strict=True):
        graph.move_before(node, successor)
