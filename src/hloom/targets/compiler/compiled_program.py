"""What a target's compiler made of a program: the optimised module and the compiler's own figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hloom.analysis import cost
from hloom.ir import Module
from hloom.targets.compiler.assignment_text import SpaceUse
from hloom.targets.compiler.custom_calls import Rewritten
from hloom.targets.compiler.cycles import CompilerCycles
from hloom.targets.compiler.target import CUDA, Target
from hloom.text import Bytes, Display, Displayed, DisplayTable, Record, byte_text, readable

NOT_TUNED = (
    "kernels are not autotuned, because no GPU is there to measure: libraries and tiles may differ from production"
)


@dataclass(frozen=True, slots=True)
class CompiledMemory(Record):
    """Bytes of one device as the compiler reports them, padding included.

    `temporaries` are those of the main memory: on a TPU, 0 if all stand in VMEM. `generated_code` is 0 where the
    compiler does not say. `host` counts arguments, outputs and temporaries in the host's memory.

    Source: xla/pjrt/pjrt_executable.h, CompiledMemoryStats.
    """

    arguments: Bytes
    outputs: Bytes
    aliases: Bytes
    temporaries: Bytes
    generated_code: Bytes
    host: Bytes
    json_keys = "arguments outputs aliases temporaries peak generated_code host"

    @property
    def peak(self) -> Bytes:
        """Arguments and outputs, with aliases counted once, and temporaries; without the code."""
        return self.arguments + self.outputs - self.aliases + self.temporaries

    @classmethod
    def of_statistics(cls, statistics: Mapping[str, int]) -> CompiledMemory:
        """The figures from XLA's, by their names without `_in_bytes`."""
        host = [statistics.get(f"host_{part}_size", 0) for part in ("argument", "output", "temp")]
        return cls(
            arguments=statistics["argument_size"],
            outputs=statistics["output_size"],
            aliases=statistics["alias_size"],
            temporaries=statistics["temp_size"],
            generated_code=statistics.get("generated_code_size", 0),
            host=sum(host) - statistics.get("host_alias_size", 0),
        )


@dataclass(frozen=True, slots=True)
class CollectiveSum:
    """All collectives of a kind: how many stand in the program, how often they run, and the bytes a device sends."""

    count: int
    runs: int
    bytes: Bytes


@dataclass(frozen=True, slots=True, repr=False)
class CompiledProgram(Displayed, Record):
    """A program as a target's compiler made it.

    `module` is the optimised module, whose order is the schedule; `text` is the same as XLA prints it;
    `buffer_assignment` is XLA's text, empty if the compiler wrote none, and `spaces` its sums by memory space.
    `seconds` is the time of compiling, `cost` XLA's own cost analysis of the module (empty on GPUs), `cycles` the
    compiler's estimate (TPUs alone). `partitioner` is "shardy", "gspmd" or "none"; `rewritten` are custom calls that
    were changed for this target.
    """

    target: Target
    name: str
    devices: int
    module: Module = field(repr=False)
    text: str = field(repr=False)
    memory: CompiledMemory
    spaces: tuple[SpaceUse, ...]
    buffer_assignment: str = field(repr=False)
    cycles: CompilerCycles | None
    cost: dict[str, float]
    seconds: float
    compiler: str
    versions: dict[str, str]
    partitioner: str
    flags: tuple[tuple[str, str], ...]
    rewritten: tuple[Rewritten, ...]
    notes: tuple[str, ...]
    is_cached: bool
    json_keys = (
        "name target=target.name devices target_devices=target.devices memory device_memory=target.memory fits spaces "
        "cycles cost collectives instructions=module.node_count seconds from_cache=is_cached compiler versions "
        "partitioner flags=flag_values rewritten notes=all_notes"
    )

    @property
    def fits(self) -> bool | None:
        """Whether the peak fits into a device's memory; None where the compiler itself refuses what does not (TPUs)."""
        return None if self.target.memory is None else self.memory.peak <= self.target.memory

    def collectives(self) -> dict[str, CollectiveSum]:
        """The collectives by kind, as `hloom.cost` counts them."""
        sums: dict[str, CollectiveSum] = {}
        for one in cost(self.module).collective_costs:
            if one.comm_bytes:
                kind = one.opcode.removesuffix("-start")
                known = sums.get(kind, CollectiveSum(0, 0, 0))
                sent = known.bytes + one.comm_bytes * one.times
                sums[kind] = CollectiveSum(known.count + 1, known.runs + one.times, sent)
        return sums

    def display(self) -> Display:
        spaces = [(space.name, space.total, space.temporaries) for space in self.spaces]
        tables = (
            DisplayTable("memory", ("part", "bytes"), list(self.memory.to_json().items()), 7),
            DisplayTable("memory spaces", ("space", "bytes", "temporaries"), spaces, len(spaces)),
            DisplayTable("about", ("what", "value"), self.about(), len(self.about())),
            DisplayTable("notes", ("note",), [(note,) for note in self.all_notes()], len(self.all_notes())),
        )
        title = (
            f"<{readable(self.name)} compiled for {self.target.name}: {byte_text(self.memory.peak)}, "
            f"{self.module.node_count:,} instructions, {self.seconds:.1f} s>"
        )
        return Display(title, tables, "program.module, program.buffer_assignment")

    def about(self) -> list[tuple[str, str]]:
        """What there is to say beside sizes: names and values."""
        rows = [
            ("target", f"{self.target.name} ({self.devices:,} of {self.target.devices:,} devices)"),
            ("compiler", self.compiler),
            ("packages", ", ".join(f"{name} {number}" for name, number in self.versions.items())),
            ("partitioner", self.partitioner),
            ("compile time", f"{self.seconds:.2f} s{' (from the cache)' if self.is_cached else ''}"),
            ("instructions", f"{self.module.node_count:,}"),
        ]
        if self.cycles is not None:
            rows.append(("estimated cycles", f"{self.cycles.total:,} of {self.cycles.instructions:,} instructions"))
        rows += [(f"{name}, by XLA", f"{value:,.0f}") for name, value in self.cost.items()]
        rows += [
            (kind, f"{one.count:,} ({one.runs:,} runs), {byte_text(one.bytes)} sent")
            for kind, one in self.collectives().items()
        ]
        if self.flags:
            rows.append(("flags", " ".join(f"{name}={value}" for name, value in self.flags)))
        return rows

    def all_notes(self) -> list[str]:
        """What a reader of the figures should know: rewritten calls first."""
        lines = [
            f"custom calls to {one.target} ({one.count:,}) became {one.became}"
            + (": memory and time inside them are not counted" if one.is_opaque else "")
            for one in self.rewritten
        ]
        if self.cycles is not None and self.cycles.unknown_loops:
            lines.append(
                f"{self.cycles.unknown_loops:,} loops run a number of iterations that depends on data: their cycles "
                "count once"
            )
        lines += self.notes
        return lines + ([NOT_TUNED] if self.target.platform == CUDA else [])

    @property
    def flag_values(self) -> dict[str, str]:
        """The compiler's flags that were set."""
        return dict(self.flags)
