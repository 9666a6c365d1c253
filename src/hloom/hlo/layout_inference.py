"""The layouts of types that the text leaves out, as XLA's parser gives them: mostly the first operand's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hloom.ir import Graph, Node, TensorType, TupleType, Type, default_layout, same_shape

_Rule = Callable[[Sequence[Node], Mapping[str, Any]], Type | None]
"""A type with the layouts to take over, from the operands and the attributes."""


def with_layouts(opcode: str, type: Type, inputs: Sequence[Node], attributes: Mapping[str, Any]) -> Type:
    """An inferred type with the layouts that XLA would give it; none where XLA takes the default."""
    if isinstance(type, TensorType) and all(getattr(node.type, "layout", None) is None for node in inputs):
        return type if opcode not in _STRUCTURAL else _merged(type, _RULES[opcode](inputs, attributes))
    rule = _RULES.get(opcode)
    return _merged(type, rule(inputs, attributes)) if rule else type


def _merged(type: Type, model: Type | None) -> Type:
    """The type with the model's layout where they have one rank; elements of tuples one by one."""
    if same_shape(type, model) and model is not None:
        return model
    if isinstance(type, TupleType) and isinstance(model, TupleType) and len(type.elements) == len(model.elements):
        return TupleType([_merged(*pair) for pair in zip(type.elements, model.elements, strict=True)])
    if isinstance(type, TensorType) and isinstance(model, TensorType) and type.rank == model.rank:
        return type.with_layout(model.layout)
    return type


def _operand(position: int) -> _Rule:
    return lambda inputs, _: inputs[position].type


def _operands(inputs: Sequence[Node], _: Mapping[str, Any]) -> Type | None:
    types = [node.type for node in inputs if node.type is not None]
    if len(types) < len(inputs):
        return None
    return TupleType(types)


def _sorted(inputs: Sequence[Node], attributes: Mapping[str, Any]) -> Type | None:
    return inputs[0].type if len(inputs) == 1 else _operands(inputs, attributes)


def _element(inputs: Sequence[Node], attributes: Mapping[str, Any]) -> Type | None:
    type_ = inputs[0].type
    return type_.elements[attributes["index"]] if isinstance(type_, TupleType) else None


def _called(name: str) -> _Rule:
    def rule(_: Sequence[Node], attributes: Mapping[str, Any]) -> Type | None:
        graph = attributes.get(name)
        graph = graph[0] if isinstance(graph, tuple) and graph else graph
        return graph.output.type if isinstance(graph, Graph) and graph.output is not None else None

    return rule


def _conditional(inputs: Sequence[Node], attributes: Mapping[str, Any]) -> Type | None:
    name = "branch_computations" if "branch_computations" in attributes else "true_computation"
    return _called(name)(inputs, attributes)


def _transposed(inputs: Sequence[Node], attributes: Mapping[str, Any]) -> Type | None:
    operand_type, order = inputs[0].type, attributes["dimensions"]
    if not isinstance(operand_type, TensorType):
        return None
    written = operand_type.layout or default_layout(operand_type.rank)
    layout = replace(written, minor_to_major=tuple(order.index(dim) for dim in written.minor_to_major))
    if operand_type.layout is None and layout == written:
        return None
    return TensorType(operand_type.dtype, [operand_type.dims[dimension] for dimension in order], layout)


def _first_of_tuple(inputs: Sequence[Node], _: Mapping[str, Any]) -> Type | None:
    type_ = inputs[0].type
    vector = inputs[1].type
    return TupleType((type_, vector, vector)) if type_ is not None and vector is not None else None


_FIRST = (
    "abs acos acosh add add-dependency and asin asinh atan2 atanh cbrt ceil cholesky compare complex copy cosh cosine "
    "count-leading-zeros divide domain erf exponential exponential-minus-one fft floor imag is-finite log "
    "log-plus-one logistic maximum minimum mulhi multiply negate not or popcnt power real remainder reverse "
    "round-nearest-afz round-nearest-even rsqrt scatter select-and-scatter set-dimension-size shift-left "
    "shift-right-arithmetic shift-right-logical sign sine sinh sqrt subtract tan tanh xor while"
)
_RULES: dict[str, _Rule] = {
    **dict.fromkeys(_FIRST.split(), _operand(0)),
    "batch-norm-training": _first_of_tuple,
    "call": _called("to_apply"),
    "clamp": _operand(1),
    "conditional": _conditional,
    "get-tuple-element": _element,
    "sort": _sorted,
    "transpose": _transposed,
    "tuple": _operands,
}
_STRUCTURAL = frozenset(("call", "conditional", "get-tuple-element", "transpose"))
"""What may have a layout though no operand has one of its own."""
