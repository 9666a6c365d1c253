"""Values in a second layout: a routing mask that the experts want by expert, and the gates by group of tokens."""

from __future__ import annotations

import pytest

import hloom
from hloom.distribute.planner import Plan, search_plans
from hloom.distribute.planner.cost_tables import build_problem
from hloom.distribute.planner.second_layouts import candidates
from hloom.formats.hlo import parse
from hloom.runtime import compare_with_one_device
from hloom.sharding import Mesh, parse_spec

ROUTED = """HloModule routed

sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }

ENTRY step {
  x = f32[8,64,64] parameter(0)
  choice = s32[8,64] parameter(1)
  slot = s32[8,64] parameter(2)
  w = f32[16,64,64] parameter(3)
  t = f32[8,64,64] parameter(4)
  experts = s32[8,64,16] iota(), iota_dimension=2
  chosen = s32[8,64,16] broadcast(choice), dimensions={0,1}
  goes = pred[8,64,16] compare(chosen, experts), direction=EQ
  expert = f32[8,64,16] convert(goes)
  slots = s32[8,64,16] iota(), iota_dimension=2
  taken = s32[8,64,16] broadcast(slot), dimensions={0,1}
  stands = pred[8,64,16] compare(taken, slots), direction=EQ
  position = f32[8,64,16] convert(stands)
  by_expert = f32[8,64,16,16] broadcast(expert), dimensions={0,1,2}
  by_slot = f32[8,64,16,16] broadcast(position), dimensions={0,1,3}
  mask = f32[8,64,16,16] multiply(by_expert, by_slot)
  sent = f32[8,64,16,16] dot(x, mask), lhs_batch_dims={0}, lhs_contracting_dims={1},
    rhs_batch_dims={0}, rhs_contracting_dims={1}
  made = f32[16,8,16,64] dot(sent, w), lhs_batch_dims={2}, lhs_contracting_dims={1},
    rhs_batch_dims={0}, rhs_contracting_dims={1}
  dmask = f32[8,64,16,16] dot(t, made), lhs_batch_dims={0}, lhs_contracting_dims={2},
    rhs_batch_dims={1}, rhs_contracting_dims={3}
  gates = f32[8,64,16,16] multiply(mask, dmask)
  zero = f32[] constant(0)
  ROOT gate = f32[8,64] reduce(gates, zero), dimensions={2,3}, to_apply=sum
}
"""
MODULE, MESH = parse(ROUTED), Mesh.parse("x=8")
PINS = {"w": "[x,-,-]", "t": "[x,-,-]"}
"""Experts on devices of their own, and the tokens by groups."""
ALL_TO_ALL = 7 / 8 * 8 * 16 * 16 * 64 * 4 / 8
"""Bytes that a device sends to give the experts' results to the groups."""


def test_the_mask_is_computed_again_by_expert_instead_of_sent():
    result = search_plans(MODULE, MESH, pins=PINS)
    best = result.best
    assert best.expected is not None
    assert best.expected.comm_bytes == {"all-to-all": ALL_TO_ALL}
    (duplicate,) = best.plan.duplicates
    assert duplicate.reads == (("sent", 1),)
    specs = {**best.plan.instructions, **best.plan.computations["entry"]}
    assert (str(specs["mask"]), str(specs["mask.clone"])) == ("[x,-,-,-]", "[-,-,x,-]")
    assert result.values_in_two_layouts == ["mask"]
    assert best.gap is not None
    assert best.gap < 1e-3


def test_the_gap_is_of_plans_with_the_second_layout():
    result = search_plans(MODULE, MESH, pins=PINS)
    space = result.space
    assert space is not None
    assert space.base_solution is not None
    assert space.solution is not None
    assert space.most_saved == pytest.approx(0, abs=1e-3)
    assert result.best.bound == pytest.approx(space.solution.cost)
    assert space.solution.cost < 0.6 * space.base_solution.cost


def test_what_cannot_say_clones_replicates_the_mask():
    best = search_plans(MODULE, MESH, pins=PINS, marks=False).best
    assert best.expected is not None
    assert best.expected.comm_bytes == {"all-to-all": ALL_TO_ALL}
    assert best.plan.duplicates == ()
    assert str(best.plan.instructions["mask"]) == "[-,-,-,-]"
    assert str(best.plan.instructions["gates"]) == "[x,-,-,-]"


