"""The canonical form of constants: splats as broadcasts, progressions as iotas, tuples as tuples of constants.

Follows XLA's xla/hlo/transforms/simplifiers/algebraic_simplifier.cc (HandleConstant).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hloom.ir import Apply, Attributes, Constant, Graph, Literal, Module, Node, TensorType, Type, infer_type
from hloom.ops import OPS, fixed_form
from hloom.rewrite import Report, array_value, literal_value


def canonicalize_constants(module: Module) -> Report:
    """Turn constant arrays with one value into broadcasts, and arrays that count up from zero into iotas.

    For integers in steps other than 1 the iota is multiplied; a constant tuple becomes a tuple of constants.
    """
    report = Report("constants")
    touched = report.touched = set[Node]()
    module.index_users()
    for graph in module.graphs:
        if fixed_form(graph):
            continue
        for node in list(graph.nodes):
            if isinstance(node, Constant) and node.is_used and not node.attributes:
                made = _canonicalize(graph, node)
                if made is not None:
                    report.changes += 1
                    touched.add(made)
    return report


def _canonicalize(graph: Graph, node: Constant) -> Node | None:
    """The replacement of a constant; None if it stays."""
    literal = literal_value(node)
    if literal is None:
        return None
    if literal.is_tuple:
        parts = [graph.add_constant(part, part.type, before=node) for part in literal.elements]
        return _replace(graph, node, "tuple", parts, node.type)
    node_type = node.type
    if (
        not isinstance(node_type, TensorType)
        or not node_type.rank
        or not node_type.is_static
        or not node_type.element_count
    ):
        return None
    if literal.is_splat:
        scalar = _number(graph, node, literal.splat_value(), node_type)
        return _replace(graph, node, "broadcast", [scalar], node_type, dimensions=())
    step = _step(node, node_type)
    if step is None:
        return None
    if step == 1:
        return _replace(graph, node, "iota", [], node_type, iota_dimension=0)
    counted = _made(graph, node, "iota", [], node_type, iota_dimension=0)
    factor = _made(graph, node, "broadcast", [_number(graph, node, step, node_type)], node_type, dimensions=())
    return _replace(graph, node, "multiply", [counted, factor], node_type)


def _step(node: Constant, array_type: TensorType) -> int | None:
    """The step of an arithmetic progression from zero; None if the constant is not one."""
    numbers = array_value(node)
    if numbers is None or array_type.rank != 1 or not (array_type.dtype.is_integer or array_type.dtype.is_float):
        return None
    with np.errstate(all="ignore"):
        plain = numbers.astype(object if array_type.dtype.is_integer else np.float64)
    step = plain[1]
    if np.signbit(float(plain[0])) or not step or not (array_type.dtype.is_integer or step == 1):
        return None
    counted = np.arange(len(plain)).astype(plain.dtype)
    return int(step) if bool((plain == counted * step).all()) else None


def _number(graph: Graph, node: Constant, value: object, array_type: TensorType) -> Node:
    scalar = TensorType(array_type.dtype)
    return graph.add_constant(Literal.array(scalar, np.asarray(value, array_type.dtype.numpy)), scalar, before=node)


def _made(
    graph: Graph, node: Constant, opcode: str, operands: Sequence[Node], value_type: Type, **named: object
) -> Apply:
    attributes = Attributes(named)
    types = [operand.type for operand in operands if operand.type is not None]
    result_type = value_type if opcode in ("broadcast", "iota") else infer_type(OPS[opcode], types, named)
    metadata = node.raw_metadata
    return graph.add_apply(OPS[opcode], operands, result_type, attributes, before=node, metadata=metadata)


def _replace(
    graph: Graph, node: Constant, opcode: str, operands: Sequence[Node], value_type: Type | None, **named: object
) -> Node:
    assert value_type is not None, f"{node!r} has no type"
    made = _made(graph, node, opcode, operands, value_type, **named)
    if made.type is not value_type:
        graph.set_type(made, value_type)
    graph.replace_uses(node, made)
    if not node.is_used:
        graph.erase(node)
    return made
