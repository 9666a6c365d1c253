"""Stack tables as StackFrameIndexProto, both ways: there rows have no numbers but their places, counted from 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hloom.ir import FileLocation, StackFrame, StackTables

_LOCATION = tuple(FileLocation.__dataclass_fields__)


def write_tables(proto: Any, tables: StackTables) -> dict[int, int]:
    """Fill a StackFrameIndexProto; the new number of each stack frame."""
    names, functions = _places(tables.file_names), _places(tables.function_names)
    locations, frames = _places(tables.file_locations), _places(tables.stack_frames)
    proto.file_names.extend(tables.file_names.values())
    proto.function_names.extend(tables.function_names.values())
    for location in tables.file_locations.values():
        row = proto.file_locations.add(**{name: getattr(location, name) for name in _LOCATION})
        row.file_name_id = names.get(location.file_name_id, 0)
        row.function_name_id = functions.get(location.function_name_id, 0)
    for frame in tables.stack_frames.values():
        proto.stack_frames.add(
            file_location_id=locations.get(frame.file_location_id, 0),
            parent_frame_id=frames.get(frame.parent_frame_id, 0),
        )
    return frames


def _places(rows: Mapping[int, Any]) -> dict[int, int]:
    return {number: position for position, number in enumerate(rows, 1)}


def read_tables(proto: Any) -> StackTables | None:
    """A StackFrameIndexProto as tables; None where there are no frames."""
    if not proto.stack_frames:
        return None
    return StackTables(
        dict(enumerate(proto.file_names, 1)),
        dict(enumerate(proto.function_names, 1)),
        {
            number: FileLocation(**{name: getattr(row, name) for name in _LOCATION})
            for number, row in enumerate(proto.file_locations, 1)
        },
        {
            number: StackFrame(row.file_location_id, row.parent_frame_id)
            for number, row in enumerate(proto.stack_frames, 1)
        },
    )
