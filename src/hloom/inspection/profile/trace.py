"""Traces that `jax.profiler.trace` writes: which instruction of which program ran when, on which device.

    DIR/plugins/profile/2026_01_31_12_00_00/host.xplane.pb

On a CPU an instruction's events have the statistics `hlo_op`, `hlo_module`, `program_id` and `run_id`. On a GPU the
kernels of a stream are a line, `Stream #7(Kernel)` in the plane `/device:GPU:0`, and have those of the instruction that
launched them; tools add lines `XLA Ops` and `XLA Modules` that are made of these. On a TPU instructions stand in the
line `XLA Ops`, with the program in the line `XLA Modules` at the same time. The plane `/host:metadata` has the
optimised programs themselves, as HloProto. Times are picoseconds. Source: CreateXEvent in
xla/backends/profiler/gpu/cupti_collector.cc, and DeriveEventsFromAnnotations.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError

from hloom.formats.protobuf import Schema
from hloom.text import HloomError, read_limited

XPLANE = Schema("xplane")
SUFFIX = ".xplane.pb"
LARGEST_FILE = 2 << 30
"""The maximum size of a file in bytes, which is also protobuf's limit."""
MOST_FILES = 256
MOST_EVENTS = 20_000_000
"""The maximum number of instruction events to read."""
HINT = "a trace is what jax.profiler.trace(DIR) writes: DIR/plugins/profile/*/*.xplane.pb"
OPS_LINE = "XLA Ops"
METADATA_PLANE = "/host:metadata"
TITLES = ("device_type_string", "gpu_device_name")
"""Statistics of a device's plane that name it (xla/tsl/profiler/utils/xplane_schema.cc): of TPUs, and some of GPUs."""
MOST_TITLE = 100
"""The maximum number of characters of a device's title."""
_PROGRAM = re.compile(r"^(.*)\(([0-9]{1,20})\)$")
_INSTRUCTION = re.compile(r"^%?([\w.-]+)(?: = |$)")


class ProgramId(NamedTuple):
    """A program that ran: its module's name and the number that the profiler gave it, -1 where it gave none."""

    name: str
    number: int


class OpEvent(NamedTuple):
    """An instruction's run: from `start` to `end` in picoseconds, on a thread or stream of a device."""

    op: str
    device: str
    timeline: int
    run: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class PlaneDevice:
    """What the plane of a device says of it: a title, as in `TPU v4`, or a GPU's vendor, compute capability, number of
    cores and bytes of memory; empty and 0 for what it does not say.
    """

    title: str = ""
    vendor: str = ""
    capability: tuple[int, int] = (0, 0)
    cores: int = 0
    memory: int = 0

    def __str__(self) -> str:
        if self.title or not self.vendor:
            return self.title
        major, minor = self.capability
        return f"a {self.vendor} GPU of compute capability {major}.{minor}, {self.cores} cores, {self.memory:,} B"


@dataclass(slots=True)
class ProfilerTrace:
    """The events of instructions by program, and the optimised programs as HloProto, where the trace has them.

    `devices` is what is known of the devices that events name.
    """

    path: str
    programs: dict[ProgramId, list[OpEvent]] = field(default_factory=dict)
    protos: dict[ProgramId, bytes] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    devices: dict[str, PlaneDevice] = field(default_factory=dict)

    def proto(self, program: ProgramId) -> bytes | None:
        """The optimised program; of several of one name only that with the number."""
        if program in self.protos:
            return self.protos[program]
        named = [data for known, data in self.protos.items() if known.name == program.name]
        return named[0] if len(named) == 1 and program.number < 0 else None


def read_trace(path: str | os.PathLike[str]) -> ProfilerTrace:
    """Read a directory that a profiler wrote into, its last session, or one file.

    Raises HloomError where there is no trace, where one is damaged, and where it has no events of instructions.
    """
    files = _files(Path(path))
    trace = ProfilerTrace(os.fspath(path))
    count = 0
    for number, file in enumerate(files):
        try:
            space = XPLANE["XSpace"].FromString(read_limited(file, LARGEST_FILE))
        except DecodeError:
            raise HloomError(f"{file} is damaged, or is not a trace", hint=HINT) from None
        trace.notes += [str(error)[:200] for error in space.errors[:3]]
        prefix = f"{number}:" if len(files) > 1 else ""
        for plane in space.planes:
            if plane.name == METADATA_PLANE:
                trace.protos.update(_protos(plane))
            trace.devices[f"{prefix}{plane.name}"] = _plane_device(plane)
            for program, event in _plane_events(plane, prefix):
                trace.programs.setdefault(program, []).append(event)
                count += 1
                if count > MOST_EVENTS:
                    raise HloomError(f"{path} has more than {MOST_EVENTS:,} events: trace fewer steps")
    if not trace.programs:
        raise HloomError(f"{path} has no events of XLA's instructions", hint="trace steps while they run on the device")
    return trace


