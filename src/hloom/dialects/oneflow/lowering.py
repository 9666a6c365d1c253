"""From OneFlow's ops to HLO's: one function per op, by table."""

from __future__ import annotations

from hloom.dialects.arrays import HloArray, HloBuilder
from hloom.dialects.oneflow import elementwise_lowering, linear_lowering, normalisation_lowering
from hloom.dialects.oneflow.lowering_context import Given, Rule
from hloom.ir import Apply, Graph, Module, Node, Trait, TupleType, legal_name
from hloom.ops import OPS
from hloom.text import Unsupported

TABLE: dict[str, Rule] = {
    **elementwise_lowering.TABLE,
    **normalisation_lowering.TABLE,
    **linear_lowering.TABLE,
}
"""By op: what builds its HLO."""


def lower(module: Module) -> Module:
    """The entry graph of a module of OneFlow's ops, as a module of HLO.

    What a job does not compute is given to it: for each variable, dropout and random_mask_like, in order, a further
    parameter stands behind the job's own (a mask has the type that the op yields it in). Raises Unsupported for an op
    that has no lowering.
    """
    graph = module.entry
    lowered = Module(legal_name(module.name))
    made = Graph(legal_name(graph.name), lowered)
    builder = HloBuilder(made)
    mapping: dict[Node, Node] = {
        parameter: made.add_parameter(parameter.type, legal_name(parameter.name)) for parameter in graph.parameters
    }
    for node in graph.nodes:
        if node not in mapping:
            mapping[node] = _lowered(node, mapping, builder)
    made.set_output(mapping[graph.root])
    lowered.append_graph(made)
    lowered.entry = made
    return lowered


def lower_op(node: Apply) -> Graph:
    """The HLO of one op; its parameters are the op's operands, then what is given to it. Raises as `lower`."""
    lowered = Module(node.opcode)
    made = Graph(legal_name(node.name), lowered)
    parameters: dict[Node, Node] = {operand: made.add_parameter(operand.type) for operand in node.operands}
    made.set_output(_lowered(node, parameters, HloBuilder(made)))
    return made


def _lowered(node: Node, mapping: dict[Node, Node], builder: HloBuilder) -> Node:
    if node.literal is not None:
        return builder.graph.add_constant(node.literal, node.type, legal_name(node.name))
    if not isinstance(node, Apply):
        raise Unsupported(f"{node!r} cannot be lowered: only OneFlow's ops are")
    operands = [mapping[operand] for operand in node.operands]
    if node.has_trait(Trait.TUPLE):
        return _passed(node, operands, builder)
    rule = TABLE.get(node.opcode)
    if rule is None:
        raise Unsupported(f"{node.name}: {node.opcode} has no lowering to HLO")
    result = rule(Given(node, tuple(HloArray(builder, operand) for operand in operands), builder))
    if isinstance(result, HloArray):
        return result.node
    count = len(node.type.elements) if isinstance(node.type, TupleType) else 1
    return builder.op("tuple", *[array.node for array in result[:count]])


def _passed(node: Apply, operands: list[Node], builder: HloBuilder) -> Node:
    """A tuple stays; an element of a tuple that was just made is that element."""
    if node.opcode == "tuple":
        return builder.op("tuple", *operands)
    index = node.attributes["index"]
    whole = operands[0]
    if isinstance(whole, Apply) and whole.function is OPS["tuple"]:
        return whole.operands[index]
    return builder.op("get-tuple-element", whole, index=index)
