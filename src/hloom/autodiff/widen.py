"""Converts a module to double precision, in which derivatives are checked."""

from __future__ import annotations

from typing import Any

import numpy as np

from hloom.ir import (
    Apply,
    Attributes,
    Constant,
    FunctionType,
    Literal,
    Module,
    Node,
    TensorType,
    Trait,
    Type,
    dtype,
    infer_types,
    map_leaves,
)
from hloom.ops import with_trait
from hloom.text import Unsupported

WIDER = {
    **{dtype(name): dtype("f64") for name in ("f16", "bf16", "f32")},
    dtype("c64"): dtype("c128"),
}
REFUSED = with_trait(Trait.REPRESENTATION) | {"scaled-dot"}
"""Ops that are about the width of numbers, where they are of floating point."""
_LAPACK = {"lapack_s": "lapack_d", "lapack_c": "lapack_z"}


def in_double_precision(module: Module) -> Module:
    """A copy whose floating-point numbers are f64 and complex ones c128.

    Raises Unsupported where an instruction asks for the bits or the width of narrower ones.
    """
    copy = module.clone()
    infer_types(copy)
    for graph in copy.graphs:
        for node in graph.nodes:
            if node.opcode in REFUSED and _is_narrow(node):
                raise Unsupported(f"{graph.name}: {node.name}: {node.opcode} has no double precision")
        for node in graph.nodes:
            _widen(node)
    layout = copy.attributes.get("entry_computation_layout")
    if isinstance(layout, FunctionType):
        parameters = [None if parameter is None else wide(parameter) for parameter in layout.parameters]
        result = None if layout.result is None else wide(layout.result)
        copy.attributes = copy.attributes.changed(entry_computation_layout=FunctionType(parameters, result))
    return copy


def wide(value_type: Type) -> Type:
    """A type in double precision."""
    return map_leaves(value_type, lambda leaf: _wide_leaf(leaf))


def _wide_leaf(leaf: Type) -> Type:
    if isinstance(leaf, TensorType) and leaf.dtype in WIDER:
        return leaf.with_dtype(WIDER[leaf.dtype])
    return leaf


def _is_narrow(node: Node) -> bool:
    types = [node.type, *node.operand_types()]
    return any(isinstance(value, TensorType) and value.dtype in WIDER for value in types)


def _widen(node: Node) -> None:
    graph = node.graph
    if node.type is not None:
        graph.set_type(node, wide(node.type))
    if isinstance(node, Constant) and node.literal is not None:
        graph.set_value(node, _wide_literal(node.literal))
    if isinstance(node, Apply):
        changes: dict[str, Any] = {}
        constraints = node.attributes.get("operand_layout_constraints")
        if constraints:
            changes["operand_layout_constraints"] = tuple(wide(constraint) for constraint in constraints)
        if node.attributes.get("algorithm"):
            changes["algorithm"] = None
        target = node.attributes.get("custom_call_target")
        if isinstance(target, str) and target[:8] in _LAPACK:
            changes["custom_call_target"] = _LAPACK[target[:8]] + target[8:]
        if changes:
            graph.set_attributes(node, Attributes(node.attributes.changed(changes)))


def _wide_literal(literal: Literal) -> Literal:
    if literal.is_tuple:
        return Literal.tuple([_wide_literal(element) for element in literal.elements])
    value_type = literal.type
    if not isinstance(value_type, TensorType) or value_type.dtype not in WIDER or literal.is_left_out:
        return literal
    made = value_type.with_dtype(WIDER[value_type.dtype])
    if literal.is_splat:
        return Literal.splat(made, np.asarray(literal.splat_value()).astype(made.dtype.numpy))
    return Literal.array(made, literal.numpy().astype(made.dtype.numpy))
