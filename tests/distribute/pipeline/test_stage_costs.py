"""Chains, machines, and what a stage takes: `chain.py`, `machine.py`, `stage_costs.py`."""

import pytest

from hloom.analysis import Interconnect
from hloom.distribute.pipeline import (
    Chain,
    ChainTooLong,
    IndivisibleBatch,
    InvalidChain,
    InvalidMachine,
    LayerCost,
    Machine,
    PipelinePlan,
    Schedule,
    Stage,
    StageCosts,
    merge_layers,
)

NEAR = Interconnect("near", "near", "ring", 10.0, 0.0, 2)
FAR = Interconnect("far", "far", "ring", 1.0, 0.5)
LAYERS = Chain((LayerCost("a", 1, 2, 30, 10, 4, 8, 1), LayerCost("b", 2, 4, 20, 6, 2, 4, 2)), 2, input_bytes=8)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: LayerCost("a", -1, 0, 0, 0), InvalidChain, "layer a: forward_seconds is -1"),
        (lambda: LayerCost("a", 1, float("nan"), 0, 0), InvalidChain, "layer a: backward_seconds is nan"),
        (lambda: LayerCost("a", 1, 1, 0, 0, weight_seconds=2), InvalidChain, "weight_seconds is 2, of 1 s"),
        (lambda: Chain((), 1), InvalidChain, "a chain without layers"),
        (lambda: Chain(LAYERS.layers, 0), InvalidChain, "a chain measured at 0 examples"),
        (lambda: Chain(LAYERS.layers, 1, float("inf")), InvalidChain, "input_bytes is inf"),
        (lambda: merge_layers(LAYERS, 0), InvalidChain, "0 layers"),
        (lambda: Machine(0, 1, (NEAR,)), InvalidMachine, "a machine of 0 devices"),
        (lambda: Machine(1, 0, (NEAR,)), InvalidMachine, "devices of 0 bytes"),
        (lambda: Machine(2, 1, ()), InvalidMachine, "2 devices without an interconnect"),
        (lambda: Machine(2, 1, (Interconnect("x", "x", "ring", 0, 0),)), InvalidMachine, "interconnect x"),
        (lambda: StageCosts(Chain(LAYERS.layers * 2000, 1), Machine(1, 1, ()), 1), ChainTooLong, "a chain of 4000 layers"),
        (lambda: StageCosts(LAYERS, Machine(1, 1, ()), 0), IndivisibleBatch, "a microbatch of 0 examples"),
    ],
)
def test_what_has_no_costs(make, error: type, message: str):
    with pytest.raises(error) as raised:
        make()
    assert message in raised.value.message
    assert raised.value.hint


def test_seconds_and_bytes_of_a_stage_on_two_devices():
    plan = PipelinePlan((Stage(0, 0, (0, 1)), Stage(1, 1, (2, 3))), 4, recompute=(True, False))
    costs = StageCosts(LAYERS, Machine(4, 1e9, (NEAR, FAR)), 4, has_overlap=False)
    first, second = costs.stage_times(plan)
    assert (first.forward_seconds, first.backward_seconds, first.weight_seconds) == (1, 2 + 1, 1)
    assert first.transfer_seconds == 0.5 + 20 / 2 / 1  # twice the measured batch, half to each device, between machines
    assert (second.transfer_seconds, second.seconds) == (0, 6)
    assert first.all_reduce_seconds == pytest.approx(4 * 2 * (1 / 2) / 10)
    assert costs.peak_bytes(plan) == (2 * 4 + 8 + 2 * 16 // 2 + 60 // 2, 2 * 2 + 4 + 40 // 2)


def test_all_reduce_overlaps_with_the_last_backward():
    layers = tuple(LayerCost(str(number), 1, 2, 0, 0, 10) for number in range(4))
    machine = Machine(2, 1e9, (Interconnect("near", "near", "ring", 10.0, 0.0),))
    times = [
        StageCosts(Chain(layers, 2), machine, 2, has_overlap=has_overlap).exposed_all_reduce(2, 0)[0, 3]
        for has_overlap in (False, True)
    ]
    assert times == pytest.approx([4.0, 1.0])  # one second a layer; all but the first layer's is done in the backward


def test_memory_of_two_interleaved_stages_is_of_both():
    chain = Chain(tuple(LayerCost(str(number), 1, 2, 10, 0, 1) for number in range(4)), 1)
    stages = tuple(Stage(number, number, (number % 2,)) for number in range(4))
    plan = PipelinePlan(stages, 4, Schedule.INTERLEAVED)
    assert StageCosts(chain, Machine(2, 1e9, (NEAR,)), 1).peak_bytes(plan) == (2 * 2 + 5 * 10, 2 * 2 + 3 * 10)


def test_merged_layers_are_worth_as_much():
    layers = tuple(LayerCost(str(number), number % 3, 2, 3, number, 5, 6, 1, 0.5, 0.25) for number in range(20))
    merged = merge_layers(Chain(layers, 4), 6)
    assert len(merged.layers) <= 6
    for name in ("forward_seconds", "backward_seconds", "activation_bytes", "parameter_bytes", "backward_fixed_seconds"):
        assert sum(getattr(layer, name) for layer in merged.layers) == sum(getattr(layer, name) for layer in layers)
    assert [layer.output_bytes for layer in merged.layers][-1] == 19
    assert merge_layers(merged, 20) is merged
