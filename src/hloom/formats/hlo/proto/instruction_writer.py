"""Encodes nodes as the bytes of HloInstructionProto.

Whatever nodes share is encoded once: GPT-size modules have few distinct types and attributes. Encodings that depend on
nothing else in a module, and lost nothing, are cached across modules.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any

from hloom.formats import protobuf
from hloom.formats.hlo.line_memos import LEAF_ROW
from hloom.formats.hlo.proto.encoded_attributes import encode_attributes
from hloom.formats.hlo.proto.encoded_messages import (
    DELIMITED,
    VARINT,
    VARINTS,
    consecutive_varints,
    delimited,
    encoded_fields,
    encoding_error,
    field_numbers,
    key,
    number_field,
)
from hloom.formats.hlo.proto.field_mapping import Context
from hloom.formats.hlo.proto.instruction_fields import CONTROL, GRAPHS, field_of, set_defaults, write_called
from hloom.formats.hlo.proto.literals import encoded_literal
from hloom.formats.hlo.proto.metadata import encoded_metadata, to_bytes, write_metadata
from hloom.formats.hlo.proto.shapes import encoded_shape, write_shape
from hloom.ir import (
    PROTO_FIELDS,
    Apply,
    Attributes,
    Constant,
    Graph,
    Literal,
    Metadata,
    Node,
    Op,
    Parameter,
    TensorType,
    Type,
    Verbatim,
    parse_metadata,
    plain_fields,
)
from hloom.text import HloomError

IMPLIED: dict[str, tuple[str, ...]] = {
    "async-update": ("calls", "async_execution_thread"),
    "async-done": ("calls", "async_execution_thread"),
}
"""Attributes that async-start sets for the whole chain."""

_BACKEND = "backend_config"
_NAMED = re.compile(r'(op_type="[^"\\]++" )?op_name="([^"\\]++)"(?: (.*+))?', re.DOTALL)
"""Metadata with a name, in XLA's printed form: the type before it, the name, and the rest."""
_FRAME = re.compile(r"stack_frame_id=([1-9][0-9]{0,8})")
"""Metadata, or the rest of it, that only names a row of the stack tables."""
_INEXACT = frozenset(("epsilon", "literal", "result_accuracy", "statistics"))
"""Attributes whose equal values may encode differently: they hold floats, and 0 equals -0."""


_Fields = tuple[bytes, bytes, bytes, bool]
"""Three parts of the fields of attributes, and whether nothing was lost."""


class _Memo(dict[Any, Any]):
    """Encodings by value, built on demand."""

    def __init__(self, encode: Callable[[Any], Any]) -> None:
        self._encode = encode

    def __missing__(self, value: Any) -> Any:
        data = self[value] = self._encode(value)
        return data


class _BoundedMemo(_Memo):
    """The same with a limited size, because it persists across modules."""

    MOST = 1024

    def __missing__(self, value: Any) -> Any:
        if len(self) >= self.MOST:
            self.clear()
        return super().__missing__(value)


@lru_cache(maxsize=512)
def _starts_of(opcode: str) -> Mapping[Type | None, bytes]:
    """The bytes of an opcode with those of a shape, by type."""
    start = delimited(2, opcode.encode()) + key(3, DELIMITED)
    return _BoundedMemo(lambda type_: start + _shapes[type_])


class _Memory:
    """Encoded attributes that lost nothing, keyed by op and identity; keeping a reference makes the identity valid."""

    MOST, LONGEST = 4096, 512

    def __init__(self) -> None:
        self._known: dict[tuple[Op, int], tuple[Attributes, tuple[bytes, bytes]]] = {}

    def get(self, op: Op, attributes: Attributes) -> tuple[bytes, bytes] | None:
        """The encoded fields before and after the operands."""
        known = self._known.get((op, id(attributes)))
        return None if known is None else known[1]

    def keep(self, op: Op, attributes: Attributes, data: tuple[bytes, bytes]) -> None:
        """Cache them if they are short and refer to nothing in a module."""
        if attributes.refers or not op.is_known or len(data[0]) + len(data[1]) > self.LONGEST:
            return
        if len(self._known) >= self.MOST:
            self._known.clear()
        self._known[op, id(attributes)] = attributes, data


_memory = _Memory()


