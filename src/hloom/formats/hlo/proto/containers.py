"""The file formats of modules: HloModuleProto alone, HloProto with buffers, HloSnapshot with values."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from google.protobuf.message import DecodeError, EncodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from hloom.formats import protobuf
from hloom.formats.hlo.proto.encoded_messages import LARGEST_MESSAGE, delimited, fields_besides
from hloom.formats.hlo.proto.literals import read_literal, write_literal
from hloom.formats.hlo.proto.module_reader import KEEPS, module_from_proto
from hloom.formats.hlo.proto.module_writer import ModuleWriter, write_module
from hloom.ir import Literal, Module
from hloom.text import HloomError, HloomWarning

BUFFERS = "buffer_assignment"
ARGUMENTS = "arguments"
RESULT = "result"
PLATFORM = "execution_platform"

_OPCODE = re.compile(r"[a-z][a-z0-9-]*")


def read_proto(data: bytes, *, name: str = "<proto>") -> Module:
    """Read a module from the bytes of a HloModuleProto, a HloProto or a HloSnapshot; `name` is what errors call them.

    A buffer assignment becomes `attachments["buffer_assignment"]`, a BufferAssignmentProto whose locations include
    their instructions' names; a snapshot's values become `attachments["arguments"]` and `["result"]`, Literals, and
    `["execution_platform"]`. Raises HloomError for bytes that are none of these.
    """
    problems: list[str] = []
    for message, unwrap in _READERS:
        try:
            proto = message().FromString(bytes(data))
        except DecodeError as problem:
            problems.append(str(problem).rpartition(": ")[2])
            continue
        module = unwrap(proto, name)
        if module is not None:
            return module
    reason = f"; protobuf says: {problems[0]}" if problems else ""
    raise HloomError(
        f"{name}: these {len(data)} bytes are not HloModuleProto, HloProto or HloSnapshot",
        hint=f"HLO text is read by hloom.formats.hlo.parse; compressed files must be decompressed first{reason}",
    )


def _looks_like_module(proto: Any) -> bool:
    """Whether a message decoded as a module makes sense as one: almost any bytes decode as something."""
    instructions = [instruction for computation in proto.computations for instruction in computation.instructions[:1]]
    return bool(instructions) and all(_OPCODE.fullmatch(instruction.opcode) for instruction in instructions)


def _read_module(proto: Any, name: str) -> Module | None:
    return module_from_proto(proto, name=name) if _looks_like_module(proto) else None


def _read_hlo(proto: Any, name: str) -> Module | None:
    if not _looks_like_module(proto.hlo_module):
        return None
    module = module_from_proto(proto.hlo_module, name=name)
    if proto.HasField("buffer_assignment"):
        module.attachments[BUFFERS] = _with_names(proto.buffer_assignment, proto.hlo_module)
    _keep_unknown(proto, module, name)
    return module


def _read_snapshot(proto: Any, name: str) -> Module | None:
    module = _read_hlo(proto.hlo, name)
    if module is None:
        return None
    try:
        module.attachments[ARGUMENTS] = tuple(map(read_literal, proto.arguments))
        if proto.HasField("result"):
            module.attachments[RESULT] = read_literal(proto.result)
    except HloomError as problem:
        raise HloomError(f"{name}: a value of the snapshot: {problem.message}") from None
    module.attachments[PLATFORM] = proto.execution_platform
    _keep_unknown(proto, module, name)
    return module


def _keep_unknown(proto: Any, module: Module, name: str) -> None:
    """Keep the fields of a container that the schema does not name, and note them."""
    numbers = sorted({unknown.field_number for unknown in UnknownFieldSet(proto)})
    if numbers:
        container = proto.DESCRIPTOR.name
        module.attachments[container] = fields_besides(proto, [field.name for field in proto.DESCRIPTOR.fields])
        module.notes.append(f"{name}: {KEEPS} the fields {', '.join(map(str, numbers))} of {container}")


_READERS: tuple[tuple[Callable[[], Any], Callable[[Any, str], Module | None]], ...] = (
    (lambda: protobuf.HloModuleProto, _read_module),
    (lambda: protobuf.HloProto, _read_hlo),
    (lambda: protobuf.HloSnapshot, _read_snapshot),
)


def _locations(buffers: Any) -> list[Any]:
    return [buffer.defined_at for buffer in buffers.logical_buffers] + [
        buffer.location for buffer in buffers.buffer_aliases
    ]


def _with_names(buffers: Any, module: Any) -> Any:
    """A copy whose locations name their instructions: ids change when a module is written, names do not."""
    copy = protobuf.BufferAssignmentProto()
    copy.CopyFrom(buffers)
    names = {
        instruction.id: instruction.name
        for computation in module.computations
        for instruction in computation.instructions
    }
    for location in _locations(copy):
        if not location.instruction_name:
            location.instruction_name = names.get(location.instruction_id, "")
    return copy


def _with_numbers(buffers: Any, numbers: Mapping[str, int], losses: dict[str, None]) -> Any:
    """A copy whose locations use the ids under which the instructions were written."""
    copy = protobuf.BufferAssignmentProto()
    copy.CopyFrom(buffers)
    for location in _locations(copy):
        number = numbers.get(location.instruction_name)
        if number is None:
            losses[f"buffers of {location.instruction_name or location.instruction_id}, which is gone"] = None
        else:
            location.instruction_id = number
    return copy


def write_proto(module: Module, message_name: str = "hlo_module") -> bytes:
    """The bytes of a module as "hlo_module", or together with its attachments as "hlo" or "hlo_snapshot".

    Whatever the format cannot hold is dropped with a HloomWarning; see `module_to_proto` for what raises an error.
    """
    if message_name not in _WRITERS:
        raise HloomError(f"no kind of proto is called '{message_name}'", hint=f"there are {', '.join(_WRITERS)}")
    written = write_module(module)
    try:
        data = _WRITERS[message_name](written)
    except (EncodeError, ValueError) as problem:
        raise HloomError(f"{module.name} cannot be written as protobuf: {problem}") from None
    if written.losses:
        warnings.warn(f"{module.name}: the proto cannot hold {', '.join(written.losses)}", HloomWarning, stacklevel=2)
    if len(data) > LARGEST_MESSAGE:
        raise HloomError(f"{module.name} cannot be written as protobuf: it has {len(data)} bytes")
    return data


def _write_module(written: ModuleWriter) -> bytes:
    _lose(written, BUFFERS, ARGUMENTS, RESULT, PLATFORM)
    return written.data


def _write_hlo(written: ModuleWriter) -> bytes:
    _lose(written, ARGUMENTS, RESULT, PLATFORM)
    return _with_buffers(written)


def _lose(written: ModuleWriter, *names: str) -> None:
    """Warn that attachments cannot be stored."""
    written.losses.update({f"the attachment {name}": None for name in names if written.module.attachments.get(name)})


def _with_buffers(written: ModuleWriter) -> bytes:
    """The bytes of HloProto: the module's first, then the buffers."""
    rest = protobuf.HloProto.FromString(written.module.attachments.get("HloProto", b""))
    buffers = written.module.attachments.get(BUFFERS)
    if buffers is not None:
        rest.buffer_assignment.CopyFrom(_with_numbers(buffers, written.numbers, written.losses))
    return delimited(1, written.data) + rest.SerializeToString(deterministic=True)


def _write_snapshot(written: ModuleWriter) -> bytes:
    attachments = written.module.attachments
    rest = protobuf.HloSnapshot.FromString(attachments.get("HloSnapshot", b""))
    rest.execution_platform = attachments.get(PLATFORM, "")
    rest.arguments.extend(map(write_literal, attachments.get(ARGUMENTS, ())))
    result = attachments.get(RESULT)
    if isinstance(result, Literal):
        rest.result.CopyFrom(write_literal(result))
    return delimited(1, _with_buffers(written)) + rest.SerializeToString(deterministic=True)


_WRITERS: dict[str, Callable[[ModuleWriter], bytes]] = {
    "hlo_module": _write_module,
    "hlo": _write_hlo,
    "hlo_snapshot": _write_snapshot,
}
