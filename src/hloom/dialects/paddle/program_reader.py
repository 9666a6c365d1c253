"""Reading a ProgramDesc: variables, which may be written again and again, become values, which are made once.

What stands in `attachments["paddle.program"]` is the message that was read; `write_program` takes from it what the
module does not say (descriptions of variables, further blocks, versions).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hloom.dialects.paddle.protos import DATA_TYPES, PADDLE, attribute_value, parsed, type_name
from hloom.dialects.paddle.rows import (
    INPUT_SLOTS,
    IS_TARGET,
    OUTPUT_SLOTS,
    PREFIX,
    PROJECTION,
    ROWS,
    UNLISTED,
    VARIABLE,
    VARIABLES,
    WRITTEN,
    unknown_row,
)
from hloom.dialects.paddle.signatures import signature
from hloom.ir import OPAQUE, UNBOUNDED, Apply, Graph, Module, Node, Op, TensorType, TupleType, Type
from hloom.ops import OPS
from hloom.text import HloomError, read_limited

ATTACHMENT = "paddle.program"
RENAMED = "paddle.variables"
"""In `attachments`: the variable of each parameter that has another name."""
NOTHING = "@EMPTY@"
"""The variable that stands where none is meant."""

Slots = list[tuple[str, list[str]]]


PROGRAM_BYTES = 2 << 30
"""The most bytes of a serialised program: as many as protobuf reads."""


@dataclass(frozen=True, slots=True)
class Written:
    """How an op stood in its program: its type, its attributes with their types, and its slots, in order."""

    type: str
    attributes: tuple[tuple[str, str], ...] = ()
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


@dataclass(slots=True)
class _Made:
    """An op that was read: its slots, and the values that it yields by variable."""

    node: Apply
    reads: set[str]
    results: list[tuple[str, str, Node]] = field(default_factory=list)


def read_program(data: bytes | str | Path) -> Module:
    """The module of a serialised ProgramDesc, given as bytes or as a file.

    Variables that are read before anything writes them are parameters. The output is a tuple of the values that
    nothing reads, and of the variables that outlive the program. Blocks but the first stay as they are. Raises
    HloomError for bytes that are not ProgramDesc.
    """
    name = "program" if isinstance(data, bytes) else str(data)
    message = parsed("ProgramDesc", data if isinstance(data, bytes) else read_limited(data, PROGRAM_BYTES), name)
    if not message.blocks:
        raise HloomError(f"{name} has no blocks")
    module = Module("program")
    module.attachments[ATTACHMENT] = message
    graph = module.add_graph("block")
    module.entry = graph
    _Reader(message.blocks[0], graph).read()
    if len(message.blocks) > 1:
        module.notes.append(f"{len(message.blocks) - 1} further blocks are kept as they are")
    return module


def type_of_variable(message: Any) -> Type:
    """The type of what a VarDesc describes; `opaque[]` where it is not an array."""
    if not message.type.HasField("lod_tensor"):
        return OPAQUE
    tensor = message.type.lod_tensor.tensor
    element = DATA_TYPES.get(tensor.data_type)
    if element is None:
        return OPAQUE
    return TensorType(element, tensor.dims, dynamic=[size == UNBOUNDED for size in tensor.dims])


class _Reader:
    """One block on its way into a graph: what each variable holds at this point."""

    def __init__(self, block: Any, graph: Graph) -> None:
        self.block = block
        self.graph = graph
        self.types = {variable.name: type_of_variable(variable) for variable in block.vars}
        self.lasting = {variable.name for variable in block.vars if variable.persistable}
        self.current: dict[str, Node] = {}

    def read(self) -> None:
        made = [self.op(result) for result in self.block.ops]
        graph = self.graph
        graph.module.index_users()
        kept = list(dict.fromkeys(value for result in made for value in self.kept(result)))
        for result in made:
            for _, _, value in result.results:
                if value is not result.node and not value.users and value not in kept:
                    graph.erase(value)  # so that an op whose results nobody reads has no users
        graph.set_output(graph.add_apply(OPS["tuple"], kept, TupleType([_known(node) for node in kept]), name="out"))

    def value(self, variable: str) -> Node:
        """What a variable holds; a parameter where nothing has written it."""
        value = self.current.get(variable)
        if value is None:
            type_ = self.types.get(variable, OPAQUE)
            value = self.current[variable] = self.graph.add_parameter(type_, variable or "unnamed")
            if value.name != variable:
                self.graph.module.attachments.setdefault(RENAMED, {})[value.name] = variable
        return value

    def op(self, message: Any) -> _Made:
        row = ROWS.get(PREFIX + message.type) or unknown_row(message.type)
        inputs, outputs = _slots(message.inputs), _slots(message.outputs)
        known = signature(message.type)
        if known is not None:
            inputs = _in_order(inputs, [slot.name for slot in known.inputs])
            outputs = _in_order(outputs, [slot.name for slot in known.outputs])
        operands = [self.value(name) for _, names in inputs for name in names]
        variables = [name for _, names in outputs for name in names]
        kinds = [self.types.get(name, OPAQUE) for name in variables]
        attributes = _attributes(message, row, inputs, outputs)
        reads = {name for _, names in inputs for name in names}
        slots = [slot for slot, names in outputs for _ in names]
        if len(variables) == 1:
            node = self.graph.add_apply(
                row, operands, kinds[0], {**attributes, VARIABLE: variables[0]}, variables[0] or message.type
            )
            made = _Made(node, reads, [(slots[0], variables[0], node)])
        else:
            node = self.graph.add_apply(
                row, operands, TupleType(kinds), {**attributes, VARIABLES: tuple(variables)}, message.type
            )
            made = _Made(node, reads)
            for index, (slot, name) in enumerate(zip(slots, variables, strict=True)):
                made.results.append((slot, name, self.result(node, index, name, kinds[index])))
        self.current.update((name, value) for _, name, value in made.results if name != NOTHING)
        return made

    def result(self, node: Apply, index: int, name: str, type_: Type) -> Node:
        attributes = {"index": index, VARIABLE: name}
        return self.graph.add_apply(PROJECTION, [node], type_, attributes, name or "unnamed")

    def kept(self, made: _Made) -> list[Node]:
        """The results that the graph must yield.

        Those that nothing reads, but for what only a gradient would, and those that outlive the program. What an op
        writes over its own operand comes along with its other results.
        """
        known, extra = signature(made.node.opcode.removeprefix(PREFIX)), []
        beside = in_place = False
        for slot, name, value in made.results:
            lasts = name in self.lasting and self.current.get(name) is value
            unread = not value.users and not (known is not None and known.gradient_only(slot))
            if lasts or unread:
                extra.append((name, value))
            if name in made.reads:
                in_place = True
            elif value.users or unread:
                beside = True
        if in_place and beside and known is not None:
            extra = [(name, value) for name, value in extra if name not in made.reads]
        return [value for _, value in extra]


def _known(node: Node) -> Type:
    return node.type or OPAQUE


def _slots(messages: Any) -> Slots:
    return [(slot.parameter, list(slot.arguments)) for slot in messages]


def _in_order(slots: Slots, names: Sequence[str]) -> Slots:
    """The slots in the order of a signature, those that it lacks last."""
    places = {name: index for index, name in enumerate(names)}
    return sorted(slots, key=lambda slot: (places.get(slot[0], len(places)), slot[0]))


def filled(slots: Slots) -> tuple[tuple[str, int], ...]:
    """How many variables stand in each slot that has any."""
    return tuple((name, len(names)) for name, names in slots if names)


def _attributes(message: Any, row: Op, inputs: Slots, outputs: Slots) -> dict[str, Any]:
    given = [(operand.name, type_name(operand.type), attribute_value(operand)) for operand in message.attrs]
    values: dict[str, Any] = {INPUT_SLOTS: filled(inputs), OUTPUT_SLOTS: filled(outputs)}
    values |= {name: value for name, _, value in given if name in row.attributes}
    values = {
        name: value
        for name, value in values.items()
        if row.attributes[name].required or value != row.attributes[name].default
    }
    unlisted = tuple((name, value) for name, _, value in given if name not in row.attributes)
    if unlisted:
        values[UNLISTED] = (message.type, *unlisted)
    values[WRITTEN] = Written(
        message.type,
        tuple((name, attribute_type) for name, attribute_type, _ in given),
        tuple(operand.parameter for operand in message.inputs),
        tuple(operand.parameter for operand in message.outputs),
    )
    if message.HasField("is_target"):
        values[IS_TARGET] = message.is_target
    return values


def empty_program() -> Any:
    """A ProgramDesc of one block, for modules that were not read from one."""
    message = PADDLE["ProgramDesc"]()
    message.blocks.add(idx=0, parent_idx=-1)
    message.version.version = 0
    return message
