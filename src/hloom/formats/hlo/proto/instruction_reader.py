"""Builds nodes from HloInstructionProto.

Whatever instructions share is decoded once, keyed by the bytes of the shape, the metadata or all attributes. Results
that depend on nothing else in the module, and that caused no warning, are cached across modules.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from hloom.formats import protobuf
from hloom.formats.hlo.attribute_reader import arranged
from hloom.formats.hlo.instruction_reader import static_type
from hloom.formats.hlo.line_memos import LEAF_ROW
from hloom.formats.hlo.proto.encoded_instructions import Parts, packed, signed
from hloom.formats.hlo.proto.encoded_messages import DELIMITED, delimited, key, read_varint
from hloom.formats.hlo.proto.field_mapping import Context, Field
from hloom.formats.hlo.proto.instruction_fields import CONTROL, GRAPHS, field_of, read_called
from hloom.formats.hlo.proto.literals import read_literal
from hloom.formats.hlo.proto.metadata import read_metadata
from hloom.formats.hlo.proto.shapes import decoded_shape, read_shape
from hloom.formats.hlo.strict_checks import count_problem
from hloom.ir import (
    EMPTY,
    METADATA_FIELDS,
    PROTO_FIELDS,
    UNBOUNDED,
    Apply,
    AttributeKind,
    Attributes,
    Constant,
    Graph,
    Literal,
    Node,
    Op,
    Parameter,
    ProtoFields,
    TensorType,
    TupleType,
    Type,
    compatible,
    without_layout,
)
from hloom.ops import OPS, unknown_op
from hloom.text import HloomError

_BY_OPERANDS = frozenset(
    ("compare", "conditional", "convolution", "custom-call", "collective-permute", "collective-permute-start")
)
"""Opcodes whose attributes depend on the types around them."""

_LITERAL = 8
"""The number of HloInstructionProto's field `literal`."""
_SHORT = 256
"""The maximum size in bytes of literals that are looked up among earlier ones."""


_MOST, _LONGEST = 4096, 512
"""The number of shapes, metadata or attributes cached across modules, and their maximum size in bytes."""


@dataclass(frozen=True, slots=True)
class _Start:
    """The decoded opcode and shape; parameters and constants use the leaves' row.

    `attributes` caches decoded attributes by their bytes, except for ops whose attributes depend on types.
    """

    opcode: str
    row: Op
    type: Type
    attributes: Mapping[bytes, Attributes]


class _Memory:
    """Decoded values that are valid in every module without payloads."""

    def __init__(self) -> None:
        self.starts: dict[bytes, _Start] = {}
        self.metadata: dict[bytes, str] = {}
        self.attributes: dict[tuple[Any, ...], Attributes] = {}
        self.plain: dict[Op, dict[bytes, Attributes]] = {}

    def keep(self, table: dict[Any, Any], data: bytes, known_as: Any, value: Any) -> bool:
        """Cache a value; returns whether it was cached."""
        if len(data) > _LONGEST:
            return False
        if len(table) >= _MOST:
            table.clear()
        table[known_as] = value
        return True

    def keep_attributes(self, rest: bytes, known_as: tuple[Any, ...], value: Attributes) -> None:
        """Cache attributes, which are also looked up by their bytes alone."""
        if len(self.attributes) >= _MOST:
            for row in list(self.plain.values()):
                row.clear()
        if self.keep(self.attributes, rest, known_as, value) and len(known_as) == 2:
            self.plain[known_as[0]][rest] = value


_memory = _Memory()


