"""Ops that call graphs or pass values on: calls, loops, branches, fusions, tuples, asynchronous pairs, order."""

from __future__ import annotations

from hloom.analysis.counts import ZERO, Cost
from hloom.analysis.rules.fusions import fused_bytes, fused_gather_or_scatter
from hloom.analysis.rules.movement import gather, scatter
from hloom.analysis.rules.table import Application, Inner, moves, nothing, rules
from hloom.analysis.sizes import shape_bytes
from hloom.ir import Apply, Graph

POINTERS = "XLA counts a tuple's pointers, or values that are only passed on"


def _call(application: Application, inner: Inner) -> Cost:
    return inner(application.attribute("to_apply"))


def _async_start(application: Application, inner: Inner) -> Cost:
    return inner(application.attribute("calls"))


def _while(application: Application, inner: Inner) -> Cost:
    return inner.loop(application)


def _conditional(application: Application, inner: Inner) -> Cost:
    costs = [inner(graph) for graph in branches_of(application)]
    return inner.branches(costs) if costs else ZERO


def branches_of(application: Application) -> tuple[Graph, ...]:
    """The graphs of a conditional, in the order of its index; the true one first."""
    listed = application.attributes.get("branch_computations")
    if listed is not None:
        return listed
    pair = (application.attributes.get("true_computation"), application.attributes.get("false_computation"))
    return tuple(graph for graph in pair if graph is not None)


def _map(application: Application, inner: Inner) -> Cost:
    function = inner(application.attribute("to_apply"))
    return function.arithmetic(application.elements) + Cost(bytes_accessed=application.accessed)


def _fusion(application: Application, inner: Inner) -> Cost:
    graph = application.attribute("calls")
    special = fused_gather_or_scatter(graph) if application.attribute("kind") == "kCustom" else None
    if special is not None:
        seen = application_of(special)
        return gather(seen, inner) if special.opcode == "gather" else scatter(seen, inner)
    return inner(graph).arithmetic() + Cost(bytes_accessed=fused_bytes(graph, application.result))


def application_of(node: Apply) -> Application:
    """What a rule sees of a node whose types are written."""
    return Application(node.op, node.operand_types(), node.type, node.attributes, node)


def _tuple(application: Application, inner: Inner) -> Cost:
    return Cost(bytes_accessed=shape_bytes(application.result))


def _custom_call(application: Application, inner: Inner) -> Cost:
    return Cost(flops=-1, bytes_accessed=-1)


rules("call", _call)
rules("map", _map)
rules("while", _while)
rules("conditional", _conditional)
rules("fusion", _fusion)
rules("async-start", _async_start)
rules("get-tuple-element after-all add-dependency domain", nothing)
rules("tuple", _tuple, nothing, because=POINTERS)
rules("opt-barrier async-update async-done", moves, nothing, because=POINTERS)
rules(
    "custom-call",
    _custom_call,
    moves,
    because="XLA counts minus one, for unknown; all that is known is what is handed over",
)
