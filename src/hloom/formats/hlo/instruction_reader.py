"""Reads one instruction token by token: the whole grammar, and errors with their places."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hloom.formats.hlo.async_sugar_reader import read_sugar
from hloom.formats.hlo.attribute_reader import read_attributes
from hloom.formats.hlo.line_memos import LEAF_ROW
from hloom.formats.hlo.literal_reader import read_literal
from hloom.formats.hlo.reader_state import ComputationState
from hloom.formats.hlo.reserved_words import check_name
from hloom.formats.hlo.strict_checks import call_problem, check_call, count_problem
from hloom.formats.hlo.tokens import NAME, read_integer
from hloom.formats.hlo.type_reader import read_type
from hloom.ir import (
    EMPTY,
    Apply,
    Attributes,
    Constant,
    Graph,
    Literal,
    Missing,
    Node,
    Op,
    Parameter,
    TensorType,
    Trait,
    TupleType,
    Type,
    TypeProblem,
    default_layout,
    infer_type,
    same_shape,
)
from hloom.ops import OPS, unknown_op, with_trait
from hloom.text import Cursor

DEEPEST = 10_000
"""The maximum nesting depth of operands; XLA's own parser overflows its stack somewhat above this."""

OPCODE = re.compile(r"[a-z][a-z0-9-]*+(?=\s*\()")
_ROOT = re.compile(r"ROOT(?![A-Za-z0-9_.=-])")
_TYPE_FOLLOWS = re.compile(r"[a-z][a-z0-9]*\s*\[|\(|b\s*\(\s*[a-z][a-z0-9]*\s*\[")
_ELEMENT_INDEX = re.compile(r"#\s*([0-9]+)")
_PLAIN_OPERANDS = re.compile(r"(%?[A-Za-z_][A-Za-z0-9_.-]*+(?:, %?[A-Za-z_][A-Za-z0-9_.-]*+)*+)\)")
_DEFINITION = re.compile(r"(?:ROOT\s+)?%?([A-Za-z_][A-Za-z0-9_.-]*+)\s*=(?=\s)")


@dataclass(slots=True)
class _Call:
    """An instruction whose operands are being read."""

    type: Type | None
    opcode: str
    start: int
    operands: list[Node] = field(default_factory=list)


def read_instruction(cursor: Cursor, body: ComputationState) -> None:
    """Read `ROOT name = type opcode(operands), attributes` as the next node of the body."""
    if cursor.at(",") and body.nodes:
        _reopen(cursor, body)
    start = cursor.skip()
    is_root = bool(_ROOT.match(cursor.text, start, cursor.end))
    if is_root:
        cursor.position += 4
        if body.root is not None:
            raise cursor.error(f"{body.graph.name} has a second ROOT; the first is {body.root.name}", start)
    position = cursor.skip()
    name = cursor.read(NAME, "an instruction's name")[1]
    if body.reader.strict:
        check_name(cursor, name, position)
    if cursor.text.startswith("=", cursor.position) and not cursor.text.startswith("%", position):
        raise cursor.error(f"a space is needed between '{name}' and '='", position)
    cursor.expect("=", f"after the name '{name}'")
    node = read_expression(cursor, body, name, position)
    if is_root:
        body.root = node


def _reopen(cursor: Cursor, body: ComputationState) -> None:
    """A line that starts with a comma continues the previous instruction: read that again, from its start."""
    last = body.nodes[-1]
    at = cursor.text.rfind(last.name, 0, cursor.position)
    while at > 0:
        line = cursor.text.rfind("\n", 0, at) + 1
        match = _DEFINITION.match(cursor.text, Cursor(cursor.source, line).skip())
        if match and match[1] == last.name:
            body.forget(last)
            cursor.position = match.start()
            return
        at = cursor.text.rfind(last.name, 0, at)
    raise cursor.error("no instruction goes on here")


def read_expression(cursor: Cursor, body: ComputationState, name: str, position: int) -> Node:
    """Read `type opcode(operands), attributes` and add it to the body under this name."""
    type_ = _read_optional_type(cursor)
    start = cursor.skip()
    opcode = cursor.read(OPCODE, "an opcode and '('")[0]
    cursor.expect("(")
    if opcode in _LEAF_READERS:
        node: Node = _LEAF_READERS[opcode](cursor, body, name, type_)
    else:
        op = OPS.get(opcode)
        inputs = read_operands(cursor, body)
        if op is None:
            sugar = read_sugar(cursor, body, opcode, name, type_, inputs, start)
            op = None if sugar else _unknown(cursor, body, opcode, start)
            node = sugar or _apply(cursor, body, name, type_, op, inputs, start)  # type: ignore[arg-type]
        else:
            node = _apply(cursor, body, name, type_, op, inputs, start)
    if isinstance(body.names.get(name), Missing):
        raise cursor.error(f"'{name}' is used in {body.graph.name} before it is defined here", position)
    if name in body.names:
        raise cursor.error(f"'{name}' is already defined in {body.graph.name}", position)
    body.names[name] = node
    body.nodes.append(node)
    return node


