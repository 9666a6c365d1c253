"""The pass `remat`: peak memory within a budget by computing values again where they are needed, not keeping them."""

from __future__ import annotations

from dataclasses import dataclass

from hloom.analysis import bytes_of, cost
from hloom.ir import Module, verify
from hloom.passes import canonicalize_in_place, cse, dce, register_pass
from hloom.remat.choice import Choice, choose
from hloom.remat.opaque_dependence import MECHANISMS
from hloom.remat.recomputation import write_recomputation
from hloom.remat.stored_values import StoredValues, find_stored_values
from hloom.rewrite import Report
from hloom.text import HloomError
from hloom.xla_cpu import simulate_buffers

MOST_TRIALS = 8
"""How many choices are written and their buffers simulated."""


@dataclass(slots=True)
class Rematerialization:
    """A program that recomputes, the bytes that it takes at its peak, its FLOPs, and what they were before."""

    module: Module
    peak: int
    flops: int
    original_peak: int
    original_flops: int
    bound: float
    recomputed: int


def rematerialize(module: Module, budget: int, backend: str = "cpu") -> Rematerialization:
    program = module.clone()
    canonicalize_in_place(program)
    cse(program)
    dce(program)
    program.index_users()
    stored = find_stored_values(program)
    flops = cost(program).total.flops
    limit = float(budget - stored.fixed)
    best: Rematerialization | None = None
    for _ in range(MOST_TRIALS):
        choice = choose(stored, limit)
        trial = _written(program, stored, choice, backend)
        result = Rematerialization(trial, simulate_buffers(trial.clone()).peak, cost(trial).total.flops, stored.peak, flops, choice.bound, len(choice.recomputed))
        import sys
        print("trial", limit/1e6, choice.fits, choice.ranges.peak/1e6, result.peak/1e6, result.flops/flops, file=sys.stderr)
        if best is None or (result.peak, result.flops) < (best.peak, best.flops):
            best = result
        if result.peak <= budget:
            return result
        limit -= result.peak - budget
        if not choice.fits:
            break
    assert best is not None
    return best


def _written(program: Module, stored: StoredValues, choice: Choice, backend: str) -> Module:
    trial = program.clone()
    trial.index_users()
    write_recomputation(trial.entry, stored, choice.ranges, choice.recomputed, MECHANISMS[backend])
    cse(trial)
    dce(trial)
    return trial
