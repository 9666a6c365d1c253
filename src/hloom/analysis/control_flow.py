"""Control flow: which computations an instruction calls, and how values pass between the two and through the others.

One row per opcode says all of it. Liveness, cost, trip counts, sharding propagation and the planner's canonical form
are derived from the rows: to teach them an opcode that calls computations, or that only forwards values, add a row to
`FLOWS`.

Source: xla/service/call_graph.cc, GetInstructionCallContext; xla/hlo/analysis/hlo_dataflow_analysis.cc,
HloDataflowAnalysis::UpdateInstructionValueSet and what it calls (jaxlib 0.10.2).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from hloom.ir import Apply, Graph, Node, TupleType, Type

Index = tuple[int, ...]
"""A shape index: which element of a tuple, and which of that, and so on; () for an array or a tuple itself."""


class Runs(Enum):
    """How often a computation runs in one run of the instruction that calls it."""

    ONCE = "once"
    PER_ITERATION = "once per iteration of the loop"
    PER_TEST = "once before each iteration of the loop, and once at its end"
    IF_TAKEN = "once if its branch is taken"


class Arguments(Enum):
    """Which operands a callee's parameters take."""

    SHARED = "every callee takes all operands, in order"
    SEPARATE = "the k-th callee takes the k-th operand alone"


class Forwarding(Enum):
    """What an element of a result has of the operand that it is made from."""

    VALUE = "another name of the same value"
    BUFFER = "the same bytes; its type or its sharding may be another"
    COPY = "an equal value in a buffer of its own"

    @property
    def shares_buffer(self) -> bool:
        """Whether the element is in the operand's buffer."""
        return self is not Forwarding.COPY


@dataclass(frozen=True, slots=True)
class Callee:
    """The attribute that holds a computation, or a tuple of them, and how often each of these runs."""

    attribute: str
    runs: Runs = Runs.ONCE


@dataclass(frozen=True, slots=True)
class ForwardedElement:
    """An element of a result that an operand determines.

    `source` is an index into the tuple of all operands, in which a string stands for an attribute's value: (0, 1) is
    element 1 of the first operand, () all operands as a tuple, or the first where the result's element is an array.
    `target` is the index of the result's element.
    """

    source: tuple[int | str, ...]
    target: Index
    forwarding: Forwarding = Forwarding.VALUE


@dataclass(frozen=True, slots=True)
class OpFlow:
    """How values pass through one opcode.

    Operands from `first_operand` on go to the parameters of the callees, as `arguments` says. What a callee yields is
    the result, or its element at `result_index`; a loop's body yields the state for the next iteration, and its
    condition nothing that stays. `is_embedded` says that the callees are part of the instruction (as in a fusion):
    their values have no buffers. `holds_operands` says that operands are in use until the instruction ends, and not
    only until the callees have read them for the last time.
    """

    callees: tuple[Callee, ...] = ()
    arguments: Arguments = Arguments.SHARED
    first_operand: int = 0
    result_index: Index = ()
    is_embedded: bool = False
    holds_operands: bool = False
    forwards: tuple[ForwardedElement, ...] = ()

    is_control_flow: bool = field(init=False)
    """Whether the callees run in the instruction's place, with buffers of their own."""
    is_plain_call: bool = field(init=False)
    """Whether it runs one computation once on all operands, and what that yields is the result."""
    is_loop: bool = field(init=False)
    """Whether a callee runs any number of times, each time on what it yielded before."""
    is_branch: bool = field(init=False)
    """Whether only one of the callees runs."""
    attributes: frozenset[str] = field(init=False)
    """The attributes that hold the callees."""
    names_values: bool = field(init=False)
    """Whether what it forwards are the operands' values or copies, and so have their shardings."""

    def __post_init__(self) -> None:
        runs = [callee.runs for callee in self.callees]
        is_single = runs == [Runs.ONCE] and not (self.first_operand or self.result_index or self.forwards)
        is_buffer = any(forward.forwarding is Forwarding.BUFFER for forward in self.forwards)
        object.__setattr__(self, "is_control_flow", bool(runs) and not self.is_embedded)
        object.__setattr__(self, "is_plain_call", is_single and not self.is_embedded)
        object.__setattr__(self, "is_loop", Runs.PER_ITERATION in runs)
        object.__setattr__(self, "is_branch", Runs.IF_TAKEN in runs)
        object.__setattr__(self, "attributes", frozenset(callee.attribute for callee in self.callees))
        object.__setattr__(self, "names_values", bool(self.forwards) and not is_buffer)


