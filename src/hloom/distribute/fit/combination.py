"""A combination of sharding, microbatches, recomputation and stages, and its cost on each device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hloom.distribute.pipeline import PipelinePlan
from hloom.distribute.planner import Plan
from hloom.ir import Module
from hloom.targets.compiler import CompiledProgram
from hloom.text import Display, Displayed, DisplayTable, Record, time_text

CAUSES = ("compute", "memory", "launch", "links", "bubble")
"""The components of a step's time: work by the roofline model, collectives and transfers, waiting in a pipeline."""
BINDS = {"compute": "compute", "memory": "memory bandwidth", "launch": "launches", "links": "links", "bubble": "bubble"}
"""The description of the bottleneck for each dominant component."""


@dataclass(frozen=True, slots=True)
class DeviceCost:
    """The cost of a step on a device: seconds by component, bytes sent to other devices, peak bytes.

    `bubble` is the share of the devices' time in which they wait for other stages.
    """

    seconds_by_cause: Mapping[str, float]
    comm_bytes: float
    peak_bytes: int
    bubble: float = 0.0

    @property
    def step_seconds(self) -> float:
        """The time of a step: all causes one after the other."""
        return sum(self.seconds_by_cause.values())

    @property
    def binding(self) -> str:
        """The dominant component."""
        return BINDS[max(CAUSES, key=lambda cause: self.seconds_by_cause.get(cause, 0.0))]


@dataclass(frozen=True, slots=True, repr=False)
class Combination(Displayed, Record):
    """One way to run a step: `plan` shards `module` over a mesh, or `pipeline` cuts it into stages.

    `module` is the one-device program that is run: with a loop over microbatches, and with what is computed again.
    `recomputation` is the share of the activations' memory that was asked for, 1 where nothing is recomputed.
    `baseline` is what people call it who write it by hand, empty for what the search found. `measured_bytes` is the
    peak by XLA's buffer assignment, `measured_comm_bytes` what its partitioner sends, `measured_bubble` a pipeline's
    where it was run; None where nobody asked. If a target's compiler measured a sharded program, `compiled` is what it
    made.
    """

    name: str
    module: Module = field(repr=False)
    microbatches: int
    recomputation: float
    cost: DeviceCost
    plan: Plan | None = field(default=None, repr=False)
    pipeline: PipelinePlan | None = None
    baseline: str = ""
    batch: Mapping[str, int] | None = None
    measured_bytes: int | None = None
    measured_comm_bytes: float | None = None
    measured_bubble: float | None = None
    compiled: CompiledProgram | None = field(default=None, repr=False)
    json_keys = (
        "name baseline microbatches recomputation mesh=plan.mesh.axis_sizes stages=stage_count cost.step_seconds "
        "cost.seconds_by_cause cost.comm_bytes cost.peak_bytes cost.bubble cost.binding measured_bytes "
        "measured_comm_bytes measured_bubble compiler?=compiled"
    )

    def display(self) -> Display:
        causes = [(cause, seconds) for cause, seconds in self.cost.seconds_by_cause.items() if seconds]
        held = f"{time_text(self.cost.step_seconds)} a step, {self.peak_bytes:,} bytes at the peak"
        tables = [DisplayTable("what takes the time", ("cause", "seconds"), causes, len(causes))]
        for part in filter(None, (self.plan, self.pipeline)):
            tables += part.display().tables
        return Display(f"<combination {self.name}: {held}>", tables)

    @property
    def peak_bytes(self) -> int:
        """Bytes of a device at the peak: as measured, else as expected."""
        return self.cost.peak_bytes if self.measured_bytes is None else self.measured_bytes

    def fits(self, memory: float | None) -> bool:
        """Whether it fits in this many bytes."""
        return memory is None or self.peak_bytes <= memory

    @property
    def stage_count(self) -> int | None:
        """The number of pipeline stages; None without a pipeline."""
        return None if self.pipeline is None else len(self.pipeline.stages)


@dataclass(frozen=True, slots=True)
class Omission:
    """Combinations that were left out, and why."""

    name: str
    reason: str
