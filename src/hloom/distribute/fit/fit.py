"""Searches for the best way to run a step on devices, with every kind of combination priced by one model."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace

from hloom.analysis import DEFAULT_DEVICE, Device, as_device
from hloom.distribute.fit.combination import Combination, Omission
from hloom.distribute.fit.donation import donate_state
from hloom.distribute.fit.measurement import measure as measure_best
from hloom.distribute.fit.pipeline_search import GPIPE, pipelines
from hloom.distribute.fit.programs import ProgramVariants
from hloom.distribute.fit.result import FitResult
from hloom.distribute.fit.sharding_search import BASELINES, Counts, ShardingSearch
from hloom.distribute.microbatch import Batch
from hloom.distribute.planner import check_plannable
from hloom.ir import ModuleLike, as_module
from hloom.targets.compiler import Target, available_target, rates_for
from hloom.text import HloomError, parse_capacity

LARGEST_MACHINE = 4096
"""The maximum number of devices to search for."""
MICROBATCHES = (1, 2, 4, 8, 16)
"""Numbers of microbatches that are tried, where they divide the batch."""


def fit(
    module: ModuleLike,
    devices: int | None = None,
    *,
    device: Device | str | None = None,
    memory: float | str | None = None,
    batch: Batch | str | None = None,
    microbatches: Iterable[int] | None = None,
    measure: int = 0,
    target: str | Target | None = None,
    donate: bool = True,
) -> FitResult:
    """The best way found to run a one-device step on this many devices with this much memory each.

    Searched are meshes of one and two axes, sharded by the planner; microbatches (divisors of the batch);
    recomputation; pipelines of stages; donation of state to what becomes of it. What people write by hand is always
    priced too, by the same model, so that the best is never slower than those of them that fit. `memory` is bytes or a
    text (`16GiB`), that of the device unless given; `batch` says which dimension of which parameters is the batch
    ({"x": 0} or "x:0"), which is proposed otherwise. With `measure` so many of the best combinations are compiled by
    XLA, small pipelines run, and what takes more than the memory is set aside.

    With a `target` such as "v5e:2x2", its compiler compiles them instead, at least the best one. The devices are all of
    the target unless given, and the rates the target's. Without either, the device is an H100.

    Raises HloomError for what cannot be planned at all, and MissingCompiler if that of the target is not here.
    """
    module = as_module(module)
    started = time.process_time()
    wanted = None if target is None else available_target(target, devices)
    devices = wanted.devices if wanted is not None else devices
    given = None if device is None else as_device(device)
    on = (given if wanted is None else rates_for(wanted, given)) or as_device(DEFAULT_DEVICE)
    if not isinstance(devices, int) or not 1 <= devices <= LARGEST_MACHINE:
        raise HloomError(
            f"cannot plan for {devices!r} devices",
            hint=f"from 1 to {LARGEST_MACHINE:,} are possible, as in devices=8, or --devices 8",
        )
    limit = parse_capacity(on.memory_bytes if memory is None else memory)
    if not module.entry.nodes:
        raise HloomError(f"{module.name} has no instructions")
    check_plannable(module)
    program, donated = donate_state(module) if donate else (module.clone(), 0)
    variants = ProgramVariants(program, on, devices, batch)
    chosen = _microbatches(microbatches, variants)
    counts = Counts()
    search = ShardingSearch(variants, on, devices, limit, chosen, counts)
    combinations = search.run()
    omissions = [Omission(name, reason) for name, reason in variants.problems.items()]
    combinations += _pipelines(variants, on, devices, limit, chosen, omissions, counts, search.best_seconds)
    result = FitResult(module, on.name, devices, limit, combinations, omissions, counts, donated)
    result.bound_seconds = search.bound_seconds
    _keep_best_of_baselines(result)
    result.rank()
    result.rates = on
    result.target = wanted
    if measure or wanted is not None:
        measure_best(result, max(measure, 1))
    result.seconds = time.process_time() - started
    return result


def _pipelines(
    variants: ProgramVariants,
    on: Device,
    devices: int,
    limit: float,
    chosen: list[int],
    omissions: list[Omission],
    counts: Counts,
    known: float,
) -> list[Combination]:
    """Pipelines, where the step can be cut and there are devices for two stages."""
    if devices == 1 or variants.batch is None:
        reason = "one device" if devices == 1 else "the batch cannot be cut into microbatches"
        omissions.append(Omission("pipelines", reason))
        return []
    try:
        made = pipelines(variants.module, on, devices, limit, chosen, variants.examples, variants.batch, known)
    except HloomError as problem:
        omissions.append(Omission("pipelines", problem.message))
        return []
    omissions += [Omission(name, reason) for name, reason in made.problems.items()]
    counts.considered += len(made.combinations) + len(made.problems) + made.pruned
    counts.evaluated += len(made.combinations)
    counts.pruned += made.pruned
    return made.combinations


def _keep_best_of_baselines(result: FitResult) -> None:
    """Of the forms of a baseline keep the name on the best one, and say which have none."""
    for name in (*BASELINES, GPIPE):
        forms = [made for made in result.combinations if made.baseline == name]
        forms.sort(key=lambda made: (not made.fits(result.memory), made.cost.step_seconds))
        for made in forms[1:]:
            result.combinations[result.combinations.index(made)] = replace(made, baseline="")
        is_known = any(omission.name == name for omission in result.omissions)
        if not forms and not is_known:
            result.omissions.append(Omission(name, "the program has nothing to apply it to"))


def _microbatches(given: Iterable[int] | None, variants: ProgramVariants) -> list[int]:
    """The numbers of microbatches that divide the batch; raises HloomError for one that was asked for and does not."""
    if given is None:
        if variants.batch is None:
            return [1]
        return [count for count in MICROBATCHES if variants.examples % count == 0]
    counts = sorted(set(given))
    for count in counts:
        if count < 1 or (count > 1 and (variants.batch is None or variants.examples % count)):
            raise HloomError(
                f"a batch of {variants.examples} examples cannot be split into {count} microbatches",
                hint=variants.problems.get("microbatches", f"take divisors of {variants.examples}"),
            )
    return counts or [1]
