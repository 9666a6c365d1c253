"""Pipeline plans as JSON: written and read back, and what is not a plan."""

import json
from pathlib import Path

import pytest

from hloom.distribute.pipeline import InvalidPlan, PipelinePlan, Schedule, Stage, load_plan, plan_from_json
from hloom.text import HloomError

ROUND = tuple(Stage(number, number, (number % 2,)) for number in range(4))
PLANS = [
    PipelinePlan((Stage(0, 3, (0, 1)), Stage(4, 4, (2,))), 8, Schedule.GPIPE, (True, False)),
    PipelinePlan(ROUND, 4, Schedule.INTERLEAVED),
    PipelinePlan((Stage(0, 3, (4, 5, 6, 7), "data=2,model=2"),), 2),
]
ONE = {"layers": [0, 0], "devices": [0]}


@pytest.mark.parametrize("plan", PLANS)
def test_a_plan_is_read_back(plan: PipelinePlan, tmp_path: Path):
    path = plan.save(tmp_path / "plan.json")
    assert load_plan(path) == plan
    assert plan_from_json(plan.to_json()) == plan


@pytest.mark.parametrize(
    ("value", "message", "hint"),
    [
        ([], "this is not a plan of a pipeline", "a plan is {"),
        ({"stages": 3}, "this is not a plan of a pipeline", "a plan is {"),
        ({"stages": [ONE], "microbatches": 2, "shedule": "1f1b"}, 'no field "shedule"', "did you mean schedule?"),
        ({"stages": [ONE], "microbatches": True}, "microbatches is true", "such as 8"),
        ({"stages": [ONE], "microbatches": 2.0}, "microbatches is 2.0", "such as 8"),
        ({"stages": [ONE], "microbatches": 2, "schedule": "1f1"}, 'called "1f1"', "did you mean 1f1b?"),
        ({"stages": [ONE], "microbatches": 2, "schedule": [1]}, "called [1]", "they are gpipe"),
        ({"stages": [4], "microbatches": 2}, "stage 0 is 4", "a stage is"),
        ({"stages": [ONE | {"layers": [0]}], "microbatches": 2}, "layers of stage 0 are [0]", "[0, 3]"),
        ({"stages": [ONE | {"devices": "all"}], "microbatches": 2}, 'devices of stage 0 are "all"', "[0, 1]"),
        ({"stages": [ONE | {"recompute": 1}], "microbatches": 2}, "recompute of stage 0 is 1", "true or false"),
        ({"stages": [ONE | {"mesh": {"model": 2}}], "microbatches": 2}, "a mesh model=2 of 2 devices", "multiply"),
        ({"stages": [ONE | {"mesh": "x"}], "microbatches": 2}, "'x' is not a mesh", "data"),
        ({"stages": [ONE], "microbatches": 0}, "0 microbatches", "one or more"),
        ({"stages": [], "microbatches": 1}, "a pipeline without stages", "one or more"),
        ({"stages": [ONE | {"devices": list(range(5000))}], "microbatches": 1}, "on 5,000 devices", "at most 4,096"),
    ],
)
def test_what_is_no_plan(value, message: str, hint: str):
    with pytest.raises(HloomError) as raised:
        plan_from_json(value)
    assert message in raised.value.message
    assert hint in (raised.value.hint or "")


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "9" * 5000])
def test_a_file_that_holds_no_plan(text: str, tmp_path: Path):
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(InvalidPlan, match=r"plan\.json"):
        load_plan(path)


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path: Path):
    path = PLANS[0].save(tmp_path / "plan.json")
    with pytest.raises(HloomError):
        PLANS[1].save(tmp_path / "missing" / "plan.json")
    assert json.loads(path.read_text()) == PLANS[0].to_json()
