"""The dynamic program against all pipelines of small chains."""

import math
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hloom.analysis import Interconnect
from hloom.distribute.pipeline import Schedule, simulate
from hloom.distribute.pipeline.chain import Chain, LayerCost
from hloom.distribute.pipeline.machine import Machine
from hloom.distribute.pipeline.search import SearchTooLarge, StagePlan, best_stages
from hloom.distribute.pipeline.stage_costs import Pace, StageCosts, step_bound
from tests.distribute.pipeline.brute_force import least_bound

SIZE = st.integers(0, 24).map(lambda size: size / 3)  # thirds, whose sums are rounded


@st.composite
def layers(draw: st.DrawFn) -> LayerCost:
    weight = draw(SIZE)
    return LayerCost("layer", draw(SIZE), weight + draw(SIZE), draw(SIZE), draw(SIZE), draw(SIZE), draw(SIZE), weight, draw(st.sampled_from([0.0, 0.25])), draw(st.sampled_from([0.0, 0.5])))


@st.composite
def costs(draw: st.DrawFn) -> StageCosts:
    chain = Chain(tuple(draw(st.lists(layers(), min_size=1, max_size=4))), 4, draw(SIZE))
    near = Interconnect("near", "near", "ring", draw(st.sampled_from([2.0, 16.0])), 0.0, 2)
    far = Interconnect("far", "far", "ring", draw(st.sampled_from([0.5, 2.0])), 0.125)
    machine = Machine(draw(st.integers(1, 4)), draw(st.sampled_from([8.0, 16.0, 40.0, 1e9])), (near, far))
    return StageCosts(chain, machine, draw(st.sampled_from([1, 2, 4])), has_overlap=draw(st.booleans()))


@settings(max_examples=60, deadline=None)
@given(costs(), st.sampled_from([1, 2, 3, 8]), st.sampled_from([Schedule.ONE_F_ONE_B, Schedule.GPIPE, Schedule.ZERO_BUBBLE]), st.sampled_from(Pace))
def test_no_pipeline_has_a_lower_bound(costs: StageCosts, microbatches: int, schedule: Schedule, pace: Pace):
    best = best_stages(costs, microbatches, schedule, pace=pace)
    expected = least_bound(costs, microbatches, schedule, pace)
    if expected is None:
        assert best is None
        return
    assert best is not None
    assert math.isclose(best.bound_seconds, expected, rel_tol=1e-9, abs_tol=1e-12)
    assert math.isclose(costs.step_seconds(best.plan, pace), best.bound_seconds, abs_tol=1e-12)
    if schedule is Schedule.ONE_F_ONE_B and pace is Pace.WITH_TRANSFERS:
        tighter = step_bound(costs.stage_times(best.plan), microbatches)
        assert simulate(best.plan, costs.stage_times(best.plan)).step_seconds <= tighter + 1e-9 <= best.bound_seconds + 2e-9
    assert max(costs.peak_bytes(best.plan)) <= costs.machine.memory_bytes


NETWORK = Interconnect("network", "network", "ring", 1e9, 0.0)


def test_nothing_below_a_bound_that_the_best_does_not_reach():
    chain = Chain((LayerCost("a", 1, 2, 0, 0), LayerCost("b", 1, 2, 0, 0)), 1)
    two = StageCosts(chain, Machine(2, 1.0, (NETWORK,)), 1)
    best = best_stages(two, 4)
    assert best is not None
    assert best.bound_seconds == 15
    assert best_stages(two, 4, below=15) is None
    one = best_stages(two, 4, stage_counts=[1])
    assert one is not None
    assert one.bound_seconds == 24


def test_recomputation_where_activations_do_not_fit():
    chain = Chain((LayerCost("a", 1, 2, 10, 1), LayerCost("b", 1, 2, 10, 1)), 1)
    best = best_stages(StageCosts(chain, Machine(2, 16.0, (NETWORK,)), 1), 4)
    assert best is not None
    assert best.plan.recompute == (True, False)  # the first stage keeps two microbatches, the last one


def test_a_search_that_ends_at_its_limit_says_so(monkeypatch: pytest.MonkeyPatch):
    chain = Chain(tuple(LayerCost(str(number), 1 + number % 3, 2, 1, 1, 1) for number in range(6)), 4)
    costs = StageCosts(chain, Machine(4, 1e9, (NETWORK,)), 2)
    whole = best_stages(costs, 8)
    monkeypatch.setattr(sys.modules[StagePlan.__module__], "MOST_SOLUTIONS", 3)
    partly = best_stages(costs, 8)
    assert whole is not None
    assert partly is not None
    assert (whole.is_optimal, partly.is_optimal) == (True, False)
    assert partly.bound_seconds >= whole.bound_seconds


def test_too_many_layers_are_refused():
    chain = Chain((LayerCost("a", 1, 2, 10, 1),) * 2000, 64)
    with pytest.raises(SearchTooLarge, match="2000 layers on 64 devices"):
        best_stages(StageCosts(chain, Machine(64, 1e9, (NETWORK,)), 64), 4)
