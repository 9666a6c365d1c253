"""What a plan is predicted to send, beside what XLA's partitioner makes of it."""

from __future__ import annotations

import math
import random

import pytest

from hloom.distribute.planner.candidates import Task
from hloom.distribute.planner.constraints import Constraints
from hloom.distribute.planner.cost_model import Rates
from hloom.distribute.planner.cost_tables import build_problem
from hloom.distribute.planner.forecast import forecast
from hloom.distribute.planner.partitioned import PartitionedProgram, read_partitioned
from hloom.distribute.planner.plan import Plan, plan_of
from hloom.distribute.planner.refinement import Refinement
from hloom.distribute.planner.solvers import PLANNERS
from hloom.formats.hlo import parse
from hloom.ir import Module
from hloom.runtime import partition
from hloom.sharding import Mesh
from tests.helpers.properties import is_long

MESHES = tuple(map(Mesh.parse, ("data=2,model=4", "data=4,model=2", "a=2,b=2,c=2")))


def block(batch: int, length: int, width: int, heads: int, hidden: int) -> Module:
    """Attention and a perceptron, forward; the gradients of the last weights, and their update."""
    rows, scores = f"f32[{batch},{length},{width}]", f"f32[{batch},{heads},{length},{length}]"
    head_size = width // heads
    split, turned = f"f32[{batch},{length},{heads},{head_size}]", f"f32[{batch},{heads},{length},{head_size}]"
    inner, contract = f"f32[{batch},{length},{hidden}]", "lhs_contracting_dims={2}, rhs_contracting_dims={0}"
    sides = "".join(
        f"""
  {s} = {rows} dot(x, w{s}), {contract}
  {s}4 = {split} reshape({s})
  {s}h = {turned} transpose({s}4), dimensions={{0,2,1,3}}"""
        for s in "qkv"
    )
    heads_dims = "lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={3}"
    over_rows = "lhs_contracting_dims={0,1}, rhs_contracting_dims={0,1}"
    return parse(f"""HloModule block, input_output_alias={{ {{0}}: (6, {{}}, may-alias), {{1}}: (5, {{}}, may-alias) }}

sum {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }}

ENTRY main {{
  x = {rows} parameter(0)
  wq = f32[{width},{width}] parameter(1)
  wk = f32[{width},{width}] parameter(2)
  wv = f32[{width},{width}] parameter(3)
  wo = f32[{width},{width}] parameter(4)
  w1 = f32[{width},{hidden}] parameter(5)
  w2 = f32[{hidden},{width}] parameter(6){sides}
  zero = f32[] constant(0)
  sc = {scores} dot(qh, kh), {heads_dims}, rhs_contracting_dims={{3}}
  e = {scores} exponential(sc)
  t = f32[{batch},{heads},{length}] reduce(e, zero), dimensions={{3}}, to_apply=sum
  tb = {scores} broadcast(t), dimensions={{0,1,2}}
  p = {scores} divide(e, tb)
  c = {turned} dot(p, vh), {heads_dims}, rhs_contracting_dims={{2}}
  ct = {split} transpose(c), dimensions={{0,2,1,3}}
  cr = {rows} reshape(ct)
  o = {rows} dot(cr, wo), {contract}
  y = {rows} add(x, o)
  zeros = {inner} broadcast(zero), dimensions={{}}
  h = {inner} dot(y, w1), {contract}
  r = {inner} maximum(h, zeros)
  z = {rows} dot(r, w2), {contract}
  d = {rows} add(y, z)
  g2 = f32[{hidden},{width}] dot(r, d), {over_rows}
  dr = {inner} dot(d, w2), lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}}
  g1 = f32[{width},{hidden}] dot(y, dr), {over_rows}
  new2 = f32[{hidden},{width}] subtract(w2, g2)
  new1 = f32[{width},{hidden}] subtract(w1, g1)
  ROOT out = (f32[{hidden},{width}], f32[{width},{hidden}], {rows}) tuple(new2, new1, d)
}}
""")


