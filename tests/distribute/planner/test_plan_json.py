"""Plans as JSON, written and read back."""

from __future__ import annotations

import json

import pytest

from hloom.distribute.planner import plan_from_json, search_plans
from hloom.formats.hlo import parse
from hloom.sharding import Mesh, parse_spec
from hloom.text import HloomError
from tests.distribute.planner.test_plan import TWO_LAYERS

MODULE = parse(TWO_LAYERS)
MESH = Mesh.parse("x=2,y=4")


def test_what_is_written_is_read_back():
    plan = search_plans(MODULE, MESH).best.plan
    again = plan_from_json(json.loads(json.dumps(plan.to_json())), MODULE)
    assert again.to_json() == plan.to_json()
    assert again.instructions == plan.instructions


def test_shardings_may_stand_as_hlo_writes_them():
    plan = plan_from_json({"mesh": {"x": 2, "y": 4}, "params": {"1": "{devices=[1,8]<=[8]}"}}, MODULE)
    assert plan.parameters == {1: parse_spec("[-,x.y]")}


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ([], "this is not a plan"),
        ({"params": {}}, "this is not a plan"),
        ({"mesh": {"x": 8}, "ops": []}, "this is not a plan"),
        ({"mesh": {"x": 8}, "params": {"a": ["x"]}}, "'a' is not a number of a parameter or result"),
        ({"mesh": {"x": 8}, "params": {"0": ["x"]}}, "['x'] has 1 entries for an array of rank 2"),
        ({"mesh": {"x": 8}, "params": {"0": ["z", None]}}, "the mesh x=8 has no axis 'z'"),
        ({"mesh": {"x": 8}, "computations": {"body": 3}}, "3 does not give specs to names"),
        ({"mesh": {"x": 8}, "operands": [3]}, "3 is not a spec of an operand"),
    ],
)
def test_what_is_no_plan(value: object, says: str):
    with pytest.raises(HloomError) as caught:
        plan_from_json(value, MODULE)
    assert caught.value.message == says
