"""Remedies for memory, each simulated: the program is changed, and its peak forecast by the same model.

donate        results take the memory of the parameters that they update
remat         values computed again, within a budget
microbatch    a loop over slices of the batch
shard         the planner's split over so many devices, as one of them holds it
half          f32 computed in bf16
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from hloom.analysis import cost
from hloom.distribute.fit import donate_state
from hloom.distribute.microbatch import Batch, microbatch_loop, propose_batch
from hloom.distribute.microbatch import microbatch as cut_batch
from hloom.distribute.planner import check_plannable, complete_plan, experts, search_plans
from hloom.distribute.remat import rematerialize
from hloom.inspection.why_oom.half_precision import in_half_precision
from hloom.ir import Module
from hloom.sharding import Mesh
from hloom.targets.memory import peak_of
from hloom.text import Bytes, HloomError, byte_text, say

SHARES = (0.75, 0.5, 0.3)
"""The shares of the peak that recomputation is tried for where no one says how much memory there is."""
SLICES = (2, 4, 8)
DEVICES = (2, 4, 8)
FEWEST = 2
"""The number of slices for which the batch is proposed."""
MOST_TRIED = 20_000
"""Programs of more instructions are searched for no batch, planned for the most devices only, and computed again within
one budget."""
LITTLE_SAVED = 0.75
"""A plan that keeps more than this part of the peak on each device is compared with fully sharded weights."""
FSDP = "FSDP"
NO_EFFECT = 0.01
"""The minimum saving, as a share of the peak, for a remedy to count as helpful."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """One thing that was tried.

    `peak` are the bytes that the changed program is forecast to take (on each device), None where it could not be
    tried, for the reason in `problem`. `flops_factor` is the arithmetic of all devices beside that before,
    `comm_bytes` what a device then sends in a step. `command` does it.
    """

    name: str
    what: str
    command: str
    peak: Bytes | None = None
    original_peak: Bytes = 0
    flops_factor: float = 1.0
    comm_bytes: float = 0.0
    devices: int = 1
    problem: str = ""
    json_keys = "* saved helps"

    @property
    def saved(self) -> int:
        """The bytes by which the peak falls; below zero where it rises."""
        return self.original_peak - self.peak if self.peak is not None else 0

    @property
    def helps(self) -> bool:
        """Whether the peak falls by more than a little."""
        return self.saved > NO_EFFECT * self.original_peak

    def fits(self, limit: int | None) -> bool:
        """Whether the changed program fits in this many bytes."""
        return self.peak is not None and (limit is None or self.peak <= limit)


@dataclass(frozen=True, slots=True)
class _Trial:
    """What a trial gives: the peak, the factor of FLOPs, the bytes sent; not `is_planned` if a plan is people's own."""

    peak: int
    flops_factor: float = 1.0
    comm_bytes: float = 0.0
    is_planned: bool = True


def try_remedies(
    module: Module, peak: int, limit: int | None, file: str, batch: Batch | str | None = None
) -> Iterator[Remedy]:
    """Try everything on a program whose peak is known; `file` is what commands call it."""
    file = shlex.quote(file)
    trials = _Trials(module, limit, peak, batch)
    flops = max(cost(module).total.flops, 1)
    yield _tried("donate", "results take the memory of parameters", f"hloom opt {file} -p donate", peak, trials.donate)
    for budget in trials.budgets():
        command = f"hloom opt {file} -p 'remat(budget={budget})'"
        yield _tried("remat", f"compute again, within {budget:,} B", command, peak, partial(trials.remat, budget))
    yield from _microbatches(trials, peak, file, flops)

    def sharded(count: int) -> Remedy:
        command = f"hloom plan {file} --mesh x={count}"
        return _tried("shard", f"split over {count} devices", command, peak, partial(trials.shard, count, flops), count)

    yield from _until_it_fits(sharded, DEVICES if module.node_count <= MOST_TRIED else DEVICES[-1:], peak, limit)
    command = "in the source: x.astype(jnp.bfloat16), or the model's dtype=bfloat16"
    yield _tried("half", "compute f32 in bf16, weights as they are", command, peak, trials.half)


def _microbatches(trials: _Trials, peak: int, file: str, flops: int) -> Iterator[Remedy]:
    """Numbers of slices, once it is known along what."""
    what = "cut the batch into {} slices"
    try:
        chosen = trials.chosen_batch()
    except HloomError as problem:
        command = f"hloom opt {file} -p 'microbatch(n={FEWEST})'"
        yield Remedy("microbatch", what.format(FEWEST), command, None, peak, problem=problem.message)
        return
    named = " ".join(f"{name}:{dim}" for name, dim in chosen.items())

    def sliced(count: int) -> Remedy:
        command = f"hloom opt {file} -p 'microbatch(n={count}, batch={named})'"
        trial = partial(trials.microbatch, count, chosen, flops)
        return _tried("microbatch", what.format(count), command, peak, trial)

    yield from _until_it_fits(sliced, SLICES, peak, trials.limit)


