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
from hloom.hlo.proto.metadata import write_metadata
from hloom.hlo.proto.shapes import write_shape
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
        self._attributes: dict[tuple[Op, int, Type | None], Any] = {}
        self._metadata: dict[str, Any] = {}

    def write(self, proto: Any, node: Node, name: str, number: int) -> None:
        """Fill an instruction's message; HloomError where the node has no type or uses what stands behind it."""
        if node.type is None:
            raise HloomError("it has no type, and the wire needs one", hint="infer types first")
        proto.name = name
        proto.opcode = node.opcode
        proto.id = number
        if isinstance(node, Apply):
            if not isinstance(node.function, Op):
                raise HloomError("it calls a computed function: HLO cannot say that")
            try:
                proto.operand_ids.extend([self.ids[member] for member in node.inputs])
            except KeyError as missing:
                raise HloomError(f"its operand {missing.args[0].name} does not stand before it in its graph") from None
            self._add_attributes(proto, node, node.function)
        else:
            self._add_leaf(proto, node)
        if not proto.HasField("shape"):
            proto.shape.CopyFrom(self.shape(node.type))
        if node.raw_metadata is not None:
            proto.metadata.CopyFrom(self._metadata_of(node.raw_metadata))
        self.ids[node] = number

    def shape(self, type_: Type) -> Any:
        """The type's message, to be copied."""
        cached = self._shapes.get(type_)
        if cached is None:
            cached = self._shapes[type_] = write_shape(type_)
        return cached

    def _add_leaf(self, proto: Any, node: Node) -> None:
        if isinstance(node, Parameter):
            proto.parameter_number = node.number
        elif isinstance(node, Constant):
            if not isinstance(node.value, Literal):
                raise HloomError("it holds a function as a value: HLO cannot say that")
            type_ = node.type
            if isinstance(type_, TensorType) and not type_.is_static:  # a constant's size is known: so does XLA read it
                type_ = TensorType(type_.dtype, type_.dims, type_.layout)
                proto.shape.CopyFrom(self.shape(type_))
            proto.literal.CopyFrom(write_literal(node.value, type_))
        self._add_attributes(proto, node, LEAF)

    def _add_attributes(self, proto: Any, node: Node, op: Op) -> None:
        """Merge in what the attributes say, worked out once per op, attributes and (for shardings) type."""
        attributes = node.attributes
        key = (op, id(attributes), node.type if "sharding" in attributes or op.name == "outfeed" else None)
        cached = self._attributes.get(key)
        if cached is None:
            cached = self._attributes[key] = self._write_attributes(node, op)
        proto.MergeFrom(cached)

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

    def _metadata_of(self, raw: str) -> Any:
        cached = self._metadata.get(raw)
        if cached is None:
            cached = self._metadata[raw] = self._write_metadata(parse_metadata(raw))
        return cached

    def _write_metadata(self, metadata: Metadata) -> Any:
        """The message; a payload goes to the module, and its place there into the message."""
        proto = write_metadata(metadata)
        proto.stack_frame_id = self.frame_ids.get(metadata.stack_frame_id, metadata.stack_frame_id)
        if proto.HasField("metadata_payload"):
            self.payloads.append(proto.metadata_payload.value)
            proto.metadata_payload.id = len(self.payloads) - 1
        return proto
