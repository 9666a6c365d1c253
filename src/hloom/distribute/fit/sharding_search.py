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
from hloom.ir import paused_collection
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
        self._experts: dict[Mesh, list[Plan]] = {}

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
        spaces: list[PlanSpace] = []
        fastest: list[_Sharded] = []
        for mesh in self.meshes:
            spaces.append(PlanSpace(step.module, mesh, Rates.of(self.device, mesh)))
            fastest.append(self._planned(step, spaces[-1]))
        self._simulate_fastest()
        order = sorted(range(len(spaces)), key=lambda number: fastest[number].seconds)
        for number in order:
            if fastest[number].seconds < self.best_seconds:
                self._within(step, spaces[number])
        self._checkpointed(fastest[0])
        for number in order:
            self._smaller(spaces[number], fastest[number])
        if self.best_seconds == math.inf:
            self._smallest(spaces)
        return list(self._combinations())

    @paused_collection()
    def _planned(self, step: Variant, space: PlanSpace) -> _Sharded:
        """The planner's plan of the step on a mesh, on one axis after the baselines: the fastest of them.

        To complete a plan takes less time than to search for one, so the first that fits is known early.
        """
        self.counts.considered += 1
        self.counts.evaluated += 1
        made: list[_Sharded] = []
        if len(space.task.mesh.names) == 1:
            by_hand = [plan for plan in self._by_hand(space) if _baseline(plan)]
            made += [self._add(step, space.complete(plan), _baseline(plan)) for plan in by_hand]
        made.append(self._add(step, space.search(), ""))
        return min(made, key=lambda plan: plan.seconds)

    def _by_hand(self, space: PlanSpace) -> list[Plan]:
        """The plans that people write for the step on a mesh."""
        mesh = space.task.mesh
        if mesh not in self._experts:
            self._experts[mesh] = experts(space.task.module, mesh)
        return self._experts[mesh]

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

    @paused_collection()
    def _within(self, variant: Variant, space: PlanSpace) -> None:
        """Plans of a space that hold no more than the memory, and those that people write to hold less.

        The planner's plan is the cheapest of all, so these count only where it does not fit.
        """
        is_alone = len(space.task.mesh.names) == 1
        for plan in self._by_hand(space):
            holds_less = any(word in plan.name for word in LESS_MEMORY)
            if not _baseline(plan) and (is_alone or (MEGATRON in plan.name and holds_less)):
                self._add(variant, space.complete(plan), "")
        self._simulate_fastest()
        for candidate in space.within(self.memory):
            self._add(variant, candidate, "").peak = candidate.memory

    def _smaller(self, space: PlanSpace, bound: _Sharded) -> None:
        """Plan programs that hold less, as long as they may be faster than the best that fits.

        The fastest plans of the step itself and of programs with fewer microbatches and less recomputation bound them:
        more of either adds work, and takes none away. What is not planned is expected to take longer than the step by
        as much as its work is more.
        """
        others = [(n, share) for share in SHARES for n in self.microbatches if (n, share) != (1, 1.0)]
        bounds = {(1, 1.0): bound.seconds}
        planned = 0
        for n, share in others:
            self.counts.considered += 1
            least = max(own for (fewer, more), own in bounds.items() if n % fewer == 0 and share <= more)
            if least >= self.best_seconds:
                self.counts.pruned += 1
                continue
            if planned == MOST_VARIANTS:
                self.counts.left += 1
                continue
            variant = self.variants.variant(n, share)
            if variant is None:
                self.counts.considered -= 1
                continue
            bounds[n, share] = variant.ideal_seconds / (bound.variant.ideal_seconds or 1.0) * bound.seconds
            if variant.ideal_seconds >= self.best_seconds:
                self.counts.pruned += 1
            elif bounds[n, share] < self.best_seconds and self._may_fit(variant, space):
                bounds[n, share] = self._carried(variant, space)
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

    def _may_fit(self, variant: Variant, space: PlanSpace) -> bool:
        """Whether a program is expected to fit on a mesh, as its plans of the step do."""
        own = [made for made in self._plans if made.mesh == space.task.mesh and made.variant.is_step]
        step = own[0].variant
        least = min((made.peak for made in own if made.peak is not None), default=step.peak_bytes)
        return least / max(step.peak_bytes, 1) * variant.peak_bytes <= SLACK * self.memory

    @paused_collection()
    def _carried(self, variant: Variant, space: PlanSpace) -> float:
        """A program's own plan on the mesh of a space, whose seconds are returned.

        Where it does not fit, the step's there that hold least or are fastest too.
        """
        self.counts.evaluated += 1
        mesh = space.task.mesh
        own = PlanSpace(variant.module, mesh, space.task.rates)
        fastest = self._add(variant, own.search(), "").seconds
        self._simulate_fastest()
        if fastest >= self.best_seconds:
            return fastest
        known = [made for made in self._plans if made.mesh == mesh and made.variant.is_step]
        smallest = sorted((made for made in known if made.peak is not None), key=lambda made: made.peak or 0)
        carried = {id(made): made for made in (*smallest[:1], *sorted(known, key=lambda made: made.seconds))}
        for made in list(carried.values())[:MOST_CARRIED]:
            self._add(variant, own.complete(_without_duplicates(made.candidate.plan)), "")
        self._simulate_fastest()
        return fastest

    @paused_collection()
    def _checkpointed(self, bound: _Sharded) -> None:
        """FSDP of the step with recomputation, as people write it: on all devices.

        Not if the step fits and is as fast as its fastest plan on this mesh, since recomputation adds work.
        """
        mesh = self.meshes[0]
        if bound.seconds >= self.best_seconds:
            self.variants.problems[CHECKPOINT] = "the step fits without recomputation, which only adds work"
            return
        variant = next((made for share in SHARES[1:] if (made := self.variants.variant(1, share))), None)
        if variant is None:
            return
        space = PlanSpace(variant.module, mesh, Rates.of(self.device, mesh))
        for plan in experts(variant.module, mesh):
            if plan.name.startswith("FSDP"):
                self._add(variant, space.complete(plan), CHECKPOINT)

    def _add(self, variant: Variant, candidate: CandidatePlan, baseline: str) -> _Sharded:
        """Price a plan; that of a baseline is simulated at once, since it is in the table in any case."""
        made = _Sharded(variant, candidate, ShardedProgram.of(candidate, self.device), baseline)
        self._plans.append(made)
        if baseline:
            made.simulate()
        fitting = [plan for plan in self._plans if self._fits(plan)]
        fastest = min(fitting or self._plans, key=lambda plan: plan.seconds)
        what = "the fastest that fits" if fitting else "the fastest"
        say(f"{len(self._plans)} plans, {what} on {fastest.mesh}: {time_text(fastest.seconds)}")
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
