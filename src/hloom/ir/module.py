"""A module: graphs in order, the entry graph and the header."""

# pyright: reportPrivateUsage=false
# graphs, nodes and modules keep each other's links and indices: docs/decisions/011-graph-node-module-cycle.md

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from operator import attrgetter
from typing import Any

from hloom.ir.attributes import EMPTY, Attributes
from hloom.ir.graph import Graph, free_name, uses_more
from hloom.ir.metadata import StackTables
from hloom.ir.nodes import COMPUTED_CALL, Apply, Missing, Node, node_table, opcode_table
from hloom.ir.traversal import reachable
from hloom.text import Display, Displayed, DisplayTable, HloomError


@dataclass(frozen=True, slots=True)
class Unresolved:
    """A name that the text uses but does not define: of a graph, or of a node inside `graph`.

    `referent` says what it should name: a computation or an operand.
    """

    name: str
    referent: str
    graph: str = ""

    def __str__(self) -> str:
        return f"{self.referent} {self.name}" + (f" in {self.graph}" if self.graph else "")


class Module(Displayed):
    """A whole program. Everything in hloom takes or returns modules.

    `attributes` are the header's. `declared` are graphs that are named but not defined; `notes` are warnings from
    reading; `attachments` hold extra contents of a container (a buffer assignment, a snapshot's arguments) by name.
    `source_text` is the text it was read from if that is short and not in a file; errors show its lines. Iterating over
    a module yields its graphs.
    """

    __slots__ = (
        "__weakref__",
        "_entry",
        "_names",
        "_suffixes",
        "attachments",
        "attributes",
        "declared",
        "graphs",
        "has_closures",
        "is_indexed",
        "name",
        "notes",
        "source_name",
        "source_text",
        "stack_tables",
    )

    def __init__(self, name: str = "module", attributes: Mapping[str, Any] = EMPTY) -> None:
        self.name = name
        self.attributes = attributes if isinstance(attributes, Attributes) else Attributes(attributes)
        self.graphs: list[Graph] = []
        self.declared: list[Graph] = []
        self.stack_tables: StackTables | None = None
        self.attachments: dict[str, Any] = {}
        self.notes: list[str] = []
        self.source_name = "<text>"
        self.source_text: str | None = None
        self.is_indexed = False
        self.has_closures = False
        self._entry: Graph | None = None
        self._names: dict[str, Graph] = {}
        self._suffixes: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"<module {self.name}: {len(self.graphs)} graphs, {self.node_count} nodes>"

    def __str__(self) -> str:
        return repr(self)  # one line: messages name modules

    def display(self) -> Display:
        entry = self._entry
        largest = sorted(self.graphs, key=lambda graph: -len(graph.nodes))
        tables = [] if entry is None else [node_table("parameters of the entry", entry.parameters)]
        tables += [
            opcode_table(self.nodes()),
            DisplayTable(
                "graphs, the largest first",
                ("graph", "nodes"),
                ((graph.name, len(graph.nodes)) for graph in largest),
                len(largest),
            ),
            DisplayTable("notes", ("note",), [(note,) for note in self.notes], len(self.notes)),
        ]
        return Display(repr(self), tables, "hloom.inspect(module), hloom.view(module)")

    def __iter__(self) -> Iterator[Graph]:
        return iter(self.graphs)

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def __getitem__(self, name: str) -> Graph:
        """The graph of this name; raises HloomError, with near misses, where there is none."""
        graph = self._names.get(name.lstrip("%"))
        if graph is None:
            near = get_close_matches(name, self._names, 3)
            raise HloomError(
                f"module {self.name} has no graph '{name}'", hint=f"near: {', '.join(near)}" if near else None
            )
        return graph

    @property
    def entry(self) -> Graph:
        """The graph that runs first; raises HloomError where there is none yet."""
        if self._entry is None:
            raise HloomError(f"module {self.name} has no entry graph")
        return self._entry

    @entry.setter
    def entry(self, graph: Graph) -> None:
        self._entry = graph

    def is_entry(self, graph: Graph) -> bool:
        """Whether a graph is the one that runs first; false where there is none yet."""
        return graph is self._entry

    @property
    def has_entry(self) -> bool:
        """Whether it says which graph runs first."""
        return self._entry is not None

    @property
    def node_count(self) -> int:
        """The total number of nodes of all graphs."""
        return sum(len(graph.nodes) for graph in self.graphs)

    @property
    def is_scheduled(self) -> bool:
        """Whether the order of nodes is the order of execution."""
        return bool(self.attributes.get("is_scheduled"))

    @property
    def unresolved(self) -> list[Unresolved]:
        """The names that the text uses but does not define: graphs first, then nodes."""
        graphs = [Unresolved(graph.name, "computation") for graph in self.declared]
        return graphs + [
            Unresolved(node.name, "operand", graph.name) for graph in self.graphs for node in graph.missing
        ]

    def nodes(self) -> Iterator[Node]:
        """Every node of every graph, in order."""
        for graph in self.graphs:
            yield from graph.nodes

    def add_graph(self, name: str, parent: Graph | None = None) -> Graph:
        """Add an empty graph at the end; the name is made unique."""
        graph = Graph(self.unique_graph_name(name), self, parent)
        self.append_graph(graph)
        self.has_closures = self.has_closures or parent is not None
        return graph

    def declare_graph(self, name: str) -> Graph:
        """Add a graph that is called but not defined."""
        graph = Graph(name, self, is_declared=True)
        self.declared.append(graph)
        return graph

    def append_graph(self, graph: Graph) -> None:
        """Append a graph that a reader has filled or that was only declared so far."""
        if graph.is_declared:
            self.declared.remove(graph)
            graph.is_declared = False
        self.graphs.append(graph)
        self._names[graph.name] = graph

    def unique_graph_name(self, stem: str) -> str:
        """The stem, or the stem with the first free number behind a dot."""
        return free_name(stem, self._names, self._suffixes)

    def rename_graph(self, graph: Graph, name: str) -> None:
        """Rename a graph; the name is made unique."""
        wanted = self.unique_graph_name(name)
        del self._names[graph.name]
        graph.name = wanted
        self._names[graph.name] = graph
        for caller in [node for member in self.graphs for node in member.nodes if node.attributes.refers]:
            caller.attributes.text = caller.attributes.parts = None

    def erase_graph(self, graph: Graph) -> None:
        """Remove a graph; raises HloomError if something calls it or it is the entry."""
        callers = [caller for caller in graph.callers if caller.graph is not graph]
        if callers or graph is self._entry:
            users = ", ".join(caller.name for caller in callers[:5]) or "the module, as its entry"
            raise HloomError(f"cannot erase graph {graph.name}: it is used by {users}")
        for node in graph.nodes:
            graph._unuse(node)
        self.graphs.remove(graph)
        del self._names[graph.name]

    def erase_graphs(self, graphs: Iterable[Graph]) -> None:
        """Remove graphs; raises HloomError if another graph calls one of them or one is the entry."""
        gone = dict.fromkeys(graphs)
        for graph in gone:
            if graph is self._entry or any(caller.graph not in gone for caller in graph.callers):
                raise HloomError(f"cannot erase graph {graph.name}: it is used")
        self._drop(gone)

    def _drop(self, graphs: Mapping[Graph, None]) -> None:
        for graph in graphs:
            for node in graph.nodes if self.is_indexed else ():
                graph._unuse(node)
            del self._names[graph.name]
        self.graphs[:] = [graph for graph in self.graphs if graph not in graphs]

    def index_users(self) -> None:
        """Build the index of users; from then on edits maintain it."""
        if self.is_indexed:
            return
        self.is_indexed = True
        graphs = [*self.graphs, *self.declared]
        for graph in graphs:
            graph._callers = {}
            for node in (*graph.nodes, *graph.missing):
                node._users = {}
        for graph in graphs:
            for node in graph.nodes:
                for used in node.operands:
                    users = used._users
                    users[node] = users.get(node, 0) + 1
                is_plain = node.__class__ is Apply and not node.attributes.refers and node.opcode != COMPUTED_CALL
                if not is_plain and uses_more(node):
                    graph._use_more(node)

    def forget_users(self) -> None:
        """Drop the index of users until it is needed again, so that bulk edits need not maintain it."""
        self.is_indexed = False

    def keep_reached(self) -> None:
        """Remove the graphs that the entry does not reach."""
        self.keep_only(reachable([self.entry], _needed_graphs))

    def keep_only(self, graphs: Container[Graph]) -> None:
        """Remove all other graphs, none of which these may call."""
        self._drop(dict.fromkeys(graph for graph in self.graphs if graph not in graphs))

    def clone_graph(self, graph: Graph, name: str | None = None) -> Graph:
        """Copy a graph and the graphs nested in it within this module; other callees are shared."""
        mapping: dict[Any, Any] = {graph: self.add_graph(name or graph.name, graph.parent)}
        family = [graph]
        for nested in tuple(self.graphs) if self.has_closures else ():
            if nested.parent in mapping:
                mapping[nested] = self.add_graph(nested.name, mapping[nested.parent])
                family.append(nested)
        for member in family:
            _copy_graph(member, mapping[member], mapping)
        return mapping[graph]

    def copy_graphs(
        self,
        graphs: Iterable[Graph],
        name: Callable[[Graph], str] = attrgetter("name"),
        mapping: dict[Any, Any] | None = None,
    ) -> dict[Graph, Graph]:
        """Copy graphs, such as another module's, into this one; returns the copy of each.

        `name` gives the name of a copy, made unique. `mapping` replaces what the graphs refer to beside each other and
        their nodes, and is extended with the copies.
        """
        mapping = {} if mapping is None else mapping
        copies = {graph: self.add_graph(name(graph)) for graph in graphs}
        mapping.update(copies)
        for graph, copy in copies.items():
            _copy_graph(graph, copy, mapping)
        return copies

    def take(self, other: Module) -> None:
        """Replace the contents of this module by those of another, which must not be used afterwards."""
        for graph in (*other.graphs, *other.declared):
            graph.module = self
        self.attributes, self.stack_tables = other.attributes, other.stack_tables
        self.graphs, self.declared, self._entry = other.graphs, other.declared, other._entry
        self.is_indexed, self.has_closures = other.is_indexed, other.has_closures
        self._names, self._suffixes = other._names, other._suffixes

    def clone(self) -> Module:
        """A deep copy: it shares nothing that can be edited."""
        copy = Module(self.name, self.attributes)
        copy.stack_tables, copy.source_name = self.stack_tables, self.source_name
        copy.source_text = self.source_text
        copy.attachments, copy.notes = dict(self.attachments), list(self.notes)
        mapping: dict[Any, Any] = {graph: copy.declare_graph(graph.name) for graph in self.declared}
        for graph in self.graphs:
            parent = mapping.get(graph.parent) if graph.parent else None
            mapping[graph] = copy.add_graph(graph.name, parent)
        copy.has_closures = self.has_closures
        for graph in self.graphs:
            _copy_graph(graph, mapping[graph], mapping)
        if self._entry is not None:
            copy.entry = mapping[self._entry]
        return copy


def _needed_graphs(graph: Graph) -> list[Graph]:
    return [*([graph.parent] if graph.parent else []), *graph.callees()]


def _copy_graph(graph: Graph, copy: Graph, mapping: dict[Any, Any]) -> None:
    copy.execution_thread = graph.execution_thread
    for missing in graph.missing:
        mapping[missing] = Missing(missing.name, missing.type, copy)
        copy.missing.append(mapping[missing])
        copy._names[missing.name] = mapping[missing]
    copy.copy_all(graph, mapping)
    for original in graph.parameters:
        mapping[original].number = original.number
    copy.parameters.sort(key=lambda parameter: parameter.number)
    if graph.output is not None:
        copy.output = mapping.get(graph.output, graph.output)
