"""Control flow: which computations an instruction calls, and how values pass between them.

Everything here comes from the rows of the ops (`Op.flow`). Liveness, cost, trip counts, sharding propagation and the
planner's canonical form use it: a new opcode that calls computations, or only forwards values, needs nothing but a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from hloom.ir import (
    Apply,
    Arguments,
    ForwardedElement,
    Forwarding,
    Graph,
    Index,
    Node,
    Op,
    OpFlow,
    Runs,
    TupleType,
    Type,
    reachable,
)


class CallSite(NamedTuple):
    """A computation that an instruction calls, how often, and the operands bound to its parameters, in order."""

    computation: Graph
    runs: Runs
    operands: tuple[Node, ...]


class Position(NamedTuple):
    """An element of an instruction's value (XLA: HloPosition)."""

    node: Node
    index: Index = ()


class Phi(NamedTuple):
    """One value under several names: the positions that hold it, and the positions it comes from.

    `back_edges` are the sources that a loop's body yields for the next iteration.

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
    """How values pass through a node; None if it computes a new result."""
    if isinstance(node, Apply):
        function = node.function
        if isinstance(function, Op):
            return function.flow
    return None


def is_control_flow(node: Node) -> bool:
    """Whether a node calls computations that run in its place."""
    flow = flow_of(node)
    return flow is not None and flow.is_control_flow


def is_plain_call(node: Node) -> bool:
    """Whether a node runs one computation once on all its operands and yields its result."""
    flow = flow_of(node)
    return flow is not None and flow.is_plain_call


def is_loop(node: Node) -> bool:
    """Whether a node runs a body any number of times."""
    flow = flow_of(node)
    return flow is not None and flow.is_loop


def is_branch(node: Node) -> bool:
    """Whether a node runs one of several computations."""
    flow = flow_of(node)
    return flow is not None and flow.is_branch


def callees(node: Node) -> list[tuple[Graph, Runs]]:
    """The computations that a node runs, in its row's order, and how often; excludes scalar functions (reducers)."""
    flow = flow_of(node)
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


def graphs_run_by(graph: Graph) -> dict[Graph, None]:
    """A computation and all that it runs."""
    return reachable([graph], lambda member: [called for node in member.nodes for called in called_computations(node)])


def callee_of(node: Node, runs: Runs) -> Graph | None:
    """The first computation that a node runs this often: a loop's body, a call's computation; None if it has none."""
    return next((computation for computation, often in callees(node) if often is runs), None)


def call_sites(node: Node) -> tuple[CallSite, ...]:
    """The computations that a node runs, with the operands that each takes."""
    flow = flow_of(node)
    if flow is None or not flow.callees:
        return ()
    passed = tuple(node.operands[flow.first_operand :])
    if flow.arguments is Arguments.SHARED:
        return tuple([CallSite(computation, runs, passed) for computation, runs in callees(node)])
    called = enumerate(callees(node))
    return tuple([CallSite(computation, runs, passed[number : number + 1]) for number, (computation, runs) in called])


def argument(node: Node, computation: Graph, number: int) -> Node | None:
    """The operand bound to a parameter of a called computation; None if there is none."""
    for site in call_sites(node):
        if site.computation is computation and number < len(site.operands):
            return site.operands[number]
    return None


def initial_state(loop: Node) -> Node:
    """The initial state of a loop; raises IndexError if it has no operand."""
    flow = flow_of(loop)
    return loop.operands[flow.first_operand if flow else 0]


def with_callees(node: Apply, computations: tuple[Graph, ...]) -> dict[str, Graph | tuple[Graph, ...]]:
    """The attributes that hold a node's callees, with these in their place, in the order of `called_computations`."""
    flow, left = node.op.flow or OpFlow(), list(computations)
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

    Empty if a computation or an operand is missing. Parameters without an operand, and operands without a parameter,
    are in no phi.
    """
    flow, sites = flow_of(node), call_sites(node)
    if flow is None or not sites or any(site.computation.output is None for site in sites):
        return []
    if flow.is_loop:
        return _loop_phis(node, sites) if len(sites) == len(flow.callees) else []
    if flow.arguments is Arguments.SEPARATE and len(sites) != len(node.operands) - flow.first_operand:
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
    """The elements of a result that are elements of operands: both positions, and what the elements share."""
    flow = flow_of(node)
    if flow is None:
        return []
    elements: list[tuple[Position, Position, Forwarding]] = []
    for forward in flow.forwards:
        elements += [(target, source, forward.forwarding) for target, source in _positions(node, forward)]
    return elements


def forwarded_from(node: Node, index: Index) -> Position | None:
    """The operand element that an element of a node's value is forwarded from; None if the node computes it."""
    flow = flow_of(node)
    if flow is None or not flow.forwards:
        return None
    forward = flow.forwards[0]
    if not forward.target and forward.source:
        path = resolved(node, forward.source)
        return None if path is None else Position(node.operands[path[0]], (*path[1:], *index))
    for target, source, _ in forwarded(node):
        if index[: len(target.index)] == target.index:
            return Position(source.node, (*source.index, *index[len(target.index) :]))
    return None


def _positions(node: Node, forward: ForwardedElement) -> Iterator[tuple[Position, Position]]:
    if not forward.source:
        value_type = element_type(node.type, forward.target)
        if value_type is not None and not isinstance(value_type, TupleType):
            if forward.forwarding is Forwarding.COPY and len(node.operands) > 1:
                return  # a permutation of slices: its result is the second operand, partly overwritten
            yield from ((Position(node, forward.target), Position(operand)) for operand in node.operands[:1])
            return
        for number, operand in enumerate(node.operands):
            yield Position(node, (*forward.target, number)), Position(operand)
        return
    path = resolved(node, forward.source)
    if path is not None and path[0] < len(node.operands):
        yield Position(node, forward.target), Position(node.operands[path[0]], path[1:])


def resolved(node: Node, source: tuple[int | str, ...]) -> Index | None:
    """A forward's source with attribute values filled in; None if an attribute is not an index."""
    path: list[int] = []
    for part in source:
        index = node.attributes.get(part) if isinstance(part, str) else part
        if not isinstance(index, int):
            return None
        path.append(index)
    return tuple(path)


def element_type(value_type: Type | None, index: Index) -> Type | None:
    """The type of the tuple element at an index, or None if the index is out of range."""
    for number in index:
        if not isinstance(value_type, TupleType) or not 0 <= number < len(value_type.elements):
            return None
        value_type = value_type.elements[number]
    return value_type