def perceptron(batch: int, width: int, hidden: int) -> Module:
    """Two layers, the gradients of their weights, and the update."""
    inner, outer, over_rows = (
        f"f32[{batch},{hidden}]",
        f"f32[{batch},{width}]",
        "lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    )
    return parse(f"""HloModule perceptron

ENTRY main {{
  x = {outer} parameter(0)
  w1 = f32[{width},{hidden}] parameter(1)
  w2 = f32[{hidden},{width}] parameter(2)
  zero = f32[] constant(0)
  zeros = {inner} broadcast(zero), dimensions={{}}
  h = {inner} dot(x, w1), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  r = {inner} maximum(h, zeros)
  z = {outer} dot(r, w2), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  g2 = f32[{hidden},{width}] dot(r, z), {over_rows}
  dr = {inner} dot(z, w2), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
  g1 = f32[{width},{hidden}] dot(x, dr), {over_rows}
  new2 = f32[{hidden},{width}] subtract(w2, g2)
  new1 = f32[{width},{hidden}] subtract(w1, g1)
  ROOT out = (f32[{hidden},{width}], f32[{width},{hidden}]) tuple(new2, new1)
}}
""")


SIZES = {"wide": (8, 32, 256, 8, 1024), "long": (16, 128, 64, 4, 128)}


def measure(plan: Plan, module: Module) -> PartitionedProgram:
    count = plan.mesh.device_count
    return read_partitioned(partition(plan.annotate(module), count).module, count, 0)


PLANNED = [(mesh, name, marks) for mesh in MESHES for name in SIZES for marks in (False, True)]
QUICK = [(MESHES[0], "wide", False), (MESHES[0], "long", True), (MESHES[1], "wide", True), (MESHES[1], "long", False)]


@pytest.mark.parametrize(
    ("mesh", "name", "marks"),
    [*QUICK, *(pytest.param(*case, marks=pytest.mark.long) for case in PLANNED if case not in QUICK)],
    ids=str,
)
def test_a_planned_program_sends_and_works_what_was_predicted(mesh: Mesh, name: str, marks: bool):
    module = block(*SIZES[name])
    task = Task(module, mesh, Rates(), None, 5.0, Constraints(), marks)
    line = Refinement(task, build_problem(module, mesh), PLANNERS["ilp"], "ilp")
    line.advance(math.inf)
    assert line.waiting is not None
    result = line.waiting.solution
    assert result is not None
    measured = measure(line.waiting.plan, module)
    assert result.forecast.comm_bytes == pytest.approx(measured.comm_bytes, rel=0.15)
    assert result.forecast.flops == pytest.approx(measured.flops, rel=0.02)


@pytest.mark.parametrize(
    ("mesh", "module"),
    [
        *((mesh, block(*SIZES["wide"])) for mesh in MESHES[:2]),
        (MESHES[2], perceptron(32, 256, 1024)),
        pytest.param(MESHES[2], block(*SIZES["wide"]), marks=pytest.mark.long),
    ],
    ids=lambda value: value.name if isinstance(value, Module) else str(value),
)
def test_any_strategies_send_and_work_about_what_was_predicted(mesh: Mesh, module: Module):
    problem, generator = build_problem(module, mesh), random.Random(1)
    totals = [0.0] * 4
    for _ in range(6 if is_long() else 3):
        strategies = {
            representative: generator.randrange(len(problem.options[representative]))
            for representative in sorted(set(problem.representative.values()))
        }
        choice = {number: strategies[representative] for number, representative in problem.representative.items()}
        specs = problem.specs(choice)
        measured, predicted = measure(plan_of(problem, mesh, specs, module), module), forecast(problem, choice, specs)
        assert predicted.comm_bytes == pytest.approx(measured.comm_bytes, rel=0.15)
        result = (predicted.comm_bytes, measured.comm_bytes, predicted.flops, measured.flops)
        totals = [total + item for total, item in zip(totals, result, strict=True)]
    assert totals[0] == pytest.approx(totals[1], rel=0.02)
    assert totals[2] == pytest.approx(totals[3], rel=0.02)
