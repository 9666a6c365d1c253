"""Figures of the search for the best combination: processor time, growth with layers, and the plans people write."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

from benchmarks.figures import AtMost, Figure
from benchmarks.programs import Plan, training_step
from hloom.distribute.fit import FitResult, fit
from hloom.formats.hlo import parse

DEVICES = 8
SECONDS = 90.0
"""What a search for GPT-2 small may take, in seconds of the processor."""
TIGHT = 0.75
"""The share of the memory of the fastest plan that the second search may use."""
LINEAR = 1.5
"""How many times as long a layer may take in the larger program as in the smaller one."""
NEVER_WORSE = AtMost(1 + 1e-9)


def fits(plan: Plan) -> Iterator[Figure]:
    """The fastest in all the memory and in less of it: seconds, the best beside each plan by hand, and the bound."""
    free, seconds = _timed(plan, plan.small.layers, None)
    layers = max(1, plan.small.layers // 3)
    _, fewer = _timed(plan, layers, None)
    growth = seconds / fewer / (plan.small.layers / layers)
    yield _within(f"fit: GPT-2 of {plan.small.layers} layers on {DEVICES}", seconds)
    yield Figure(
        f"fit: a layer among {plan.small.layers} against {layers}", f"{seconds / plan.small.layers:.2f} s", "itself",
        f"{fewer / layers:.2f} s", growth, growth, AtMost(LINEAR),
    )  # fmt: skip
    yield from _against_hand(free, "fit")
    memory = TIGHT * free.best.peak_bytes
    tight, seconds = _timed(plan, plan.small.layers, memory)
    yield _within(f"fit: the same in {memory / 1e9:.2f} GB", seconds)
    yield from _against_hand(tight, f"fit in {memory / 1e9:.2f} GB")


def _timed(plan: Plan, layers: int, memory: float | None) -> tuple[FitResult, float]:
    module = parse(training_step(replace(plan.small, layers=layers), metadata=False).text)
    start = time.process_time()
    result = fit(module, DEVICES, memory=memory)
    return result, time.process_time() - start


def _within(subject: str, seconds: float) -> Figure:
    share = seconds / SECONDS
    return Figure(subject, f"{seconds:.1f} s", "bar", f"{SECONDS:g} s", share, share, AtMost(1))


def _against_hand(result: FitResult, subject: str) -> Iterator[Figure]:
    """The step of the best beside that of each plan by hand that fits, and beside what no combination takes less than.

    Where the best does not fit, its memory beside that of each plan by hand.
    """
    best, fits_in = result.best, result.best.fits(result.memory)
    for made in result.baselines:
        if fits_in and not made.fits(result.memory):
            continue
        if fits_in:
            ratio = best.cost.step_seconds / made.cost.step_seconds
            ours, theirs = f"{1e3 * best.cost.step_seconds:.3f} ms", f"{1e3 * made.cost.step_seconds:.3f} ms"
        else:
            ratio = best.peak_bytes / made.peak_bytes
            ours, theirs = f"{best.peak_bytes / 1e9:.2f} GB", f"{made.peak_bytes / 1e9:.2f} GB"
        yield Figure(f"{subject}: the best", ours, made.baseline, theirs, ratio, ratio, NEVER_WORSE)
    ratio = best.cost.step_seconds / result.bound_seconds
    yield Figure(
        f"{subject}: the best", f"{1e3 * best.cost.step_seconds:.3f} ms", "its work divided among the devices",
        f"{1e3 * result.bound_seconds:.3f} ms", ratio, ratio,
    )  # fmt: skip