_IF_TAKEN = Runs.IF_TAKEN
_BUFFER, _COPY = Forwarding.BUFFER, Forwarding.COPY

FLOWS: dict[str, OpFlow] = {
    "call": OpFlow((Callee("to_apply"),)),
    "fusion": OpFlow((Callee("calls"),), is_embedded=True),
    "while": OpFlow((Callee("body", Runs.PER_ITERATION), Callee("condition", Runs.PER_TEST))),
    "conditional": OpFlow(
        (
            Callee("branch_computations", _IF_TAKEN),
            Callee("true_computation", _IF_TAKEN),
            Callee("false_computation", _IF_TAKEN),
        ),
        Arguments.SEPARATE,
        first_operand=1,
        holds_operands=True,
    ),
    "async-start": OpFlow(
        (Callee("calls"),), result_index=(1,), holds_operands=True, forwards=(ForwardedElement((), (0,)),)
    ),
    "async-update": OpFlow(forwards=(ForwardedElement((0,), ()),)),
    "async-done": OpFlow(forwards=(ForwardedElement((0, 1), ()),)),
    "copy-start": OpFlow(forwards=(ForwardedElement((0,), (0,), _COPY), ForwardedElement((0,), (1,)))),
    "copy-done": OpFlow(forwards=(ForwardedElement((0, 0), ()),)),
    "collective-permute-start": OpFlow(forwards=(ForwardedElement((), (0,)), ForwardedElement((), (1,), _COPY))),
    "collective-permute-done": OpFlow(forwards=(ForwardedElement((0, 1), ()),)),
    "all-gather-start": OpFlow(forwards=(ForwardedElement((), (0,), _BUFFER),)),
    "all-gather-done": OpFlow(forwards=(ForwardedElement((0, 1), (), _BUFFER),)),
    "all-reduce-done": OpFlow(forwards=(ForwardedElement((0,), ()),)),
    "send": OpFlow(forwards=(ForwardedElement((0,), (0,), _BUFFER),)),
    "send-done": OpFlow(forwards=(ForwardedElement((0, 2), (), _BUFFER),)),
    "recv-done": OpFlow(forwards=(ForwardedElement((0, 0), (0,), _BUFFER),)),
    "tuple": OpFlow(forwards=(ForwardedElement((), ()),)),
    "get-tuple-element": OpFlow(forwards=(ForwardedElement((0, "index"), ()),)),
    "bitcast": OpFlow(forwards=(ForwardedElement((0,), (), _BUFFER),)),
    "opt-barrier": OpFlow(forwards=(ForwardedElement((0,), (), _BUFFER),)),
    "domain": OpFlow(forwards=(ForwardedElement((0,), (), _BUFFER),)),
    "add-dependency": OpFlow(forwards=(ForwardedElement((0,), (), _BUFFER),)),
}
"""How values pass through the opcodes that call computations or forward values; any other makes its result anew."""


class CallSite(NamedTuple):
    """A computation that an instruction calls, how often, and the operands that its parameters take, in order."""

    computation: Graph
    runs: Runs
    operands: tuple[Node, ...]


class Position(NamedTuple):
    """An element of an instruction's value (XLA: HloPosition)."""

    node: Node
    index: Index = ()