class InstructionReader:
    """Reads the instructions of one module; `graphs` are its computations so far by id, `note` collects what is lost.
    """

    def __init__(self, graphs: Mapping[int, Graph], payloads: Sequence[bytes]) -> None:
        self.graphs = graphs
        self.payloads = payloads
        self.losses: dict[str, bool] = {}
        """What is not understood, and whether it is kept."""
        self._memory = _Memory() if payloads else _memory
        self._starts: dict[bytes, _Start] = {}
        self._types: dict[bytes, Type] = {}
        self._metadata: dict[bytes, str | None] = {}
        self._metadata_rests: dict[bytes, str] = {}
        self._literals: dict[tuple[bytes, Type], Literal] = {}
        self._attributes: dict[tuple[Any, ...], Attributes] = {}
        self._unknown: dict[str, Op] = {}

    def read(
        self,
        parts: Parts,
        name: str,
        messages: Sequence[Any],
        position: int,
        nodes: Mapping[bytes, Node],
        graph: Graph,
    ) -> Node:
        """The node of an instruction whose operands are in `nodes`; raises HloomError.

        The instruction is given both as bytes and as a message of its computation; the message is only read for parts
        that are not cached.
        """
        _, start_bytes, metadata_bytes, literal_bytes, number, _, operands, control, called, rest = parts
        start = self._starts.get(start_bytes)
        if start is None:
            start = self._starts[start_bytes] = self._start(start_bytes, messages[position])
        metadata = None
        if metadata_bytes:
            metadata = self._metadata.get(metadata_bytes)
            if metadata is None:
                metadata = self._metadata[metadata_bytes] = self._metadata_text(metadata_bytes) or None
        row, type_ = start.row, start.type
        if row is LEAF_ROW:
            attributes = EMPTY
            if rest or control or called:
                attributes = self._attributes_of(row, messages, position, rest, type_, (), called, control, nodes)
            if start.opcode == "parameter":
                return Parameter(name, type_, number - (number >> 63 << 64), attributes, metadata, graph)
            literal = self._literal(literal_bytes, messages, position, type_)
            return Constant(name, static_type(type_, literal), literal, attributes, metadata, graph)
        half = len(operands) >> 1
        only, left, right = nodes.get(operands), nodes.get(operands[:half]), nodes.get(operands[half:])
        try:
            if only is not None:
                inputs = (only,)
            elif left is not None and right is not None:
                inputs = left, right
            else:
                inputs = tuple([nodes[number] for number in packed(operands)])
        except KeyError as missing:
            late = signed(missing.args[0])
            raise HloomError(f"no instruction before it has the id {late} of its operand") from None
        least, most = row.arity
        if (len(inputs) != least or least != most) and (problem := count_problem(row, len(inputs))):
            raise HloomError(problem)
        if literal_bytes is not None:  # an attribute of this op
            rest += delimited(_LITERAL, literal_bytes)
        attributes = None
        if not (called or control):
            attributes = start.attributes.get(rest)
            if attributes is None and row.name not in _BY_OPERANDS:
                attributes = self._attributes.get((row, rest))
        if attributes is None:
            attributes = self._attributes_of(row, messages, position, rest, type_, inputs, called, control, nodes)
        return Apply.of_row(name, type_, row, inputs, attributes, metadata, graph)

    def _start(self, encoded: bytes, proto: Any) -> _Start:
        start = self._memory.starts.get(encoded)
        if start is None:
            before, self.losses = self.losses, {}
            start = self._read_start(proto)
            if not self.losses:
                self._memory.keep(self._memory.starts, encoded, encoded, start)
            self.losses = {**before, **self.losses}
        return start

    def _read_start(self, proto: Any) -> _Start:
        opcode = proto.opcode
        shape = proto.shape.SerializeToString()
        type_ = self._types.get(shape)
        if type_ is None:
            type_ = self._types[shape] = decoded_shape(shape) or self._type(proto.shape)
        row = LEAF_ROW if opcode in ("parameter", "constant") else OPS.get(opcode) or self._unknown_op(opcode)
        return _Start(opcode, row, type_, self._memory.plain.setdefault(row, {}) if row.is_known else {})

    def _type(self, proto: Any) -> Type:
        """A shape's type."""
        self.note_unknown(proto)
        return read_shape(proto)

    def note_unknown(self, proto: Any) -> None:
        """Note the fields that the schema does not name, and that are dropped."""
        for unknown in protobuf.unknown_fields(proto):
            self.losses[unknown.description] = False

    def _unknown_op(self, opcode: str) -> Op:
        if not _OPCODE.fullmatch(opcode):
            raise HloomError(f"{opcode!r} is not an opcode")
        self.losses.setdefault(f"the meaning of opcode {opcode}", False)
        return self._unknown.setdefault(opcode, unknown_op(opcode))

    def _literal(self, encoded: bytes | None, messages: Sequence[Any], position: int, type_: Type) -> Literal:
        """The constant's data; a message without data is elided."""
        if not isinstance(type_, TensorType | TupleType):
            raise HloomError(f"a constant cannot be of type {type_}")
        if any(isinstance(leaf, TensorType) and UNBOUNDED in leaf.dims for leaf in type_.leaves()):
            raise HloomError(f"a constant cannot be of type {type_}, whose size is unbounded")
        if encoded is None:
            return Literal.elided(type_)
        literal = self._literals.get((encoded, type_))
        if literal is None:
            proto = messages[position].literal
            self.note_unknown(proto.shape)
            literal = read_literal(proto)
            if not compatible(literal.type, type_):
                raise HloomError(f"it is {without_layout(type_)}, but its literal {without_layout(literal.type)}")
            if len(encoded) <= _SHORT:
                self._literals[encoded, type_] = literal
        return literal

    def _metadata_text(self, encoded: bytes) -> str:
        """The text of OpMetadata; the op name usually differs while the rest is usually cached."""
        op_type, name, rest = _cut_metadata(encoded)
        text = name.decode("utf-8", "replace")
        if not name or not _PLAIN_TEXT.fullmatch(text):
            return self._read_metadata(encoded)
        parts = [self._metadata_rest(op_type), f'op_name="{text}"', self._metadata_rest(rest)]
        return " ".join([part for part in parts if part])

    def _metadata_rest(self, encoded: bytes) -> str:
        text = self._metadata_rests.get(encoded)
        if text is None:
            text = self._memory.metadata.get(encoded)
            if text is None:
                before, self.losses = self.losses, {}
                text = self._read_metadata(encoded)
                if not self.losses:
                    self._memory.keep(self._memory.metadata, encoded, encoded, text)
                self.losses = {**before, **self.losses}
            self._metadata_rests[encoded] = text
        return text

    def _read_metadata(self, encoded: bytes) -> str:
        proto = protobuf.OpMetadata.FromString(encoded)
        self.note_unknown(proto)
        self._note_dropped("OpMetadata", proto, METADATA_FIELDS)
        return read_metadata(proto, self.payloads).text()

    def _attributes_of(
        self,
        op: Op,
        messages: Sequence[Any],
        position: int,
        rest: bytes,
        type_: Type,
        inputs: tuple[Node, ...],
        called: bytes,
        control: bytes,
        nodes: Mapping[bytes, Node],
    ) -> Attributes:
        """An instruction's attributes; those that refer to nothing in the module are decoded once."""
        around = (type_, *[node.type for node in inputs]) if op.name in _BY_OPERANDS else ()
        known_as = (op, rest, *around, "called") if called else (op, rest, *around)
        cached = self._attributes.get(known_as)
        if cached is None:
            cached = self._memory.attributes.get(known_as)
        if cached is None:
            before, self.losses = self.losses, {}
            context = Context(type_, around[1:], self.payloads)
            cached = self._read_attributes(protobuf.HloInstructionProto.FromString(rest), op, context)
            if not called:
                _check_complete(op, cached)
            self._attributes[known_as] = cached
            if not self.losses and op.is_known:
                self._memory.keep_attributes(rest, known_as, cached)
            self.losses = {**before, **self.losses}
        if not called and not control:
            return cached
        name = _only_graph_of(op)
        if name and not control and name not in cached:
            number, end = read_varint(called, 0)
            if end == len(called) and number in self.graphs:
                graph = self.graphs[number]
                values = {
                    key: graph if key == name else cached[key] for key in op.attributes if key == name or key in cached
                }
                if len(values) == len(cached) + 1:
                    _check_complete(op, values)
                    return Attributes(values)
        values = dict(cached)
        if called:
            context = Context(type_, around[1:], self.payloads)
            values.update(read_called(op, messages[position].called_computation_ids, self.graphs, context))
            _check_complete(op, values)
        if control:
            values[CONTROL] = self._control(packed(control), nodes)
        return arranged(op, values)

    def _read_attributes(self, proto: Any, op: Op, context: Context) -> Attributes:
        """The attributes of the op's row that the message sets; all else that it has is kept as it is, and noted."""
        present = {field.name for field, _ in proto.ListFields()}
        values: dict[str, Any] = {}
        known: set[str] = set()
        for name, field, choices, is_silent in _fields_of(op):
            if is_silent and present.isdisjoint(field.names):
                continue
            known.update(field.names)
            value = field.read(proto, context)
            if value is None:
                continue
            if choices and value not in choices:
                raise HloomError(f"attribute {name} is {value!r}, which is not one of {', '.join(choices)}")
            values[name] = value
        unknown = protobuf.unknown_fields(proto)
        self.losses |= {field.description: False for field in unknown if field.path and field.root in known}
        if "original_value" in present and proto.original_value.call_hierarchy:
            self.losses["field call_hierarchy of OriginalValueProto"] = False
        if not present <= known or any(not field.path for field in unknown):
            values |= self._kept(op, proto, known)
        return arranged(op, values) if values else EMPTY

    def _kept(self, op: Op, proto: Any, known: Collection[str]) -> dict[str, ProtoFields]:
        """The fields that no attribute holds; those that are empty, as XLA writes many, need no note."""
        for field, value in proto.ListFields():
            if field.name in known or _is_empty(value):
                proto.ClearField(field.name)
            else:
                self.losses[f"field {field.name} of {op.name}"] = True
        self.losses |= {field.description: True for field in protobuf.unknown_fields(proto) if field.data}
        data = proto.SerializeToString()
        return {PROTO_FIELDS: ProtoFields(data)} if data else {}

    def _note_dropped(self, owner: str, proto: Any, known: Collection[str]) -> None:
        for field, value in proto.ListFields():
            if field.name not in known and not _is_empty(value):
                self.losses[f"field {field.name} of {owner}"] = False

    def _control(self, numbers: Sequence[bytes], nodes: Mapping[bytes, Node]) -> tuple[Node, ...]:
        try:
            return tuple([nodes[number] for number in numbers])
        except KeyError as missing:
            number = signed(missing.args[0])
            raise HloomError(f"no instruction before it has the id {number} of its predecessor") from None


