"""Extracts a part of a graph as a module."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any

from hloom.autodiff import Emitter
from hloom.ir import Module, Node, Parameter, TensorType, TupleType, post_order, reachable, verify
from hloom.text import HloomError


def leaves_of(outputs: Iterable[Node], given: Container[Node]) -> list[Node]:
    """The given nodes that some nodes of a graph are made of, given ones among them too, each once."""
    reached = reachable(outputs, lambda node: () if node in given else node.operands)
    return [node for node in reached if node in given]


def extract(name: str, outputs: Sequence[Node], given: Sequence[Node]) -> Module:
    """The module that computes some nodes of a graph from others, which are its parameters, in this order.

    Its result is the tuple of `outputs`. What is not needed for them is left out; computations that are called come
    along. Raises HloomError where an output depends on a parameter of the graph that is not given, or is not an array.
    """
    known = frozenset(given)
    needed = reachable(
        [node for node in outputs if node not in known],
        lambda node: [operand for operand in node.operands if operand not in known],
    )
    for node in needed:
        if isinstance(node, Parameter):
            raise HloomError(f"{name} needs {node.name} of {node.graph.name}, which it is not given")
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
    called = [graph for node in nodes for graph in node.called_graphs]
    ordered = post_order(reversed(called), lambda graph: reversed(graph.callees()))
    module.copy_graphs([graph for graph in ordered if graph not in mapping], mapping=mapping)


def result_types(module: Module) -> list[TensorType]:
    """The types of a module's results, which are a tuple of arrays."""
    root_type = module.entry.root.type
    assert isinstance(root_type, TupleType)
    return [element for element in root_type.elements if isinstance(element, TensorType)]
