"""A graph: a function with parameters, ordered nodes and one output; all edits of nodes go through it.

To add an editing method, put it here and build it on `_link`, `_unlink`, `_use` and `_unuse`, which maintain the order
and the users.
"""

# pyright: reportPrivateUsage=false
# graphs, nodes and modules keep each other's links and indices: docs/decisions/011-graph-node-module-cycle.md

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

from hloom.ir.attributes import EMPTY, Attributes, Referent
from hloom.ir.nodes import COMPUTED_CALL, Apply, Constant, Missing, Node, Parameter, node_table, opcode_table
from hloom.ir.schema import Op
from hloom.ir.types import FunctionType, Type
from hloom.text import Display, Displayed, HloomError

if TYPE_CHECKING:
    from hloom.ir.literal import Literal
    from hloom.ir.module import Module

STRIDE = 1 << 16
"""The gap between the order numbers of adjacent nodes after renumbering."""
_NAME = attrgetter("name")


class Graph(Referent, Displayed):
    """A function: name, parameters, nodes in order, one output.

    Made by `Module.add_graph`. `is_declared` marks a graph that the text names but never defines. `parent` is the graph
    that encloses a nested graph; the nested graph may use its nodes as free variables.
    """

    __slots__ = (
        "__weakref__",
        "_callers",
        "_first",
        "_growing",
        "_last",
        "_linked",
        "_names",
        "_nodes",
        "_numbered",
        "_suffixes",
        "execution_thread",
        "is_declared",
        "missing",
        "module",
        "name",
        "output",
        "parameters",
        "parent",
    )
    is_graph: ClassVar[bool] = True

    def __init__(self, name: str, module: Module, parent: Graph | None = None, *, is_declared: bool = False) -> None:
        self.name = name
        self.module = module
        self.parent = parent
        self.is_declared = is_declared
        self.execution_thread: str | None = None
        self.parameters: list[Parameter] = []
        self.missing: list[Missing] = []
        self.output: Node | None = None
        self._nodes: list[Node] | None = []
        self._growing = self._nodes
        self._linked = False
        self._numbered = False
        self._first: Node | None = None
        self._last: Node | None = None
        self._names: dict[str, Node] = {}
        self._suffixes: dict[str, int] = {}
        self._callers: dict[Node, int] = {}

    def __repr__(self) -> str:
        return f"<graph {self.name}: {len(self.nodes)} nodes>"

    def __str__(self) -> str:
        return repr(self)  # one line: messages name graphs

    def display(self) -> Display:
        tables = (
            node_table("parameters", self.parameters),
            node_table("output", [self.output] if self.output is not None else []),
            opcode_table(self.nodes),
            node_table("nodes", self.nodes),
        )
        return Display(repr(self), tables)

    # Looking

    @property
    def nodes(self) -> Sequence[Node]:
        """The nodes in order. A snapshot: later edits do not change the sequence you hold."""
        if self._nodes is None:
            self._nodes = list(self._walk())
        self._growing = None  # a sequence that a caller holds must not change
        return self._nodes

    @property
    def root(self) -> Node:
        """The output node; raises HloomError where there is none yet."""
        if self.output is None:
            raise HloomError(f"graph {self.name} has no output")
        return self.output

    @property
    def type(self) -> FunctionType:
        """Its parameter and result types."""
        return FunctionType([p.type for p in self.parameters], self.output.type if self.output else None)

    @property
    def callers(self) -> tuple[Node, ...]:
        """The nodes that call this graph or hold it as a value, each once."""
        self.module.index_users()
        return tuple(self._callers)

    @property
    def is_called_once(self) -> bool:
        """Whether exactly one node calls this graph or holds it as a value, and does so once."""
        self.module.index_users()
        return len(self._callers) == 1 and self._callers[next(iter(self._callers))] == 1

    def __getitem__(self, name: str) -> Node:
        """The node with this name; raises HloomError, with similar names, if there is none."""
        node = self._names.get(name.lstrip("%"))
        if node is None:
            near = get_close_matches(name, self._names, 3)
            raise HloomError(
                f"graph {self.name} has no node '{name}'", hint=f"near: {', '.join(near)}" if near else None
            )
        return node

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def comes_before(self, first: Node, second: Node) -> bool:
        """Whether one node comes before another; both must be in this graph."""
        if not self._numbered:
            self._thread()
            for number, node in enumerate(self._walk()):
                node._order = number * STRIDE
            self._numbered = True
        return first._order < second._order

    def free_variables(self) -> list[Node]:
        """The nodes of other graphs that this one uses or yields, in order of use: what a closure captures."""
        seen: dict[Node, None] = {}
        for node in self.nodes:
            for used in (*node.operands, *_function(node)):
                if used.graph is not self:
                    seen[used] = None
        if self.output is not None and self.output.graph is not self:
            seen[self.output] = None
        return list(seen)

    def callees(self) -> dict[Graph, None]:
        """The graphs that its nodes call or hold as values, in order of use."""
        holders = [node for node in self.nodes if node.attributes.refers or node.__class__ is Constant]
        return {graph: None for node in holders for graph in node.called_graphs}

    # Making nodes

    def add_parameter(
        self, type: Type | None, name: str = "parameter", attributes: Attributes = EMPTY, metadata: str | None = None
    ) -> Parameter:
        """Add a parameter after the existing ones, at the end of the order."""
        node = Parameter(self.unique_name(name), type, len(self.parameters), attributes, metadata, self)
        self.parameters.append(node)
        self._enter(node, None)
        return node

    def add_constant(
        self,
        value: Literal | Graph | Op,
        type: Type | None,
        name: str = "constant",
        *,
        before: Node | None = None,
        attributes: Attributes = EMPTY,
        metadata: str | None = None,
    ) -> Constant:
        """Add a constant, at the end of the order or before a node."""
        node = Constant(self.unique_name(name), type, value, attributes, metadata, self)
        self._enter(node, before)
        return node

    def add_apply(
        self,
        function: Op | Node,
        operands: Iterable[Node],
        type: Type | None,
        attributes: Mapping[str, Any] = EMPTY,
        name: str | None = None,
        *,
        before: Node | None = None,
        metadata: str | None = None,
    ) -> Apply:
        """Apply an op (or a node that yields a function), at the end of the order or before a node."""
        shared = attributes if isinstance(attributes, Attributes) else Attributes(attributes)
        stem = name or (function.name if isinstance(function, Op) else "call")
        unique = stem if stem not in self._names else free_name(stem, self._names, self._suffixes)
        node = Apply(unique, type, function, tuple(operands), shared, metadata, self)
        self._enter(node, before)
        return node

    def unique_name(self, stem: str) -> str:
        """The stem if it is free, else the stem with a dot and the first free number."""
        return free_name(stem, self._names, self._suffixes)

    # Changing nodes

    def set_operands(self, node: Node, operands: Iterable[Node]) -> None:
        """Replace a node's operands."""
        self._owns(node)
        self._unuse(node)
        node.operands = tuple(operands)
        self._use(node)

    def set_attributes(self, node: Node, attributes: Mapping[str, Any]) -> None:
        """Replace all attributes of a node; use `node.attributes.changed(...)` to keep the others."""
        self._owns(node)
        self._unuse(node)
        node.attributes = attributes if isinstance(attributes, Attributes) else Attributes(attributes)
        self._use(node)

    def set_function(self, node: Apply, function: Op | Node) -> None:
        """Make a node apply another function to the same operands."""
        self._owns(node)
        self._unuse(node)
        self._set_function(node, function)
        self._use(node)

    def set_value(self, node: Constant, value: Literal | Graph | Op) -> None:
        """Replace a constant's value by another of the same type."""
        self._owns(node)
        self._unuse(node)
        node.value = value
        self._use(node)

    def set_type(self, node: Node, type: Type | None) -> None:
        """Replace a node's type."""
        self._owns(node)
        node.type = type

    def set_metadata(self, node: Node, metadata: str | None) -> None:
        """Replace a node's metadata: the text between the braces, as `Metadata.text()` returns it."""
        self._owns(node)
        node.raw_metadata = metadata

    def rename(self, node: Node, name: str) -> None:
        """Rename a node; the name is made unique."""
        self._owns(node)
        del self._names[node.name]
        node.name = self.unique_name(name)
        self._names[node.name] = node

    def set_output(self, node: Node) -> None:
        """Make another node the output (for a closure, it may be a node of an enclosing graph)."""
        self.output = node

    def replace_uses(self, old: Node, replacement: Node) -> None:
        """Replace all uses of a node: as input, as called function, as control predecessor and as output."""
        for user in old.users:
            if not uses_more(user):
                user.operands = tuple([replacement if operand is old else operand for operand in user.operands])
                replacement._users[user] = replacement._users.get(user, 0) + old._users.pop(user)
                continue
            graph = user.graph
            graph._unuse(user)
            user.operands = tuple(replacement if operand is old else operand for operand in user.operands)
            user.attributes = user.attributes.mapped({old: replacement})
            if isinstance(user, Apply) and user.function is old:
                graph._set_function(user, replacement)
            graph._use(user)
        for graph in old.graph._may_yield():
            if graph.output is old:
                graph.output = replacement

    def move_before(self, node: Node, successor: Node) -> None:
        """Move a node before another in the order."""
        self._owns(node)
        self._owns(successor)
        if node is successor:
            return
        self._unlink(node)
        self._link(node, successor)

    def erase(self, node: Node) -> None:
        """Remove a node; raises HloomError if something uses it or it is the output."""
        self._owns(node)
        if node.is_used or (self.module.has_closures and any(graph.output is node for graph in self.module.graphs)):
            users = ", ".join(user.name for user in node.users[:5]) or "the graph, as its output"
            raise HloomError(f"cannot erase {node.name} of graph {self.name}: it is used by {users}")
        if isinstance(node, Missing):
            self.missing.remove(node)
            self._names.pop(node.name, None)
            return
        self._unuse(node)
        self._unlink(node)
        del self._names[node.name]
        if isinstance(node, Parameter):
            self.parameters.remove(node)
            for number, parameter in enumerate(self.parameters):
                parameter.number = number

    def inline(self, call: Node, graph: Graph | None = None, copies: dict[Any, Any] | None = None) -> Node:
        """Replace a call by a copy of the called graph's nodes; returns the node that now computes the call's value.

        `graph` is the called one where the call names several; `copies` is filled with the copy of each node. Raises
        HloomError unless there is one, defined, with as many parameters as the call has operands; also if the call has
        control predecessors, or if that graph has missing names or encloses other graphs, whose captures would be lost.
        """
        called = self._inlined(call, graph)
        result = self.copy_body(called, call.operands, copies, before=call)
        self.replace_uses(call, result)
        self.erase(call)
        return result

    def inline_all(self, calls: Iterable[Node]) -> None:
        """Inline calls as `inline` does, in one pass and without maintaining the index of users, which is dropped."""
        self.module.forget_users()
        waiting = set(calls)
        results: dict[Any, Any] = {}
        nodes: list[Node] = []
        for node in self.nodes:
            if not results.keys().isdisjoint(node.operands):
                node.operands = tuple([results.get(operand, operand) for operand in node.operands])
            if node.attributes.refers:
                node.attributes = node.attributes.mapped(results)
            if node not in waiting:
                nodes.append(node)
                continue
            called = self._inlined(node, None)
            mapping: dict[Any, Any] = dict(zip(called.parameters, node.operands, strict=True))
            for inner in called.nodes:
                if inner not in mapping:
                    copy = mapping[inner] = _copied(inner, self.unique_name(inner.name), mapping, self)
                    self._names[copy.name] = copy
                    nodes.append(copy)
            results[node] = mapping[called.root]
            del self._names[node.name]
        self._nodes = self._growing = nodes
        self._linked = self._numbered = False
        if self.output is not None:
            self.output = results.get(self.output, self.output)

    def _inlined(self, call: Node, graph: Graph | None) -> Graph:
        """The graph to inline for a call; raises HloomError if it cannot be inlined."""
        self._owns(call)
        called = [graph] if graph else call.called_graphs
        if len(called) != 1 or called[0].output is None or len(called[0].parameters) != len(call.operands):
            raise HloomError(f"cannot inline {call!r}: it does not call one defined graph with its operands")
        if any(not referent.is_graph for referent in call.attributes.referents()):
            raise HloomError(f"cannot inline {call!r}: it has control predecessors")
        if called[0].missing or any(nested.parent is called[0] for nested in called[0]._may_yield()):
            raise HloomError(f"cannot inline {call!r}: {called[0].name} has missing names or nested graphs")
        return called[0]

    def copy_nodes(self, nodes: Iterable[Node], mapping: dict[Any, Any], *, before: Node | None = None) -> None:
        """Copy nodes of any graph into this one; `mapping` replaces what they refer to and is extended with the copies.

        Nodes already in the mapping are skipped; names are kept if they are free.
        """
        for node in nodes:
            if node not in mapping:
                self.copy_node(node, mapping, before=before)

    def copy_body(
        self,
        graph: Graph,
        arguments: Iterable[Node],
        mapping: dict[Any, Any] | None = None,
        *,
        before: Node | None = None,
    ) -> Node:
        """Copy the nodes of a graph into this one, as `copy_nodes` does, with arguments in place of its parameters.

        Returns the node that yields what the graph does.
        """
        mapping = {} if mapping is None else mapping
        mapping.update(zip(graph.parameters, arguments, strict=True))
        self.copy_nodes(graph.nodes, mapping, before=before)
        return mapping.get(graph.root, graph.root)

    def copy_node(self, node: Node, mapping: dict[Any, Any], *, before: Node | None = None) -> Node:
        """Copy one node of any graph into this one, as `copy_nodes` does, and return the copy."""
        name = node.name
        if name in self._names:
            name = free_name(name, self._names, self._suffixes)
        copy = mapping[node] = _copied(node, name, mapping, self)
        self._enter(copy, before)
        if isinstance(copy, Parameter):
            self.parameters.append(copy)
        return copy

    def copy_all(self, graph: Graph, mapping: dict[Any, Any]) -> None:
        """Copy the nodes of a graph into this empty one and keep their names, otherwise as `copy_nodes` does."""
        nodes: list[Node] = []
        for node in graph.nodes:
            copy = mapping[node] = _copied(node, node.name, mapping, self)
            nodes.append(copy)
            if isinstance(copy, Parameter):
                self.parameters.append(copy)
        self._names.update(zip(map(_NAME, nodes), nodes, strict=True))
        self._nodes = self._growing = nodes
        if self.module.is_indexed:
            for copy in nodes:
                copy._users = {}
                self._use(copy)

    def keep_only(self, nodes: Container[Node]) -> int:
        """Remove all other nodes, none of which these may use, and return their number. Keep all parameters.

        The index of users is not maintained: call this before `Module.index_users` or after `Module.forget_users`.
        """
        before = self.nodes
        kept = [node for node in before if node in nodes]
        if len(kept) < len(before):
            self._nodes = self._growing = kept
            self._names = {node.name: node for node in (*self.missing, *kept)}
            self._linked = self._numbered = False
        return len(before) - len(kept)

    # The order and the users

    def adopt(self, nodes: list[Node], names: dict[str, Node]) -> None:
        """Take ownership of nodes that a reader made for this graph, in order, with their names."""
        self._nodes = self._growing = nodes
        self._names = names

    def _set_function(self, node: Apply, function: Op | Node) -> None:
        node.function = function
        node.opcode = function.name if isinstance(function, Op) else COMPUTED_CALL

    def _may_yield(self) -> Iterable[Graph]:
        """The graphs whose output may be a node of this one: itself and closures."""
        return self.module.graphs if self.module.has_closures else (self,)

    def _owns(self, node: Node) -> None:
        if node.graph is not self:
            raise HloomError(f"{node.name} belongs to graph {node.graph.name}, not to {self.name}")

    def _enter(self, node: Node, before: Node | None) -> None:
        self._names[node.name] = node
        if before is None and self._growing is not None:
            self._growing.append(node)
        else:
            self._link(node, before)
        if self.module.is_indexed:
            node._users = {}
            self._use(node)

    def _walk(self) -> Iterator[Node]:
        node = self._first
        while node is not None:
            yield node
            node = node._next

    def _thread(self) -> None:
        """Build the linked list of nodes; done once, when the first edit needs it."""
        if self._linked:
            return
        previous: Node | None = None
        for node in self._nodes or ():
            node._previous = previous
            if previous is not None:
                previous._next = node
            previous = node
        if previous is not None:
            previous._next = None
        self._first = self._nodes[0] if self._nodes else None
        self._last = previous
        self._linked = True
        self._growing = None

    def _link(self, node: Node, before: Node | None) -> None:
        self._thread()
        self._nodes = None
        previous = self._last if before is None else before._previous
        node._previous, node._next = previous, before
        if previous is None:
            self._first = node
        else:
            previous._next = node
        if before is None:
            self._last = node
        else:
            before._previous = node
        if self._numbered:
            self._number(node)

    def _number(self, node: Node) -> None:
        low = node._previous._order if node._previous else -STRIDE
        high = node._next._order if node._next else low + 2 * STRIDE
        node._order = (low + high) // 2
        self._numbered = node._order > low

    def _unlink(self, node: Node) -> None:
        self._thread()
        self._nodes = None
        if node._previous is None:
            self._first = node._next
        else:
            node._previous._next = node._next
        if node._next is None:
            self._last = node._previous
        else:
            node._next._previous = node._previous

    def _use(self, node: Node) -> None:
        if not self.module.is_indexed:
            return
        for used in node.operands:
            users = used._users
            users[node] = users.get(node, 0) + 1
        if uses_more(node):
            self._use_more(node)

    def _use_more(self, node: Node) -> None:
        for used in _used_besides_operands(node):
            table = used._callers if used.is_graph else used._users
            table[node] = table.get(node, 0) + 1

    def _unuse(self, node: Node) -> None:
        if not self.module.is_indexed:
            return
        for used in node.operands:
            _take_one(used._users, node)
        for used in _used_besides_operands(node) if uses_more(node) else ():
            _take_one(used._callers if used.is_graph else used._users, node)


