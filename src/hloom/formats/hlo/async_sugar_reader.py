"""The short form of asynchronous instructions: `OP-start`, `OP-update` and `OP-done` for ops without async opcodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from hloom.formats.hlo.attribute_reader import arranged, read_attributes
from hloom.formats.hlo.reader_state import ComputationState
from hloom.formats.hlo.strict_checks import chain_start, check_call, count_problem
from hloom.ir import Apply, Attributes, Graph, Node, Op, Trait, TupleType, Type
from hloom.ops import OPS, with_trait
from hloom.text import Cursor


def wrapped_opcode(inputs: Sequence[Node]) -> str | None:
    """The opcode wrapped by the async-start that produced these inputs, or None."""
    start = chain_start(inputs)
    graph = start.attributes.get("calls") if start else None
    return graph.output.opcode if isinstance(graph, Graph) and graph.output else None


STEPS = ("-start", "-update", "-done")
OWN_OPCODES = {opcode.removesuffix("-start") for opcode in with_trait(Trait.ASYNC_START)} - {"async"}
"""Ops that have their own asynchronous opcodes."""
WRAPPED = "async_wrapped"
"""The name of the computation around the op."""
OF_THE_PAIR = ("async_execution_thread", "output_to_operand_aliasing")


def read_sugar(
    cursor: Cursor,
    body: ComputationState,
    opcode: str,
    name: str,
    type_: Type | None,
    inputs: tuple[Node, ...],
    start: int,
) -> Apply | None:
    """Read `slice-start(x), slice={[0:8]}` as an async-start of a computation around the op; None if it is not one."""
    step = next((suffix for suffix in STEPS if opcode.endswith(suffix)), None)
    op = OPS.get(opcode.removesuffix(step)) if step else None
    if step is None or op is None or op.name in OWN_OPCODES:
        return None
    async_op = OPS["async" + step]
    if problem := count_problem(op if step == "-start" else async_op, len(inputs)):
        raise cursor.error(f"{opcode}: {problem}", start)
    attributes, metadata = read_attributes(cursor, row_of(op, step), body)
    if step != "-start":
        if body.reader.strict and opcode.removesuffix(step) != (wrapped := wrapped_opcode(inputs)):
            raise cursor.error(
                f"{opcode} ends {'nothing asynchronous' if wrapped is None else wrapped + '-start'}", start
            )
        if body.reader.strict and (said := [name for name in attributes if name in own_attributes(op)]):
            raise cursor.error(f"'{said[0]}' is said by {op}-start, and {opcode} has no such attribute", start)
        kept = {key: value for key, value in attributes.items() if key in async_op.attributes}
        return Apply(name, type_, async_op, inputs, arranged(async_op, kept), metadata, body.graph)
    if not isinstance(type_, TupleType) or len(type_.elements) < 2:
        raise cursor.error(f"{opcode} needs a type ((operands), outputs, ...)", start)
    outer = {key: attributes[key] for key in OF_THE_PAIR if key in attributes}
    own = own_attributes(op) - set(OF_THE_PAIR)
    inner = Attributes({key: value for key, value in attributes.items() if key in own})
    if body.reader.strict:
        check_call(cursor, op, type_.elements[1], inputs, inner, start)
    carried = {key: value for key, value in attributes.items() if key not in outer and key not in inner}
    outer["calls"] = _wrap(body, op, type_, inputs, inner)
    outer["calls"].execution_thread = outer.get("async_execution_thread")
    return Apply(name, type_, async_op, inputs, arranged(async_op, {**outer, **carried}), metadata, body.graph)


@cache
def row_of(op: Op, step: str) -> Op:
    """The row for a short form: it accepts the attributes of the op and of the step, and a start requires the op's."""
    own = {key: row if step == "-start" else replace(row, required=False) for key, row in op.attributes.items()}
    pair = {key: replace(row, required=False) for key, row in OPS["async" + step].attributes.items()}
    return Op(op.name + step, attributes={**own, **pair})


def parameter_name(number: int) -> str:
    """The name of a parameter of the computation around the op."""
    return f"param_{number}"


def own_attributes(op: Op) -> set[str]:
    """The attributes that determine what the op computes, without those that any instruction may carry."""
    return set(op.attributes) - set(OPS["tuple"].attributes)


def _wrap(body: ComputationState, op: Op, type_: TupleType, inputs: tuple[Node, ...], attributes: Attributes) -> Graph:
    graph = body.reader.module.add_graph(WRAPPED)
    operand_types = type_.elements[0].elements if isinstance(type_.elements[0], TupleType) else ()
    types = [node.type for node in inputs] if len(operand_types) != len(inputs) else list(operand_types)
    parameters = [graph.add_parameter(array_type, parameter_name(number)) for number, array_type in enumerate(types)]
    graph.set_output(graph.add_apply(op, parameters, type_.elements[1], attributes, op.name))
    return graph
