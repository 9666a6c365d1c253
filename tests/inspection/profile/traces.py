"""Traces written as a profiler writes them: planes of timelines, events with statistics."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hloom.formats.hlo import parse, save
from hloom.inspection.profile.trace import XPLANE

MICROSECOND = 1_000_000
"""Picoseconds."""
MODULE = """HloModule jit_step, is_scheduled=true
ENTRY e {
  x = f32[64,64] parameter(0), metadata={op_name="x"}
  d = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(step)/layer_0/dot" source_file="m.py" source_line=3}
  a = f32[64,64] all-reduce(d), replica_groups={{0,1}}, to_apply=add, metadata={op_name="jit(step)/layer_0/psum"}
  ROOT t = f32[64,64] tanh(a), metadata={op_name="jit(step)/layer_1/tanh" source_file="m.py" source_line=5}
}
add { p = f32[] parameter(0) q = f32[] parameter(1) ROOT s = f32[] add(p, q) }
"""
BEFORE = (
    MODULE.replace(", is_scheduled=true", "")
    .replace(" d = ", " dot.1 = ")
    .replace("(d)", "(dot.1)")
    .replace("tanh(a)", "tanh(a2)")
    .replace(" a = ", " a2 = ")
    .replace("ROOT t ", "ROOT tanh.9 ")
)
"""What it was compiled from: other names, the same op_names."""
Event = tuple[str, int, int, int]
"""Instruction, run, start and end in microseconds."""


class TraceWriter:
    """Builds one `.xplane.pb`."""

    def __init__(self) -> None:
        self.space: Any = XPLANE["XSpace"]()

    def plane(self, name: str) -> Any:
        plane = self.space.planes.add()
        plane.name = name
        return plane

    def stat(self, plane: Any, owner: Any, name: str, value: int | str | bytes) -> None:
        numbers = {known.name: key for key, known in plane.stat_metadata.items()}
        number = numbers.get(name, len(numbers) + 1)
        plane.stat_metadata[number].name = name
        stat = owner.stats.add()
        stat.metadata_id = number
        if isinstance(value, bytes):
            stat.bytes_value = value
        elif isinstance(value, str):
            stat.str_value = value
        else:
            stat.int64_value = value

    def cpu(self, events: Sequence[Event], module: str = "jit_step", number: int = 7, device: int = 0) -> None:
        plane = self.plane("/host:CPU")
        line = plane.lines.add()
        for name, run, start, end in events:
            event = line.events.add()
            key = next(
                (key for key, known in plane.event_metadata.items() if known.name == name),
                len(plane.event_metadata) + 1,
            )
            plane.event_metadata[key].name = name
            event.metadata_id, event.offset_ps, event.duration_ps = (
                key,
                start * MICROSECOND,
                (end - start) * MICROSECOND,
            )
            for stat, value in (
                ("hlo_op", name),
                ("hlo_module", module),
                ("program_id", number),
                ("run_id", run),
                ("device_ordinal", device),
            ):
                self.stat(plane, event, stat, value)

    def gpu(self, events: Sequence[Event], derives: bool = False, module: str = "jit_step", number: int = 7) -> None:
        """Kernels by stream, collectives on one of their own; with the lines that tools add if it derives them."""
        plane = self.plane("/device:GPU:0")
        streams = [plane.lines.add() for _ in range(2)]
        for stream, name in zip(streams, ("Stream #13(Kernel)", "Stream #14(MemcpyD2D,Kernel)"), strict=True):
            stream.name, stream.id = name, int(name[8:10])
        derived = [plane.lines.add() for _ in range(2)] if derives else []
        for line, name in zip(derived, ("XLA Ops", "XLA Modules"), strict=False):
            line.name = name
        self._add(plane, streams[0], "memset_kernel", 0, 1)  # a kernel that no instruction launched
        for name, _, start, end in events:
            kernels = ((start, start + 1), (start + 1, end)) if name == "d" else ((start, end),)
            for from_, to in kernels:
                event = self._add(plane, streams[name == "a"], f"kernel_{name}_{from_ - start}", from_, to)
                for stat, value in (
                    ("correlation_id", 100 * start),
                    ("kernel_details", "regs:32 static_shared:0 grid:1,1,1 block:128,1,1"),
                    ("hlo_module", module),
                    ("hlo_op", name),
                    ("program_id", number),
                ):
                    self.stat(plane, event, stat, value)
            if derives:
                self._add(plane, derived[0], name, start, end)
        for run in dict.fromkeys(event[1] for event in events) if derives else ():
            times = [(start, end) for _, other, start, end in events if other == run]
            self._add(plane, derived[1], module, min(times)[0], max(end for _, end in times))

    def _add(self, plane: Any, line: Any, name: str, start: int, end: int) -> Any:
        numbers = {known.name: key for key, known in plane.event_metadata.items()}
        number = numbers.get(name, len(numbers) + 1)
        plane.event_metadata[number].name = name
        event = line.events.add()
        event.metadata_id, event.offset_ps, event.duration_ps = number, start * MICROSECOND, (end - start) * MICROSECOND
        return event

    def program(self, text: str, folder: Path, name: str = "jit_step", number: int = 7) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        data = save(parse(text), folder / "program.pb").read_bytes()
        plane = self.plane("/host:metadata")
        plane.event_metadata[1].name = f"{name}({number})"
        self.stat(plane, plane.event_metadata[1], "Hlo Proto", data)

    def write(self, folder: Path, session: str = "2026_01_31", host: str = "host") -> Path:
        target = folder / "plugins" / "profile" / session
        target.mkdir(parents=True, exist_ok=True)
        (target / f"{host}.xplane.pb").write_bytes(self.space.SerializeToString())
        return folder


RUNS: list[Event] = [
    ("d", 1, 0, 10), ("a", 1, 8, 18), ("t", 1, 28, 30),
    ("d", 2, 100, 120), ("a", 2, 118, 128), ("t", 2, 138, 140),
]  # fmt: skip
"""Two runs: 8 of 10 us of the all-reduce nothing overlaps, then 10 us are idle."""


def written(folder: Path, events: Sequence[Event] = RUNS, text: str | None = MODULE) -> Path:
    writer = TraceWriter()
    writer.cpu(events)
    if text is not None:
        writer.program(text, folder)
    return writer.write(folder / "trace")
