"""Sharded combinations: meshes, microbatches and recomputation, each planned where a bound does not rule it out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from hloom.analysis import Device
from hloom.fit.combination import Combination
from hloom.fit.combination_cost import sharded_cost
from hloom.fit.programs import SHARES, ProgramVariants, Variant
from hloom.planner import CandidatePlan, Plan, Rates, complete_plan, experts, search_plans
from hloom.sharding import Mesh, mesh_with_links
from hloom.text import HloomError

MOST_MESHES = 4
"""How many meshes of two axes are tried."""
MOST_VARIANTS = 4
"""How many programs with microbatches or recomputation are planned on each mesh where the step itself does not fit."""
SLACK = 1.25
"""A program that is estimated to hold so many times the memory is planned after those that hold less."""
AXES = ("data", "model")
DATA, FSDP, GATHERED, MEGATRON = "data parallel", "FSDP", "FSDP, weights gathered", "Megatron"
CHECKPOINT = "FSDP with checkpoint"
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
    made = [Mesh(AXES[:1], (devices,)), *(Mesh(AXES, pair) for pair in pairs[:MOST_MESHES])]
    return [mesh_with_links(device, mesh) for mesh in made]


def rates_of(device: Device, mesh: Mesh) -> Rates:
    """What the planner minimises: FLOPs, collectives, and bytes of results at the bandwidth of memory."""
    if mesh.device_count == 1:
        return replace(Rates(), write_bandwidth=device.memory_bandwidth)
    return replace(Rates.of(device, mesh), write_bandwidth=device.memory_bandwidth)


@dataclass
class Counts:
    """How many combinations there are, how many a bound ruled out, and how many were planned and priced."""

    considered: int = 0
    pruned: int = 0
    evaluated: int = 0
    left: int = 0


class ShardingSearch:
    """The search over meshes and variants of a program; `combinations` has what was priced."""

    def __init__(
        self,
        variants: ProgramVariants,
        device: Device,
        devices: int,
        memory: float | None,
        microbatches: Sequence[int],
        counts: Counts,
    ) -> None:
        self.variants, self.device, self.memory = variants, device, memory
        self.microbatches, self.counts = microbatches, counts
        self.meshes = meshes(device, devices)
        self.combinations: list[Combination] = []

    @property
    def best_seconds(self) -> float:
        """The step time of the fastest that fits so far."""
        fitting = (made.cost.step_seconds for made in self.combinations if made.fits(self.memory))
        return min(fitting, default=math.inf)

    def run(self) -> list[Combination]:
        """Plan the step on each mesh, then with microbatches and recomputation where it does not fit."""
        bounds: dict[int, tuple[float, float]] = {}
        step = self.variants.variant(1, 1.0)
        if step is None:
            raise HloomError(next(iter(self.variants.problems.values())))
        for number, mesh in enumerate(self.meshes):
            made = self._planned(step, mesh, is_first=True)
            fastest = min(made, key=lambda combination: combination.cost.step_seconds)
            ratio = min(combination.cost.peak_bytes for combination in made) / max(step.peak_bytes, 1)
            bounds[number] = fastest.cost.step_seconds, ratio
        self._checkpointed()
        for number, mesh in enumerate(self.meshes):
            self._smaller(mesh, *bounds[number])
        return self.combinations

    def _smaller(self, mesh: Mesh, bound: float, ratio: float) -> None:
        """Plan programs that hold less, as long as they may be faster than the best that fits.

        The fastest plan of the step itself bounds them: microbatches and recomputation add work, and take none away.
        """
        others = [(n, share) for n in self.microbatches for share in SHARES if (n, share) != (1, 1.0)]
        self.counts.considered += len(others)
        if bound >= self.best_seconds:
            self.counts.pruned += len(others)
            return
        made = [variant for n, share in others if (variant := self.variants.variant(n, share)) is not None]
        self.counts.considered -= len(others) - len(made)
        limit = math.inf if self.memory is None else SLACK * self.memory

        def promise(variant: Variant) -> tuple[bool, float, float]:
            return ratio * variant.peak_bytes > limit, variant.ideal_seconds, variant.peak_bytes

        planned = 0
        for variant in sorted(made, key=promise):
            if max(bound, variant.ideal_seconds) >= self.best_seconds:
                self.counts.pruned += 1
            elif planned == MOST_VARIANTS:
                self.counts.left += 1
            else:
                self._planned(variant, mesh, is_first=False)
                planned += 1

    def _checkpointed(self) -> None:
        """FSDP of the step with recomputation, as people write it: on all devices, in the least memory."""
        mesh = self.meshes[0]
        if any(made.baseline == CHECKPOINT for made in self.combinations):
            return
        variant = next((made for share in SHARES[:0:-1] if (made := self.variants.variant(1, share))), None)
        if variant is None:
            return
        for plan in experts(variant.module, mesh):
            if plan.name.startswith("FSDP"):
                self._add(variant, self._completed(variant, plan, mesh), CHECKPOINT)

    def _planned(self, variant: Variant, mesh: Mesh, *, is_first: bool) -> list[Combination]:
        """The planner's plan and those that people write, of one program on one mesh."""
        self.counts.considered += is_first
        self.counts.evaluated += 1
        searched = search_plans(variant.module, mesh, rates=rates_of(self.device, mesh))
        made = [self._add(variant, searched.best, "")]
        by_hand = self._experts(variant, mesh, is_first=is_first)
        return made + [
            self._add(variant, self._completed(variant, plan, mesh), self._baseline(variant, plan, mesh))
            for plan in by_hand
        ]

    def _experts(self, variant: Variant, mesh: Mesh, *, is_first: bool) -> Iterator[Plan]:
        """By hand: of the step itself all plans on one axis; else FSDP; on two axes those with Megatron on one."""
        for plan in experts(variant.module, mesh):
            is_mixed = len(mesh.names) > 1 and MEGATRON in plan.name
            if (is_first and len(mesh.names) == 1) or (plan.name.startswith(FSDP) and len(mesh.names) == 1) or is_mixed:
                yield plan

    def _baseline(self, variant: Variant, plan: Plan, mesh: Mesh) -> str:
        """What people call a plan on all devices, of the step as it is."""
        if len(mesh.names) > 1 or (variant.microbatches, variant.share) != (1, 1.0):
            return ""
        name = plan.name.replace(f" on {AXES[0]}", "")
        return {DATA: DATA, FSDP: FSDP, GATHERED: FSDP, MEGATRON: MEGATRON}.get(name, "")

    def _completed(self, variant: Variant, plan: Plan, mesh: Mesh) -> CandidatePlan:
        candidate = complete_plan(variant.module, plan, rates_of(self.device, mesh))
        return replace(candidate, plan=replace(candidate.plan, name=plan.name))

    def _add(self, variant: Variant, candidate: CandidatePlan, baseline: str) -> Combination:
        axes = ",".join(
            f"{name}={size}" for name, size in zip(candidate.plan.mesh.names, candidate.plan.mesh.sizes, strict=True)
        )
        name = candidate.plan.name.removesuffix(", completed")
        if not baseline and name.startswith(("ilp", "plan")):
            name = "planned"
        made = Combination(
            f"{name} ({axes})",
            variant.module,
            variant.microbatches,
            variant.share,
            sharded_cost(candidate, self.device),
            plan=candidate.plan,
            baseline=baseline,
            batch=self.variants.batch if variant.microbatches > 1 else None,
        )
        self.combinations.append(made)
        return made