def _until_it_fits(
    tried: Callable[[int], Remedy], counts: Sequence[int], peak: int, limit: int | None
) -> Iterator[Remedy]:
    """Trials with more and more devices or slices, to the first that fits; each takes seconds.

    Those in which even an equal share of the peak is too much are left out, but for the last.
    """
    for count in counts if limit is None else [n for n in counts if peak <= n * limit] or counts[-1:]:
        remedy = tried(count)
        yield remedy
        if limit is not None and remedy.fits(limit):
            return


def _tried(name: str, what: str, command: str, peak: int, trial: Callable[[], _Trial], devices: int = 1) -> Remedy:
    """Try one thing; what cannot be done says why."""
    try:
        made = trial()
    except HloomError as problem:
        return Remedy(name, what, command, None, peak, devices=devices, problem=problem.message)
    say(f"{what}: {byte_text(made.peak)} at the peak")
    if not made.is_planned:
        what, command = f"{what} by {FSDP}", f"{command} --planner expert --memory {made.peak}"
    return Remedy(name, what, command, made.peak, peak, made.flops_factor, made.comm_bytes, devices)


class _Trials:
    """The trials of one program."""

    def __init__(self, module: Module, limit: int | None, peak: int, batch: Batch | str | None) -> None:
        self.module, self.limit, self.peak, self.batch = module, limit, peak, batch

    def budgets(self) -> list[int]:
        """What recomputation is to come down to: what there is, or shares of the peak where that is not known."""
        if self.limit is not None and self.limit < self.peak:
            return [self.limit]
        shares = [int(share * self.peak) for share in SHARES]
        return shares[:1] if self.module.node_count > MOST_TRIED else shares

    def donate(self) -> _Trial:
        """Results that take the memory of what they update."""
        donated, size = donate_state(self.module)
        if not size:
            raise HloomError("no result updates a parameter that is not given away already")
        return _Trial(peak_of(donated))

    def remat(self, budget: int) -> _Trial:
        """Values computed again."""
        made = rematerialize(self.module, budget)
        return _Trial(made.peak, made.flops / max(made.original_flops, 1))

    def chosen_batch(self) -> dict[str, int]:
        """The dimensions of parameters that are the batch, by name: as given, or as proposed."""
        chosen = self.batch
        if chosen is None:
            if self.module.node_count > MOST_TRIED:
                raise HloomError("the batch is not looked for in so large a program: say it, as in batch='x:0'")
            proposals = propose_batch(self.module, FEWEST)
            if not proposals:
                raise HloomError("no dimension of a parameter is a batch that can be cut")
            chosen = {proposals[0].parameter: proposals[0].dimension}
        return dict(microbatch_loop(self.module, 1, batch=chosen).batch)

    def microbatch(self, count: int, chosen: dict[str, int], flops: int) -> _Trial:
        """A loop over slices of the batch."""
        sliced = cut_batch(self.module, count, batch=chosen)
        return _Trial(peak_of(sliced), cost(sliced).total.flops / flops)

    def shard(self, count: int, flops: int) -> _Trial:
        """The planner's plan for this many devices, or fully sharded weights if that hardly saves memory."""
        check_plannable(self.module)
        mesh = Mesh(("x",), (count,))
        plans = [search_plans(self.module, mesh).best]
        plans[0].predict_memory()
        if (plans[0].memory or 0) > LITTLE_SAVED * self.peak:
            plans += [complete_plan(self.module, plan) for plan in experts(self.module, mesh) if FSDP in plan.name]
        for plan in plans:
            plan.predict_memory()
        known = [plan for plan in plans if plan.memory is not None and plan.expected is not None]
        if not known:
            raise HloomError("the memory of the plan is not known")
        best = min(known, key=lambda plan: plan.memory or 0)
        assert best.memory is not None and best.expected is not None
        factor = (best.device_flops() or 0) * count / flops
        return _Trial(best.memory, factor, best.expected.sent, best is plans[0])

    def half(self) -> _Trial:
        """Half precision inside."""
        made = in_half_precision(self.module)
        return _Trial(peak_of(made), cost(made).total.flops / max(cost(self.module).total.flops, 1))