def test_a_plan_with_duplicates_is_kept_to():
    first = search_plans(MODULE, MESH, pins=PINS).best.plan
    again = search_plans(MODULE, MESH, like=first)
    assert again.notes == []
    assert again.best.plan == first


def test_a_plan_that_splits_what_shares_a_decision_is_kept_to():
    """The mask and its gradient are one decision unless a plan says otherwise."""
    names = {"mask": "[-,-,-,-]", "sent": "[-,-,x,-]", "made": "[x,-,-,-]", "dmask": "[x,-,-,-]"}
    parameters = {3: parse_spec("[x,-,-]"), 4: parse_spec("[x,-,-]")}
    like = Plan(MESH, parameters, instructions={name: parse_spec(spec) for name, spec in names.items()})
    result = search_plans(MODULE, MESH, like=like)
    assert result.notes == []
    assert {name: str(result.best.plan.instructions[name]) for name in names} == names


def test_pins_may_split_what_shares_a_decision():
    pins = {**PINS, "mask": "[-,-,-,-]", "dmask": "[x,-,-,-]"}
    best = search_plans(MODULE, MESH, pins=pins).best
    assert {name: str(best.plan.instructions[name]) for name in ("mask", "dmask")} == {
        "mask": "[-,-,-,-]",
        "dmask": "[x,-,-,-]",
    }


def test_duplicates_that_are_not_known_are_said():
    first = search_plans(MODULE, MESH, pins=PINS).best.plan
    other = parse(ROUTED.replace("mask", "routing"))
    result = search_plans(other, MESH, like=first)
    assert "1 of the 1 values that the other plan computes twice are not known" in result.notes


def test_pinned_values_are_not_computed_again():
    result = search_plans(MODULE, MESH, pins={**PINS, "mask": "[x,-,-,-]", "expert": "[x,-,-]"})
    cloned = {name for duplicate in result.best.plan.duplicates for name, _ in duplicate.clones}
    assert not cloned & {"mask", "expert"}


def test_a_dot_is_computed_twice_where_that_is_less_work_than_by_all_devices():
    module = parse("""HloModule scored
      ENTRY main {
        x = f32[1024,32] parameter(0)
        w = f32[32,1024] parameter(1)
        a = f32[1024,256] parameter(2)
        b = f32[256,1024] parameter(3)
        v = f32[1024,256] parameter(4)
        scores = f32[1024,1024] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        d = f32[1024,1024] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        gated = f32[1024,1024] multiply(scores, d)
        z = f32[1024,256] dot(scores, v), lhs_contracting_dims={0}, rhs_contracting_dims={0}
        ROOT out = (f32[1024,1024], f32[1024,256]) tuple(gated, z)
      }""")
    best = search_plans(module, MESH, pins={"a": "[x,-]", "gated": "[x,-]", "z": "[x,-]", "b": "[-,-]"}).best
    assert best.expected is not None
    assert best.expected.comm_bytes == {}
    assert best.expected.flops == 2 * 1024 * 1024 * (32 + 256 + 256 + 32) / 8
    assert [duplicate.clones for duplicate in best.plan.duplicates] == [(("scores", "scores.clone"),)]


def test_a_value_with_one_reader_is_no_candidate():
    module = parse("""HloModule one
      ENTRY main {
        b = f32[512] parameter(0)
        x = f32[512,512] parameter(1)
        w = f32[512,512] parameter(2)
        wide = f32[512,512] broadcast(b), dimensions={1}
        ROOT y = f32[512,512] dot(wide, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      }""")
    assert candidates(build_problem(module, MESH)) == {}


def test_xla_computes_the_mask_twice_and_the_same_numbers():
    planned = hloom.plan(MODULE, MESH, pins=PINS)
    measured = planned.measure()
    assert measured.comm_bytes_by_opcode == {"all-to-all": ALL_TO_ALL}
    assert compare_with_one_device(MODULE, planned.annotate(), 8).differences == ()
