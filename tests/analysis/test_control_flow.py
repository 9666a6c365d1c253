"""One row per control-flow opcode: a made-up loop and a made-up call are taught to every analysis by their rows alone."""

from __future__ import annotations

import pytest

from hloom.analysis import Phi, Position, call_sites, cost, liveness, roofline
from hloom.analysis.control_flow import forwarded_from, phis
from hloom.distribute.planner import search_plans
from hloom.distribute.planner.dataflow import Dataflow
from hloom.distribute.propagation import propagate
from hloom.formats.hlo import parse
from hloom.ir import (
    Apply,
    Arguments,
    AttributeKind,
    Attributes,
    Callee,
    Effect,
    ForwardedElement,
    Module,
    Op,
    OpFlow,
    Runs,
    required,
)
from hloom.ops import OPS
from hloom.passes import canonicalize
from hloom.sharding import Mesh
from hloom.targets.memory import memory

LOOP = """
HloModule loop

step {
  state = (s32[], f32[64,32], f32[32,32]) parameter(0)
  index = s32[] get-tuple-element(state), index=0
  x = f32[64,32] get-tuple-element(state), index=1
  w = f32[32,32] get-tuple-element(state), index=2
  one = s32[] constant(1)
  next = s32[] add(index, one)
  y = f32[64,32] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT result = (s32[], f32[64,32], f32[32,32]) tuple(next, y, w)
}

test {
  state = (s32[], f32[64,32], f32[32,32]) parameter(0)
  index = s32[] get-tuple-element(state), index=0
  limit = s32[] constant(7)
  ROOT is_less = pred[] compare(index, limit), direction=LT
}

ENTRY main {
  zero = s32[] constant(0)
  x = f32[64,32] parameter(0)
  w = f32[32,32] parameter(1)
  start = (s32[], f32[64,32], f32[32,32]) tuple(zero, x, w)
  loop = (s32[], f32[64,32], f32[32,32]) while(start), condition=test, body=step
  ROOT y = f32[64,32] get-tuple-element(loop), index=1
}
"""
CALL = """
HloModule call

layer {
  x = f32[64,32] parameter(0)
  w = f32[32,32] parameter(1)
  ROOT y = f32[64,32] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}

ENTRY main {
  x = f32[64,32] parameter(0)
  w = f32[32,32] parameter(1)
  made = f32[64,32] call(x, w), to_apply=layer
  ROOT y = f32[64,32] negate(made)
}
"""
GRAPH = AttributeKind.GRAPH
REPEAT = Op(
    "repeat",
    (2, 2),
    attributes={"work": required(GRAPH), "until": required(GRAPH)},
    effect=Effect.CALLS,
    flow=OpFlow((Callee("work", Runs.PER_ITERATION), Callee("until", Runs.PER_TEST)), first_operand=1),
)
"""A loop whose first operand is a seed, and whose state is the second."""
CLOSED = Op("closed-call", attributes={"calls": required(GRAPH)}, effect=Effect.CALLS, flow=OpFlow((Callee("calls"),)))
"""A call whose computation another attribute holds."""
GUARDED = Op(
    "guarded-call",
    (1, None),
    attributes={"calls": required(GRAPH)},
    effect=Effect.CALLS,
    flow=OpFlow((Callee("calls"),), first_operand=1),
)
"""A call whose first operand is a guard that the computation does not take."""


def repeated(op: Op) -> Module:
    """The loop, its while made a `repeat`."""
    module = parse(LOOP)
    loop = module.entry["loop"]
    assert isinstance(loop, Apply)
    called = loop.attributes
    module.entry.set_function(loop, op)
    module.entry.set_attributes(loop, Attributes(work=called["body"], until=called["condition"]))
    module.entry.set_operands(loop, [module.entry["zero"], loop.operands[0]])
    return module


def called_with_guard(op: Op) -> Module:
    """The call, made a `guarded-call`."""
    module = parse(CALL)
    call = module.entry["made"]
    assert isinstance(call, Apply)
    graph = call.attributes["to_apply"]
    module.entry.set_function(call, op)
    module.entry.set_attributes(call, Attributes(calls=graph))
    module.entry.set_operands(call, [module.entry["x"], *call.operands])
    return module


def test_a_made_up_loop_costs_what_a_while_does():
    module, plain = repeated(REPEAT), parse(LOOP)
    assert cost(module).total == cost(plain).total
    assert cost(module).loops[0].trips == 7
    assert roofline(module, "h100").seconds == pytest.approx(roofline(plain, "h100").seconds)


