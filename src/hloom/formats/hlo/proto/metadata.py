"""Converts instruction metadata to and from OpMetadata and StackFrameIndexProto; payloads are in the module.

In the proto, rows of stack tables have no numbers other than their positions, counted from 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hloom.formats import protobuf
from hloom.formats.hlo.proto.encoded_messages import delimited, field_numbers, in_order, number_field
from hloom.ir import METADATA_FIELDS, FileLocation, LazyRows, Metadata, StackFrame, StackTables
from hloom.text import HloomError

_SIMPLE = dict.fromkeys(name for name in METADATA_FIELDS if name not in ("profile_type", "metadata_payload"))


def write_metadata(metadata: Metadata) -> Any:
    """Metadata as OpMetadata, with its payload inline."""
    proto = protobuf.OpMetadata(
        **{name: value for name in _SIMPLE if (value := getattr(metadata, name))}, profile_type=metadata.profile_type
    )
    if metadata.metadata_payload:
        proto.metadata_payload.value = to_bytes(metadata.metadata_payload)
    return proto


def encoded_metadata(values: Mapping[str, str | int]) -> bytes:
    """The bytes of OpMetadata with these fields: strings and numbers in range, none of them empty or 0."""
    numbers = field_numbers("OpMetadata")
    return in_order(
        (
            numbers[name],
            number_field(numbers[name], value)
            if isinstance(value, int)
            else delimited(numbers[name], value.encode("utf-8")),
        )
        for name, value in values.items()
    )


def read_metadata(proto: Any, payloads: Sequence[bytes] = ()) -> Metadata:
    """OpMetadata as metadata with its payload looked up; HloomError if there is none with that number."""
    values = {field.name: value for field, value in proto.ListFields() if field.name in _SIMPLE}
    if proto.profile_type:
        values["profile_type"] = tuple(proto.profile_type)
    if proto.HasField("metadata_payload"):
        values["metadata_payload"] = to_text(read_payload(proto.metadata_payload, payloads))
    return Metadata(**values)


def read_payload(proto: Any, payloads: Sequence[bytes]) -> bytes:
    """The bytes of a Payload, inline or in the module."""
    if proto.WhichOneof("payload_source") != "id":
        return proto.value
    if not 0 <= proto.id < len(payloads):
        raise HloomError(f"there is no payload number {proto.id}: the module has {len(payloads)}")
    return payloads[proto.id]


def to_bytes(text: str) -> bytes:
    """A text as bytes; surrogates become the original non-UTF-8 bytes again."""
    return text.encode("utf-8", "surrogateescape")


def to_text(data: bytes) -> str:
    """Bytes as text; those that are not UTF-8 become surrogates."""
    return data.decode("utf-8", "surrogateescape")


class _EncodedRows(LazyRows[Any]):
    """Rows of a StackFrameIndexProto, which all of its tables keep alive."""

    __slots__ = ("proto",)
    proto: Any

    def __init__(self, proto: Any, parse: Callable[[Any], dict[int, Any]]) -> None:
        super().__init__(lambda: parse(proto))
        self.proto = proto


def write_tables(proto: Any, tables: StackTables) -> dict[int, int]:
    """Fill a StackFrameIndexProto; returns the new number of each stack frame."""
    rows = (tables.file_names, tables.function_names, tables.file_locations, tables.stack_frames)
    read = [table.proto for table in rows if isinstance(table, _EncodedRows)]
    if len(read) == len(rows) and all(other is read[0] for other in read):
        proto.CopyFrom(read[0])
        return {number: number for number in range(1, len(proto.stack_frames) + 1)}
    names, functions = _places(tables.file_names), _places(tables.function_names)
    locations, frames = _places(tables.file_locations), _places(tables.stack_frames)
    proto.file_names.extend(tables.file_names.values())
    proto.function_names.extend(tables.function_names.values())
    for location in tables.file_locations.values():
        proto.file_locations.add(
            file_name_id=_place(names, location.file_name_id),
            function_name_id=_place(functions, location.function_name_id),
            line=location.line,
            end_line=location.end_line,
            column=location.column,
            end_column=location.end_column,
        )
    for frame in tables.stack_frames.values():
        proto.stack_frames.add(
            file_location_id=_place(locations, frame.file_location_id),
            parent_frame_id=_place(frames, frame.parent_frame_id),
        )
    return frames


def _places(rows: Mapping[int, Any]) -> dict[int, int]:
    return {number: position for position, number in enumerate(rows, 1)}


def _place(places: Mapping[int, int], number: int) -> int:
    """The new number of a row; a dangling number is kept unless it would become valid, and then is 0."""
    return places.get(number, number if number > len(places) or number < 0 else 0)


def read_tables(proto: Any) -> StackTables | None:
    """A StackFrameIndexProto as tables; None if there are no frames."""
    if not proto.stack_frames:
        return None
    kept = protobuf.StackFrameIndexProto()
    kept.CopyFrom(proto)  # a submessage keeps the whole message in memory
    return StackTables(
        _EncodedRows(kept, lambda index: dict(enumerate(index.file_names, 1))),
        _EncodedRows(kept, lambda index: dict(enumerate(index.function_names, 1))),
        _EncodedRows(kept, _read_locations),
        _EncodedRows(kept, _read_frames),
    )


def _read_locations(proto: Any) -> dict[int, FileLocation]:
    return {
        number: FileLocation(row.file_name_id, row.function_name_id, row.line, row.end_line, row.column, row.end_column)
        for number, row in enumerate(proto.file_locations, 1)
    }


def _read_frames(proto: Any) -> dict[int, StackFrame]:
    return {
        number: StackFrame(row.file_location_id, row.parent_frame_id)
        for number, row in enumerate(proto.stack_frames, 1)
    }
