"""Sharded combinations: meshes, microbatches and recomputation, each planned unless a bound rules it out.

Of a program on a mesh all plans come from one `PlanSpace`. They are priced by time first; what they hold is simulated
from the fastest on, until one fits. Where the fastest do not fit, plans within the memory are searched for, then
programs that hold less. Plans of microbatches and recomputation start from those of the step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from hloom.analysis import Device
from hloom.distribute.fit.combination import Combination
from hloom.distribute.fit.programs import SHARES, ProgramVariants, Variant
from hloom.distribute.fit.sharded_program import ShardedProgram
from hloom.distribute.planner import CandidatePlan, Plan, PlanSpace, Rates, experts
from hloom.sharding import Mesh
from hloom.text import HloomError, say, time_text

MOST_MESHES = 4
"""The maximum number of two-axis meshes to try."""
MOST_VARIANTS = 3
"""The maximum number of programs with microbatches or recomputation to plan per mesh if the step itself does not fit.
"""
MOST_CARRIED = 1
"""So many of the step's plans on a mesh are completed for each such program, beside the one that is planned for it."""
RUNNERS_UP = 3
"""The number of next-fastest combinations to simulate for the table, besides the best."""
SLACK = 1.25
"""A program predicted to need this many times the memory is not planned."""
AXES = ("data", "model")
DATA, FSDP, GATHERED, MEGATRON = "data parallel", "FSDP", "FSDP, weights gathered", "Megatron"
CHECKPOINT = "FSDP with checkpoint"
CAUTION = 0.95
"""What is expected to hold so much less than it should by live ranges is not simulated where that is too much."""
LESS_MEMORY = (FSDP, "ZeRO")
"""What names of plans say that hold less than others."""
BASELINES = (DATA, FSDP, CHECKPOINT, MEGATRON)
"""The plans that people write by hand; GPipe is the pipelines'."""


