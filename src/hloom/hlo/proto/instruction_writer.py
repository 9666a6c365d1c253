"""Nodes as HloInstructionProto.

What nodes share is worked out once and copied: GPT-size modules have few different types and attributes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hloom import protobuf
from hloom.hlo.proto.field_mapping import Context
from hloom.hlo.proto.instruction_fields import CONTROL, GRAPHS, field_of, set_defaults, write_called
from hloom.hlo.proto.literals import write_literal
from hloom.hlo.proto.metadata import encoded_metadata, write_metadata
from hloom.hlo.proto.shapes import encoded_shape, write_shape
from hloom.hlo.reader_state import LEAF
from hloom.ir import (
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
"""Attributes that async-start says for the whole chain."""


class InstructionWriter:
    """Writes nodes of one module; `graph_ids` and `ids` number graphs and nodes, `losses` names what finds no place."""

    def __init__(self, graph_ids: Mapping[Graph, int], frame_ids: Mapping[int, int]) -> None:
        self.graph_ids = graph_ids
        self.frame_ids = frame_ids
        self.ids: dict[Node, int] = {}
        self.payloads: list[bytes] = []
        self.losses: dict[str, None] = {}
        self._shapes: dict[Type, Any] = {}
        self._shapes_on_wire: dict[Type, bytes] = {}
        self._attributes: dict[tuple[Op, int, Type | None], bytes] = {}
        self._metadata: dict[str, bytes] = {}

    def write(self, instructions: Any, node: Node, name: str, number: int) -> None:
        """Add an instruction as it stands on the wire.

        Raises HloomError where the node has no type or uses what stands behind it.
        """
        if node.type is None:
            raise HloomError("it has no type, and the wire needs one", hint="infer types first")
        type_, raw = node.type, node.raw_metadata
        metadata = b"" if raw is None else self._metadata.get(raw) or self._metadata_of(raw)
        fields: dict[str, Any] = {}
        if isinstance(node, Apply):
            op = node.function
            if not isinstance(op, Op):
                raise HloomError("it calls a computed function: HLO cannot say that")
            try:
                operands = [self.ids[member] for member in node.inputs]
            except KeyError as missing:
                raise HloomError(f"its operand {missing.args[0].name} does not stand before it in its graph") from None
        else:
            op, operands = LEAF, ()
            if isinstance(node, Parameter):
                fields["parameter_number"] = node.number
            elif isinstance(node, Constant):
                type_ = _static(type_)
                fields["literal"] = self._literal(node, type_)
        attributes = node.attributes
        key = (op, id(attributes), node.type if "sharding" in attributes or op.name == "outfeed" else None)
        shared = self._attributes.get(key)
        if shared is None:
            shared = self._attributes[key] = self._write_attributes(node, op).SerializeToString()
        proto = instructions.add(
            name=name, opcode=node.opcode, id=number, operand_ids=operands, shape=self._shape_bytes(type_), **fields
        )
        if raw is not None:
            proto.metadata = metadata
        if shared:
            proto.MergeFromString(shared)
        self.ids[node] = number

    def shape(self, type_: Type) -> Any:
        """The type's message, to be copied."""
        cached = self._shapes.get(type_)
        if cached is None:
            cached = self._shapes[type_] = write_shape(type_)
        return cached

    def _shape_bytes(self, type_: Type) -> bytes:
        cached = self._shapes_on_wire.get(type_)
        if cached is None:
            cached = self._shapes_on_wire[type_] = encoded_shape(type_)
        return cached

    def _literal(self, node: Constant, type_: Type) -> bytes:
        if not isinstance(node.value, Literal):
            raise HloomError("it holds a function as a value: HLO cannot say that")
        return write_literal(node.value, type_).SerializeToString()

    def _write_attributes(self, node: Node, op: Op) -> Any:
        proto = protobuf.HloInstructionProto()
        set_defaults(proto, op.name)
        if op.name == "outfeed" and "outfeed_shape" not in node.attributes and node.inputs and node.inputs[0].type:
            proto.outfeed_shape.CopyFrom(self.shape(node.inputs[0].type))
        context = Context(node.type, node.operand_types())
        for name, value in node.attributes.items():
            attribute = op.attributes.get(name)
            field = field_of(op.name, name)
            if name in IMPLIED.get(op.name, ()) or (attribute and attribute.kind in GRAPHS):
                continue
            if name == CONTROL:
                self._write_control(proto, value)
            elif attribute is None or field is None or isinstance(value, Verbatim):
                self.losses[f"attribute {name} of {op.name}"] = None
            else:
                try:
                    field.write(proto, value, context)
                except (TypeError, ValueError) as problem:
                    raise HloomError(f"attribute {name}: {problem}") from None
        if op.name not in IMPLIED:
            proto.called_computation_ids.extend(self._called_ids(op, node.attributes))
        return proto

    def _write_control(self, proto: Any, nodes: Sequence[Node]) -> None:
        for node in nodes:
            if node not in self.ids:
                raise HloomError(f"its control predecessor {node.name} does not stand before it in its graph")
            proto.control_predecessor_ids.append(self.ids[node])

    def _called_ids(self, op: Op, attributes: Attributes) -> list[int]:
        if not attributes.refers:
            return []
        called = write_called(op.name, attributes)
        unknown = next((graph for graph in called if graph not in self.graph_ids), None)
        if unknown is not None:
            raise HloomError(f"it calls {unknown.name}, which the module does not define")
        return [self.graph_ids[graph] for graph in called]

    def _metadata_of(self, raw: str) -> bytes:
        fields = plain_fields(raw)
        if fields is not None and "metadata_payload" not in fields and _fits(fields):
            frame = fields.get("stack_frame_id")
            if frame is not None:
                fields["stack_frame_id"] = self.frame_ids.get(int(frame), frame)
            made = encoded_metadata(fields)
        else:
            made = self._write_metadata(parse_metadata(raw)).SerializeToString()
        self._metadata[raw] = made
        return made

    def _write_metadata(self, metadata: Metadata) -> Any:
        """The message; a payload goes to the module, and its place there into the message."""
        proto = write_metadata(metadata)
        proto.stack_frame_id = self.frame_ids.get(metadata.stack_frame_id, metadata.stack_frame_id)
        if proto.HasField("metadata_payload"):
            self.payloads.append(proto.metadata_payload.value)
            proto.metadata_payload.id = len(self.payloads) - 1
        return proto


def _static(type_: Type) -> Type:
    """A constant's type, whose size is known: so does XLA read it."""
    if isinstance(type_, TensorType) and not type_.is_static:
        return TensorType(type_.dtype, type_.dims, type_.layout)
    return type_


def _fits(fields: Mapping[str, str | int]) -> bool:
    """Whether numbers are such as the wire holds, and strings are text: protobuf says of others what is wrong."""
    return all(value and (value.isascii() if isinstance(value, str) else value < 2**31) for value in fields.values())
