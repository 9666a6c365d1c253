"""The one-device programs to shard: a step with a number of microbatches and an amount of recomputation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from hloom.analysis import Device, Liveness
from hloom.distribute.fit.sharded_program import ideal_seconds
from hloom.distribute.microbatch import Batch, MixedExamples, microbatch_loop, propose_batch
from hloom.distribute.microbatch import microbatch as cut_batch
from hloom.distribute.pipeline import check_effects
from hloom.distribute.planner import experts
from hloom.distribute.remat import rematerialize
from hloom.ir import Module
from hloom.sharding import Mesh
from hloom.targets.cpu import simulate_buffers
from hloom.text import HloomError

SHARES = (1.0, 0.5, 0.3)
"""Recomputation that is tried: so much of the memory of temporaries may be kept."""
FEWEST = 2
"""The number of microbatches for which the batch is proposed, where nobody says it."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A program with its bytes on one device, and what it takes at least on all devices."""

    module: Module
    microbatches: int
    share: float
    peak_bytes: int
    ideal_seconds: float

    @property
    def is_step(self) -> bool:
        """Whether it is the step as it is."""
        return (self.microbatches, self.share) == (1, 1.0)


class ProgramVariants:
    """The variants of one step, each made once; `problems` say why there are not among some."""

    def __init__(
        self, module: Module, device: Device, devices: int, batch: Batch | str | None, accumulate: str | None = "f32"
    ) -> None:
        self.module, self.device, self.devices = module, device, devices
        self.accumulate = accumulate
        self._given = batch
        self.problems: dict[str, str] = {}
        self._made: dict[tuple[int, float], Variant | None] = {}

    @cached_property
    def live(self) -> Liveness:
        """The buffers of the step on one device."""
        return simulate_buffers(self.module.clone())

    @cached_property
    def batch(self) -> Mapping[str, int] | None:
        """The dimensions of parameters that are the batch, by name; None where nothing can be cut."""
        try:
            check_effects(self.module)
        except HloomError as problem:
            self.problems["microbatches"] = problem.message
            return None
        try:
            return self._batch()
        except HloomError as problem:
            if self._given is not None and not isinstance(problem, MixedExamples):
                raise
            self.problems["microbatches"] = problem.message
            return None

    def _batch(self) -> Mapping[str, int]:
        if self._given is not None:
            return microbatch_loop(self.module, 1, batch=self._given).batch
        by_hand = self._batch_by_hand()
        if by_hand:
            try:
                return microbatch_loop(self.module, 1, batch=by_hand).batch
            except HloomError:  # examples mix along it: others are proposed
                pass
        proposals = propose_batch(self.module, FEWEST)
        if not proposals:
            raise HloomError(f"{self.module.name}: no dimension of a parameter is a batch that can be cut")
        return microbatch_loop(self.module, 1, batch={proposals[0].parameter: proposals[0].dimension}).batch

    def _batch_by_hand(self) -> dict[str | int, int]:
        """The dimensions that data parallelism splits: to propose others takes much longer."""
        plan = next(iter(experts(self.module, Mesh(("data",), (FEWEST,)))), None)
        if plan is None or not plan.name.startswith("data parallel"):
            return {}
        names = {parameter.number: parameter.name for parameter in self.module.entry.parameters}
        return {
            names[number]: dim
            for number, spec in plan.parameters.items()
            for dim, axes in enumerate(spec.dims)
            if axes and number in names
        }

    @cached_property
    def examples(self) -> int:
        """The batch size; 1 if nothing can be split."""
        sizes = {parameter.name: parameter.type for parameter in self.module.entry.parameters}
        return min((sizes[name].dims[dim] for name, dim in (self.batch or {}).items()), default=1)  # pyright: ignore

    @property
    def known(self) -> list[Variant]:
        """The programs that were made."""
        return [variant for variant in self._made.values() if variant is not None]

    def variant(self, microbatches: int, share: float) -> Variant | None:
        """The program with this many microbatches that keeps this share of its temporaries; None if there is none."""
        key = microbatches, share
        if key not in self._made:
            try:
                self._made[key] = self._variant(microbatches, share)
            except HloomError as problem:
                what = f"microbatches={microbatches}" if share == 1.0 else f"recomputation to {share:.0%}"
                self.problems.setdefault(what, problem.message)
                self._made[key] = None
        return self._made[key]

    def _variant(self, microbatches: int, share: float) -> Variant | None:
        if microbatches > 1:
            whole = self.variant(1, share)
            if whole is None or self.batch is None:
                return None
            module = cut_batch(whole.module, microbatches, batch=self.batch, accumulate=self.accumulate)
        elif share < 1.0:
            live = self.live
            fixed = live.peak - live.temporaries
            module = rematerialize(self.module, int(fixed + share * live.temporaries), backend="partitioned").module
            header = self.module.attributes.get("input_output_alias")
            module.attributes = module.attributes.changed(input_output_alias=header)
        else:
            module = self.module
        peak = simulate_buffers(module.clone()).peak
        return Variant(module, microbatches, share, peak, ideal_seconds(module, self.device, self.devices))