class _Row:
    """Caches for one opcode: its bytes with those of the shape by type, and the attributes before and after the
    operands.
    """

    __slots__ = ("attributes", "starts")

    def __init__(self, opcode: str) -> None:
        self.starts = _starts_of(opcode)
        self.attributes: dict[int, tuple[bytes, bytes]] = {}


class InstructionWriter:
    """Writes the nodes of one module; `graph_ids` numbers graphs, `losses` collects what cannot be stored.

    `ids` are the encoded numbers of nodes, `shapes` the encoded types with a length prefix.
    """

    def __init__(self, graph_ids: Mapping[Graph, int], frame_ids: Mapping[int, int]) -> None:
        self.graph_ids = graph_ids
        self.frame_ids = frame_ids
        self.ids: dict[Node, bytes] = {}
        self.parameter_names: dict[Parameter, bytes] = {}
        self.payloads: list[bytes] = []
        self.losses: dict[str, None] = {}
        self.shapes: Mapping[Type | None, bytes] = _shapes
        self._metadata = _Memo(self._metadata_field)
        self._plain_metadata = _Memo(self._encode_metadata)
        self._rows = _Memo(self._row)
        self._parameters, self._constants = _Row("parameter"), _Row("constant")
        self._literals: dict[tuple[int, Type], bytes] = {}
        self._shared: dict[tuple[Any, ...], _Fields] = {}

    def write(self, graph: Graph, names: Sequence[bytes], first: int) -> list[bytes]:
        """The encoded instructions of a graph, with these names and numbered from `first`, each with its key.

        Raises HloomError, naming the instruction, if one has no type or uses a later one.
        """
        pieces: list[bytes] = []
        ids, metadata, rows = self.ids, self._metadata, self._rows
        sizes, join, named, operands_of = VARINTS, b"".join, _NAMED_SIZES, _OPERAND_SIZES
        nodes = graph.nodes
        numbers = consecutive_varints(first, len(nodes))
        own_ids = [_ID + number for number in numbers]
        if not first:
            own_ids[:1] = [b""]  # protobuf omits a number that is 0
        node = None
        try:
            for node, name, number, own_id in zip(nodes, names, numbers, own_ids, strict=True):
                own = before_operands = operands = b""
                if type(node) is Apply:
                    row = rows[node.function]
                    start = row.starts[node.type]
                    inputs = node.operands
                    if inputs:
                        operands = ids[inputs[0]] if len(inputs) == 1 else join([ids[operand] for operand in inputs])
                        before_operands = operands_of[len(operands)]
                elif type(node) is Parameter:
                    row = self._parameters
                    start = row.starts[node.type]
                    self.parameter_names[node] = name
                    if node.number:
                        own = _PARAMETER + sizes[node.number]
                else:
                    row = self._constants
                    type_ = _static(node.type)
                    start = row.starts[type_]
                    own = self._literal(node, type_)
                attributes = row.attributes.get(id(node.attributes)) or self._encode_attributes(node, row)
                before, after = attributes
                data = join(
                    (
                        named[len(name)], name, start, metadata[node.raw_metadata], own, before,
                        own_id, before_operands, operands, after,
                    )
                )  # fmt: skip
                pieces += (_INSTRUCTION, sizes[len(data)], data)
                ids[node] = number
        except KeyError as missing:
            if not isinstance(missing.args[0], Node):
                raise
            raise _at(
                graph, node, f"its operand {missing.args[0].name} does not stand before it in its graph"
            ) from None
        except HloomError as problem:
            raise _at(graph, node, problem.message, problem.hint) from None
        except (TypeError, ValueError) as problem:
            raise encoding_error(problem, _place(graph, node)) from None
        return pieces

    def _row(self, function: Op | Node) -> _Row:
        if not isinstance(function, Op):
            raise HloomError("it calls a computed function: HLO cannot say that")
        return _Row(function.name)

    def _literal(self, node: Node, type_: Type | None) -> bytes:
        """The field of a constant's data; equal literals are mostly the same object."""
        if type_ is None or not isinstance(node, Constant) or not isinstance(node.value, Literal):
            raise HloomError("it holds a function as a value: HLO cannot say that")
        known_as = id(node.value), type_
        data = self._literals.get(known_as)
        if data is None:
            data = self._literals[known_as] = delimited(_LITERAL, encoded_literal(node.value, type_))
        return data

    def _encode_attributes(self, node: Node, row: _Row) -> tuple[bytes, bytes]:
        """The fields of the node's attributes, those before the operands' numbers and those after them.

        Cached for all nodes with the same attributes, unless the encoding depends on the node's type.
        """
        op = node.function if isinstance(node, Apply) and isinstance(node.function, Op) else LEAF_ROW
        attributes = node.attributes
        known = _memory.get(op, attributes)
        if known is not None:
            row.attributes[id(attributes)] = known
            return known
        if lacking := op.lacking(attributes):
            raise HloomError(f"{op} lacks the attribute {lacking}: a proto cannot leave it out", hint="write HLO text")
        implied = IMPLIED.get(op.name, ())
        config, control = b"", b""
        shared: dict[str, Any] = {}
        for name, value in attributes.items():
            attribute = op.attributes.get(name)
            if name in implied or (attribute is not None and attribute.kind in GRAPHS):
                continue
            if name == CONTROL:
                control = self._control(value)
            elif name == _BACKEND and attribute is not None and isinstance(value, str):
                config = delimited(_BACKEND_CONFIG, to_bytes(value)) if value else b""
            else:
                shared[name] = value
        by_type = "sharding" in shared or op.name == "outfeed"
        before, first, last, is_lossless = self._shared_fields(node, op, shared, by_type=by_type)
        after = b"".join((control, self._called(op, attributes) if attributes.refers else b"", first, config, last))
        if not by_type:
            row.attributes[id(attributes)] = before, after
            if is_lossless:
                _memory.keep(op, attributes, (before, after))
        return before, after

    def _shared_fields(self, node: Node, op: Op, attributes: Mapping[str, Any], *, by_type: bool) -> _Fields:
        """The fields of attributes that refer to nothing in the module, with the op's defaults.

        In three parts: before the operands' numbers, before the backend config, and after it; and whether nothing was
        lost.
        """
        types = (node.type, *node.operand_types()) if by_type else ()
        same = (op, *attributes.items(), *types)
        fields = self._shared.get(same)
        if fields is None or not _INEXACT.isdisjoint(attributes):
            fields = self._shared[same] = self._encode_shared(node, op, attributes)
        return fields

    def _encode_shared(self, node: Node, op: Op, attributes: Mapping[str, Any]) -> _Fields:
        fields, losses = None, self.losses
        self.losses = {}
        if op.name != "outfeed" and attributes.keys() <= op.attributes.keys():
            fields = encode_attributes(op.name, attributes)
        if fields is None:
            fields = sorted(encoded_fields(self._message(node, op, attributes)), key=itemgetter(0))
        is_lossless = not self.losses
        self.losses = {**losses, **self.losses}
        return (
            b"".join([data for number, data in fields if number < _ID_NUMBER]),
            b"".join([data for number, data in fields if _ID_NUMBER < number < _BACKEND_CONFIG]),
            b"".join([data for number, data in fields if number >= _BACKEND_CONFIG]),
            is_lossless,
        )

    def _message(self, node: Node, op: Op, attributes: Mapping[str, Any]) -> Any:
        proto = protobuf.HloInstructionProto()
        set_defaults(proto, op.name)
        if op.name == "outfeed" and "outfeed_shape" not in attributes and node.operands and node.operands[0].type:
            proto.outfeed_shape.CopyFrom(write_shape(node.operands[0].type))
        context = Context(node.type, node.operand_types())
        for name, value in attributes.items():
            field = field_of(op.name, name)
            if name == PROTO_FIELDS:
                proto.MergeFromString(value.data)
            elif name not in op.attributes or field is None or isinstance(value, Verbatim):
                self.losses[f"attribute {name} of {op.name}"] = None
            else:
                try:
                    field.write(proto, value, context)
                except (TypeError, ValueError) as problem:
                    raise encoding_error(problem, f"attribute {name}") from None
        return proto

    def _control(self, nodes: Sequence[Node]) -> bytes:
        for node in nodes:
            if node not in self.ids:
                raise HloomError(f"its control predecessor {node.name} does not stand before it in its graph")
        return delimited(_CONTROL, b"".join([self.ids[node] for node in nodes])) if nodes else b""

    def _called(self, op: Op, attributes: Attributes) -> bytes:
        """The field of the called graphs."""
        if op.name in IMPLIED:
            return b""
        called = write_called(op.name, attributes)
        try:
            numbers = [VARINTS[self.graph_ids[graph]] for graph in called]
        except KeyError:
            unknown = next(graph for graph in called if graph not in self.graph_ids)
            raise HloomError(f"it calls {unknown.name}, which the module does not define") from None
        return delimited(_CALLED, b"".join(numbers)) if numbers else b""

    def _metadata_field(self, raw: str | None) -> bytes:
        """The field of metadata; the op name usually differs while the rest is usually cached."""
        if raw is None:
            return b""
        match = _NAMED.fullmatch(raw)
        if match is None or not raw.isascii():
            data = self._plain_metadata[raw]
        else:
            op_type, op_name, rest = match.groups("")
            start = self._plain_metadata[op_type]
            end = self._plain_metadata[rest] if "op_" not in rest else None
            name = op_name.encode()
            data = None if start is None or end is None else b"".join((start, _OP_NAME, VARINTS[len(name)], name, end))
        if data is None:
            data = self._write_metadata(parse_metadata(raw)).SerializeToString()
        return delimited(_METADATA, data) if data else b""

    def _encode_metadata(self, text: str) -> bytes | None:
        """The bytes of plain metadata; None if any field is not plain."""
        if not text:
            return b""
        frame = _FRAME.fullmatch(text)
        if frame:
            number = int(frame[1])
            return number_field(_STACK_FRAME, self.frame_ids.get(number, number))
        fields = plain_fields(text)
        if fields is None or "metadata_payload" in fields or not _fits(fields):
            return None
        frame = fields.get("stack_frame_id")
        if frame is not None:
            fields["stack_frame_id"] = self.frame_ids.get(int(frame), frame)
        return encoded_metadata(fields)

    def _write_metadata(self, metadata: Metadata) -> Any:
        """The message; a payload is stored in the module, and its index in the message."""
        proto = write_metadata(metadata)
        proto.stack_frame_id = self.frame_ids.get(metadata.stack_frame_id, metadata.stack_frame_id)
        if proto.HasField("metadata_payload"):
            self.payloads.append(proto.metadata_payload.value)
            proto.metadata_payload.id = len(self.payloads) - 1
        return proto


