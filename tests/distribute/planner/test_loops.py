"""Plans of programs with loops, branches, calls and barriers, as XLA's partitioner carries them out."""

from __future__ import annotations

import numpy as np
import pytest

import hloom
from hloom.distribute.planner.constraints import Constraints, constrain_problem
from hloom.distribute.planner.cost_model import Rates, uniform_device
from hloom.distribute.planner.cost_tables import build_problem
from hloom.distribute.planner.forecast import forecast
from hloom.distribute.planner.partitioned import read_partitioned
from hloom.distribute.planner.plan import Plan, plan_of
from hloom.distribute.planner.reshard_placement import hoist_reshards
from hloom.distribute.planner.solvers.ilp import plan as ilp
from hloom.formats.hlo import parse
from hloom.runtime import partition
from hloom.sharding import Mesh, Spec
from hloom.text import HloomError
from tests.distribute.planner.loops import BRANCHES, COUNTDOWN, SCAN, STACKED

SLOW = Rates(uniform_device(flops=1e6))
"""A device so slow that splitting work is worth what is sent."""


@pytest.mark.parametrize("mesh", ["x=8", "x=2,y=4"])
@pytest.mark.parametrize("text", [SCAN, BRANCHES, COUNTDOWN])
def test_the_plan_runs_as_one_device_does(text: str, mesh: str):
    module = parse(text)
    problem = build_problem(module, Mesh.parse(mesh), SLOW)
    plan = plan_of(problem, problem.mesh, hoist_reshards(problem, ilp(problem).strategies), module)
    assert any(spec.axes for spec in plan.parameters.values()) or plan.instructions or plan.computations
    alone = hloom.run(module, seed=1)
    spread = hloom.run(plan.annotate(module), inputs=list(alone.inputs), devices=8)
    for one, other in zip(alone.outputs, spread.outputs, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-3, atol=1e-3 * float(np.abs(one).max()))


@pytest.mark.parametrize("pins", [{}, {"x": Spec((("x",), ()))}, {"ws": Spec(((), (), ("x",)))}])
def test_what_is_sent_in_a_loop_counts_as_often_as_it_runs(pins: dict[str, Spec]):
    module = parse(SCAN)
    problem, _ = constrain_problem(build_problem(module, Mesh.parse("x=8"), SLOW), Constraints(pins))
    choice = ilp(problem).strategies
    specs = hoist_reshards(problem, choice)
    compiled = partition(plan_of(problem, problem.mesh, specs, module).annotate(module), 8)
    result = read_partitioned(compiled.module, 8, compiled.memory)
    predicted = forecast(problem, choice, specs)
    assert predicted.comm_bytes == pytest.approx(result.comm_bytes, rel=0.1)
    assert predicted.flops == result.flops


def test_weights_are_gathered_once_and_not_in_every_run():
    module = parse(SCAN)
    pins = {"ws": Spec(((), (), ("x",))), "body.z": Spec((("x",), ()))}
    problem, _ = constrain_problem(build_problem(module, Mesh.parse("x=8"), SLOW), Constraints(pins))
    plan = plan_of(problem, problem.mesh, hoist_reshards(problem, ilp(problem).strategies), module)
    assert [
        (operand_spec.computation, operand_spec.name, str(operand_spec.spec)) for operand_spec in plan.operand_specs
    ] == [
        ("entry", "first", "[-,-,-]"),
        ("entry", "again", "[-,-,-]"),
    ]
    assert hloom.print(plan.annotate(module)).count('custom-call(%ws), custom_call_target="Sharding"') == 1


def test_a_loop_keeps_its_state_as_the_plan_says_whoever_reads_the_result():
    whole, split = Spec.replicated(3), Spec(((), ("x",), ()))
    plan = Plan(
        Mesh.parse("x=8"),
        parameters={0: Spec.replicated(2)},
        outputs={0: split},
        instructions={"all": whole},
        computations={"body": {"body.rows": whole, "row": whole, "stacked": whole, "y": Spec.replicated(2)}},
    )
    compiled = partition(plan.annotate(parse(STACKED)), 8)
    assert not read_partitioned(compiled.module, 8, compiled.memory).collectives


def test_a_plan_of_loops_says_in_json_what_the_entry_has_and_the_rest_beside_it():
    module = parse(SCAN)
    problem = build_problem(module, Mesh.parse("x=8"), SLOW)
    plan = plan_of(problem, problem.mesh, hoist_reshards(problem, ilp(problem).strategies), module)
    result = plan.to_json()
    assert set(result["ops"]) <= {node.name for node in module.entry.nodes}
    assert set(result["computations"]) <= {"entry", "body", "condition", "body.1", "condition.1"}


def test_a_plan_of_other_loops_is_refused():
    plan = Plan(Mesh.parse("x=8"), computations={"body.7": {"z": Spec(((), ()))}})
    with pytest.raises(HloomError, match=r"the plan names body\.7 of body\.7, which scan has not"):
        plan.annotate(parse(SCAN))
