"""`hloom.plan`, what it gives, and `hloom.measure`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from jax.sharding import PartitionSpec

import hloom
from hloom.text import HloomError
from tests.distribute.planner.test_plan import TWO_LAYERS

MODULE = hloom.parse(TWO_LAYERS.replace("4096", "64").replace("16384", "256").replace("512", "32"))


@pytest.fixture(scope="module")
def planned() -> hloom.PlanResult:
    return hloom.plan(MODULE, "data=2,model=4", pins={"x": "[data,-]"})


def test_what_was_expected_stands_beside_what_was_measured(planned: hloom.PlanResult):
    measured = planned.measure()
    by_name = {row.name: row for row in measured.comparisons}
    assert {"sent", "FLOPs", "memory"} <= by_name.keys()
    assert by_name["sent"].measured == measured.comm_bytes
    assert abs(by_name["sent"].error) < 0.15
    assert by_name["FLOPs"].error == 0
    assert abs(by_name["memory"].error) < 0.1


def test_any_plan_and_any_annotated_module_can_be_measured(planned: hloom.PlanResult):
    of_plan = hloom.measure(planned.plan, MODULE)
    of_module = hloom.measure(planned.annotate(), devices=8)
    assert of_plan.comm_bytes == of_module.comm_bytes == planned.measure().comm_bytes
    assert [row.name for row in of_plan.comparisons] == [row.name for row in planned.measure().comparisons]
    assert of_module.comparisons == ()


def test_what_cannot_be_measured_is_said(planned: hloom.PlanResult):
    with pytest.raises(HloomError, match="a plan is measured together with its module"):
        hloom.measure(planned.plan)
    with pytest.raises(HloomError, match="an annotated module does not say for how many devices it is"):
        hloom.measure(planned.annotate())


def test_partition_specs(planned: hloom.PlanResult):
    arguments = {"batch": np.zeros((32, 64)), "weights": [np.zeros((64, 256)), np.zeros((256, 64))]}
    actual = planned.partition_specs(arguments)
    assert actual["batch"] == PartitionSpec("data", None)
    assert len(actual["weights"]) == 2


def test_it_is_saved(planned: hloom.PlanResult, tmp_path: Path):
    planned.save(tmp_path / "plan.json")
    assert json.loads((tmp_path / "plan.json").read_text()) == planned.to_json()
    again = hloom.plan(MODULE, "data=2,model=4", like=tmp_path / "plan.json")
    assert again.to_json() == planned.to_json()
    assert hloom.plan(MODULE, "data=2,model=4", like=planned.to_json()).to_json() == planned.to_json()
    planned.save(tmp_path / "spread.hlo")
    assert hloom.equal(hloom.load(tmp_path / "spread.hlo"), planned.annotate())


def test_the_best_is_measured():
    planned = hloom.plan(MODULE, "x=2", measure=1)
    assert planned.best.measured is not None
    assert all(candidate.measured is not None for candidate in planned.chosen.candidates)
    assert planned.step_seconds == min(candidate.step(planned.chosen.rates) for candidate in planned.chosen.candidates)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"memory": "much"}, "'much' is not a number of bytes"),
        ({"device": "abacus"}, "no device is called 'abacus'"),
        ({"like": {"params": {}}}, "this is not a plan"),
        ({"planner": "best"}, "there is no planner 'best'"),
    ],
)
def test_what_cannot_be_planned(options: dict, says: str):
    with pytest.raises(HloomError, match=says):
        hloom.plan(MODULE, "x=2", **options)
