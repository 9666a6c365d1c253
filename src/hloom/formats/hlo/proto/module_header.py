"""Converts a module's header to and from fields of HloModuleProto; schedule and stack tables are handled elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from hloom.formats import protobuf
from hloom.formats.hlo.proto.encoded_messages import DELIMITED, VARINTS, key
from hloom.formats.hlo.proto.field_mapping import rows_of
from hloom.formats.hlo.proto.instruction_fields import read_frontend, write_frontend
from hloom.formats.hlo.proto.shapes import decoded_shape, read_shape
from hloom.ir import BufferDonor, FunctionType, InputOutputAlias, Module, Type
from hloom.text import HloomError

_KINDS = {"may-alias": "MAY_ALIAS", "must-alias": "MUST_ALIAS"}
_ELSEWHERE = frozenset(("is_scheduled", "origin_recovery_table"))

_write_donors, _read_donors = rows_of(BufferDonor, "parameter_number", "parameter_shape_index")

DEFAULTS: dict[str, Any] = {"replica_count": 1, "num_partitions": 1}
"""The meaning of an absent header attribute if it is not false or empty; the message omits these values."""


def write_header(proto: Any, module: Module, losses: dict[str, None]) -> None:
    """Fill the header's fields; attributes without a field are added to the losses."""
    for name, value in module.attributes.items():
        if name in _WRITERS:
            _WRITERS[name](proto, value)
        elif name not in _ELSEWHERE and not _is_default(name, value):
            losses[f"header attribute {name}"] = None


def encoded_program_shape(
    parameters: Sequence[Type | None], result: Type | None, names: Iterable[bytes], shapes: Mapping[Type | None, bytes]
) -> bytes:
    """The bytes of a ProgramShapeProto; `shapes` gives the encoded types with length prefixes.

    Raises HloomError if a type is unknown.
    """
    if result is None or None in parameters:
        raise HloomError("a parameter or the result of a computation has no type, and the wire needs one")
    parts = [part for parameter in parameters for part in (_PARAMETER, shapes[parameter])]
    parts += (_RESULT, shapes[result])
    parts += [part for name in names for part in (_PARAMETER_NAME, VARINTS[len(name)], name)]
    return b"".join(parts)


_PARAMETER, _RESULT, _PARAMETER_NAME = key(1, DELIMITED), key(2, DELIMITED), key(3, DELIMITED)
"""The keys of ProgramShapeProto's fields."""


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
    """The header's attributes in XLA's order; HloomError if they are malformed."""
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
    types = [
        decoded_shape(shape.SerializeToString()) or read_shape(shape) for shape in (*proto.parameters, proto.result)
    ]
    return FunctionType(types[:-1], types[-1])
