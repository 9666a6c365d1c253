"""Decides which asynchronous instructions print in XLA's short form, `slice-start(x), slice={[0:8]}`.

The short form does not name the wrapped computation, so it is only used if reading it recreates that computation: one
op applied to the parameters in order, called from nowhere else, with the names that reading would give, and without
anything that the short form cannot express.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hloom.formats.hlo.async_sugar_reader import (
    OF_THE_PAIR,
    OWN_OPCODES,
    WRAPPED,
    own_attributes,
    parameter_name,
    row_of,
)
from hloom.ir import Apply, Attributes, Graph, Node, Op, TupleType
from hloom.ops import OPS

_START, _UPDATE, _DONE = OPS["async-start"], OPS["async-update"], OPS["async-done"]
_STEPS = {_UPDATE: "-update", _DONE: "-done"}


@dataclass(frozen=True, slots=True)
class ShortForms:
    """The row and attributes that each node prints with, and the computations that are not printed."""

    nodes: dict[Node, tuple[Op, Attributes]] = field(default_factory=dict)
    hidden: set[Graph] = field(default_factory=set)
    graphs: set[Graph] = field(default_factory=set)
    """The graphs that contain such nodes."""


def short_forms(callers: Mapping[Graph, Iterable[Node]]) -> ShortForms:
    """The short forms of a module, from the nodes of each graph that refer to others."""
    forms = ShortForms()
    starts = [node for nodes in callers.values() for node in nodes if _applies(node, _START)]
    if not starts:
        return forms
    uses = Counter(graph for nodes in callers.values() for node in nodes for graph in node.called_graphs)
    for start in starts:
        graph = start.attributes.get("calls")
        if isinstance(graph, Graph) and uses[graph] == 1 and _says_no_more(start, graph):
            inner = graph.root
            outer = {key: value for key, value in start.attributes.items() if key != "calls"}
            first = {key: outer.pop(key) for key in OF_THE_PAIR if key in outer}
            assert isinstance(inner, Apply), "checked before"
            forms.nodes[start] = row_of(inner.op, "-start"), Attributes({**first, **inner.attributes, **outer})
            forms.hidden.add(graph)
            forms.graphs.add(start.graph)
    for graph in forms.graphs:
        _follow(graph, forms)
    return forms


def _follow(graph: Graph, forms: ShortForms) -> None:
    """Find the updates and dones of a start in short form: they are named after the same op."""
    for node in graph.nodes:
        if isinstance(node, Apply) and node.function in _STEPS and node.operands and node.operands[0] in forms.nodes:
            before = forms.nodes[node.operands[0]][0].name
            op = OPS.get(before.removesuffix("-start").removesuffix("-update"))
            if op is None:
                continue  # follow the chain past this update
            forms.nodes[node] = row_of(op, _STEPS[node.op]), node.attributes


def _applies(node: Node, op: Op) -> bool:
    return isinstance(node, Apply) and node.function is op


def _says_no_more(start: Node, graph: Graph) -> bool:
    """Whether reading the short form recreates this computation."""
    root = graph.output
    if graph.is_declared or graph.missing or len(graph.nodes) != len(graph.parameters) + 1:
        return False
    if not isinstance(root, Apply) or not isinstance(root.function, Op) or root.function.name not in OPS:
        return False
    type_ = start.type
    names = [parameter.name for parameter in graph.parameters]
    return (
        graph.name.startswith(WRAPPED)
        and root.name == root.function.name
        and names == [parameter_name(number) for number in range(len(names))]
        and root.function.name not in OWN_OPCODES
        and root.operands == tuple(graph.parameters)
        and root.raw_metadata is None
        and set(root.attributes) <= own_attributes(root.function) - set(OF_THE_PAIR)
        and not any(parameter_.attributes or parameter_.raw_metadata is not None for parameter_ in graph.parameters)
        and graph.execution_thread == start.attributes.get("async_execution_thread")
        and isinstance(type_, TupleType)
        and len(type_.elements) > 1
        and type_.elements[0]
        is TupleType([parameter_.type for parameter_ in graph.parameters if parameter_.type is not None])
        and type_.elements[1] is root.type
    )
