"""How much memory plans are expected to take, beside what XLA's executables take; and the moments of the peak as rows.

Covers `device_program.py`, `entry_results.py`.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

from hloom.hlo import parse
from hloom.planner.cost_tables import build_problem
from hloom.planner.memory_constraints import peak_rows
from hloom.planner.memory_footprint import footprint, footprint_of
from hloom.planner.plan import plan_of
from hloom.planner.problem import Problem
from hloom.planner.reshard_placement import hoist_reshards
from hloom.planner.solvers.ilp import plan as ilp
from hloom.runtime import partition
from hloom.sharding import Mesh
from tests.planner.loops import SCAN
from tests.planner.test_plan import TWO_LAYERS
from tests.xla_cpu.programs import ATTENTION, CONVOLUTION, LARGEST, SUM

DONATED = ", input_output_alias={ {0}: (1, {}, may-alias) }"
PROGRAMS = {
    "layers": TWO_LAYERS,
    "attention": f"HloModule attention{DONATED}\n{SUM}{LARGEST}\nENTRY main {{{ATTENTION}}}\n",
    "convolution": f"HloModule convolution{DONATED}\n{SUM}\nENTRY main {{{CONVOLUTION}}}\n",
    "loop": SCAN,
}


def other_choice(problem: Problem, seed: int) -> dict[int, int]:
    """A random choice of strategies, the same for isomorphic clusters."""
    source = random.Random(seed)
    picked = {number: source.randrange(len(options)) for number, options in problem.options.items()}
    return {number: picked[problem.representative[number]] for number in problem.options}


@pytest.mark.parametrize("mesh_text", ["x=8", "x=2,y=4"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_plans_take_what_is_expected(name: str, mesh_text: str):
    module, mesh = parse(PROGRAMS[name]), Mesh.parse(mesh_text)
    problem = build_problem(module, mesh)
    choice = ilp(problem).strategies
    specs = hoist_reshards(problem, choice)
    annotated = plan_of(problem, mesh, specs, module).annotate(module)
    taken = partition(annotated, mesh.device_count).memory
    assert footprint(problem, choice, specs) == pytest.approx(taken, rel=0.05)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_rows_of_a_choice_say_what_it_holds(name: str):
    problem = build_problem(parse(PROGRAMS[name]), Mesh.parse("x=2,y=4"))
    for seed in range(3):
        choice = other_choice(problem, seed)
        result = footprint_of(problem, choice, problem.specs(choice))
        rows = peak_rows(problem, choice, result)
        assert rows and rows[0].bytes(choice) == pytest.approx(result.bytes)
        quotient_rows = [row.by_representative(problem.representative) for row in rows]
        assert [row.bytes(choice) for row in quotient_rows] == pytest.approx([row.bytes(choice) for row in rows])


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_row_calls_impossible_what_another_choice_holds(name: str):
    problem = build_problem(parse(PROGRAMS[name]), Mesh.parse("x=2,y=4"))
    choices = [other_choice(problem, seed) for seed in range(6)]
    result = [footprint_of(problem, choice, problem.specs(choice)) for choice in choices]
    least = min(item.bytes for item in result)
    for choice, item in zip(choices, result, strict=True):
        for row in peak_rows(problem, choice, item):
            tables = [*row.unary.values(), *row.pairs.values()]
            assert row.constant + sum(table.min() for table in tables) <= least


def test_a_row_predicts_what_splitting_a_parameter_saves():
    problem = build_problem(parse(TWO_LAYERS), Mesh.parse("x=8"))
    whole = dict.fromkeys(problem.options, 0)
    row = peak_rows(problem, whole, footprint_of(problem, whole, problem.specs(whole)))[0]
    cluster = problem.clusters.of(problem.module.entry["x"])
    assert cluster is not None
    table = row.unary[cluster.number]
    sizes = {
        np.prod(problem.mesh.local_dims((512, 4096), problem.spec_tables.result_spec(cluster.lead, strategy))) * 4
        for strategy in problem.options[cluster.number]
    }
    assert {float(row) for row in table} == {float(size) for size in sizes}
