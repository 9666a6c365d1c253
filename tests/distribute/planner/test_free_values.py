"""Iotas and broadcasts that are read in several specs: XLA sends nothing for them."""

from __future__ import annotations

import hloom
from hloom.distribute.planner.cost_tables import build_problem
from hloom.distribute.planner.free_values import free_duplicates, scatter_marks, spec_of_free
from hloom.distribute.planner.problem import Problem
from hloom.formats.hlo import parse
from hloom.sharding import Mesh, parse_spec

MODULE = parse("""HloModule free

sum { p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] add(p, q) }

ENTRY main {
  a = s32[64,64] parameter(0)
  b = s32[64,64] parameter(1)
  places = s32[64,1] parameter(2)
  rows = f32[64,64] parameter(3)
  x = f32[64,64] parameter(4)
  numbers = s32[64,64] iota(), iota_dimension=0
  zero = f32[] constant(0)
  zeros = f32[64,64] broadcast(zero), dimensions={}
  y = s32[64,64] maximum(a, numbers)
  z = s32[64,64] minimum(b, numbers)
  u = f32[64,64] maximum(x, zeros)
  v = f32[64,64] scatter(zeros, places, rows), update_window_dims={1}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum
  ROOT out = (s32[64,64], s32[64,64], f32[64,64], f32[64,64]) tuple(y, z, u, v)
}
""")
MESH = Mesh.parse("x=8")
SPECS = {
    "a": "[x,-]",
    "b": "[-,x]",
    "y": "[x,-]",
    "z": "[-,x]",
    "x": "[-,x]",
    "u": "[-,x]",
    "rows": "[-,-]",
    "v": "[-,-]",
}


def problem_with_specs() -> tuple[Problem, dict]:
    problem = build_problem(MODULE, MESH)
    return problem, {problem.module.entry[name]: parse_spec(spec) for name, spec in SPECS.items()}


def test_each_spec_of_an_iota_has_one():
    problem, specs = problem_with_specs()
    ((duplicate, spec),) = free_duplicates(problem, specs)
    assert (duplicate.clones, duplicate.reads, str(spec)) == ((("numbers", "numbers.clone"),), (("z", 1),), "[-,x]")
    assert str(spec_of_free(problem, specs, problem.module.entry["numbers"])) == "[x,-]"


def test_a_broadcast_is_marked_for_a_scatter():
    problem, specs = problem_with_specs()
    assert scatter_marks(problem, specs) == {(problem.module.entry["v"], 0): parse_spec("[-,-]")}
    everywhere = specs | {problem.module.entry["u"]: parse_spec("[-,-]")}
    assert scatter_marks(problem, everywhere) == {}


def test_xla_sends_nothing_for_them():
    planned = hloom.plan(MODULE, MESH, pins={**SPECS, "places": "[-,-]"})
    assert planned.measure().comm_bytes == 0
    assert [duplicate.clones for duplicate in planned.plan.duplicates] == [(("numbers", "numbers.clone"),)]
    again = hloom.plan(MODULE, MESH, like=planned)
    assert again.chosen.notes == []
    assert again.plan == planned.plan
