"""How the best of several plans is found: what is measured, in which order, and what the measurements decide."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest

from hloom.analysis import Device
from hloom.distribute.planner import CandidatePlan, Plan, budget_search, search_plans
from hloom.distribute.planner.cost_model import Rates, StepCost
from hloom.distribute.planner.partitioned import MeasuredCollective
from hloom.formats.hlo import parse
from hloom.sharding import Mesh
from hloom.text import HloomError
from tests.distribute.planner.test_plan import TWO_LAYERS

MODULE = parse(TWO_LAYERS)
MESH, ONE_AXIS = Mesh.parse("x=2,y=4"), Mesh.parse("x=8")


@dataclass
class Measurement:
    """What a partitioner might have made of a plan."""

    comm_bytes: float
    memory: int = 1
    flops: float = 0.0
    bytes_by_origin: Mapping[str, float] = field(default_factory=dict)
    collectives: tuple[MeasuredCollective, ...] = ()

    @property
    def comm_bytes_by_opcode(self) -> dict[str, float]:
        return {"all-reduce": self.comm_bytes}

    def comm_seconds_by_origin(self, device: Device) -> dict[str, float]:
        return {name: sent / 100e9 for name, sent in self.bytes_by_origin.items()}

    def step_cost(self, device: Device, mesh: Mesh) -> StepCost:
        price = StepCost(self.flops, {"compute": self.flops / 100e12})
        price.add_traffic("all-reduce", (), self.comm_bytes, self.comm_bytes / 100e9)
        return price


@dataclass
class Partitioner:
    """Measures plans by a rule, and remembers which."""

    rule: Callable[[Plan], Measurement]
    asked: list[Plan] = field(default_factory=list)

    def __call__(self, plan: Plan) -> Measurement:
        self.asked.append(plan)
        return self.rule(plan)

    @property
    def own(self) -> list[Plan]:
        """Those of our planner's."""
        return [plan for plan in self.asked if is_ours(plan)]


def is_ours(plan: Plan) -> bool:
    return plan.name.startswith("ilp")


def always(measurement: Measurement) -> Partitioner:
    return Partitioner(lambda plan: measurement)


def test_without_measuring_nothing_is_measured():
    partitioner = always(Measurement(1.0))
    chosen = search_plans(MODULE, MESH, measure_plan=partitioner)
    assert partitioner.asked == []
    assert chosen.best.expected is not None
    assert chosen.best.step(chosen.rates) == chosen.best.expected.seconds(chosen.rates)


def test_measuring_needs_a_function():
    with pytest.raises(HloomError, match="measuring needs a function that measures plans"):
        search_plans(MODULE, MESH, measure=1)


def test_an_unknown_planner_is_refused():
    with pytest.raises(HloomError) as caught:
        search_plans(MODULE, MESH, planner="best")
    assert caught.value.message == "there is no planner 'best'"


def test_as_many_of_our_plans_as_asked_for_and_all_experts_are_measured():
    partitioner = Partitioner(lambda plan: Measurement(1e9, bytes_by_origin={"h": 1e9} if is_ours(plan) else {}))
    search_plans(MODULE, ONE_AXIS, measure=2, measure_plan=partitioner)
    assert len(partitioner.own) == 2
    assert "FSDP on x" in {plan.name for plan in partitioner.asked}


def test_a_plan_that_was_measured_to_be_worse_than_an_experts_is_not_returned():
    partitioner = Partitioner(lambda plan: Measurement(2e9 if is_ours(plan) else 1e9))
    chosen = search_plans(MODULE, ONE_AXIS, measure=1, measure_plan=partitioner)
    assert not is_ours(chosen.best.plan)
    assert [candidate.measured is not None for candidate in chosen.candidates] == sorted(
        (candidate.measured is not None for candidate in chosen.candidates), reverse=True
    )


def test_the_plan_that_is_taken_without_measuring_is_measured_too():
    first = search_plans(MODULE, MESH).best.plan
    partitioner = Partitioner(lambda plan: Measurement(1.0 if plan.to_json() == first.to_json() else 2.0))
    chosen = search_plans(MODULE, MESH, measure=1, measure_plan=partitioner)
    assert first.to_json() in [plan.to_json() for plan in partitioner.asked]
    assert chosen.best.plan.to_json() == first.to_json()


def test_nothing_is_returned_that_was_not_measured_while_something_was():
    partitioner = Partitioner(lambda plan: Measurement(1e12))
    chosen = search_plans(MODULE, MESH, measure=1, measure_plan=partitioner)
    assert chosen.best.measured is not None


def test_a_settled_problem_is_not_solved_again():
    partitioner = always(Measurement(1e6))
    search_plans(MODULE, ONE_AXIS, measure=5, measure_plan=partitioner)
    assert len(partitioner.own) == 1


def test_what_is_expected_to_be_far_worse_than_the_best_measured_is_not_measured():
    surprised = Measurement(1.0, bytes_by_origin={"h": 1e9})
    partitioner = always(surprised)
    search_plans(MODULE, MESH, measure=5, measure_plan=partitioner)
    assert len(partitioner.own) == 1


def test_a_surprise_leads_to_another_plan():
    first = search_plans(MODULE, ONE_AXIS).best
    assert first.expected is not None
    sent = first.expected.sent

    def rule(plan: Plan) -> Measurement:
        is_first = plan.to_json() == first.plan.to_json()
        return Measurement(9 * sent, bytes_by_origin={"y": 9 * sent}) if is_first else Measurement(sent)

    chosen = search_plans(MODULE, ONE_AXIS, measure=3, measure_plan=Partitioner(rule))
    assert chosen.best.plan.to_json() != first.plan.to_json()
    assert chosen.best.measured is not None and chosen.best.measured.comm_bytes == sent