@cache
def _fields_of(op: Op) -> list[tuple[str, Field, tuple[str, ...], bool]]:
    """The attributes of a row that have fields: name, field, choices, and whether absence means the default."""
    empty = protobuf.HloInstructionProto()
    fields: list[tuple[str, Field, tuple[str, ...], bool]] = []
    for name, attribute in op.attributes.items():
        field = field_of(op.name, name)
        if field is not None and attribute.kind not in GRAPHS and name != CONTROL:
            fields.append((name, field, attribute.choices, _says_nothing(field, empty)))
    return fields


@cache
def _only_graph_of(op: Op) -> str | None:
    """The attribute that names the computation of an op that calls exactly one; None sends it to `read_called`."""
    names = [name for name, attribute in op.attributes.items() if attribute.kind in GRAPHS]
    is_plain = op.is_known and op.name not in ("conditional", "custom-call")
    return names[0] if len(names) == 1 and is_plain and op.attributes[names[0]].kind is AttributeKind.GRAPH else None


def _says_nothing(field: Field, empty: Any) -> bool:
    return field.read(empty, Context()) is None


def _check_complete(op: Op, values: Mapping[str, Any]) -> None:
    lacking = op.lacking(values)
    if lacking is not None:
        raise HloomError(f"{op} needs the attribute {lacking}, and no field says what it is")


_OPCODE = re.compile(r"[a-z][a-z0-9-]*+")
_PLAIN_TEXT = re.compile(r"[ !#-\[\]-~]++")
"""Text that needs no escapes inside quotes."""


def _cut_metadata(encoded: bytes) -> tuple[bytes, bytes, bytes]:
    """OpMetadata's field `op_type`, the data of `op_name`, and the fields after it."""
    position = 0
    for number in (1, 2):
        if encoded[position : position + 1] != key(number, DELIMITED):
            continue
        size, begin = read_varint(encoded, position + 1)
        if number == 2:
            return encoded[:position], encoded[begin : begin + size], encoded[begin + size :]
        position = begin + size
    return encoded[:position], b"", encoded[position:]


def _is_empty(value: Any) -> bool:
    """Whether a field is set but empty: a message without fields."""
    return hasattr(value, "ListFields") and not value.ListFields()
