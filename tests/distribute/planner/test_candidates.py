"""Which of some plans is taken: the fastest that fits, of equal times the one that holds least.

Covers `distribute/planner/candidates.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest

from hloom.analysis import Device
from hloom.distribute.planner.candidates import CandidatePlan, SearchResult, Task
from hloom.distribute.planner.cost_model import Rates, StepCost
from hloom.distribute.planner.partitioned import MeasuredCollective
from hloom.distribute.planner.plan import Plan
from hloom.formats.hlo import parse
from hloom.sharding import Mesh

MESH = Mesh.parse("x=2")
RATES = Rates()


@dataclass(frozen=True)
class Measurement:
    """A program of one device that sends nothing."""

    flops: float
    memory: int
    comm_bytes: float = 0.0

    @property
    def comm_bytes_by_opcode(self) -> Mapping[str, float]:
        return {}

    def comm_seconds_by_origin(self, device: Device) -> Mapping[str, float]:
        return {}

    @property
    def collectives(self) -> Sequence[MeasuredCollective]:
        return ()

    def step_cost(self, device: Device, mesh: Mesh) -> StepCost:
        return price_of(self.flops)


def price_of(flops: float) -> StepCost:
    return StepCost(flops, {"compute": flops / 100e12})


def plan(name: str, flops: float, memory: int | None, measured: tuple[float, int] | None = None) -> CandidatePlan:
    measurement = None if measured is None else Measurement(*measured)
    return CandidatePlan(Plan(MESH, name=name), price_of(flops), memory=memory, measured=measurement)


def ranked(candidates: Sequence[CandidatePlan], budget: float | None = None) -> list[str]:
    task = Task(parse("ENTRY e { ROOT x = f32[2] parameter(0) }"), MESH, RATES, budget)
    result = SearchResult(task, [*candidates])
    result.rank()
    return [candidate.plan.name for candidate in result.candidates]


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("candidates", "budget", "best"),
    [
        ([plan("slow", 2e12, 10), plan("fast", 1e12, 90)], None, "fast"),
        ([plan("large", 1e12, 90), plan("small", 1e12, 10)], None, "small"),
        ([plan("large", 1e12, 90), plan("rounded", 1e12 * (1 + 1e-12), 10)], None, "rounded"),
        ([plan("fast", 1e12, 90), plan("slower", 1e12 * (1 + 1e-6), 10)], None, "fast"),
        ([plan("unknown", 1e12, None), plan("known", 1e12, 10)], None, "known"),
        ([plan("fast", 1e12, 90), plan("fits", 2e12, 10)], 50.0, "fits"),
        ([plan("large", 1e12, 40), plan("small", 1e12, 10)], 50.0, "small"),
        ([plan("fast", 1e12, 90), plan("least", 2e12, 80)], 50.0, "least"),
        ([plan("slow", 2e12, 80), plan("fast", 1e12, 80)], 50.0, "fast"),
        ([plan("guessed", 1e9, 1), plan("measured", 1e9, 1, (2e12, 80))], None, "measured"),
        ([plan("large", 1e9, 1, (1e12, 90)), plan("small", 1e9, 1, (1e12, 10))], None, "small"),
        ([plan("hoped", 1e9, 1, (2e12, 10)), plan("faster", 5e12, 1, (1e12, 10))], None, "faster"),
        ([plan("expected to fit", 1e12, 10, (1e12, 90)), plan("fits", 2e12, 90, (2e12, 10))], 50.0, "fits"),
        ([plan("slow", 1e12, 10, (2e12, 80)), plan("fast", 2e12, 10, (1e12, 80))], 50.0, "fast"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_which_plan_is_taken(candidates: list[CandidatePlan], budget: float | None, best: str, turned: bool):
    assert ranked(candidates[::-1] if turned else candidates, budget)[0] == best


def test_the_others_are_in_the_order_of_their_times():
    plans = [plan("b", 2e12, 10), plan("large", 1e12, 90), plan("c", 3e12, 1), plan("small", 1e12, 20)]
    assert ranked(plans) == ["small", "large", "b", "c"]


def test_what_is_missing_is_counted_from_the_plan_that_is_taken():
    task = Task(parse("ENTRY e { ROOT x = f32[2] parameter(0) }"), MESH, RATES, 50.0)
    result = SearchResult(task, [plan("more", 1e12, 90), plan("least", 2e12, 80)])
    result.rank()
    assert result.missing_bytes == 30.0
    assert not math.isinf(result.best.step(RATES))
