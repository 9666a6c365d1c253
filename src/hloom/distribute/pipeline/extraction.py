"""Extracts a part of a graph as a module."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any

from hloom.autodiff import Emitter
from hloom.ir import Graph, Module, Node, Parameter, TensorType, TupleType, verify
from hloom.text import HloomError


def leaves_of(outputs: Iterable[Node], given: Container[Node]) -> list[Node]:
    """The given nodes that some nodes of a graph are made of, given ones among them too, each once."""
    seen: set[Node] = set()
    leaves: list[Node] = []
    pending = list(outputs)
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        if node in given:
            leaves.append(node)
        else:
            pending += node.operands
    return leaves


def extract(name: str, outputs: Sequence[Node], given: Sequence[Node]) -> Module:
    """The module that computes some nodes of a graph from others, which are its parameters, in this order.

    Its result is the tuple of `outputs`. What is not needed for them is left out; computations that are called come
    along. Raises HloomError where an output depends on a parameter of the graph that is not given, or is not an array.
    """
    known = frozenset(given)
    needed: set[Node] = set()
    pending = [node for node in outputs if node not in known]
    while pending:
        node = pending.pop()
        if node in needed:
            continue
        if isinstance(node, Parameter):
            raise HloomError(f"{name} needs {node.name} of {node.graph.name}, which it is not given")
        needed.add(node)
        pending += [operand for operand in node.operands if operand not in known]
    for node in (*given, *outputs):
        if not isinstance(node.type, TensorType):
            raise HloomError(f"{node.name} ({node.opcode}) is {node.type}: only arrays pass between pipeline stages")
    module = Module(name)
    if outputs:  # what the metadata of its instructions refers to
        module.stack_tables = outputs[0].graph.module.stack_tables
    mapping: dict[Any, Any] = {}
    ordered = [node for node in (outputs[0].graph.nodes if outputs else ()) if node in needed]
    copy_callees(module, ordered, mapping)
    entry = module.add_graph("main")
    module.entry = entry
    for node in given:
        mapping[node] = entry.add_parameter(_plain(node.type), node.name)
    entry.copy_nodes(ordered, mapping)
    entry.set_output(Emitter(entry).tuple([mapping[node] for node in outputs]))
    verify(module)
    return module


def _plain(value_type: Any) -> Any:
    return value_type.with_layout(None)


def copy_callees(module: Module, nodes: Iterable[Node], mapping: dict[Any, Any]) -> None:
    """Copy the graphs that nodes call, callees first."""
    pending: list[tuple[Graph, bool]] = [(graph, False) for node in nodes for graph in node.called_graphs]
    while pending:
        graph, is_opened = pending.pop()
        if graph in mapping:
            continue
        if not is_opened:
            pending.append((graph, True))
            pending += [(callee, False) for callee in graph.callees() if callee not in mapping]
            continue
        copy = module.add_graph(graph.name)
        mapping[graph] = copy
        copy.copy_nodes(graph.nodes, mapping)
        for parameter in graph.parameters:
            mapping[parameter].number = parameter.number
        copy.parameters.sort(key=lambda parameter: parameter.number)
        copy.set_output(mapping[graph.root])


def result_types(module: Module) -> list[TensorType]:
    """The types of a module's results, which are a tuple of arrays."""
    root_type = module.entry.root.type
    assert isinstance(root_type, TupleType)
    return [element for element in root_type.elements if isinstance(element, TensorType)]
