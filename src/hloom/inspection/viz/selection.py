"""Selects what to draw: a whole module, one computation, or the neighbourhood of a node."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import TypedDict, Unpack

from hloom.inspection.viz.drawing import Drawing, DrawnCall, DrawnCluster, DrawnEdge, DrawnNode, EdgeKind
from hloom.inspection.viz.node_text import Describer, clean, identify
from hloom.ir import Apply, Graph, Module, Node, Parameter, reachable
from hloom.ops import ASYNC_PARTS, INLINABLE
from hloom.text import HloomError, resolve_name

COLLAPSED = INLINABLE | ASYNC_PARTS
"""The opcodes that stand for the computation they hold, so that drawing it as well says little more."""
HOPS = 2
"""How far from a node what is drawn reaches, in uses, unless told otherwise."""


class Selection(TypedDict, total=False):
    """The keywords that choose what is drawn; every writer takes them.

    `computation` (name or Graph) draws only that one. `around` (Node, node name, or `computation/node`) draws what is
    within `hops` (2) uses of that node, in both directions; a name is looked up in `computation` where that is given.
    `across_calls` lets a hop go from a caller to the parameters and the output of what it calls, and back.
    `collapse_fusions` leaves out the computations that only fusions, calls and asynchronous wrappers hold.
    """

    computation: Graph | str | None
    around: Node | str | None
    hops: int
    across_calls: bool
    collapse_fusions: bool


def drawing_of(module: Module, **selection: Unpack[Selection]) -> Drawing:
    """Choose what to draw of a module, and describe it; see `Selection` for the keywords.

    Raises HloomError for a computation or a node that the module does not have, with near misses, and for a keyword
    that there is not one of.
    """
    unknown = [name for name in selection if name not in Selection.__annotations__]
    if unknown:
        hint = f"choose by {', '.join(Selection.__annotations__)}"
        raise HloomError(f"nothing is drawn by '{unknown[0]}'", hint=hint)
    hops = selection.get("hops", HOPS)
    if hops < 0:
        raise HloomError(f"hops={hops}: the number of hops around a node is 0 or more")
    computation = selection.get("computation")
    around = selection.get("around")
    graph = None if computation is None else find_graph(module, computation)
    shown = _uncollapsed(module) if selection.get("collapse_fusions") else set(module.graphs)
    if around is not None:
        center = find_node(module, around, graph)
        chosen = neighbourhood(center, hops, shown if selection.get("across_calls") else set())
        return _drawing(module, module.graphs, chosen, center)
    return _drawing(module, [member for member in module.graphs if member in shown] if graph is None else [graph])


def find_graph(module: Module, computation: Graph | str) -> Graph:
    """The computation of a name; raises HloomError, with near misses, where the module has none."""
    if isinstance(computation, str):
        names = [graph.name for graph in module.graphs]
        return module[resolve_name(computation, names, f"module {module.name}", "computation")]
    if computation.module is not module:
        raise HloomError(f"graph {computation.name} is of another module than {module.name}")
    return computation


def find_node(module: Module, around: Node | str, graph: Graph | None = None) -> Node:
    """The node of a name, or of `computation/node`; the entry's comes before those of other computations.

    Raises HloomError where no computation has one, with near misses, and where several have.
    """
    if isinstance(around, Node):
        if around.graph.module is not module:
            raise HloomError(f"node {around.name} is of another module than {module.name}")
        return around
    if graph is not None:
        own = (node.name for node in graph.nodes)
        return graph[resolve_name(around, own, f"computation {graph.name}", "node")]
    name = around.lstrip("%")
    nodes = [member[name] for member in module if name in member] or [
        member[rest] for member in module if (rest := name.removeprefix(member.name + "/")) != name and rest in member
    ]
    if len(nodes) == 1:
        return nodes[0]
    entry = _entry(module)
    in_entry = [node for node in nodes if node.graph is entry]
    if in_entry:
        return in_entry[0]
    if nodes:
        graphs = ", ".join(node.graph.name for node in nodes[:5])
        hint = f"say which one: computation='{nodes[0].graph.name}', or around='{nodes[0].graph.name}/{name}'"
        raise HloomError(f"{len(nodes)} computations have a node '{name}': {graphs}", hint=hint)
    computation, _, last = name.rpartition("/")
    searched = [member for member in module if member.name == computation] or list(module)
    names = (node.name for member in searched for node in member.nodes)
    own = resolve_name(last, names, f"module {module.name}", "node")
    return find_node(module, own, searched[0] if computation and len(searched) == 1 else None)


def neighbourhood(center: Node, hops: int, called: set[Graph]) -> set[Node]:
    """The nodes within some hops of a node, in either direction; hops lead into and out of the `called` graphs only."""
    chosen = {center}
    border = [center]
    while border and hops:
        hops -= 1
        reached: list[Node] = []
        for node in border:
            for other in _neighbours(node, called):
                if other not in chosen:
                    chosen.add(other)
                    reached.append(other)
        border = reached
    return chosen


def _neighbours(node: Node, called: set[Graph]) -> Iterator[Node]:
    yield from (used for used, _, _ in _uses(node))
    yield from node.users
    if not called:
        return
    for graph in node.called_graphs:
        if graph in called:
            yield from graph.parameters
            if graph.output is not None:
                yield graph.output
    if node.graph in called and (node.is_output or isinstance(node, Parameter)):
        yield from node.graph.callers


def _uses(node: Node) -> Iterator[tuple[Node, int, EdgeKind]]:
    """What a node uses, with the position and the kind of each use."""
    for port, used in enumerate(node.operands):
        yield used, port, EdgeKind.OPERAND
    if isinstance(node, Apply) and isinstance(node.function, Node):
        yield node.function, 0, EdgeKind.FUNCTION
    if node.attributes.refers:
        predecessors = (referent for referent in node.attributes.referents() if not referent.is_graph)
        for port, used in enumerate(predecessors):
            yield used, port, EdgeKind.CONTROL


def _calls(node: Node) -> Iterator[tuple[Graph, str]]:
    """The computations a node holds, and by which attribute."""
    if not node.attributes.refers:
        yield from ((graph, "value") for graph in node.called_graphs)
        return
    for attribute, value in node.attributes.items():
        if isinstance(value, Graph):
            yield value, attribute
        elif isinstance(value, tuple):
            graphs = (member for member in value if isinstance(member, Graph))
            yield from ((graph, f"{attribute}[{number}]") for number, graph in enumerate(graphs))


def _uncollapsed(module: Module) -> set[Graph]:
    """The graphs that are reached from one that nothing calls, or the entry, without passing through a wrapper."""
    held = {graph for node in module.nodes() for graph in node.called_graphs}
    entry = _entry(module)
    starts = [graph for graph in module.graphs if graph not in held or graph is entry]
    return set(
        reachable(
            starts,
            lambda graph: [
                called for node in graph.nodes if node.opcode not in COLLAPSED for called in node.called_graphs
            ],
        )
    )


def _drawing(
    module: Module, graphs: list[Graph], chosen: set[Node] | None = None, center: Node | None = None
) -> Drawing:
    """Describe the nodes of some graphs: the chosen ones, or all."""
    nodes = [node for graph in graphs for node in (*graph.missing, *graph.nodes) if chosen is None or node in chosen]
    identifiers = identify(nodes)
    describer = Describer(module)
    members: dict[Graph, list[DrawnNode]] = {graph: [] for graph in graphs}
    edges: list[DrawnEdge] = []
    for node in nodes:
        target = identifiers[node]
        is_cut = chosen is not None and any(other not in chosen for other in _neighbours(node, set()))
        members[node.graph].append(describer.describe(node, target, is_cut=is_cut))
        uses = [use for use in _uses(node) if use[0] in identifiers]
        edges += [DrawnEdge(identifiers[used], target, port, edge_kind) for used, port, edge_kind in uses]
    drawn = {graph: members[graph] for graph in graphs if members[graph] or chosen is None}
    return Drawing(
        name=clean(module.name),
        clusters=tuple(_cluster(graph, nodes) for graph, nodes in drawn.items()),
        edges=tuple(edges),
        calls=_drawn_calls(identifiers, drawn),
        center=None if center is None else identifiers[center],
    )


def _drawn_calls(identifiers: dict[Node, str], drawn: Container[Graph]) -> tuple[DrawnCall, ...]:
    return tuple(
        DrawnCall(identifier, clean(graph.name), clean(attribute))
        for node, identifier in identifiers.items()
        for graph, attribute in _calls(node)
        if graph in drawn
    )


def _cluster(graph: Graph, members: list[DrawnNode]) -> DrawnCluster:
    return DrawnCluster(
        name=clean(graph.name),
        nodes=tuple(members),
        node_count=len(graph.nodes) + len(graph.missing),
        is_entry=graph is _entry(graph.module),
        parent=None if graph.parent is None else clean(graph.parent.name),
        execution_thread=graph.execution_thread,
    )


def _entry(module: Module) -> Graph | None:
    """The entry, or nothing of a module that is a fragment."""
    try:
        return module.entry
    except HloomError:
        return None
