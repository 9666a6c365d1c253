"""Instructions that are computed twice: what a duplicate does to a module, and what is left of one."""

from __future__ import annotations

import json

import pytest

import hloom
from hloom.distribute.planner import Plan, plan_from_json
from hloom.distribute.planner.duplicates import Duplicate, needed_duplicates, put_duplicates, put_known_duplicates
from hloom.formats.hlo import parse
from hloom.sharding import Mesh, Spec, parse_spec
from hloom.text import HloomError

MASKED = """HloModule masked

ENTRY main {
  row = f32[64] parameter(0)
  x = f32[64,64] parameter(1)
  w = f32[64,8] parameter(2)
  scaled = f32[64] negate(row)
  mask = f32[64,64] broadcast(scaled), dimensions={1}
  y = f32[64,64] multiply(x, mask)
  z = f32[64,8] dot(mask, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT out = (f32[64,64], f32[64,8]) tuple(y, z)
}
"""
TWICE = Duplicate("entry", (("scaled", "scaled.clone"), ("mask", "mask.clone")), (("z", 0),))
MESH = Mesh.parse("x=8")


def test_readers_read_clones_and_clones_read_clones():
    module = parse(MASKED)
    put_duplicates(module, [TWICE])
    assert hloom.print(module, "short").split("\n")[3:-3] == [
        "  row = f32[64] parameter(0)",
        "  x = f32[64,64] parameter(1)",
        "  w = f32[64,8] parameter(2)",
        "  scaled = f32[64] negate(row)",
        "  mask = f32[64,64] broadcast(scaled), dimensions={1}",
        "  y = f32[64,64] multiply(x, mask)",
        "  scaled.clone = f32[64] negate(row)",
        "  mask.clone = f32[64,64] broadcast(scaled.clone), dimensions={1}",
        "  z = f32[64,8] dot(mask.clone, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "  ROOT out = (f32[64,64], f32[64,8]) tuple(y, z)",
    ]


def test_a_plan_with_duplicates_is_written_and_read_back():
    plan = Plan(MESH, computations={"entry": {"mask.clone": parse_spec("[-,x]")}}, duplicates=(TWICE,))
    again = plan_from_json(json.loads(json.dumps(plan.to_json())), parse(MASKED))
    assert again == plan
    assert again.annotate(parse(MASKED)).entry["mask.clone"].attributes["sharding"] is not None


def test_duplicates_of_another_module_are_left_out_where_that_is_allowed():
    module = parse(MASKED)
    other = Duplicate("entry", (("other", "other.clone"),), (("z", 0),))
    assert put_known_duplicates(module, [other, TWICE]) == [TWICE]


@pytest.mark.parametrize(
    ("duplicate", "says"),
    [
        (Duplicate("body", (("mask", "m"),), (("z", 0),)), "the plan names body, which masked has not"),
        (Duplicate("entry", (("other", "m"),), (("z", 0),)), "the plan names other, which main has not"),
        (Duplicate("entry", (("mask", "y"),), (("z", 0),)), "the plan clones mask as y, which main has already"),
        (
            Duplicate("entry", (("mask", "m"),), (("z", 1),)),
            "the plan lets z read a clone as operand 1, which has none",
        ),
        (
            Duplicate("entry", (("row", "r"), ("mask", "m")), (("z", 0),)),
            "the plan clones row, which is not an instruction before z",
        ),
        (Duplicate("entry", (("mask", "m"),), ()), "the plan clones instructions of main that nothing reads"),
    ],
)
def test_what_cannot_be_cloned_is_refused_and_nothing_changes(duplicate: Duplicate, says: str):
    module = parse(MASKED)
    before = hloom.print(module)
    with pytest.raises(HloomError) as caught:
        put_duplicates(module, [duplicate])
    assert caught.value.message == says
    assert hloom.print(module) == before


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (3, "duplicates of a plan are a list, not 3"),
        ([3], "3 is not a duplicate"),
        ([{"computation": "entry", "clones": [["a"]], "reads": []}], "is not a duplicate"),
        ([{"computation": "entry", "clones": [["a", "b"]], "reads": [["z", "0"]]}], "is not a duplicate"),
    ],
)
def test_what_is_no_duplicate(value: object, says: str):
    with pytest.raises(HloomError, match=r"of a plan are a list|is not a duplicate") as caught:
        plan_from_json({"mesh": {"x": 8}, "duplicates": value}, parse(MASKED))
    assert says in caught.value.message


def test_a_clone_that_has_the_spec_of_its_original_is_not_needed():
    module = parse(MASKED)
    put_duplicates(module, [TWICE])
    specs = {module.entry[name]: parse_spec("[x]") for name in ("scaled", "scaled.clone")}
    specs |= {module.entry["mask"]: parse_spec("[-,x]"), module.entry["mask.clone"]: parse_spec("[x,-]")}
    assert needed_duplicates(module, [TWICE], specs) == [Duplicate("entry", (("mask", "mask.clone"),), (("z", 0),))]
    same = specs | {module.entry["mask.clone"]: Spec(((), ("x",)))}
    assert needed_duplicates(module, [TWICE], same) == []
