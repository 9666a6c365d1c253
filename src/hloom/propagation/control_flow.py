"""Instructions that hand values over without computing: tuples, calls, fusions, loops, branches, asynchronous pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hloom.ir import Apply, Graph, Node, Parameter, TensorType, TupleType, Type

if TYPE_CHECKING:
    from hloom.propagation.dataflow import Wiring

Handler = Callable[["Wiring", Apply], bool]
"""Links a node's values; False where it cannot, and the axis map is to say what there is."""


def _tuple(wiring: Wiring, node: Apply) -> bool:
    wiring.values[node] = tuple([leaf for each in node.inputs for leaf in wiring.given(each)])
    return True


def _element(wiring: Wiring, node: Apply) -> bool:
    return _take(wiring, node, node.attributes.get("index"))


def _second(wiring: Wiring, node: Apply) -> bool:
    return _take(wiring, node, 1)


def _first(wiring: Wiring, node: Apply) -> bool:
    return _take(wiring, node, 0)


def _take(wiring: Wiring, node: Apply, index: int | None) -> bool:
    """The node is one element of its operand, under another name."""
    kind = wiring.type_of(node.inputs[0]) if node.inputs else None
    if not isinstance(kind, TupleType) or index is None or not 0 <= index < len(kind.elements):
        return False
    start = sum(_leaf_count(each) for each in kind.elements[:index])
    given = wiring.given(node.inputs[0])
    wiring.values[node] = given[start : start + _leaf_count(kind.elements[index])]
    return True


def _leaf_count(kind: Type) -> int:
    return 1 if isinstance(kind, TensorType) else sum(1 for _ in kind.leaves())


def _operand(wiring: Wiring, node: Apply) -> bool:
    wiring.values[node] = wiring.given(node.inputs[0])
    return True


def _call(wiring: Wiring, node: Apply) -> bool:
    """Operands are the graph's parameters, its output is the result."""
    graphs = called_graphs(node)
    if not graphs or graphs[0].output is None:
        return False
    _hand_over(wiring, node, graphs[0].parameters, node.inputs)
    return wiring.equate(node, wiring.given(graphs[0].root), wiring.fresh(node))


def _conditional(wiring: Wiring, node: Apply) -> bool:
    """Each branch has its operand and yields the result."""
    graphs = called_graphs(node)
    if not graphs or any(graph.output is None for graph in graphs) or len(graphs) != len(node.inputs) - 1:
        return False
    results = wiring.fresh(node)
    for graph, operand in zip(graphs, node.inputs[1:], strict=True):
        _hand_over(wiring, node, graph.parameters, (operand,))
        wiring.equate(node, wiring.given(graph.root), results)
    return True


def _while(wiring: Wiring, node: Apply) -> bool:
    """What the loop is given, what body and condition take, what the body yields and the result are one."""
    graphs = called_graphs(node)
    if len(graphs) != 2 or any(graph.output is None for graph in graphs):
        return False
    body, condition = graphs
    _hand_over(wiring, node, body.parameters, node.inputs)
    state = wiring.given(body.parameters[0])
    wiring.equate(node, state, wiring.given(body.root))
    wiring.equate(node, state, wiring.given(condition.parameters[0]))
    return wiring.equate(node, state, wiring.fresh(node))


def _async_start(wiring: Wiring, node: Apply) -> bool:
    """The result is (operands, outputs, ...)."""
    graphs = called_graphs(node)
    if not graphs or graphs[0].output is None:
        return False
    _hand_over(wiring, node, graphs[0].parameters, node.inputs)
    made = wiring.fresh(node)
    given = [leaf for each in node.inputs for leaf in wiring.given(each)]
    wiring.equate(node, given, made)
    return wiring.equate(node, wiring.given(graphs[0].root), made[len(given) :])


def _copy_start(wiring: Wiring, node: Apply) -> bool:
    """The result is (copy, original, context)."""
    (given,) = wiring.given(node.inputs[0])
    made = wiring.fresh(node)
    wiring.equate(node, (given,), made[:1])
    return wiring.equate(node, (given,), made[1:2])


def _permute_start(wiring: Wiring, node: Apply) -> bool:
    """The result is (original, moved, ...)."""
    if len(node.inputs) != 1:
        return False
    given, made = wiring.given(node.inputs[0]), wiring.fresh(node)
    wiring.equate(node, given, made[: len(given)])
    return wiring.equate(node, given, made[len(given) :])


def _hand_over(wiring: Wiring, node: Node, parameters: Sequence[Parameter], operands: Sequence[Node]) -> None:
    for operand, parameter in zip(operands, parameters, strict=False):
        wiring.equate(node, wiring.given(operand), wiring.given(parameter))


HANDLERS: dict[str, Handler] = {
    "tuple": _tuple,
    "get-tuple-element": _element,
    "call": _call,
    "fusion": _call,
    "while": _while,
    "conditional": _conditional,
    "async-start": _async_start,
    "async-update": _operand,
    "async-done": _second,
    "copy-start": _copy_start,
    "copy-done": _first,
    "collective-permute-start": _permute_start,
    "collective-permute-done": _second,
    "all-reduce-done": _operand,
}


def called_graphs(node: Apply) -> tuple[Graph, ...]:
    """The graphs that run in a node's place, one for each of its handing-overs; none for those applied to elements."""
    attributes = node.attributes
    if node.opcode in ("call", "fusion", "async-start"):
        names = ("to_apply",) if node.opcode == "call" else ("calls",)
    elif node.opcode == "while":
        names = ("body", "condition")
    elif node.opcode == "conditional":
        listed = attributes.get("branch_computations")
        if listed is not None:
            return listed
        names = ("true_computation", "false_computation")
    else:
        return ()
    return tuple(graph for graph in map(attributes.get, names) if isinstance(graph, Graph))
