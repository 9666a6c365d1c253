"""The module's header and stack tables as HLO text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hloom.hlo.attribute_printer import write_boolean, write_booleans, write_frontend, write_string
from hloom.hlo.reserved_words import RESERVED, TYPE_NAMES
from hloom.ir import FileLocation, FunctionType, Module, StackFrame, StackTables, list_with_indices


def print_header(module: Module, stack_tables: bool = True) -> str:
    """`HloModule name, key=value, ...`, the stack tables, a blank line."""
    attributes = "".join(f", {key}={_write(key, value)}" for key, value in module.attributes.items())
    percent = "%" if module.name in RESERVED or module.name in TYPE_NAMES else ""
    heading = f"HloModule {percent}{module.name}{attributes}\n\n"
    if module.stack_tables is None or not stack_tables:
        return heading
    return heading + _print_tables(module.stack_tables)


def _write(key: str, value: Any) -> str:
    writer = _WRITERS.get(key)
    return writer(value) if writer else str(value)


def _write_layout(layout: FunctionType) -> str:
    parameters = list_with_indices([str(parameter) for parameter in layout.parameters])
    return f"{{({parameters})->{layout.result}}}"


def _write_either(value: bool | tuple[bool, ...]) -> str:
    return write_boolean(value) if isinstance(value, bool) else write_booleans(value)


def _print_tables(tables: StackTables) -> str:
    sections = (
        ("FileNames", {number: write_string(name) for number, name in tables.file_names.items()}),
        ("FunctionNames", {number: write_string(name) for number, name in tables.function_names.items()}),
        ("FileLocations", {number: _fields(row) for number, row in tables.file_locations.items()}),
        ("StackFrames", {number: _frame(row) for number, row in tables.stack_frames.items()}),
    )
    titled = (
        f"{title}\n" + "".join(f"{number} {text}\n" for number, text in rows.items()) + "\n" for title, rows in sections
    )
    return "".join(titled) + "\n"


def _frame(row: StackFrame) -> str:
    """A frame; the text counts parents from one more than everything else, so that 1 means none."""
    return _fields(replace(row, parent_frame_id=row.parent_frame_id + 1))


def _fields(row: FileLocation | StackFrame) -> str:
    return "{" + " ".join(f"{name}={getattr(row, name)}" for name in row.__dataclass_fields__) + "}"


_WRITERS: dict[str, Callable[[Any], str]] = {
    "is_scheduled": write_boolean,
    "input_output_alias": lambda aliases: "{ " + ", ".join(map(str, aliases)) + " }",
    "buffer_donor": lambda donors: "{ " + ", ".join(map(str, donors)) + " }",
    "alias_passthrough_params": write_boolean,
    "entry_computation_layout": _write_layout,
    "allow_spmd_sharding_propagation_to_parameters": _write_either,
    "allow_spmd_sharding_propagation_to_output": _write_either,
    "frontend_attributes": write_frontend,
    "origin_recovery_table": lambda table: f"{table}\n",
}
