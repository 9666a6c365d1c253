"""One instruction alone in a module, after the computations it calls: how XLA is asked for one instruction's cost."""

from __future__ import annotations

from typing import Any

from hloom.formats.hlo import PrintOptions, to_text
from hloom.ir import Apply, Graph, Module

ENTRY = "alone"
OPTIONS = PrintOptions(percent=False, metadata=False, sharding=False, signatures=False, canonical_names=True)


def alone(node: Apply) -> str:
    """A module that computes only this node; its operands are parameters."""
    module = Module("alone")
    mapping: dict[Any, Any] = {}
    for graph in _called(node):
        mapping[graph] = module.add_graph(graph.name)
        mapping[graph].copy_nodes(graph.nodes, mapping)
        for original in graph.parameters:
            mapping[original].number = original.number
        mapping[graph].parameters.sort(key=lambda parameter: parameter.number)
        mapping[graph].output = mapping[graph.root]
    entry = module.add_graph(ENTRY)
    module.entry = entry
    for operand in node.operands:
        if operand not in mapping:
            mapping[operand] = entry.add_parameter(operand.type)
    attributes = node.attributes.changed({"control-predecessors": None}).mapped(mapping)
    inputs = [mapping[operand] for operand in node.operands]
    entry.output = entry.add_apply(node.op, inputs, node.type, attributes, "it")
    return to_text(module, OPTIONS)


def _called(node: Apply) -> list[Graph]:
    """The graphs that a node calls and those that they call, callees first."""
    order: dict[Graph, None] = {}
    stack = [(graph, False) for graph in node.called_graphs]
    while stack:
        graph, is_done = stack.pop()
        if is_done:
            order[graph] = None
        elif graph not in order:
            stack.append((graph, True))
            stack += [(called, False) for node in graph.nodes for called in node.called_graphs]
    return list(order)