def free_name(stem: str, taken: Container[str], suffixes: dict[str, int]) -> str:
    """The stem if it is free, else the stem with a dot and the first free number; `suffixes` holds the next number to
    try per stem.
    """
    if stem not in taken:
        return stem
    base, dot, tail = stem.rpartition(".")
    if not (dot and tail.isdecimal() and tail.isascii()):
        base = stem
    number = suffixes.get(base, 1)
    while (name := f"{base}.{number}") in taken:
        number += 1
    suffixes[base] = number + 1
    return name


def _function(node: Node) -> tuple[Node, ...]:
    if isinstance(node, Apply) and isinstance(node.function, Node):
        return (node.function,)
    return ()


def _take_one(table: dict[Node, int], node: Node) -> None:
    if table[node] == 1:
        del table[node]
    else:
        table[node] -= 1


def uses_more(node: Node) -> bool:
    """Whether a node uses anything besides its operands; few do."""
    if node.attributes.refers:
        return True
    if isinstance(node, Apply):
        return not isinstance(node.function, Op)
    return isinstance(node, Constant) and isinstance(node.value, Graph)


def _used_besides_operands(node: Node) -> Sequence[Any]:
    """The graphs and nodes that a node's attributes hold, that a constant is, or whose value is applied."""
    if isinstance(node, Apply):
        referents = node.attributes.referents() if node.attributes.refers else ()
        return referents if isinstance(node.function, Op) else (*referents, node.function)
    if isinstance(node, Constant):
        return (*node.attributes.referents(), *node.called_graphs)
    return node.attributes.referents()


def _copied(node: Node, name: str, mapping: Mapping[Any, Any], graph: Graph) -> Node:
    attributes, metadata = node.attributes, node.raw_metadata
    if attributes.refers:
        attributes = attributes.mapped(mapping)
    if isinstance(node, Apply):
        function: Any = node.function
        if function.__class__ is not Op:
            function = mapping.get(function, function)
        try:
            operands = tuple(map(mapping.__getitem__, node.operands))
        except KeyError:
            operands = tuple([mapping.get(operand, operand) for operand in node.operands])
        return Apply(name, node.type, function, operands, attributes, metadata, graph)
    if isinstance(node, Parameter):
        return Parameter(name, node.type, len(graph.parameters), attributes, metadata, graph)
    assert isinstance(node, Constant), f"{node!r} cannot be copied"
    value: Any = node.value
    value = mapping.get(value, value) if isinstance(value, Referent) else value
    return Constant(name, node.type, value, attributes, metadata, graph)
