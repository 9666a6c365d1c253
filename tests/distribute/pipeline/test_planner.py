"""What is planned for a batch, what schedules are worth, and what is refused with a hint."""

import pytest

from hloom.analysis import Interconnect, device
from hloom.distribute.pipeline import (
    Chain,
    DoesNotFit,
    IndivisibleBatch,
    InvalidPlan,
    LayerCost,
    Machine,
    PipelinePlan,
    Schedule,
    Stage,
    StageCosts,
    evaluate_plan,
    plan_merged_pipeline,
    plan_pipeline,
)

NETWORK = Interconnect("network", "network", "ring", 1e9, 0.0)


def chain(count: int, **sizes: float) -> Chain:
    layer = {"activation_bytes": 10, "output_bytes": 0, "parameter_bytes": 1, "weight_seconds": 1} | sizes
    return Chain(tuple(LayerCost(f"layer {number}", 1, 2, **layer) for number in range(count)), 8)


def machine(count: int, memory: float = 1e9) -> Machine:
    return Machine(count, memory, (NETWORK,))


def test_layers_that_do_not_fit_on_one_device_are_cut():
    heavy = chain(8, parameter_bytes=50, activation_bytes=8)  # each layer's parameters and gradients take 100 bytes
    planned = plan_pipeline(heavy, machine(4, memory=250), 8)
    assert [(stage.first, stage.last) for stage in planned.plan.stages] == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert planned.plan.schedule is Schedule.ONE_F_ONE_B
    assert max(planned.peak_bytes) <= 250
    assert planned.step_seconds <= planned.bound_seconds


def test_small_models_are_data_parallel():
    planned = plan_pipeline(chain(3), machine(4), 8)
    assert planned.plan.stages == (Stage(0, 2, (0, 1, 2, 3)),)
    assert planned.bubble == 0


def test_a_link_between_machines_is_crossed_once_and_by_the_smallest_output():
    slow = Interconnect("slow", "slow", "ring", 10.0, 0.0)
    layers = [LayerCost(str(number), 1, 2, 1, 80 if number != 2 else 8, 40) for number in range(6)]
    planned = plan_pipeline(
        Chain(tuple(layers), 8), Machine(4, 1e9, (Interconnect("near", "near", "ring", 1e9, 0.0, 2), slow)), 8
    )
    assert [(stage.first, stage.last, stage.devices) for stage in planned.plan.stages] == [
        (0, 2, (0, 1)),
        (3, 5, (2, 3)),
    ]


def test_long_chains_are_planned_merged():
    layers = tuple(LayerCost(f"{n}", 1 + n % 3, 2 + n % 2, 8, 0, 50, weight_seconds=1) for n in range(90))
    long, small = Chain(layers, 8), machine(4, memory=3000)
    merged, whole = plan_merged_pipeline(long, small, 8, most_layers=16), plan_pipeline(long, small, 8)
    stages = merged.plan.stages
    assert [stage.first for stage in stages] == [0, *(stage.last + 1 for stage in stages[:-1])]
    assert stages[-1].last == 89 and merged.simulation.plan == merged.plan and len(stages) == len(whole.plan.stages) > 1
    assert whole.step_seconds <= merged.step_seconds < 1.1 * whole.step_seconds
    assert evaluate_plan(StageCosts(long, small, 8 // merged.plan.microbatches), merged.plan).step_seconds == (
        pytest.approx(merged.step_seconds)
    )
    assert plan_merged_pipeline(chain(3), machine(4), 8) == plan_pipeline(chain(3), machine(4), 8)
    with pytest.raises(InvalidPlan, match="91 stages of a chain of 90 layers"):
        plan_merged_pipeline(long, machine(100), 8, stage_counts=[91])


def test_what_schedules_are_worth():
    heavy = chain(8, parameter_bytes=50, activation_bytes=8)
    steps = {
        schedule: plan_pipeline(heavy, machine(4, 290), 8, microbatches=[8], schedules=[schedule]).step_seconds
        for schedule in Schedule
    }
    assert steps[Schedule.ONE_F_ONE_B] == steps[Schedule.GPIPE] == 6 / 8 * (8 + 3)
    assert steps[Schedule.INTERLEAVED] == 3 / 8 * (8 * 2 + 3)
    assert steps[Schedule.ZERO_BUBBLE] < steps[Schedule.ONE_F_ONE_B]
    best = plan_pipeline(heavy, machine(4, 290), 8, microbatches=[8], schedules=list(Schedule))
    assert best.step_seconds == min(steps.values())


def test_gpipe_takes_the_memory_of_all_microbatches():
    heavy = chain(8, parameter_bytes=50, activation_bytes=160)
    one = plan_pipeline(heavy, machine(4, 400), 8, microbatches=[8])
    assert one.plan.recompute == (False,) * 4
    four = plan_pipeline(heavy, machine(4, 400), 8, microbatches=[8], schedules=[Schedule.GPIPE])
    assert four.plan.recompute == (True,) * 4
    assert four.step_seconds > one.step_seconds


def test_a_known_device_is_a_machine():
    planned = plan_pipeline(chain(8), Machine.of(device("h100"), 16), 16)
    assert max(planned.peak_bytes) <= device("h100").memory_bytes


@pytest.mark.parametrize(
    ("options", "error", "message", "hint"),
    [
        ({"batch": 0}, IndivisibleBatch, "a batch of 0 examples", "one or more"),
        ({"microbatches": [3]}, IndivisibleBatch, "8 examples cannot be split into 3 microbatches", "such as 1, 2, 4"),
        ({"stage_counts": [9]}, InvalidPlan, "9 stages of a chain of 8 layers", "from 1 to 8"),
        ({"stage_counts": [3]}, InvalidPlan, "3 stages on 2 devices", "interleaved"),
        ({"schedules": []}, InvalidPlan, "no schedule", "one or more"),
        ({"machine": machine(2, 1)}, DoesNotFit, "layer 0 alone needs", "split the layer"),
        ({"machine": machine(2, 5)}, DoesNotFit, "optimizer's state take 16 bytes", "use more devices"),
    ],
)
def test_what_cannot_be_planned(options: dict, error: type, message: str, hint: str):
    arguments = {"chain": chain(8), "machine": machine(2), "batch": 8} | options
    with pytest.raises(error) as raised:
        plan_pipeline(**arguments)
    assert message in raised.value.message
    assert hint in raised.value.hint


def test_plans_of_ones_own_have_to_fit_the_chain_and_the_machine():
    costs = StageCosts(chain(4), machine(2), 2)
    with pytest.raises(InvalidPlan, match="ends with layer 2 of 4"):
        evaluate_plan(costs, PipelinePlan((Stage(0, 2, (0,)),), 4))
    with pytest.raises(InvalidPlan, match="device 2 is not among the machine's 2"):
        evaluate_plan(costs, PipelinePlan((Stage(0, 3, (2,)),), 4))
    with pytest.raises(IndivisibleBatch, match="a microbatch of 1 examples on 2 devices"):
        evaluate_plan(StageCosts(chain(4), machine(2), 1), PipelinePlan((Stage(0, 3, (0, 1)),), 4))
