"""Closure conversion: makes graphs with free variables first-order by passing these in (lambda lifting, Johnsson 1985).
Branches take them in a tuple, loops carry them, calls pass them as additional arguments.

Only what a result needs is kept; constants are copied rather than passed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hloom.autodiff import Emitter
from hloom.functions.recursion import lower_recursion
from hloom.ir import Constant, Graph, Module, Node, Parameter, TupleType
from hloom.ops import OPS

DEFAULT_DEPTH = 1024
"""How deep a recursion may go at first; the program is made anew, deeper, where that was not enough."""


def first_order(
    module: Module,
    graph: Graph,
    *,
    depth: int = DEFAULT_DEPTH,
    recursive: dict[Graph, tuple[int, int, int]] | None = None,
) -> tuple[Module, list[Node]]:
    """A module whose entry is a closed copy of a graph, and the nodes outside that are its further parameters.

    `recursive` says of graphs that call themselves which result and which parameter hold the number of an error, and
    which number stands for a stack that is too small.
    """
    conversion = _Conversion(module, graph)
    made, captured = conversion.run()
    table = {conversion.copies[known]: row for known, row in (recursive or {}).items() if known in conversion.copies}
    lower_recursion(made, table, depth)
    return made, captured


def prune(module: Module) -> None:
    """Erase the graphs that the entry does not reach and the nodes that nothing needs, closures included."""
    conversion = _Conversion(module, module.entry)
    conversion.reach()
    kept = conversion.live
    dropped = [graph for graph in module.graphs if graph not in kept]
    for graph in dropped:
        graph.output = None
        for node in reversed(graph.nodes):
            graph.set_attributes(node, {})
            graph.set_operands(node, ())
    idle: list[tuple[Graph, Node]] = []
    for graph, nodes in kept.items():
        needed = set(nodes)
        idle += [(graph, node) for node in reversed(graph.nodes) if node not in needed]
    for graph, node in idle:
        graph.set_attributes(node, {})
        graph.set_operands(node, ())
    for graph, node in idle:
        graph.erase(node)
    for graph in dropped:
        module.erase_graph(graph)


class _Conversion:
    """The conversion of one graph and all that it reaches."""

    def __init__(self, module: Module, entry: Graph) -> None:
        self.module = module
        self.entry = entry
        self.live: dict[Graph, list[Node]] = {}
        self.called: dict[Graph, list[Graph]] = {}
        self.free: dict[Graph, dict[Node, None]] = {}
        self.constants: dict[Graph, dict[Node, None]] = {}
        self.copies: dict[Graph, Graph] = {}
        self.target = Module(module.name)
        self.mapping: dict[Any, Any] = {}

    def run(self) -> tuple[Module, list[Node]]:
        self.reach()
        self._find_free()
        for graph in self.live:
            made = self.target.add_graph(self.target.unique_graph_name(graph.name))
            self.copies[graph] = self.mapping[graph] = made
        self.target.entry = self.copies[self.entry]
        branches, loops = self._roles()
        for graph in self.live:
            self._copy(graph, graph in branches, loops.get(graph))
        return self.target, list(self.free[self.entry])

    def reach(self) -> None:
        """The graphs that are called, and of each the nodes that the entry's output needs, in graphs within it too."""
        needed: set[Node] = set()
        stack: list[Node] = []
        graphs: dict[Graph, None] = {}

        def reach(graph: Graph) -> None:
            if graph not in graphs:
                graphs[graph] = None
                stack.append(graph.root)
                stack.extend(node for node in graph.nodes if node.attributes.get("custom_call_has_side_effect"))

        reach(self.entry)
        while stack:
            node = stack.pop()
            if node in needed:
                continue
            needed.add(node)
            stack.extend(node.operands)
            for called in node.called_graphs:
                reach(called)
        for graph in graphs:
            self.live[graph] = [node for node in graph.nodes if node in needed or isinstance(node, Parameter)]
            self.called[graph] = [called for node in self.live[graph] for called in node.called_graphs]

    def _find_free(self) -> None:
        """Which nodes of others each graph needs, its own calls included: a fixed point over the calls."""
        callers: dict[Graph, list[Graph]] = {graph: [] for graph in self.live}
        for graph, nodes in self.live.items():
            self.free[graph] = {}
            self.constants[graph] = {}
            for node in (*nodes, _Yield(graph)):
                for used in node.operands:
                    if used.graph is not graph:
                        (self.constants if isinstance(used, Constant) else self.free)[graph][used] = None
            for called in self.called[graph]:
                callers[called].append(graph)
        pending = list(self.live)
        waiting = set(pending)
        while pending:
            graph = pending.pop()
            waiting.discard(graph)
            for caller in callers[graph]:
                known = self.free[caller]
                before = len(known)
                known.update((node, None) for node in self.free[graph] if node.graph is not caller)
                if len(known) != before and caller not in waiting:
                    waiting.add(caller)
                    pending.append(caller)

    def _roles(self) -> tuple[set[Graph], dict[Graph, tuple[Node, ...]]]:
        """Which graphs are branches without parameters, and which are parts of loops, with what these carry more."""
        branches: set[Graph] = set()
        loops: dict[Graph, tuple[Node, ...]] = {}
        for nodes in self.live.values():
            for node in nodes:
                if node.opcode == "conditional" and len(node.operands) == 1:
                    branches.update(node.called_graphs)
                elif node.opcode == "while":
                    parts = list(node.called_graphs)
                    carried = tuple({used: None for part in parts for used in self.free[part]})
                    for part in parts:
                        loops[part] = carried
        return branches, loops

    def _copy(self, graph: Graph, is_branch: bool, carried: tuple[Node, ...] | None) -> None:
        made = self.copies[graph]
        mapping = self.mapping
        emitter = Emitter(made)
        saved = {node: mapping.get(node) for node in (*self.free[graph], *self.constants[graph])}
        free = list(self.free[graph])
        if is_branch:
            parameter = made.add_parameter(TupleType([node.known_type for node in free]), "captured")
            for number, node in enumerate(free):
                mapping[node] = emitter.element(parameter, number)
        elif carried is not None:
            (state,) = graph.parameters
            assert isinstance(state.type, TupleType)
            own = list(state.type.elements)
            parameter = made.add_parameter(TupleType([*own, *[node.known_type for node in carried]]), state.name)
            mapping[state] = parameter
            for number, node in enumerate(carried):
                mapping[node] = emitter.element(parameter, len(own) + number)
        else:
            for parameter in graph.parameters:
                made.copy_nodes([parameter], mapping)
            for node in free:
                mapping[node] = made.add_parameter(node.known_type, node.name)
        for constant in self.constants[graph]:
            mapping.pop(constant, None)
        made.copy_nodes(self.constants[graph], mapping)
        for node in self.live[graph]:
            if not isinstance(node, Parameter):
                self._copy_node(node, made, emitter)
        root = mapping[graph.root]
        if carried and isinstance(graph.root.type, TupleType):
            elements = [emitter.element(root, number) for number in range(len(graph.root.type.elements))]
            root = emitter.tuple([*elements, *(mapping[node] for node in carried)])
        made.set_output(root)
        for node, former in saved.items():
            if former is None:
                del mapping[node]
            else:
                mapping[node] = former
        if carried:
            for node in carried:
                if node not in saved and mapping.get(node) is not None and mapping[node].graph is made:
                    del mapping[node]

    def _copy_node(self, node: Node, made: Graph, emitter: Emitter) -> None:
        mapping = self.mapping
        called = list(node.called_graphs)
        if node.opcode == "conditional" and len(node.operands) == 1:
            operands = [emitter.tuple([mapping[used] for used in self.free[branch]]) for branch in called]
            attributes = node.attributes.mapped(mapping)
            mapping[node] = made.add_apply(
                OPS["conditional"], [mapping[node.operands[0]], *operands], node.type, attributes, node.name,
                metadata=node.raw_metadata,
            )  # fmt: skip
            return
        extra = list({used: None for graph in called for used in self.free[graph]})
        if node.opcode == "while" and extra:
            state = node.operands[0]
            assert isinstance(state.type, TupleType)
            elements = [emitter.element(mapping[state], number) for number in range(len(state.type.elements))]
            whole = emitter.tuple([*elements, *(mapping[used] for used in extra)])
            loop = made.add_apply(
                OPS["while"], [whole], whole.type, node.attributes.mapped(mapping), node.name,
                metadata=node.raw_metadata,
            )  # fmt: skip
            mapping[node] = emitter.tuple([emitter.element(loop, number) for number in range(len(elements))])
            return
        if node.opcode == "call" and extra:
            operands = [*(mapping[used] for used in node.operands), *(mapping[used] for used in self.free[called[0]])]
            mapping[node] = made.add_apply(
                OPS["call"], operands, node.type, node.attributes.mapped(mapping), node.name, metadata=node.raw_metadata
            )
            return
        if node.opcode == "get-tuple-element" and mapping[node.operands[0]].opcode == "tuple":
            mapping[node] = mapping[node.operands[0]].operands[node.attributes["index"]]
            return
        made.copy_nodes([node], mapping)


class _Yield:
    """What a graph yields, as a use of it."""

    def __init__(self, graph: Graph) -> None:
        self.operands: Sequence[Node] = (graph.root,)