def meshes(device: Device, devices: int) -> list[Mesh]:
    """The meshes of one axis and of two: each factorisation once, in both orders where links differ."""
    if devices == 1:
        return [Mesh((AXES[0],), (1,))]
    first = [link.devices for link in device.links if link.topology != "host"][:1]
    is_uniform = first in ([None], []) or (first[0] is not None and devices <= first[0])
    pairs = [(size, devices // size) for size in range(2, devices) if devices % size == 0]
    pairs = [pair for pair in pairs if not is_uniform or pair[0] <= pair[1]]
    pairs.sort(key=lambda pair: abs(math.log(pair[0] / pair[1])))
    return [Mesh(AXES[:1], (devices,)), *(Mesh(AXES, pair) for pair in pairs[:MOST_MESHES])]


@dataclass
class Counts:
    """How many combinations there are, how many a bound ruled out, how many were planned and priced, or left."""

    considered: int = 0
    pruned: int = 0
    evaluated: int = 0
    left: int = 0


@dataclass(slots=True)
class _Sharded:
    """A plan of a program, priced; `peak` is None until it was simulated."""

    variant: Variant
    candidate: CandidatePlan
    program: ShardedProgram
    baseline: str
    peak: int | None = None
    live_bytes: int = 0

    @property
    def seconds(self) -> float:
        return self.program.step_seconds

    @property
    def mesh(self) -> Mesh:
        return self.candidate.plan.mesh

    def simulate(self) -> int:
        """Peak bytes."""
        if self.peak is None:
            self.peak = self.program.peak_bytes()
        return self.peak


class ShardingSearch:
    """The search over meshes and variants of a program, each with all its plans in one space."""

    def __init__(
        self,
        variants: ProgramVariants,
        device: Device,
        devices: int,
        memory: float | None,
        microbatches: Sequence[int],
        counts: Counts,
    ) -> None:
        self.variants, self.device = variants, device
        self.memory = math.inf if memory is None else memory
        self.microbatches, self.counts = microbatches, counts
        self.meshes = meshes(device, devices)
        self._plans: list[_Sharded] = []

    @property
    def best_seconds(self) -> float:
        """The step time of the fastest that fits so far."""
        return min((made.seconds for made in self._plans if self._fits(made)), default=math.inf)

    @property
    def bound_seconds(self) -> float:
        """A lower bound on all combinations: the step's work divided among the devices."""
        step = self.variants.variant(1, 1.0)
        return 0.0 if step is None else step.ideal_seconds

    def run(self) -> list[Combination]:
        """Plan the step on each mesh, then what holds less where the fastest does not fit."""
        step = self.variants.variant(1, 1.0)
        if step is None:
            raise HloomError(next(iter(self.variants.problems.values())))
        spaces = [PlanSpace(step.module, mesh, Rates.of(self.device, mesh)) for mesh in self.meshes]
        fastest = [self._planned(step, space) for space in spaces]
        self._simulate_fastest()
        order = sorted(range(len(spaces)), key=lambda number: fastest[number].seconds)
        for number in order:
            if fastest[number].seconds < self.best_seconds:
                self._within(step, spaces[number])
        self._checkpointed()
        for number in order:
            self._smaller(spaces[number], fastest[number])
        if self.best_seconds == math.inf:
            self._smallest(spaces)
        return list(self._combinations())

    def _planned(self, step: Variant, space: PlanSpace) -> _Sharded:
        """The planner's plan of the step on a mesh, on one axis beside those that people write: the fastest of them."""
        self.counts.considered += 1
        self.counts.evaluated += 1
        made = [self._add(step, space.search(), "")]
        if len(space.task.mesh.names) == 1:
            plans = experts(step.module, space.task.mesh)
            made += [self._add(step, space.complete(plan), _baseline(plan)) for plan in plans]
        return min(made, key=lambda plan: plan.seconds)

    def _simulate_fastest(self) -> None:
        """Simulate what plans hold, the fastest first, until one fits."""
        for made in sorted(self._plans, key=lambda plan: plan.seconds):
            if made.seconds >= self.best_seconds:
                return
            if made.peak is None and self._expected_bytes(made) <= self.memory:
                made.simulate()

    def _expected_bytes(self, made: _Sharded) -> float:
        """By live ranges, which is quick, times what simulations of the program's other plans are of that at least."""
        ratios = [
            other.peak / other.live_bytes
            for other in self._plans
            if other.variant is made.variant and other.peak and other.live_bytes
        ]
        made.live_bytes = made.live_bytes or made.program.live_bytes()
        return CAUTION * min(ratios, default=0.0) * made.live_bytes

    def _within(self, variant: Variant, space: PlanSpace) -> None:
        """Plans of a space that hold no more than the memory, and those that people write on two axes to hold less."""
        if len(space.task.mesh.names) > 1:
            for plan in experts(variant.module, space.task.mesh):
                if MEGATRON in plan.name and any(word in plan.name for word in LESS_MEMORY):
                    self._add(variant, space.complete(plan), "")
            self._simulate_fastest()
        for candidate in space.within(self.memory):
            self._add(variant, candidate, "").peak = candidate.memory

    def _smaller(self, space: PlanSpace, bound: _Sharded) -> None:
        """Plan programs that hold less, as long as they may be faster than the best that fits.

        The fastest plan of the step itself bounds them: microbatches and recomputation add work, and take none away.
        They are expected to take longer than it by as much as their work is more.
        """
        others = [(n, share) for share in SHARES for n in self.microbatches if (n, share) != (1, 1.0)]
        planned = 0
        for n, share in others:
            self.counts.considered += 1
            if bound.seconds >= self.best_seconds:
                self.counts.pruned += 1
                continue
            if planned == MOST_VARIANTS:
                self.counts.left += 1
                continue
            variant = self.variants.variant(n, share)
            if variant is None:
                self.counts.considered -= 1
            elif variant.ideal_seconds >= self.best_seconds:
                self.counts.pruned += 1
            elif self._is_promising(variant, space, bound):
                self._carried(variant, space)
                planned += 1
            else:
                self.counts.left += 1

    def _smallest(self, spaces: Sequence[PlanSpace]) -> None:
        """Plan the program that holds least on one device, where nothing fits, unless it was planned."""
        variant = min(self.variants.known, key=lambda variant: variant.peak_bytes)
        planned = {made.mesh for made in self._plans if made.variant is variant}
        for space in spaces:
            if space.task.mesh not in planned:
                self._carried(variant, space)

    def _is_promising(self, variant: Variant, space: PlanSpace, bound: _Sharded) -> bool:
        """Whether a program is expected to fit, and to be faster than the best."""
        step = bound.variant
        own = [made for made in self._plans if made.mesh == space.task.mesh and made.variant is step]
        least = min((made.peak for made in own if made.peak is not None), default=step.peak_bytes)
        expected = variant.ideal_seconds / (step.ideal_seconds or 1.0) * bound.seconds
        held = least / max(step.peak_bytes, 1) * variant.peak_bytes
        return expected < self.best_seconds and held <= SLACK * self.memory

    def _carried(self, variant: Variant, space: PlanSpace) -> None:
        """A program's own plan on the mesh of a space, and the step's there that hold least or are fastest."""
        self.counts.evaluated += 1
        mesh = space.task.mesh
        own = PlanSpace(variant.module, mesh, space.task.rates)
        known = [made for made in self._plans if made.mesh == mesh and made.variant.is_step]
        smallest = sorted((made for made in known if made.peak is not None), key=lambda made: made.peak or 0)
        fastest = sorted(known, key=lambda made: made.seconds)
        carried = {id(made): made for made in (*smallest[:1], *fastest)}
        self._add(variant, own.search(), "")
        for made in list(carried.values())[:MOST_CARRIED]:
            self._add(variant, own.complete(_without_duplicates(made.candidate.plan)), "")
        self._simulate_fastest()

    def _checkpointed(self) -> None:
        """FSDP of the step with recomputation, as people write it: on all devices."""
        mesh = self.meshes[0]
        variant = next((made for share in SHARES[1:] if (made := self.variants.variant(1, share))), None)
        if variant is None:
            return
        space = PlanSpace(variant.module, mesh, Rates.of(self.device, mesh))
        for plan in experts(variant.module, mesh):
            if plan.name.startswith("FSDP"):
                self._add(variant, space.complete(plan), CHECKPOINT).simulate()

    def _add(self, variant: Variant, candidate: CandidatePlan, baseline: str) -> _Sharded:
        made = _Sharded(variant, candidate, ShardedProgram.of(candidate, self.device), baseline)
        self._plans.append(made)
        fastest = min(self._plans, key=lambda plan: plan.seconds)
        say(f"{len(self._plans)} plans, the fastest on {fastest.mesh}: {time_text(fastest.seconds)}")
        return made

    def _fits(self, made: _Sharded) -> bool:
        return made.peak is not None and made.peak <= self.memory

    def _combinations(self) -> Iterator[Combination]:
        """What was simulated, the baselines, and the next fastest; of the rest is known that it is slower."""
        self._simulate_fastest()
        waiting = sorted((made for made in self._plans if made.peak is None), key=lambda made: made.seconds)
        for made in (*(made for made in waiting if made.baseline), *waiting[:RUNNERS_UP]):
            made.simulate()
        for made in self._plans:
            if made.peak is not None:
                yield self._combination(made)

    def _combination(self, made: _Sharded) -> Combination:
        plan, variant = made.candidate.plan, made.variant
        axes = ",".join(f"{name}={size}" for name, size in zip(plan.mesh.names, plan.mesh.sizes, strict=True))
        return Combination(
            f"{'planned' if plan.name.startswith(('ilp', 'plan')) else plan.name} ({axes})",
            variant.module,
            variant.microbatches,
            variant.share,
            made.program.cost(made.simulate()),
            plan=plan,
            baseline=made.baseline,
            batch=self.variants.batch if variant.microbatches > 1 else None,
        )


def _baseline(plan: Plan) -> str:
    """What people call a plan on all devices."""
    if len(plan.mesh.names) > 1:
        return ""
    name = plan.name.replace(f" on {AXES[0]}", "")
    return {DATA: DATA, FSDP: FSDP, GATHERED: FSDP, MEGATRON: MEGATRON}.get(name, "")


def _without_duplicates(plan: Plan) -> Plan:
    """A plan to be kept to in another program, which has not the instructions that are computed twice in this one."""
    return replace(plan, duplicates=(), operand_specs=())
