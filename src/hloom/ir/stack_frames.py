"""The tables that follow a module's header: file names, function names, locations and stack frames."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class FileLocation:
    """A span of a file, inside a function; lines and columns count from 1, 0 is unknown."""

    file_name_id: int = 0
    function_name_id: int = 0
    line: int = 0
    end_line: int = 0
    column: int = 0
    end_column: int = 0


@dataclass(frozen=True, slots=True)
class StackFrame:
    """A location and the frame that called it (0: none)."""

    file_location_id: int = 0
    parent_frame_id: int = 0


@dataclass(frozen=True, slots=True)
class StackTraceFrame:
    """One line of a stack trace, its names looked up."""

    file: str
    function: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line} ({self.function})"


@dataclass(frozen=True, slots=True)
class StackTables:
    """The four tables, by the numbers that the text gives their rows."""

    file_names: dict[int, str] = field(default_factory=dict[int, str])
    function_names: dict[int, str] = field(default_factory=dict[int, str])
    file_locations: dict[int, FileLocation] = field(default_factory=dict[int, FileLocation])
    stack_frames: dict[int, StackFrame] = field(default_factory=dict[int, StackFrame])

    def trace(self, stack_frame_id: int) -> list[StackTraceFrame]:
        """The frames from the innermost outwards; unknown numbers end it."""
        frames: list[StackTraceFrame] = []
        seen: set[int] = set()
        while stack_frame_id in self.stack_frames and stack_frame_id not in seen:
            seen.add(stack_frame_id)
            frame = self.stack_frames[stack_frame_id]
            location = self.file_locations.get(frame.file_location_id, FileLocation())
            file = self.file_names.get(location.file_name_id, "?")
            function = self.function_names.get(location.function_name_id, "?")
            frames.append(StackTraceFrame(file, function, location.line))
            stack_frame_id = frame.parent_frame_id
        return frames