class Phi(NamedTuple):
    """One value under several names: the positions that are it, and the positions from which it comes.

    `back_edges` are those sources that a loop's body yields for the next iteration.

    ```
    call         parameter i <- operand i                the call <- what the computation yields
    conditional  parameter of branch k <- operand 1 + k  the conditional <- what each branch yields
    while        the parameters of body and condition, the while <- the operand; back edge: what the body yields
    ```
    """

    names: tuple[Position, ...]
    sources: tuple[Position, ...]
    back_edges: tuple[Position, ...] = ()


def flow_of(node: Node) -> OpFlow | None:
    """The row of a node's opcode; None where it makes its result anew."""
    return FLOWS.get(node.opcode)


def is_control_flow(node: Node) -> bool:
    """Whether a node calls computations that run in its place."""
    flow = FLOWS.get(node.opcode)
    return flow is not None and flow.is_control_flow


def is_plain_call(node: Node) -> bool:
    """Whether a node runs one computation once on all its operands, and yields what that does."""
    flow = FLOWS.get(node.opcode)
    return flow is not None and flow.is_plain_call


def is_loop(node: Node) -> bool:
    """Whether a node runs a body any number of times."""
    flow = FLOWS.get(node.opcode)
    return flow is not None and flow.is_loop


def is_branch(node: Node) -> bool:
    """Whether a node runs one of several computations."""
    flow = FLOWS.get(node.opcode)
    return flow is not None and flow.is_branch


def callees(node: Node) -> list[tuple[Graph, Runs]]:
    """The computations that a node runs, in its row's order, and how often; no functions of elements (reducers)."""
    flow = FLOWS.get(node.opcode)
    if flow is None or not flow.callees:
        return []
    attributes = node.attributes
    called: list[tuple[Graph, Runs]] = []
    for callee in flow.callees:
        value = attributes.get(callee.attribute)
        if type(value) is Graph:
            called.append((value, callee.runs))
        elif type(value) is tuple:
            called += [(computation, callee.runs) for computation in value]
    return called


def called_computations(node: Node) -> tuple[Graph, ...]:
    """The computations that a node runs, in its row's order."""
    return tuple([computation for computation, _ in callees(node)])


def callee_of(node: Node, runs: Runs) -> Graph | None:
    """The first computation that a node runs so often: a loop's body, a call's computation; None where it has none."""
    return next((computation for computation, often in callees(node) if often is runs), None)


def call_sites(node: Node) -> tuple[CallSite, ...]:
    """The computations that a node runs, with the operands that each takes."""
    flow = FLOWS.get(node.opcode)
    if flow is None or not flow.callees:
        return ()
    passed = tuple(node.inputs[flow.first_operand :])
    if flow.arguments is Arguments.SHARED:
        return tuple([CallSite(computation, runs, passed) for computation, runs in callees(node)])
    called = enumerate(callees(node))
    return tuple([CallSite(computation, runs, passed[number : number + 1]) for number, (computation, runs) in called])


def argument(node: Node, computation: Graph, number: int) -> Node | None:
    """The operand that a parameter of a called computation takes; None where there is none."""
    for site in call_sites(node):
        if site.computation is computation and number < len(site.operands):
            return site.operands[number]
    return None


def initial_state(loop: Node) -> Node:
    """The operand from which a loop starts; raises IndexError where there is none."""
    return loop.inputs[FLOWS[loop.opcode].first_operand]


def with_callees(node: Apply, computations: tuple[Graph, ...]) -> dict[str, Graph | tuple[Graph, ...]]:
    """The attributes of a node that hold its callees, changed to hold others, in the order of `called_computations`."""
    flow, left = FLOWS[node.opcode], list(computations)
    changed: dict[str, Graph | tuple[Graph, ...]] = {}
    for callee in flow.callees:
        value = node.attributes.get(callee.attribute)
        if isinstance(value, tuple):
            changed[callee.attribute] = tuple(left[: len(value)])
            del left[: len(value)]
        elif isinstance(value, Graph):
            changed[callee.attribute] = left.pop(0)
    return changed


