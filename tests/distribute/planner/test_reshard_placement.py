"""Reshards that are moved to the instructions that make the values."""

from __future__ import annotations

from hloom.distribute.planner.constraints import Constraints, constrain_problem
from hloom.distribute.planner.cost_tables import build_problem
from hloom.distribute.planner.reshard_placement import hoist_reshards
from hloom.distribute.planner.solvers.ilp import plan_shared
from hloom.formats.hlo import parse
from hloom.sharding import Mesh

NAMED = """HloModule named

ENTRY main {
  x = f32[64,128] parameter(0)
  w = f32[128,64] parameter(1)
  v = f32[64,64] parameter(2)
  made = f32[64,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  turned = f32[64,64] transpose(made), dimensions={1,0}
  kept = f32[64,64] opt-barrier(turned)
  y = f32[64,64] dot(turned, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  z = f32[64,64] dot(KEPT, v), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  ROOT out = (f32[64,64], f32[64,64]) tuple(y, z)
}
"""


def specs_of(text: str, pins: dict[str, str]) -> dict[str, str]:
    problem, _ = constrain_problem(build_problem(parse(text), Mesh.parse("x=8")), Constraints.of(pins, ()))
    specs = hoist_reshards(problem, plan_shared(problem).strategies)
    return {node.name: str(spec) for node, spec in specs.items()}


def test_where_all_readers_want_another_spec_the_value_gets_it():
    pins = {"made": "[x,-]", "y": "[x,-]", "z": "[-,-]", "x": "[x,-]", "v": "[-,-]"}
    specs = specs_of(NAMED.replace("KEPT", "made"), pins)
    assert (specs["made"], specs["turned"]) == ("[x,-]", "[x,-]")


def test_a_value_that_is_read_under_another_name_in_another_spec_keeps_its_own():
    pins = {"made": "[x,-]", "y": "[x,-]", "z": "[x,-]", "x": "[x,-]", "v": "[-,-]"}
    specs = specs_of(NAMED.replace("KEPT", "kept"), pins)
    assert (specs["turned"], specs["kept"]) == ("[-,x]", "[-,x]")
