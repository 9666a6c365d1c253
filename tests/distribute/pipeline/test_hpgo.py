"""The figures of HPGO's planner from the same profiles, and what its faults are worth; then our plans for the same.

Of the profiles that HPGO publishes figures for, `amoebanet` (of 6 cells) and `gnmt_large` are not here.
"""

import pytest

from hloom.analysis import Interconnect
from hloom.distribute.pipeline import (
    Machine,
    PipelinePlan,
    Stage,
    StageCosts,
    evaluate_plan,
    parse_profile,
    plan_pipeline,
)
from tests.distribute.pipeline import hpgo, profiles

TWO_MACHINES, FLAT = [8, 16], list(range(1, 17))


@pytest.mark.parametrize(
    ("text", "profile_batch", "scale", "activation", "batch", "accumulated", "parallel"),
    [
        (profiles.vgg16(), 32, 1, None, 33, (32, 32), (512, 10.566)),
        (profiles.vgg19(), 32, 2, 7e7, 212, (64, 64), (512, 4.740)),
        (profiles.xlnet(24), 1, 3, 3942774528, 3, (2, 3), (128, 10.419)),
        (profiles.bert(24, "Input_ids"), 2, 3, 1733171968, 6, (4, 6), (128, 11.376)),
    ],
    ids=["vgg16", "vgg19", "xlnet", "bert_large"],
)
def test_batches_and_data_parallelism(text, profile_batch, scale, activation, batch, accumulated, parallel):
    profile = parse_profile(text)
    model = hpgo.Model(profile, profile_batch, 1024, 1, scale, activation)
    assert hpgo.max_batch(model) == batch
    assert hpgo.accumulation_batches(model, 16) == accumulated
    smaller = hpgo.Model(profile, profile_batch, parallel[0], 1, scale, activation)
    assert hpgo.data_parallel_speedup(smaller, 16, TWO_MACHINES) == pytest.approx(parallel[1], abs=5e-4)


PLANS = {
    "bert_48": (profiles.bert(48, "input_ids"), (2, 64, 1, 3, 2 * 1736689664), TWO_MACHINES, (9.024, 12.529, 14.035, 13.420), (8, 8, 30)),
    "bert_large": (profiles.bert(24, "Input_ids"), (2, 256, 1, 3, 1733171968), TWO_MACHINES, (13.298, 15.581, 15.440, 14.135), (8, 8, 13)),
    "xlnet_36": (profiles.xlnet(36), (1, 128, 1, 3, 1.5 * 3942774528), TWO_MACHINES, (10.524, 11.449, 14.816, 13.655), (8, 8, 22)),
    "amoebanet_36": (profiles.amoebanet_36(), (1, 128, 1, 3, 250845152), TWO_MACHINES, (5.851, 9.136, 11.876, 11.284), (8, 8, 30)),
    "vgg19": (profiles.vgg19(), (32, 2048, 32, 2, 7e7), TWO_MACHINES, (10.039, 16.000, 12.062, 10.568), (15, 1, 18)),
    "vgg19, flat": (profiles.vgg19(), (32, 2048, 32, 2, 7e7), FLAT, (10.039, 16.000, 10.306, 11.816), (14, 2, 16)),
    "gnmt_32": (profiles.gnmt_32_simplified(), (64, 1024, 64, 3, 1614725120 / 64), TWO_MACHINES, (4.478, 6.130, 9.642, 7.854), (8, 8, 31)),
}
"""Profile, batches and memory, machines; speed-up of data parallelism, with P3, of the best pipeline by both estimates;
the devices of its stages and where it is cut."""


def model_of(name: str) -> hpgo.Model:
    text, configuration, _, _, _ = PLANS[name]
    return hpgo.Model(parse_profile(text), *configuration)


@pytest.mark.parametrize("name", PLANS)
def test_plans(name: str):
    model, (_, _, machines, speedups, plan) = model_of(name), PLANS[name]
    best = hpgo.best_of_two_stages(model, 16, machines)
    actual = (
        hpgo.data_parallel_speedup(model, 16, machines),
        hpgo.p3_speedup(model, 16, machines),
        best.speedup,
        hpgo.recursive_speedup(model, best, machines),
    )
    assert actual == pytest.approx(speedups, abs=6e-4)
    assert (len(best.first), len(best.second), best.cut) == plan


def test_parameters_at_a_stage_end_were_counted_twice():
    model = model_of("vgg19")
    cut = next(number for number, state in enumerate(model.states) if state[2] > 3e8)  # FC1 begins the second stage
    plan = hpgo.TwoStages(cut, set(range(15)), {15})
    twice, once = (
        sum(model.between(2, first, last) for first, last, _ in plan.stages(model, ends)) / 1e6 for ends in (1, 0)
    )
    assert (round(twice), round(once)) == (940, 548)
    wrong, right = (hpgo.analytical_speedup(model, plan, TWO_MACHINES, ends) for ends in (1, 0))
    assert right > wrong


NVLINK = Interconnect("NVLink", "NVLink", "ring", 25e9, 0.0, 8)
ETHERNET = Interconnect("Ethernet", "Ethernet", "ring", 3e9 / 8, 0.0)
"""Eight devices of a machine share its 3 GB/s."""


@pytest.mark.parametrize("name", ["bert_48", "amoebanet_36", "vgg19"])
def test_our_plans_are_never_worse_than_theirs(name: str):
    """Data parallelism, and two stages of eight devices with any cut; 15 devices do not divide a microbatch of ours."""
    model = model_of(name)
    chain = parse_profile(PLANS[name][0]).chain(model.profile_batch)
    machine = Machine(16, hpgo.MEMORY, (NVLINK, ETHERNET))
    best = plan_pipeline(chain, machine, model.batch)
    assert best.searched is not None
    assert 1 < chain.seconds * model.batch / model.profile_batch / best.step_seconds <= 16
    assert max(best.peak_bytes) <= hpgo.MEMORY
    devices, last = tuple(range(16)), len(chain.layers) - 1
    theirs = [PipelinePlan((Stage(0, last, devices),), 4)]
    theirs += [PipelinePlan((Stage(0, cut, devices[:8]), Stage(cut + 1, last, devices[8:])), 4) for cut in range(last)]
    for plan in theirs:
        evaluated = evaluate_plan(StageCosts(chain, machine, model.batch // 4), plan)
        fits = max(evaluated.peak_bytes) <= hpgo.MEMORY
        assert not fits or best.searched.bound_seconds <= evaluated.bound_seconds * (1 + 1e-9)
        assert not fits or best.step_seconds <= evaluated.step_seconds * (1 + 1e-9)