def test_a_made_up_loop_holds_what_a_while_does():
    module, plain = repeated(REPEAT), parse(LOOP)
    assert memory(module).peak == memory(plain).peak
    assert liveness(module).values.opaque_calls == 0
    assert [node.name for node in liveness(module).steps] == [node.name for node in liveness(plain).steps]


def test_shardings_propagate_through_a_made_up_loop():
    module, plain = repeated(REPEAT), parse(LOOP)
    for seeds in (["x:0=data"], ["y:0=data"]):
        actual, expected = (propagate(program, seeds, "data=2") for program in (module, plain))
        for name in ("x", "loop", "y"):
            assert actual.specs_of(module.entry[name]) == expected.specs_of(plain.entry[name])
        assert str(actual.spec(module.entry["x"])) == "[data,-]"


def test_a_made_up_call_costs_holds_and_propagates_as_a_call_does():
    module, plain = called_with_guard(GUARDED), parse(CALL)
    assert cost(module).total == cost(plain).total
    assert memory(module).peak == memory(plain).peak
    propagation = propagate(module, ["x:0=data"], "data=2")
    assert str(propagation.spec(module.entry["y"])) == "[data,-]"


def test_a_made_up_loop_is_planned_as_a_while_is():
    module, plain = repeated(REPEAT), parse(LOOP)
    form = canonicalize(module)
    flow, expected = Dataflow(form), Dataflow(canonicalize(plain))
    assert {graph.name: times for graph, times in flow.times.items()} == {"main": 1, "step": 7, "test": 8}
    assert {node.name for node in flow.phis} == {node.name for node in expected.phis}
    assert [(phi_input.value.name, phi_input.phi.name) for phi_input in flow.phi_inputs] == [
        (phi_input.value.name, phi_input.phi.name) for phi_input in expected.phi_inputs
    ]
    mesh = Mesh.parse("data=4")
    actual, wanted = (search_plans(program, mesh).best for program in (module, plain))
    assert {name: str(spec) for name, spec in actual.plan.parameters.items()} == {
        name: str(spec) for name, spec in wanted.plan.parameters.items()
    }
    assert actual.expected == wanted.expected
    assert actual.memory == wanted.memory


def test_a_made_up_call_is_inlined_before_planning():
    module = parse(CALL)
    call = module.entry["made"]
    assert isinstance(call, Apply)
    graph = call.attributes["to_apply"]
    module.entry.set_function(call, CLOSED)
    module.entry.set_attributes(call, Attributes(calls=graph))
    form = canonicalize(module)
    assert [node.opcode for node in form.entry.nodes] == ["parameter", "parameter", "dot", "negate"]


@pytest.mark.parametrize(
    ("opcode", "row"), [(opcode, op.flow) for opcode, op in OPS.items() if op.flow and op.flow.callees]
)
def test_rows_are_consistent(opcode: str, row: OpFlow):
    assert row.is_loop or not any(callee.runs is Runs.PER_TEST for callee in row.callees), opcode
    assert not (row.is_loop and row.is_branch), opcode
    assert (row.arguments is Arguments.SEPARATE) == row.is_branch, opcode


def test_the_state_of_a_loop_is_one_value():
    module = parse(LOOP)
    loop, step, test = module.entry["loop"], module["step"], module["test"]
    (state,) = phis(loop)
    assert state == Phi(
        names=(Position(step["state"]), Position(test["state"]), Position(loop)),
        sources=(Position(module.entry["start"]),),
        back_edges=(Position(step["result"]),),
    )
    assert [(site.computation.name, site.runs) for site in call_sites(loop)] == [
        ("step", Runs.PER_ITERATION),
        ("test", Runs.PER_TEST),
    ]


def test_a_copy_is_forwarded_through_its_start():
    text = "HloModule m\nENTRY e { x = f32[4] parameter(0) s = (f32[4], f32[4], u32[]) copy-start(x) "
    module = parse(text + "ROOT d = f32[4] copy-done(s) }")
    entry = module.entry
    assert forwarded_from(entry["d"], ()) == Position(entry["s"], (0,))
    assert forwarded_from(entry["s"], (1,)) == forwarded_from(entry["s"], (0,)) == Position(entry["x"])
    assert forwarded_from(entry["s"], (2,)) is None
    assert ForwardedElement((0,), (1,)) in (OPS["copy-start"].flow or OpFlow()).forwards
