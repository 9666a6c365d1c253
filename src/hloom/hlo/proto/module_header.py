"""A module's header as fields of HloModuleProto, both ways; the schedule and the stack tables stand elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from hloom import protobuf
from hloom.hlo.proto.field_mapping import rows_of
from hloom.hlo.proto.instruction_fields import read_frontend, write_frontend
from hloom.hlo.proto.shapes import read_shape, write_shape
from hloom.ir import BufferDonor, FunctionType, Graph, InputOutputAlias, Module, Type
from hloom.text import HloomError

_KINDS = {"may-alias": "MAY_ALIAS", "must-alias": "MUST_ALIAS"}
_ELSEWHERE = frozenset(("is_scheduled", "origin_recovery_table"))

_write_donors, _read_donors = rows_of(BufferDonor, "parameter_number", "parameter_shape_index")

DEFAULTS: dict[str, Any] = {"replica_count": 1, "num_partitions": 1}
"""What the absence of a header attribute means where it is not false or nothing; the wire has none of these."""


def write_header(proto: Any, module: Module, losses: dict[str, None]) -> None:
    """Fill the header's fields; attributes that the wire has no field for are added to the losses."""
    for name, value in module.attributes.items():
        if name in _WRITERS:
            _WRITERS[name](proto, value)
        elif name not in _ELSEWHERE and not _is_default(name, value):
            losses[f"header attribute {name}"] = None


def write_entry_layout(proto: Any, module: Module) -> None:
    """Fill `host_program_shape`, which XLA wants: from the header, or else from the entry graph."""
    layout = module.attributes.get("entry_computation_layout") or entry_layout(module.entry)
    write_program_shape(
        proto.host_program_shape, layout, [f"p{number}" for number in range(len(layout.parameters))], write_shape
    )


def entry_layout(graph: Graph) -> FunctionType:
    """The types of a graph's parameters and result, with their layouts."""
    return FunctionType([parameter.type for parameter in graph.parameters], graph.root.type)


def write_program_shape(proto: Any, type_: FunctionType, names: Iterable[str], shape: Callable[[Type], Any]) -> None:
    """Fill a ProgramShapeProto; raises HloomError where a type is not known."""
    for parameter in (*type_.parameters, type_.result):
        if parameter is None:
            raise HloomError("a parameter or the result of a computation has no type, and the wire needs one")
    proto.parameters.extend(shape(parameter) for parameter in type_.parameters if parameter is not None)
    proto.parameter_names.extend(names)
    if type_.result is not None:
        proto.result.CopyFrom(shape(type_.result))


def _is_default(name: str, value: Any) -> bool:
    return value == DEFAULTS.get(name, False) or (isinstance(value, tuple) and not any(value))


def _write_aliases(proto: Any, aliases: Iterable[InputOutputAlias]) -> None:
    for alias in aliases:
        proto.input_output_alias.entries.add(
            output_shape_index=alias.output_index,
            parameter_number=alias.parameter,
            parameter_shape_index=alias.parameter_index,
            kind=protobuf.Kind.Value(_KINDS[alias.kind]),
        )


_WRITERS: dict[str, Callable[[Any, Any], None]] = {
    "input_output_alias": _write_aliases,
    "buffer_donor": lambda proto, donors: _write_donors(proto.buffer_donor.entries, donors),
    "entry_computation_layout": lambda proto, value: None,
    "frontend_attributes": lambda proto, pairs: write_frontend(proto.frontend_attributes, pairs),
}


def read_header(proto: Any) -> dict[str, Any]:
    """The header's attributes, in XLA's order; HloomError where they are malformed."""
    attributes = {
        "is_scheduled": proto.HasField("schedule") or None,
        "input_output_alias": tuple(map(_read_alias, proto.input_output_alias.entries)),
        "buffer_donor": _read_donors(proto.buffer_donor.entries),
        "entry_computation_layout": _read_layout(proto),
        "frontend_attributes": read_frontend(proto.frontend_attributes),
    }
    return {name: value for name, value in attributes.items() if value}


def _read_alias(entry: Any) -> InputOutputAlias:
    kinds = {protobuf.Kind.Value(wired): name for name, wired in _KINDS.items()}
    if entry.kind not in kinds or entry.parameter_number < 0:
        raise HloomError(f"an alias of parameter {entry.parameter_number} is of the unknown kind {entry.kind}")
    return InputOutputAlias(
        tuple(entry.output_shape_index),
        entry.parameter_number,
        tuple(entry.parameter_shape_index),
        kinds[entry.kind],
    )


def _read_layout(module: Any) -> FunctionType | None:
    if not module.HasField("host_program_shape"):
        return None
    proto = module.host_program_shape
    return FunctionType([read_shape(parameter) for parameter in proto.parameters], read_shape(proto.result))
