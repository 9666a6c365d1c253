"""Dataflow of a module in canonical form: its computations as one sequence of nodes, and the phis between them.

`hloom.analysis.control_flow` describes how values pass between an instruction and its callees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hloom.analysis import Phi, build_call_graph, callees, find_trip_counts, flow_of, phis
from hloom.ir import Apply, Graph, Module, Node, OpFlow, Runs, TupleType
from hloom.passes import is_loop_or_branch


@dataclass(frozen=True, slots=True)
class PhiInput:
    """A value that passes into a computation, or out of one, where it becomes `phi` and must have the same spec.

    `holder` has the value as its operand `operand_index`; it is None where a computation yields the value alone.
    """

    value: Node
    reader: Node
    phi: Node
    holder: Node | None
    operand_index: int


@dataclass(slots=True)
class _Visit:
    """How far a computation was visited; `is_open` while the computations that its next node calls are visited."""

    nodes: Sequence[Node]
    position: int = 0
    is_open: bool = False


class Dataflow:
    """The nodes of a canonical module, callees before the loop or branch that calls them; each graph runs `times`.

    `phis` are the values that loops carry and branches yield: their specs are decisions, like those of parameters.
    `aliases` maps other names of values to the values, `phi_inputs` are the values that become phis, and `tuples` has
    the elements of tuples passed between computations (None if no array is known for an element). `unknown` are loops
    whose trip count depends on the data: they count once.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.nodes: list[Node] = []
        self.times: dict[Graph, float] = {module.entry: 1.0}
        self.phis: set[Node] = set()
        self.aliases: dict[Node, Node] = {}
        self.phi_inputs: list[PhiInput] = []
        self.tuples: dict[Node, tuple[Node | None, ...]] = {}
        self.unknown: list[Apply] = []
        self._named: dict[str, Node] | None = None
        runs = any(is_loop_or_branch(node) for node in module.entry.nodes)
        self._trips = find_trip_counts(build_call_graph(module), {}) if runs else {}
        self._walk(module.entry)

    def named(self, name: str) -> Node | None:
        """The node of a name: the entry's, else that of the first graph that has one."""
        if self._named is None:
            self._named = {node.name: node for node in reversed(self.nodes)}
            self._named |= {node.name: node for node in self.module.entry.nodes}
        return self._named.get(name)

    def origin(self, node: Node) -> Node:
        """The value that a node is another name of; itself where it is none."""
        while node in self.aliases:
            node = self.aliases[node]
        return node

    def _walk(self, entry: Graph) -> None:
        pending = [_Visit(entry.nodes)]
        while pending:
            visit = pending[-1]
            if visit.position == len(visit.nodes):
                pending.pop()
                continue
            node = visit.nodes[visit.position]
            if is_loop_or_branch(node) and not visit.is_open:
                assert isinstance(node, Apply)
                visit.is_open = True
                pending += [_Visit(graph.nodes) for graph in reversed(self._open(node, node.graph))]
                continue
            visit.position, visit.is_open = visit.position + 1, False
            self._element(node)
            self.nodes.append(node)

    def _element(self, node: Node) -> None:
        """An element of a tuple whose elements are known is that element, also behind a barrier."""
        if node.opcode == "opt-barrier" and (not _is_tuple(node) or node.operands[0].opcode == "tuple"):
            self._alias(node, _given(node.operands[0]))
        elif node.opcode == "get-tuple-element":
            source, index = node.operands[0], node.attributes.get("index", 0)
            known = source.operands if source.opcode == "tuple" else self.tuples.get(source, ())
            value = known[index] if index < len(known) else None
            if value is not None and value is not node:
                self.aliases[node] = value

    def _open(self, node: Apply, graph: Graph) -> Sequence[Graph]:
        """Enter what a node runs: its computations, in the order in which they are walked."""
        flow, called = flow_of(node), callees(node)
        assert flow is not None
        trips = self._trip_count(node) if flow.is_loop else 1
        for computation, runs in called:
            per_run = {Runs.PER_ITERATION: trips, Runs.PER_TEST: trips + 1}.get(runs, 1)
            self.times[computation] = self.times[graph] * per_run
        for phi in phis(node):
            self._join(node, flow, phi)
        return [computation for computation, _ in called]

    def _trip_count(self, loop: Apply) -> int:
        trips = self._trips.get(loop)
        if trips is None or trips.count is None:
            self.unknown.append(loop)
            return 1
        return trips.count

    def _join(self, node: Apply, flow: OpFlow, phi: Phi) -> None:
        """A parameter is its operand; the state of a loop and the result of a branch have specs of their own."""
        first = phi.names[0].node
        if not phi.back_edges and first is not node:
            self._alias(first, _given(phi.sources[0].node))
            return
        values = element_reads(first)
        self.phis.update(value for value in values if value is not None)
        for name in phi.names:
            self._alias(name.node, values)
        for source in phi.sources:
            if phi.back_edges:
                self._pass(source.node, node, values, node, flow.first_operand)
            else:
                self._pass(source.node, node, values, None)
        for source in phi.back_edges:
            self._pass(source.node, source.node if _is_tuple(source.node) else node, values, None)

    def _alias(self, node: Node, values: Sequence[Node | None]) -> None:
        """A node is (a tuple of) values that have names already."""
        if _is_tuple(node):
            self.tuples[node] = tuple(values)
        elif values and values[0] is not None and values[0] is not node:
            self.aliases[node] = values[0]

    def _pass(
        self, value: Node, reader: Node, state: Sequence[Node | None], holder: Node | None, first_operand: int = 0
    ) -> None:
        """A value, or the elements of a tuple, must have the state's specs; `holder` has it as this operand."""
        if value.opcode == "tuple":
            self.tuples[value] = tuple(state)
            holder, first_operand = value, 0
        for operand_index, (given, phi) in enumerate(zip(_given(value), state, strict=False), first_operand):
            if phi is not None:
                self.phi_inputs.append(PhiInput(given, reader, phi, holder, operand_index))


def _is_tuple(value: Node) -> bool:
    return isinstance(value.type, TupleType)


def _given(value: Node) -> Sequence[Node]:
    """The elements of a written tuple; an array itself."""
    return value.operands if value.opcode == "tuple" else (value,)


def element_reads(value: Node) -> tuple[Node | None, ...]:
    """The first node that takes each element of a tuple out, None where nothing does; an array itself."""
    if not isinstance(value.type, TupleType):
        return (value,)
    first: dict[int, Node] = {}
    for user in value.users:
        if user.opcode == "get-tuple-element" and not isinstance(user.type, TupleType):
            index = user.attributes.get("index", 0)
            if index not in first or user.graph.comes_before(user, first[index]):
                first[index] = user
    return tuple(first.get(number) for number in range(len(value.type.elements)))
