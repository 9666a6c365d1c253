"""The best combination for devices: never worse than what people write by hand, one time model, files, bad input.

Covers `combination.py`, `donation.py`, `fit.py`, `pipeline_search.py`, `combination_cost.py`, `programs.py`,
`result.py`, `sharding_search.py`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

import hloom
from hloom.analysis import device
from hloom.distribute.fit import FitResult, donate_state
from hloom.distribute.fit.combination_cost import PipelineCosts
from hloom.distribute.fit.sharded_program import ShardedProgram
from hloom.distribute.pipeline import Machine, plan_pipeline, step_chain
from hloom.distribute.planner import Rates, complete_plan, experts
from hloom.sharding import Mesh
from hloom.text import HloomError
from tests.distribute.fit.programs import perceptron

BATCH = {"x": 0}


@cache
def result(memory: str = "16GiB") -> FitResult:
    return hloom.fit(perceptron(), 4, memory=memory, batch=BATCH, microbatches=[1, 2, 4])


def test_never_worse_than_by_hand():
    made = result()
    assert {baseline.baseline for baseline in made.baselines} >= {"data parallel", "FSDP", "Megatron", "GPipe"}
    fitting = [baseline for baseline in made.baselines if baseline.fits(made.memory)]
    assert fitting and all(made.best.cost.step_seconds <= baseline.cost.step_seconds for baseline in fitting)


def test_the_same_again():
    again = hloom.fit(perceptron(), 4, memory="16GiB", batch=BATCH, microbatches=[1, 2, 4])
    one, other = again.to_json(), result().to_json()
    assert {**one, "seconds": 0} == {**other, "seconds": 0}


def test_less_memory_is_kept():
    step = perceptron(layers=6, batch=8192)
    free = hloom.fit(step, 4, batch=BATCH, microbatches=[1, 2, 4])
    limit = 0.9 * min(made.peak_bytes for made in free.combinations if made.pipeline is None and made.microbatches == 1)
    tight = hloom.fit(step, 4, memory=limit, batch=BATCH, microbatches=[1, 2, 4])
    assert tight.best.fits(limit)
    assert tight.best.cost.step_seconds >= free.best.cost.step_seconds
    assert any(not made.fits(limit) for made in tight.combinations)


def test_one_time_model():
    """Data parallelism as a sharding plan and as a pipeline of one stage send alike, and take nearly as long.

    The pipeline stores residuals and adds gradients to sums, which it would for several microbatches.
    """
    step, on = donate_state(perceptron(layers=4, width=1024, batch=16384))[0], device("h100")
    mesh = Mesh.parse("data=4")
    plan = next(plan for plan in experts(step, mesh) if plan.name == "data parallel on data")
    program = ShardedProgram.of(complete_plan(step, plan, Rates.of(on, mesh)), on)
    sharded = program.cost(program.peak_bytes())
    machine = Machine.of(on, 4)
    chain = step_chain(step, on, batch=BATCH)
    planned = plan_pipeline(chain, machine, 16384, microbatches=[1], stage_counts=[1], has_overlap=False)
    piped = PipelineCosts(step, chain, machine, on, BATCH).cost(planned.plan, 16384)
    assert piped.seconds_by_cause["links"] == pytest.approx(sharded.seconds_by_cause["links"], rel=0.01)
    assert sharded.step_seconds <= piped.step_seconds <= 1.2 * sharded.step_seconds
    assert piped.comm_bytes == pytest.approx(sharded.comm_bytes, rel=0.01)


def test_state_is_donated_to_what_becomes_of_it():
    made, donated = donate_state(perceptron(layers=2))
    aliases = made.attributes["input_output_alias"]
    assert [(alias.output_index, alias.parameter) for alias in aliases] == [((0,), 0), ((1,), 1)]
    assert donated == 2 * 64 * 64 * 4
    assert hloom.memory(made).aliases == donated
    assert donate_state(made)[1] == 0


def test_nothing_fits(tmp_path: Path):
    made = hloom.fit(perceptron(layers=2), 2, memory=100, batch=BATCH, microbatches=[1, 2])
    assert made.missing_bytes == made.best.peak_bytes - 100
    with pytest.raises(HloomError, match="nothing fits into 100 bytes: the smallest found takes"):
        made.save(tmp_path / "best")
    assert not (tmp_path / "best").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"devices": 0}, "0 devices"),
        ({"devices": 4, "device": "h101"}, "no device is called 'h101'"),
        ({"devices": 4, "memory": "much"}, "'much' is not a number of bytes"),
        ({"devices": 4, "memory": 0}, "a device cannot hold 0 bytes"),
        ({"devices": 4, "microbatches": [3]}, "a batch of 64 examples cannot be split into 3 microbatches"),
        ({"devices": 4, "batch": {"y": 0}}, "y"),
    ],
)
def test_bad_input(options: dict, message: str) -> None:
    with pytest.raises(HloomError, match=message):
        hloom.fit(perceptron(), **{"batch": BATCH, **options})


def test_effects_leave_combinations_out():
    text = hloom.print(perceptron(layers=2)).replace(
        "tanh(%a0)", 'custom-call(a0), custom_call_target="callback", custom_call_has_side_effect=true'
    )
    made = hloom.fit(hloom.parse(text), 2, batch=BATCH)
    reasons = {omission.name: omission.reason for omission in made.omissions}
    assert reasons["microbatches"].startswith("h0 (custom-call) in step has an effect beyond its result")
    assert all(combination.pipeline is None for combination in made.combinations)