def test_a_budget_is_kept():
    wide = parse(TWO_LAYERS.replace("512", "16384"))
    free = search_plans(wide, ONE_AXIS, forbidden=["w:x", "v:x"]).best
    assert free.memory is not None
    lean = search_plans(wide, ONE_AXIS, budget=0.9 * free.memory).best
    assert lean.memory is not None and lean.memory <= 0.9 * free.memory
    assert not search_plans(wide, ONE_AXIS, budget=0.9 * free.memory).missing_bytes


def test_a_budget_just_below_what_is_free_is_searched_for():
    for program in (TWO_LAYERS, TWO_LAYERS.replace("512", "16384")):
        module = parse(program)
        free = search_plans(module, ONE_AXIS).best
        assert free.memory is not None
        below = search_plans(module, ONE_AXIS, budget=free.memory - 1)
        assert below.best.memory is not None
        assert below.missing_bytes > 0 or below.best.memory < free.memory
        assert len(below.best.notes) == (below.missing_bytes > 0)


def test_where_nothing_fits_the_smallest_is_returned_with_what_is_missing():
    def rule(plan: Plan) -> Measurement:
        return Measurement(1e9, memory=700 if plan.name.startswith("FSDP") else 900)

    chosen = search_plans(MODULE, ONE_AXIS, budget=500, measure=1, measure_plan=Partitioner(rule))
    assert chosen.best.plan.name.startswith("FSDP")
    assert chosen.missing_bytes == 200


def test_demands_leave_the_experts_out():
    partitioner = always(Measurement(1e6))
    search_plans(MODULE, ONE_AXIS, measure=1, measure_plan=partitioner, pins={"x": "[x,-]"})
    assert partitioner.asked == partitioner.own


def test_the_expert_planner_completes_the_experts_plans():
    chosen = search_plans(MODULE, ONE_AXIS, planner="expert")
    names = [candidate.plan.name for candidate in chosen.candidates]
    assert any(name.startswith("Megatron") for name in names)
    steps = [candidate.step(chosen.rates) for candidate in chosen.candidates]
    assert steps == sorted(steps)
    assert steps[0] >= search_plans(MODULE, ONE_AXIS).best.step(chosen.rates) - 1e-9


def test_solutions_that_time_cuts_short_are_noted():
    module = parse(TWO_LAYERS)
    assert not search_plans(module, MESH).notes
    assert any("cut short after 1e-09 s" in note for note in search_plans(module, MESH, seconds=1e-9).notes)


def test_a_larger_budget_never_gets_a_slower_plan(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(budget_search, "MOST", 60)
    module, mesh = parse(TWO_LAYERS), Mesh.parse("x=2,y=2")
    free = search_plans(module, mesh).best
    assert free.memory is not None
    plans = [search_plans(module, mesh, budget=share * free.memory) for share in (0.9, 0.99)]
    steps = [plan.best.step(plan.rates) for plan in plans if plan.missing_bytes <= 0]
    assert len(steps) > 1 and steps == sorted(steps, reverse=True)


def test_plans_on_one_axis_ride_on_the_links_of_the_mesh():
    prices = [candidate.expected for candidate in search_plans(MODULE, MESH).candidates]
    axes = [axis for price in prices if price is not None for own in price.traffic for axis in own]
    assert axes and set(axes) <= set(MESH.names)


def test_overlapping_work_and_collectives_are_bounded_by_the_longer():
    rates = Rates(is_overlapped=True)
    chosen = search_plans(MODULE, ONE_AXIS, rates=rates)
    price, plain = chosen.best.expected, search_plans(MODULE, ONE_AXIS).best.expected
    assert price is not None and plain is not None and chosen.best.bound is not None
    assert price.seconds(rates) == max(price.compute_seconds(rates), price.comm_seconds(rates))
    assert chosen.best.bound - 1e-12 <= price.seconds(rates) <= plain.seconds(rates)


def test_overlapping_work_and_collectives_within_a_budget():
    rates = Rates(is_overlapped=True)
    free = search_plans(MODULE, ONE_AXIS, rates=rates).best
    free.predict_memory()
    assert free.memory is not None
    least = search_plans(MODULE, ONE_AXIS, rates=rates, budget=1.0).best
    assert least.memory is not None and least.memory <= free.memory
    times = [free.step(rates)]
    for budget in (free.memory, (free.memory + least.memory) / 2, least.memory):
        best = search_plans(MODULE, ONE_AXIS, rates=rates, budget=budget).best
        assert best.fits(budget) and best.bound is not None and best.bound <= best.step(rates) * (1 + 1e-9)
        times.append(best.step(rates))
    assert times[1:] == sorted(times[1:]) and times[1] <= times[0] * 1.05


def test_a_candidate_that_nothing_is_known_of_comes_last():
    assert CandidatePlan(Plan(MESH)).step(Rates()) == float("inf")


def test_a_library_call_with_several_results_is_whole_on_each_device():
    """LAPACK's calls return an array and a status: nothing says how to split either."""
    text = """ENTRY e {
      a = f64[8,3,3] parameter(0)
      call = (f64[8,3,3], s32[8]) custom-call(a), custom_call_target="lapack_dpotrf_ffi", api_version=API_VERSION_TYPED_FFI
      ROOT l = f64[8,3,3] get-tuple-element(call), index=0
    }"""
    assert search_plans(parse(text), ONE_AXIS).best.cost(Rates()) >= 0.0
