"""What a user demands of a plan: pins, forbidden axes, another plan to keep to."""

from __future__ import annotations

import pytest

from hloom.distribute.planner import Plan, search_plans
from hloom.distribute.planner.constraints import Forbidden
from hloom.formats.hlo import parse
from hloom.sharding import Mesh, Spec, parse_spec
from hloom.text import HloomError
from tests.distribute.planner.test_plan import TWO_LAYERS

MESH = Mesh.parse("x=2,y=4")
MODULE = parse(TWO_LAYERS)


def axes_of(plan: Plan) -> set[str]:
    specs = [*plan.parameters.values(), *plan.outputs.values(), *plan.instructions.values()]
    return {axis for spec in specs if isinstance(spec, Spec) for axis in spec.axes}


def test_pins_hold_together_with_what_is_forbidden():
    plan = search_plans(MODULE, MESH, pins={"x": "[y,-]", "h": "[-,x]"}, forbidden=["v:x", "w:0=x"]).best.plan
    assert plan.parameters[0] == parse_spec("[y,-]")
    assert plan.instructions["h"] == parse_spec("[-,x]")
    assert "x" not in plan.parameters[2].axes
    assert plan.parameters[1].dimension_of("x") != 0


def test_parameters_go_by_the_frameworks_names_too():
    named = parse(TWO_LAYERS.replace("parameter(0)", "parameter(0), metadata={op_name=\"batch['x']\"}"))
    plan = search_plans(named, MESH, pins={"batch['x']": "[y,-]"}, forbidden=["batch['x']:1=x"]).best.plan
    assert plan.parameters[0] == parse_spec("[y,-]")


def test_a_small_parameter_is_sharded_as_told_without_deciding_for_what_it_is_used_with():
    text = """ENTRY e {
  x = f32[64,128] parameter(0)
  b = f32[128] parameter(1)
  w = f32[64,128] broadcast(b), dimensions={1}
  ROOT y = f32[64,128] add(x, w)
}"""
    plan = search_plans(parse(text), Mesh.parse("x=8"), pins={"x": "[x,-]", "b": "[x]"}).best.plan
    assert (str(plan.parameters[0]), str(plan.parameters[1])) == ("[x,-]", "[x]")


def test_a_forbidden_axis_stays_unused():
    assert axes_of(search_plans(MODULE, MESH).best.plan) == {"x", "y"}
    assert axes_of(search_plans(MODULE, MESH, forbidden=["y"]).best.plan) == {"x"}


def test_another_plan_is_kept_to():
    free = search_plans(MODULE, MESH, forbidden=["y"]).best
    kept = search_plans(MODULE, MESH, like=free.plan)
    assert kept.best.plan.parameters == free.plan.parameters
    assert kept.best.plan.instructions == free.plan.instructions
    assert kept.notes == []


def test_what_of_another_plan_cannot_be_kept_is_said():
    like = Plan(MESH, {0: parse_spec("[x,-]"), 9: parse_spec("[x]")}, instructions={"gone": parse_spec("[y]")})
    kept = search_plans(MODULE, MESH, like=like)
    assert kept.best.plan.parameters[0] == parse_spec("[x,-]")
    assert kept.notes == ["2 of the 3 specs of the other plan are not kept: parameter 9, gone"]


@pytest.mark.parametrize(
    ("demands", "says"),
    [
        ({"forbidden": ["z"]}, "the mesh x=2,y=4 has no axis 'z'"),
        ({"pins": {"x": "[z,-]"}}, "the mesh x=2,y=4 has no axis 'z'"),
        ({"forbidden": ["u:x"]}, "u cannot be kept from x: the program has no array of that name that is planned"),
        ({"pins": {"x": "[x,-]"}, "forbidden": ["x:x"]}, "x cannot be kept from x: it is pinned to it"),
        ({"pins": {"x": "[x,-]"}, "forbidden": ["x"]}, "x cannot be forbidden: what is pinned needs it"),
        ({"forbidden": ["x:2=x"]}, "x has no dimension 2: it is f32[512,4096]"),
        ({"pins": {"x": "[x]"}}, "x cannot be pinned to [x]: it is f32[512,4096]"),
        ({"forbidden": ["x:0=1=y"]}, "'x:0=1=y' forbids nothing"),
    ],
)
def test_what_cannot_be_met(demands: dict, says: str):
    with pytest.raises(HloomError) as caught:
        search_plans(MODULE, MESH, **demands)
    assert caught.value.message == says


def test_the_axes_of_a_dimension_stand_in_either_order_on_a_mesh_of_two_but_not_of_three():
    assert search_plans(MODULE, MESH, pins={"x": "[y.x,-]"}).best.plan.parameters[0] == parse_spec("[y.x,-]")
    with pytest.raises(HloomError) as caught:
        search_plans(MODULE, Mesh.parse("x=2,y=2,z=2"), pins={"x": "[y.x,-]"})
    assert caught.value.message == "x cannot be pinned to [y.x,-]: no strategy splits it so"
    assert caught.value.hint is not None and "stand in the mesh's order" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "axis", "name", "dimension"), [("x", "x", None, None), ("w.1:x", "x", "w.1", None), ("w:1=x", "x", "w", 1)]
)
def test_what_is_forbidden_is_read(text: str, axis: str, name: str | None, dimension: int | None):
    assert Forbidden.parse(text) == Forbidden(axis, name, dimension)
