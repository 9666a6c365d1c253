"""The search inside `hloom.fit`: bounds, memory, stages priced as they run, odd programs.

Covers `sharded_program.py`, `stage_cost.py`, `pipeline_search.py`, `sharding_search.py`, `combination_cost.py`,
`programs.py`.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

import pytest

import hloom
from hloom.analysis import device
from hloom.distribute.fit import Combination, FitResult, donate_state
from hloom.distribute.fit.combination_cost import PipelineCosts
from hloom.distribute.fit.measurement import compiled_pipeline
from hloom.distribute.fit.pipeline_search import pipelines
from hloom.distribute.fit.programs import ProgramVariants
from hloom.distribute.fit.sharded_program import ShardedProgram
from hloom.distribute.fit.sharding_search import Counts, ShardingSearch
from hloom.distribute.fit.stage_cost import stage_costs, with_sums_in_place
from hloom.distribute.pipeline import ActionKind, Machine, PipelinePlan, Schedule, Stage, step_chain
from hloom.distribute.planner import PlanSpace, Rates
from hloom.ir import Module
from hloom.runtime import memory
from hloom.sharding import Mesh
from hloom.text import HloomError, listening
from tests.distribute.fit.programs import perceptron

H100, BATCH = device("h100"), {"x": 0}


@cache
def step() -> Module:
    return donate_state(perceptron(layers=4, width=256, batch=512))[0]


@cache
def result(memory: float | None = None) -> FitResult:
    return hloom.fit(step(), 2, memory=memory, batch=BATCH, microbatches=[1, 4])


def two_stages(mesh: str | None, schedule: Schedule = Schedule.ONE_F_ONE_B) -> PipelinePlan:
    return PipelinePlan((Stage(0, 1, (0, 1), mesh), Stage(2, 3, (2, 3), mesh)), 4, schedule)


def test_no_combination_takes_less_than_the_bound():
    made = result()
    assert 0 < made.bound_seconds <= min(combination.cost.step_seconds for combination in made.combinations)
    assert made.gap == pytest.approx(1 - made.bound_seconds / made.best.cost.step_seconds)


@pytest.mark.parametrize("share", [0.9, pytest.param(0.6, marks=pytest.mark.long)])
def test_never_worse_than_by_hand_at_the_same_memory(share: float):
    """What people write by hand is a candidate itself, so the best is no slower than those of them that fit."""
    limit = share * max(made.peak_bytes for made in result().baselines)
    made = result(limit)
    fitting = [baseline for baseline in made.baselines if baseline.fits(limit)]
    assert made.best.fits(limit) or not fitting
    assert all(made.best.cost.step_seconds <= baseline.cost.step_seconds for baseline in fitting)


def test_a_plan_is_priced_before_it_is_simulated():
    space = PlanSpace(step(), Mesh.parse("data=4"), Rates())
    program = ShardedProgram.of(space.search(), H100)
    seconds, sent = program.step_seconds, program.comm_bytes
    cost = program.cost(program.peak_bytes())
    assert (seconds, sent) == (cost.step_seconds, cost.comm_bytes)
    assert cost.peak_bytes > 0


def test_the_batch_is_what_data_parallelism_splits():
    assert ProgramVariants(step(), H100, 4, None).batch == BATCH


@pytest.mark.parametrize("schedule", [Schedule.ONE_F_ONE_B, pytest.param(Schedule.ZERO_BUBBLE, marks=pytest.mark.long)])
def test_temporaries_of_stages_are_as_xla_assigns_them(schedule: Schedule):
    """What each module of a stage holds beyond its operands, sums added to in place."""
    plan = PipelinePlan((Stage(0, 1, (0,)), Stage(2, 3, (1,))), 4, schedule)
    for stage in stage_costs(step(), plan, H100, BATCH):
        for program in stage.programs.microbatch.values():
            if program.stage == stage.stage:
                compiled = memory(hloom.print(with_sums_in_place(program, program.module)))
                expected = stage.costs[program.module].extra_bytes
                assert expected == pytest.approx(compiled["peak"] - compiled["arguments"], rel=0.05, abs=4096)


@pytest.mark.parametrize("mesh", [None, "model=2"])
def test_the_peak_is_nearly_that_of_the_compiled_modules(mesh: str | None):
    plan = two_stages(mesh)
    chain, machine = step_chain(step(), H100, microbatches=4, batch=BATCH), Machine.of(H100, 4)
    cost = PipelineCosts(step(), chain, machine, H100, BATCH).cost(plan, 512)
    made = Combination("two stages", step(), 4, 1.0, cost, pipeline=plan, batch=BATCH)
    peak, sent = compiled_pipeline(made, "h100")
    assert cost.peak_bytes == pytest.approx(peak, rel=0.15)
    if mesh is None:  # gradients are summed up with each microbatch
        assert cost.comm_bytes == pytest.approx(sent, rel=0.1)


def test_more_live_microbatches_hold_more():
    chain, machine = step_chain(step(), H100, microbatches=4, batch=BATCH), Machine.of(H100, 4)
    costs = PipelineCosts(step(), chain, machine, H100, BATCH)
    by_schedule = {
        schedule: costs.cost(two_stages(None, schedule), 512) for schedule in (Schedule.GPIPE, Schedule.ONE_F_ONE_B)
    }
    assert by_schedule[Schedule.GPIPE].peak_bytes > by_schedule[Schedule.ONE_F_ONE_B].peak_bytes
    state = max(stage.state_bytes for stage in stage_costs(step(), two_stages(None), H100, BATCH))
    assert all(cost.peak_bytes > state for cost in by_schedule.values())


def test_stages_on_meshes_hold_parts_and_send_inside():
    """Tensor parallelism inside stages: half of the weights on each device, collectives for each microbatch."""
    shared, sharded = (stage_costs(step(), two_stages(mesh), H100, BATCH) for mesh in (None, "model=2"))
    for stage, other in zip(sharded, shared, strict=True):
        forward, whole = stage.action_cost(ActionKind.FORWARD), other.action_cost(ActionKind.FORWARD)
        assert forward is not None and whole is not None
        assert stage.sharding is not None and other.sharding is None
        assert stage.state_bytes <= other.state_bytes
        assert sum(cost.comm_bytes for cost in stage.costs.values()) >= 0
        assert forward.total_seconds > 0


def test_stages_on_meshes_are_in_the_table():
    """Unless their work alone takes longer than the best: here there is nothing else."""
    chain, machine = step_chain(step(), H100, microbatches=4, batch=BATCH), Machine.of(H100, 4)
    cost = PipelineCosts(step(), chain, machine, H100, BATCH).cost(two_stages("model=2"), 512)
    assert cost.step_seconds > result().bound_seconds
    assert cost.peak_bytes > 0 and cost.comm_bytes > 0


# What is not done, since it cannot be best


def variants(module: Module) -> ProgramVariants:
    return ProgramVariants(module, H100, 2, BATCH)


def counted(monkeypatch: pytest.MonkeyPatch, name: str) -> list[object]:
    """The calls of a function, given by the module that calls it, from now on."""
    module, function = name.rsplit(".", 1)
    original, calls = getattr(import_module(module), function), []
    monkeypatch.setattr(name, lambda *args, **options: calls.append(args) or original(*args, **options))
    return calls


def test_the_first_that_fits_is_said_after_one_plan():
    said: list[str] = []
    with listening(lambda done, total: None, said.append):
        hloom.fit(step(), 2, batch=BATCH, microbatches=[1, 4])
    assert said[0].startswith("1 plans, the fastest that fits on data=2: ")


def test_nothing_is_recomputed_where_the_step_fits(monkeypatch: pytest.MonkeyPatch):
    calls = counted(monkeypatch, "hloom.distribute.fit.programs.rematerialize")
    made = hloom.fit(step(), 2, batch=BATCH, microbatches=[1])
    assert not calls
    reasons = {omission.name: omission.reason for omission in made.omissions}
    assert reasons["FSDP with checkpoint"] == "the step fits without recomputation, which only adds work"


def test_more_microbatches_than_fit_already_are_not_made():
    large = donate_state(perceptron(layers=6, width=256, batch=65536))[0]
    least = min(made.peak_bytes for made in ShardingSearch(variants(large), H100, 2, None, [1], Counts()).run())
    search = ShardingSearch(variants(large), H100, 2, 0.8 * least, [1, 2, 4, 8], Counts())
    assert min(search.run(), key=lambda made: (not made.fits(0.8 * least), made.cost.step_seconds)).microbatches == 2
    assert {(made.microbatches, made.share) for made in search.variants.known} == {(1, 1.0), (2, 1.0)}


def test_only_gpipe_is_priced_where_a_faster_step_is_known():
    made = pipelines(step(), H100, 2, 1e12, [1, 4], 512, BATCH, known=0.0)
    assert {combination.baseline for combination in made.combinations} == {"GPipe"}
    assert made.pruned


def test_stages_of_one_width_are_cut_once(monkeypatch: pytest.MonkeyPatch):
    calls = counted(monkeypatch, "hloom.distribute.fit.stage_cost.pipeline_program")
    stage_costs(step(), two_stages(None), H100, BATCH)
    assert len(calls) == 1


# What is not a step, or does not go with the devices


def test_one_device():
    made = hloom.fit(perceptron(layers=1, width=8, batch=8), 1, batch=BATCH, microbatches=[1])
    assert made.best.plan is not None and made.best.plan.mesh.device_count == 1
    assert {omission.name: omission.reason for omission in made.omissions}["pipelines"] == "one device"


def test_more_devices_than_any_dimension_has_parts():
    text = "HloModule m\nENTRY e { x = f32[3,5] parameter(0)\n ROOT y = f32[3,5] tanh(x) }"
    made = hloom.fit(hloom.parse(text), 64)
    assert made.best.fits(made.memory) and made.best.cost.step_seconds >= made.bound_seconds


def test_no_parameters():
    text = "HloModule m\nENTRY e { c = f32[] constant(1)\n ROOT y = f32[64,64] broadcast(c), dimensions={} }"
    made = hloom.fit(hloom.parse(text), 4)
    reasons = {omission.name: omission.reason for omission in made.omissions}
    assert made.best.cost.comm_bytes == 0
    assert reasons["microbatches"] == "m: no dimension of a parameter is a batch that can be cut"


def test_a_batch_that_nothing_divides():
    made = hloom.fit(perceptron(layers=2, width=8, batch=7), 2, batch=BATCH)
    assert {combination.microbatches for combination in made.combinations} == {1}
    with pytest.raises(HloomError, match="a batch of 7 examples cannot be split into 2 microbatches"):
        hloom.fit(perceptron(layers=2, width=8, batch=7), 2, batch=BATCH, microbatches=[2])