def _at(graph: Graph, node: Node | None, problem: str, hint: str | None = None) -> HloomError:
    return HloomError(f"{_place(graph, node)}: {problem}", hint=hint)


def _place(graph: Graph, node: Node | None) -> str:
    return graph.name if node is None else f"{graph.name}, {node.name} = {node.opcode}"


def _sized_shape(type_: Type | None) -> bytes:
    if type_ is None:
        raise HloomError("it has no type, and the wire needs one", hint="infer types first")
    data = encoded_shape(type_)
    return VARINTS[len(data)] + data


_shapes: Mapping[Type | None, bytes] = _BoundedMemo(_sized_shape)


def _static(type_: Type | None) -> Type | None:
    """A constant's type with its dimensions made static, as XLA reads it."""
    if isinstance(type_, TensorType) and not type_.is_static:
        return TensorType(type_.dtype, type_.dims, type_.layout)
    return type_


def _fits(fields: Mapping[str, str | int]) -> bool:
    """Whether numbers are in range and strings are text; protobuf reports what is wrong with others."""
    return all(value and (value.isascii() if isinstance(value, str) else value < 2**31) for value in fields.values())


_METADATA, _LITERAL, _ID_NUMBER, _CONTROL, _CALLED, _BACKEND_CONFIG = 7, 8, 35, 37, 38, 43
"""Numbers of HloInstructionProto's fields."""
_NAME, _PARAMETER, _ID, _OPERANDS = key(1, DELIMITED), key(9, VARINT), key(_ID_NUMBER, VARINT), key(36, DELIMITED)
"""The keys of its fields `name`, `parameter_number`, `id` and `operand_ids`."""
_NAMED_SIZES = _BoundedMemo(lambda size: _NAME + VARINTS[size])
_OPERAND_SIZES = _BoundedMemo(lambda size: _OPERANDS + VARINTS[size])
"""The prefix of a name and of operands, by their length in bytes."""
_INSTRUCTION = key(2, DELIMITED)
"""The key of HloComputationProto's field of instructions."""
_STACK_FRAME = field_numbers("OpMetadata")["stack_frame_id"]
_OP_NAME = key(2, DELIMITED)
"""The key of OpMetadata's field `op_name`."""