def phis(node: Node) -> list[Phi]:
    """The values that pass between an instruction and the computations that it calls.

    None where a computation or an operand is missing. Parameters without an operand, and operands without a parameter,
    are in none.
    """
    flow, sites = FLOWS.get(node.opcode), call_sites(node)
    if flow is None or not sites or any(site.computation.output is None for site in sites):
        return []
    if flow.is_loop:
        return _loop_phis(node, sites) if len(sites) == len(flow.callees) else []
    if flow.arguments is Arguments.SEPARATE and len(sites) != len(node.inputs) - flow.first_operand:
        return []
    values = [
        Phi((Position(parameter),), (Position(operand),))
        for site in sites
        for parameter, operand in zip(site.computation.parameters, site.operands, strict=False)
    ]
    yielded = tuple([Position(site.computation.root) for site in sites])
    return [*values, Phi((Position(node, flow.result_index),), yielded)]


def _loop_phis(node: Node, sites: tuple[CallSite, ...]) -> list[Phi]:
    """The state of a loop: the parameters of body and condition, and the result."""
    parameters = [Position(site.computation.parameters[0]) for site in sites if site.computation.parameters]
    yielded = [Position(site.computation.root) for site in sites if site.runs is Runs.PER_ITERATION]
    initial = [Position(operand) for operand in sites[0].operands[:1]]
    return [Phi((*parameters, Position(node)), tuple(initial), tuple(yielded))]


def forwarded(node: Node) -> list[tuple[Position, Position, Forwarding]]:
    """The elements of a result that operands determine: the result's position, the operand's, and what they share."""
    flow = FLOWS.get(node.opcode)
    if flow is None:
        return []
    elements: list[tuple[Position, Position, Forwarding]] = []
    for forward in flow.forwards:
        elements += [(target, source, forward.forwarding) for target, source in _positions(node, forward)]
    return elements


def forwarded_from(node: Node, index: Index) -> Position | None:
    """The operand's element that an element of a node's value is forwarded from; None where the node makes it."""
    flow = FLOWS.get(node.opcode)
    if flow is None or not flow.forwards:
        return None
    forward = flow.forwards[0]
    if not forward.target and forward.source:
        path = resolved(node, forward.source)
        return None if path is None else Position(node.inputs[path[0]], (*path[1:], *index))
    for target, source, _ in forwarded(node):
        if index[: len(target.index)] == target.index:
            return Position(source.node, (*source.index, *index[len(target.index) :]))
    return None


def _positions(node: Node, forward: ForwardedElement) -> Iterator[tuple[Position, Position]]:
    if not forward.source:
        value_type = element_type(node.type, forward.target)
        if value_type is not None and not isinstance(value_type, TupleType):
            if forward.forwarding is Forwarding.COPY and len(node.inputs) > 1:
                return  # a permutation of slices: its result is the second operand, changed in places
            yield from ((Position(node, forward.target), Position(operand)) for operand in node.inputs[:1])
            return
        for number, operand in enumerate(node.inputs):
            yield Position(node, (*forward.target, number)), Position(operand)
        return
    path = resolved(node, forward.source)
    if path is not None and path[0] < len(node.inputs):
        yield Position(node, forward.target), Position(node.inputs[path[0]], path[1:])


def resolved(node: Node, source: tuple[int | str, ...]) -> Index | None:
    """A forward's source with the values of attributes in it; None where an attribute is not an index."""
    path: list[int] = []
    for part in source:
        index = node.attributes.get(part) if isinstance(part, str) else part
        if not isinstance(index, int):
            return None
        path.append(index)
    return tuple(path)


def element_type(value_type: Type | None, index: Index) -> Type | None:
    """The type of an element of a tuple; None where there is no such element."""
    for number in index:
        if not isinstance(value_type, TupleType) or not 0 <= number < len(value_type.elements):
            return None
        value_type = value_type.elements[number]
    return value_type
