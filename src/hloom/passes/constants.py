"""Constants as XLA's simplifier writes them: few numbers in the text, spread out or counted when the program runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hloom.ir import Apply, Attributes, Constant, Graph, Literal, Module, Node, TensorType, Type, infer_type
from hloom.ops import OPS
from hloom.rewrite import Report, array_value, literal_value


def spread_constants(module: Module) -> Report:
    """Make a broadcast of each constant array that holds one number, and an iota of each that counts from nought.

    Where integers are counted in steps, the iota is multiplied; a constant tuple becomes a tuple of constants.
    """
    report = Report("constants")
    module.index_users()
    for graph in module.graphs:
        for node in list(graph.nodes):
            if isinstance(node, Constant) and node.is_used and not node.attributes:
                report.changes += _spread(graph, node)
    return report


def _spread(graph: Graph, node: Constant) -> bool:
    literal = literal_value(node)
    if literal is None:
        return False
    if literal.is_tuple:
        parts = [graph.add_constant(part, part.type, before=node) for part in literal.elements]
        _replace(graph, node, "tuple", parts, node.type)
        return True
    kind = node.type
    if not isinstance(kind, TensorType) or not kind.rank or not kind.is_static or not kind.element_count:
        return False
    if literal.is_splat:
        scalar = _number(graph, node, literal.splat_value(), kind)
        _replace(graph, node, "broadcast", [scalar], kind, dimensions=())
        return True
    step = _step(node, kind)
    if step is None:
        return False
    if step == 1:
        _replace(graph, node, "iota", [], kind, iota_dimension=0)
        return True
    counted = _made(graph, node, "iota", [], kind, iota_dimension=0)
    factor = _made(graph, node, "broadcast", [_number(graph, node, step, kind)], kind, dimensions=())
    _replace(graph, node, "multiply", [counted, factor], kind)
    return True


def _step(node: Constant, kind: TensorType) -> int | None:
    """By how much a row of numbers grows from nought on; None where it does not grow by the same each time."""
    numbers = array_value(node)
    if numbers is None or kind.rank != 1 or not (kind.dtype.is_integer or kind.dtype.is_float):
        return None
    with np.errstate(all="ignore"):
        plain = numbers.astype(object if kind.dtype.is_integer else np.float64)
    step = plain[1]
    if np.signbit(float(plain[0])) or not step or not (kind.dtype.is_integer or step == 1):
        return None
    counted = np.arange(len(plain)).astype(plain.dtype)
    return int(step) if bool((plain == counted * step).all()) else None


def _number(graph: Graph, node: Constant, value: object, kind: TensorType) -> Node:
    scalar = TensorType(kind.dtype)
    return graph.add_constant(Literal.array(scalar, np.asarray(value, kind.dtype.numpy)), scalar, before=node)


def _made(graph: Graph, node: Constant, opcode: str, operands: Sequence[Node], kind: Type, **named: object) -> Apply:
    attributes = Attributes(named)
    types = [each.type for each in operands if each.type is not None]
    found = kind if opcode in ("broadcast", "iota") else infer_type(OPS[opcode], types, named)
    metadata = node.raw_metadata
    return graph.add_apply(OPS[opcode], operands, found, attributes, before=node, metadata=metadata)


def _replace(
    graph: Graph, node: Constant, opcode: str, operands: Sequence[Node], kind: Type | None, **named: object
) -> None:
    assert kind is not None, f"{node!r} has no type"
    made = _made(graph, node, opcode, operands, kind, **named)
    if made.type is not kind:
        graph.set_type(made, kind)
    graph.replace_uses(node, made)
    if not node.is_used:
        graph.erase(node)