def read_operands(cursor: Cursor, body: ComputationState) -> tuple[Node, ...]:
    """Read operands up to the closing parenthesis: names, typed names, tuple elements, nested instructions."""
    plain = _PLAIN_OPERANDS.match(cursor.text, cursor.position, cursor.end)
    if plain:
        inputs = [body.names.get(name) for name in plain[1].replace("%", "").split(", ")]
        if None not in inputs:
            cursor.position = plain.end()
            return tuple(inputs)  # type: ignore[arg-type]
    stack = [_Call(None, "", cursor.position)]
    while True:
        call = stack[-1]
        if cursor.accept(")"):
            stack.pop()
            if not stack:
                return tuple(call.operands)
            stack[-1].operands.append(_nested(cursor, body, call))
        else:
            opened = _read_operand(cursor, body, call)
            if opened is not None:
                if len(stack) > DEEPEST:
                    raise cursor.error(f"operands nest deeper than {DEEPEST}", call.start)
                stack.append(opened)
                continue
        if not cursor.accept(",") and not cursor.at(")"):
            raise cursor.error(f"expected ',' or ')' among the operands, found {cursor.next_token()}")


def _read_operand(cursor: Cursor, body: ComputationState, call: _Call) -> _Call | None:
    """Read one operand and append it to the call; returns the nested instruction if one begins here."""
    start = cursor.skip()
    type_ = _read_optional_type(cursor)
    opcode = cursor.match(OPCODE)
    if opcode:
        cursor.expect("(")
        if opcode[0] in _LEAF_READERS:
            call.operands.append(_nested_leaf(cursor, body, opcode[0], type_))
            return None
        return _Call(type_, opcode[0], start)
    if type_ is not None and body.operands_become_parameters and cursor.peek() in (",", ")"):
        call.operands.append(
            body.resolve(cursor, body.unused_name(f"_{len(body.parameters_of_operands)}"), type_, start)
        )
        return None
    position = cursor.skip()
    name = cursor.read(NAME, "an operand")[1]
    node = body.resolve(cursor, name, None if cursor.at("#") else type_, position)
    if body.reader.strict and cursor.at("#"):
        raise cursor.error("elements of tuples as operands ('name#0') are newer than what XLA's parser reads here")
    while element := cursor.match(_ELEMENT_INDEX):
        node = _element(cursor, body, node, int(element[1][:9]), position)
    if node.type is None:
        node.type = type_
    call.operands.append(node)
    return None


def _element(cursor: Cursor, body: ComputationState, node: Node, index: int, position: int) -> Node:
    """Read `name#1`, a tuple element, as a separate get-tuple-element."""
    array_type = node.type
    if array_type is not None and not (isinstance(array_type, TupleType) and index < len(array_type.elements)):
        raise cursor.error(f"{node.name} is {array_type}: it has no element {index}", position)
    type_ = array_type.elements[index] if isinstance(array_type, TupleType) else None
    name = body.unused_name(f"{node.name}.{index}")
    return _enter(
        body, Apply(name, type_, OPS["get-tuple-element"], (node,), Attributes(index=index), None, body.graph)
    )


def _nested(cursor: Cursor, body: ComputationState, call: _Call) -> Node:
    op = OPS.get(call.opcode) or _unknown(cursor, body, call.opcode, call.start)
    name = body.unused_name(f"{call.opcode}.anon")
    if body.reader.strict:
        check_call(cursor, op, call.type, call.operands, EMPTY, call.start)
    elif problem := count_problem(op, len(call.operands)):
        raise cursor.error(problem, call.start)
    type_ = call.type or _inferred(cursor, body, op, call.operands, EMPTY, call.start)
    return _enter(body, Apply(name, type_, op, tuple(call.operands), EMPTY, None, body.graph))


def _nested_leaf(cursor: Cursor, body: ComputationState, opcode: str, type_: Type | None) -> Node:
    """Read a parameter or constant among the operands; it has no attributes."""
    name = body.unused_name(f"{opcode}.anon")
    if opcode == "parameter":
        return _enter(body, Parameter(name, type_, _parameter_number(cursor, body, type_), EMPTY, None, body.graph))
    literal, type_ = _literal(cursor, type_)
    return _enter(body, Constant(name, type_, literal, EMPTY, None, body.graph))


def _enter(body: ComputationState, node: Node) -> Node:
    body.names[node.name] = node
    body.nodes.append(node)
    return node


def _read_optional_type(cursor: Cursor) -> Type | None:
    if not _TYPE_FOLLOWS.match(cursor.text, cursor.skip(), cursor.end):
        return None
    return read_type(cursor)