def _files(path: Path) -> list[Path]:
    """The files of a trace: itself, those in a directory, or of the last session below it."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise HloomError(f"cannot read {path}: no such file or directory", hint=HINT)
    files = sorted(path.glob(f"*{SUFFIX}"))
    sessions = sorted(path.glob(f"plugins/profile/*/*{SUFFIX}"))
    if not files and sessions:
        files = [file for file in sessions if file.parent == sessions[-1].parent]
    if not files:
        raise HloomError(f"{path} holds no trace", hint=HINT)
    if len(files) > MOST_FILES:
        raise HloomError(f"{path} holds {len(files):,} files of a trace: at most {MOST_FILES} are read")
    root = os.path.realpath(path)  # which, unlike Path.resolve, follows a link to itself no further
    if not all(Path(os.path.realpath(file)).is_relative_to(root) for file in files):
        raise HloomError(f"{path} holds a symbolic link out of the directory")
    return files


def _plane_device(plane: Any) -> PlaneDevice:
    """What the plane of a GPU or TPU says that it is (GetDeviceCapabilities in cupti_collector.cc and its like)."""
    names = {key: metadata.name for key, metadata in plane.stat_metadata.items()}
    stats: dict[str, Any] = {}
    for stat in plane.stats:
        form = stat.WhichOneof("value")
        if form is not None:
            value = getattr(stat, form)
            stats[names.get(stat.metadata_id, "")] = names.get(value, "") if form == "ref_value" else value
    titles = (stats[name] for name in TITLES if isinstance(stats.get(name), str))
    vendor = stats.get("device_vendor")
    major, minor, cores, memory = (
        value if isinstance(value := stats.get(name), int) else 0
        for name in ("compute_cap_major", "compute_cap_minor", "core_count", "memory_size")
    )
    return PlaneDevice(
        title=next((title for title in titles if title), "")[:MOST_TITLE],
        vendor=vendor[:MOST_TITLE] if isinstance(vendor, str) else "",
        capability=(major, minor),
        cores=cores,
        memory=memory,
    )


def _protos(plane: Any) -> Iterator[tuple[ProgramId, bytes]]:
    for metadata in plane.event_metadata.values():
        for stat in metadata.stats:
            if stat.WhichOneof("value") == "bytes_value" and stat.bytes_value:
                program = _program(metadata.name)
                yield (program if program.number >= 0 else ProgramId(program.name, metadata.id)), stat.bytes_value


def _program(text: str) -> ProgramId:
    match = _PROGRAM.match(text)
    return ProgramId(match[1], int(match[2])) if match else ProgramId(text, -1)


def _plane_events(plane: Any, prefix: str) -> Iterator[tuple[ProgramId, OpEvent]]:
    """The events of instructions of a plane, each with its program."""
    names = {key: metadata.name for key, metadata in plane.stat_metadata.items()}
    reader = _StatReader(names)
    shared = {key: reader.read(metadata.stats) for key, metadata in plane.event_metadata.items()}
    modules = _ModuleTimes(plane)
    has_kernels = any(_has_kernels(line, shared, reader) for line in plane.lines)
    for line in plane.lines:
        is_ops = line.name == OPS_LINE
        if is_ops and has_kernels:  # these would count a second time
            continue
        begin = line.timestamp_ns * 1000
        for event in line.events:
            stats = {**shared.get(event.metadata_id, {}), **reader.read(event.stats)}
            op = stats.get("hlo_op")
            if op is None and is_ops:
                op = _op_of(plane.event_metadata[event.metadata_id])
            if not isinstance(op, str) or event.duration_ps <= 0:
                continue
            start = begin + event.offset_ps
            program, run = modules.at(start)
            if "hlo_module" in stats:
                number = stats.get("program_id", -1)
                program = _program(str(stats["hlo_module"]))
                if isinstance(number, int) and program.number < 0:
                    program = program._replace(number=number)
            run_id = stats.get("run_id")
            run = run_id if isinstance(run_id, int) else run
            ordinal = stats.get("device_ordinal")
            device = f"{prefix}{plane.name}" if ordinal is None else f"{prefix}{plane.name}:{ordinal}"
            if program is not None:
                yield program, OpEvent(op, device, line.id, run, start, start + event.duration_ps)


def _has_kernels(line: Any, shared: Mapping[int, Mapping[str, Any]], reader: _StatReader) -> bool:
    """Whether a line beside that of instructions has events that say which instruction they are of."""
    return line.name != OPS_LINE and any(
        "hlo_op" in shared.get(event.metadata_id, ()) or "hlo_op" in reader.read(event.stats) for event in line.events
    )


def _op_of(metadata: Any) -> str | None:
    """The instruction that an event of a TPU is of: its name, or the name in front of its text."""
    match = _INSTRUCTION.match(metadata.display_name) or _INSTRUCTION.match(metadata.name[:1000])
    return match[1] if match else None


class _StatReader:
    """Reads statistics of a plane; `names` are those of its statistics by number."""

    WANTED = frozenset({"hlo_op", "hlo_module", "program_id", "run_id", "device_ordinal"})

    def __init__(self, names: Mapping[int, str]) -> None:
        self.names = names
        self.wanted = {key: name for key, name in names.items() if name in self.WANTED}

    def read(self, stats: Any) -> dict[str, str | int]:
        """What is wanted of some statistics."""
        values: dict[str, str | int] = {}
        for stat in stats:
            name = self.wanted.get(stat.metadata_id)
            form = stat.WhichOneof("value") if name is not None else None
            if name is None or form in (None, "bytes_value", "double_value"):
                continue
            value = getattr(stat, form)
            values[name] = self.names.get(value, "") if form == "ref_value" else value
        return values


class _ModuleTimes:
    """When which program ran on a device, from the line `XLA Modules`."""

    def __init__(self, plane: Any) -> None:
        spans: list[tuple[int, int, ProgramId]] = []
        for line in plane.lines:
            if line.name != "XLA Modules":
                continue
            for event in line.events:
                start = line.timestamp_ns * 1000 + event.offset_ps
                spans.append((start, start + event.duration_ps, _program(plane.event_metadata[event.metadata_id].name)))
        self.spans = sorted(spans)
        self.starts = [start for start, _, _ in self.spans]

    def at(self, time: int) -> tuple[ProgramId | None, int]:
        """The program that runs at a time, and which of its runs that is."""
        number = bisect_right(self.starts, time) - 1
        if number < 0 or time > self.spans[number][1]:
            return None, 0
        return self.spans[number][2], number
