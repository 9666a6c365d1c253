"""Nodes from HloInstructionProto.

What instructions share is worked out once: the bytes of a shape, of metadata or of all attributes are its key.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from hloom import protobuf
from hloom.hlo.attribute_reader import arranged
from hloom.hlo.proto.field_mapping import Context
from hloom.hlo.proto.instruction_fields import CONTROL, GRAPHS, field_of, read_called
from hloom.hlo.proto.literals import read_literal
from hloom.hlo.proto.metadata import read_metadata
from hloom.hlo.proto.shapes import read_shape
from hloom.hlo.reader_state import LEAF
from hloom.hlo.strict_checks import count_problem
from hloom.ir import (
    EMPTY,
    METADATA_FIELDS,
    Apply,
    Attributes,
    Constant,
    Graph,
    Literal,
    Node,
    Op,
    Parameter,
    Type,
    compatible,
    without_layout,
)
from hloom.ops import OPS, unknown_op
from hloom.text import HloomError

_BY_OPERANDS = frozenset(
    ("compare", "conditional", "convolution", "custom-call", "collective-permute", "collective-permute-start")
)
"""Opcodes whose attributes are read by the types around them."""

_OWN_FIELDS = ("name", "opcode", "shape", "metadata", "literal", "parameter_number", "id", "operand_ids")
_CALL_FIELDS = ("control_predecessor_ids", "called_computation_ids")


class InstructionReader:
    """Reads instructions of one module; `graphs` are its computations so far by id, `note` is told of what is lost."""

    def __init__(self, graphs: Mapping[int, Graph], payloads: Sequence[bytes]) -> None:
        self.graphs = graphs
        self.payloads = payloads
        self.losses: dict[str, None] = {}
        self._types: dict[bytes, Type] = {}
        self._metadata: dict[bytes, str] = {}
        self._attributes: dict[tuple, Attributes] = {}
        self._unknown: dict[str, Op] = {}

    def read(self, wire: Any, messages: Sequence[Any], position: int, nodes: Mapping[int, Node], graph: Graph) -> Node:
        """The node of an instruction whose operands are among `nodes`; raises HloomError.

        It is given as it stands on the wire, which this changes, and as one of its computation's messages, which is
        looked at only for what was not met before.
        """
        name, opcode, number = wire.name, wire.opcode, wire.parameter_number
        type_ = self._types.get(wire.shape)
        if type_ is None:
            type_ = self._types[wire.shape] = self.type(messages[position].shape)
        metadata = wire.metadata and self._metadata.get(wire.metadata)
        if metadata is None:
            metadata = self._metadata[wire.metadata] = self._metadata_text(messages[position].metadata)
        if opcode == "parameter":
            attributes = self._attributes_of(wire, messages, position, LEAF, type_, (), nodes)
            return Parameter(name, type_, number, attributes, metadata or None, graph)
        if opcode == "constant":
            attributes = self._attributes_of(wire, messages, position, LEAF, type_, (), nodes)
            literal = self._literal(messages[position], type_)
            return Constant(name, type_, literal, attributes, metadata or None, graph)
        op = OPS.get(opcode) or self._unknown_op(opcode)
        try:
            inputs = tuple([nodes[number] for number in wire.operand_ids])
        except KeyError as missing:
            raise HloomError(f"no instruction before it has the id {missing.args[0]} of its operand") from None
        if not op.accepts(len(inputs)) and (problem := count_problem(op, len(inputs))):
            raise HloomError(problem)
        attributes = self._attributes_of(wire, messages, position, op, type_, inputs, nodes)
        return Apply(name, type_, op, inputs, attributes, metadata or None, graph)

    def type(self, proto: Any) -> Type:
        """A shape's type."""
        self.note_unknown(proto)
        return read_shape(proto)

    def note_unknown(self, proto: Any) -> None:
        """Remember the fields that the schema does not name."""
        for unknown in protobuf.unknown_fields(proto):
            self.losses[f"field number {unknown.number} of {unknown.message}"] = None

    def _unknown_op(self, opcode: str) -> Op:
        if not opcode or not opcode.replace("-", "a").isalnum() or not opcode[0].islower() or not opcode.isascii():
            raise HloomError(f"{opcode!r} is no opcode")
        self.losses.setdefault(f"the meaning of opcode {opcode}")
        return self._unknown.setdefault(opcode, unknown_op(opcode))

    def _literal(self, proto: Any, type_: Type) -> Literal:
        """The constant's data; a message without any says that they were left out."""
        if not proto.HasField("literal"):
            return Literal.elided(type_)
        self.note_unknown(proto.literal.shape)
        literal = read_literal(proto.literal)
        if not compatible(literal.type, type_):
            raise HloomError(f"it is {without_layout(type_)}, but its literal {without_layout(literal.type)}")
        return literal

    def _metadata_text(self, proto: Any) -> str:
        self.note_unknown(proto)
        self._note_dropped("OpMetadata", proto, METADATA_FIELDS)
        return read_metadata(proto, self.payloads).text()

    def _attributes_of(
        self,
        wire: Any,
        messages: Sequence[Any],
        position: int,
        op: Op,
        type_: Type,
        inputs: tuple[Node, ...],
        nodes: Mapping[int, Node],
    ) -> Attributes:
        control = tuple(wire.control_predecessor_ids)
        clear = wire.ClearField
        clear("name")
        clear("opcode")
        clear("shape")
        clear("metadata")
        clear("parameter_number")
        clear("id")
        clear("operand_ids")
        if op is LEAF:
            clear("literal")
        if control:
            clear("control_predecessor_ids")
        around = (type_, *(node.type for node in inputs)) if op.name in _BY_OPERANDS else ()
        key = (op, wire.SerializeToString(), *around)
        cached = self._attributes.get(key)
        if cached is None:
            rest = self._without_own_fields(messages[position], op)
            cached = self._attributes[key] = self._read_attributes(rest, op, Context(type_, around[1:], self.payloads))
        return arranged(op, {**cached, CONTROL: self._control(control, nodes)}) if control else cached

    def _without_own_fields(self, proto: Any, op: Op) -> Any:
        rest = protobuf.HloInstructionProto()
        rest.CopyFrom(proto)
        for field in (*_OWN_FIELDS, "control_predecessor_ids"):
            if field != "literal" or op is LEAF:
                rest.ClearField(field)
        return rest

    def _read_attributes(self, proto: Any, op: Op, context: Context) -> Attributes:
        """The attributes of the op's row that the message fills; what it fills besides is noted."""
        self.note_unknown(proto)
        values: dict[str, Any] = read_called(op, proto.called_computation_ids, self.graphs, context)
        known = {*_CALL_FIELDS}
        for name, attribute in op.attributes.items():
            field = field_of(op.name, name)
            if field is None or attribute.kind in GRAPHS or name == CONTROL:
                continue
            known.update(field.names)
            value = field.read(proto, context)
            if value is None:
                continue
            if attribute.choices and value not in attribute.choices:
                raise HloomError(f"attribute {name} is {value!r}, which is none of {', '.join(attribute.choices)}")
            values[name] = value
        lacking = op.lacking(values)
        if lacking is not None:
            raise HloomError(f"{op} needs the attribute {lacking}, and no field says what it is")
        self._note_dropped(op.name, proto, known)
        return arranged(op, values) if values else EMPTY

    def _note_dropped(self, owner: str, proto: Any, known: Collection[str]) -> None:
        for field, value in proto.ListFields():
            if field.name not in known and not _is_empty(value):
                self.losses[f"field {field.name} of {owner}"] = None

    def _control(self, numbers: Sequence[int], nodes: Mapping[int, Node]) -> tuple[Node, ...]:
        try:
            return tuple([nodes[number] for number in numbers])
        except KeyError as missing:
            raise HloomError(f"no instruction before it has the id {missing.args[0]} of its predecessor") from None


def _is_empty(value: Any) -> bool:
    """Whether a field that is set says nothing: a message without fields."""
    return hasattr(value, "ListFields") and not value.ListFields()