def _read_parameter(cursor: Cursor, body: ComputationState, name: str, type_: Type | None) -> Parameter:
    number = _parameter_number(cursor, body, type_)
    attributes, metadata = read_attributes(cursor, LEAF_ROW, body)
    return Parameter(name, type_, number, attributes, metadata, body.graph)


def _parameter_number(cursor: Cursor, body: ComputationState, type_: Type | None) -> int:
    start = cursor.skip()
    number = read_integer(cursor, "the parameter's number")
    if type_ is None and body.reader.strict:
        raise cursor.error("a parameter needs a type", start)
    if not 0 <= number < 2**31:
        raise cursor.error(f"a parameter's number cannot be {number}", start)
    cursor.expect(")")
    return number


def _read_constant(cursor: Cursor, body: ComputationState, name: str, type_: Type | None) -> Constant:
    literal, type_ = _literal(cursor, type_)
    attributes, metadata = read_attributes(cursor, LEAF_ROW, body)
    return Constant(name, type_, literal, attributes, metadata, body.graph)


def static_type(type_: Type, literal: Literal) -> Type:
    """A constant's type: as in XLA, dynamic dimensions become static."""
    moves = any(isinstance(leaf, TensorType) and leaf.dynamic for leaf in type_.leaves())
    return literal.type if moves else type_


def _literal(cursor: Cursor, type_: Type | None) -> tuple[Literal, Type]:
    if type_ is None:
        raise cursor.error("a constant needs a type")
    literal = read_literal(cursor, type_)
    cursor.expect(")")
    return literal, static_type(type_, literal)


def _apply(
    cursor: Cursor, body: ComputationState, name: str, type_: Type | None, op: Op, inputs: tuple[Node, ...], start: int
) -> Apply:
    attributes, metadata = read_attributes(cursor, op, body)
    if body.reader.strict:
        check_call(cursor, op, type_, inputs, attributes, start)
    elif problem := count_problem(op, len(inputs)):
        raise cursor.error(problem, start)
    type_ = type_ or _inferred(cursor, body, op, inputs, attributes, start)
    return Apply(name, type_, op, inputs, attributes, metadata, body.graph)


def _inferred(
    cursor: Cursor, body: ComputationState, op: Op, inputs: Sequence[Node], attributes: Attributes, start: int
) -> Type | None:
    """The type that the text omits; None if it cannot be inferred, which only strict reading rejects."""
    types = [node.type for node in inputs]
    known = [type_ for type_ in types if type_ is not None]
    if op.infer is None or len(known) < len(types) or call_problem(op, None, inputs, attributes):
        return None
    try:
        type_ = with_layouts(op.name, infer_type(op, known, attributes), inputs, attributes)
        if isinstance(type_, TensorType) and not type_.is_countable:
            raise TypeProblem(f"{type_} has more bytes than 63 bits count")
    except TypeProblem as problem:
        if body.reader.strict:
            raise cursor.error(f"{op}: {problem.message}", start) from None
        return None
    return type_


def _unknown(cursor: Cursor, body: ComputationState, opcode: str, start: int) -> Op:
    if body.reader.strict:
        raise cursor.error(f"no opcode is called '{opcode}'", start)
    body.reader.note(f"no opcode is called '{opcode}': kept as it is", start)
    return body.reader.unknown_ops.setdefault(opcode, unknown_op(opcode))


_LEAF_READERS = {"parameter": _read_parameter, "constant": _read_constant}


_Rule = Callable[[Sequence[Node], Mapping[str, Any]], Type | None]
"""From operands and attributes, a type whose layouts the result takes over."""


def with_layouts(opcode: str, type: Type, inputs: Sequence[Node], attributes: Mapping[str, Any]) -> Type:
    """An inferred type with the layouts that XLA would give it; no layout if XLA uses the default."""
    rule = _RULES.get(opcode)
    return _merged(type, rule(inputs, attributes)) if rule else type


def _merged(type: Type, model: Type | None) -> Type:
    """The type with the model's layout if their ranks match; tuples are merged element by element."""
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


def _element_of(inputs: Sequence[Node], attributes: Mapping[str, Any]) -> Type | None:
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


_FIRST = (with_trait(Trait.ELEMENTWISE) - {"select"}) | {
    *("add-dependency", "cholesky", "domain", "fft", "reverse", "scatter", "select-and-scatter", "set-dimension-size"),
    "while",
}
_RULES: dict[str, _Rule] = {
    **dict.fromkeys(_FIRST, _operand(0)),
    "batch-norm-training": _first_of_tuple,
    "call": _called("to_apply"),
    "clamp": _operand(1),
    "conditional": _conditional,
    "get-tuple-element": _element_of,
    "sort": _sorted,
    "transpose": _transposed,
    "tuple": _operands,
}
