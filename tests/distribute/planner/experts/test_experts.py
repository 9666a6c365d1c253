"""The plans that people write by hand: what is recognised in small programs, and what plans are called.

Covers `description.py`, `recipes.py`.
"""

from __future__ import annotations

import numpy as np
import pytest

import hloom
from hloom.distribute.planner.experts import describe, experts
from hloom.distribute.planner.experts.logical_axes import LogicalAxes, LogicalAxis
from hloom.distribute.planner.experts.roles import ProgramRoles
from hloom.distribute.planner.partitioned import read_partitioned
from hloom.distribute.planner.plan import Plan
from hloom.distribute.propagation import DataflowGraph
from hloom.formats.hlo import parse
from hloom.ir import Module
from hloom.passes import canonicalize
from hloom.runtime import partition
from hloom.sharding import Mesh, spec_of

TRAINED = """HloModule trained, input_output_alias={ {0}: (0, {}), {1}: (1, {}), {2}: (2, {}) }

ENTRY main {
  w = f32[64,256] parameter(0)
  v = f32[256,64] parameter(1)
  momentum = f32[64,256] parameter(2)
  x = f32[512,64] parameter(3)
  h = f32[512,256] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  a = f32[512,256] tanh(h)
  y = f32[512,64] dot(a, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  dv = f32[256,64] dot(a, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  da = f32[512,256] dot(y, v), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  dw = f32[64,256] dot(x, da), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  moved = f32[64,256] add(momentum, dw)
  w1 = f32[64,256] subtract(w, moved)
  v1 = f32[256,64] subtract(v, dv)
  ROOT out = (f32[64,256], f32[256,64], f32[64,256]) tuple(w1, v1, moved)
}
"""
"""Two layers with a residual width of 64, an inner dimension of 256, a batch of 512 and momentum of one weight."""

GRADIENTS = """HloModule gradients

ENTRY main {
  w = f32[64,256] parameter(0)
  v = f32[256,64] parameter(1)
  x = f32[512,64] parameter(2)
  h = f32[512,256] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  a = f32[512,256] tanh(h)
  y = f32[512,64] dot(a, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  dv = f32[256,64] dot(a, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  da = f32[512,256] dot(y, v), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  dw = f32[64,256] dot(x, da), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  ROOT out = (f32[64,256], f32[256,64]) tuple(dw, dv)
}
"""

ATTENTION = """HloModule attention

ENTRY main {
  x = f32[8,128,64] parameter(0)
  q = f32[64,64] parameter(1)
  k = f32[64,64] parameter(2)
  o = f32[64,64] parameter(3)
  n = f32[8,128,64] tanh(x)
  xq = f32[8,128,64] dot(n, q), lhs_contracting_dims={2}, rhs_contracting_dims={0}
  xk = f32[8,128,64] dot(n, k), lhs_contracting_dims={2}, rhs_contracting_dims={0}
  hq = f32[8,128,8,8] reshape(xq)
  hk = f32[8,128,8,8] reshape(xk)
  scores = f32[8,8,128,128] dot(hq, hk), lhs_batch_dims={0,2}, lhs_contracting_dims={3},
    rhs_batch_dims={0,2}, rhs_contracting_dims={3}
  mixed = f32[8,8,128,8] dot(scores, hk), lhs_batch_dims={0,1}, lhs_contracting_dims={3},
    rhs_batch_dims={0,2}, rhs_contracting_dims={1}
  turned = f32[8,128,8,8] transpose(mixed), dimensions={0,2,1,3}
  flat = f32[8,128,64] reshape(turned)
  y = f32[8,128,64] dot(flat, o), lhs_contracting_dims={2}, rhs_contracting_dims={0}
  ROOT z = f32[8,128,64] add(x, y)
}
"""

MIXTURE = """HloModule mixture

ENTRY main {
  x = f32[8,128,64] parameter(0)
  route = f32[64,128] parameter(1)
  up = f32[4,64,256] parameter(2)
  down = f32[4,256,64] parameter(3)
  scores = f32[8,128,128] dot(x, route), lhs_contracting_dims={2}, rhs_contracting_dims={0}
  choice = f32[8,128,4,32] reshape(scores)
  sent = f32[8,4,32,64] dot(choice, x), lhs_batch_dims={0}, lhs_contracting_dims={1},
    rhs_batch_dims={0}, rhs_contracting_dims={1}
  turned = f32[4,8,32,64] transpose(sent), dimensions={1,0,2,3}
  inner = f32[4,8,32,256] dot(turned, up), lhs_batch_dims={0}, lhs_contracting_dims={3},
    rhs_batch_dims={0}, rhs_contracting_dims={1}
  made = f32[4,8,32,64] dot(inner, down), lhs_batch_dims={0}, lhs_contracting_dims={3},
    rhs_batch_dims={0}, rhs_contracting_dims={1}
  back = f32[8,4,32,64] transpose(made), dimensions={1,0,2,3}
  ROOT y = f32[8,128,64] dot(choice, back), lhs_batch_dims={0}, lhs_contracting_dims={2,3},
    rhs_batch_dims={0}, rhs_contracting_dims={1,2}
}
"""

TABLE = """HloModule table

ENTRY main {
  ids = s32[1024,1] parameter(0)
  table = f32[100000,64] parameter(1)
  w = f32[64,32] parameter(2)
  rows = f32[1024,64] gather(table, ids), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
    index_vector_dim=1, slice_sizes={1,64}
  ROOT y = f32[1024,32] dot(rows, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""

STACKED = """HloModule stacked

body {
  state = (s32[], f32[256,64], f32[6,64,64]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  x = f32[256,64] get-tuple-element(state), index=1
  stack = f32[6,64,64] get-tuple-element(state), index=2
  zero = s32[] constant(0)
  one = s32[] constant(1)
  slice = f32[1,64,64] dynamic-slice(stack, i, zero, zero), dynamic_slice_sizes={1,64,64}
  w = f32[64,64] reshape(slice)
  y = f32[256,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  a = f32[256,64] tanh(y)
  next = s32[] add(i, one)
  ROOT out = (s32[], f32[256,64], f32[6,64,64]) tuple(next, a, stack)
}

condition {
  state = (s32[], f32[256,64], f32[6,64,64]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  six = s32[] constant(6)
  ROOT less = pred[] compare(i, six), direction=LT
}

ENTRY main {
  x = f32[256,64] parameter(0)
  stack = f32[6,64,64] parameter(1)
  zero = s32[] constant(0)
  start = (s32[], f32[256,64], f32[6,64,64]) tuple(zero, x, stack)
  loop = (s32[], f32[256,64], f32[6,64,64]) while(start), condition=condition, body=body
  ROOT y = f32[256,64] get-tuple-element(loop), index=1
}
"""


def roles_of(module: Module, count: int = 2) -> ProgramRoles:
    return ProgramRoles(LogicalAxes(DataflowGraph(canonicalize(module)), count))


def seen(roles: ProgramRoles, logical_axis: LogicalAxis | None) -> set[str]:
    """A stream as the entry's parameters show it."""
    assert logical_axis is not None
    parameters = {leaf: node for node in roles.dataflow.module.entry.parameters for leaf in roles.dataflow.given(node)}
    return {f"{parameters[leaf].name}:{dim}" for leaf, dim in logical_axis.places if leaf in parameters}


def plans_of(text: str, mesh: str) -> dict[str, dict[str, str]]:
    """The experts' plans: the spec of each parameter that is split."""
    module = parse(text)
    names = {node.number: node.name for node in module.entry.parameters}
    return {
        plan.name: {names[number]: str(spec) for number, spec in plan.parameters.items()}
        for plan in experts(module, Mesh.parse(mesh))
    }


@pytest.mark.parametrize("text", [TRAINED, GRADIENTS], ids=["donated state", "gradients alone"])
def test_the_batch_is_told_from_weights_whether_they_are_donated_or_not(text: str):
    roles = roles_of(parse(text))
    assert seen(roles, roles.batch) == {"x:0"}


def test_what_only_the_update_reads_is_a_state():
    roles = roles_of(parse(TRAINED))
    names = {leaf: node.name for node in roles.dataflow.module.entry.parameters for leaf in roles.dataflow.given(node)}
    assert [names[leaf] for leaf in roles.weights] == ["w", "v"]
    assert [names[leaf] for leaf in roles.states] == ["momentum"]


def test_megatron_splits_the_inner_dimension_by_columns_and_then_by_rows():
    assert plans_of(TRAINED, "data=2,model=4")["data parallel on data, Megatron on model"] == {
        "w": "[-,model]", "v": "[model,-]", "momentum": "[-,model]", "x": "[data,-]",
    }  # fmt: skip


def test_fsdp_and_zero_split_what_is_stored():
    plans = plans_of(TRAINED, "x=8")
    assert plans["FSDP on x"] == {"w": "[-,x]", "v": "[x,-]", "momentum": "[-,x]", "x": "[x,-]"}
    assert plans["data parallel on x, ZeRO-1 on x"] == {"momentum": "[-,x]", "x": "[x,-]"}


def test_gradients_are_sharded_as_their_weights():
    module = parse(GRADIENTS)
    (plan,) = [axis for axis in experts(module, Mesh.parse("x=8")) if axis.name == "FSDP on x"]
    assert {index: str(spec) for index, spec in plan.outputs.items()} == {0: "[-,x]", 1: "[x,-]"}


def test_heads_are_split_through_attention_and_the_sequence_between_blocks():
    roles = roles_of(parse(ATTENTION))
    assert [seen(roles, axis) for axis in roles.model] == [{"q:1", "k:1", "o:0"}]
    assert [seen(roles, axis) for axis in roles.sequences] == [{"x:1"}]


def test_experts_are_told_from_heads_and_what_is_dispatched_to_them_is_split_by_them():
    assert not roles_of(parse(ATTENTION)).experts
    module = parse(MIXTURE)
    roles = roles_of(module)
    assert [seen(roles, axis) for axis in roles.experts] == [{"route:1", "up:0", "down:0"}]
    name = "data parallel on x, expert parallel on x"
    (plan,) = [axis for axis in experts(module, Mesh.parse("x=4")) if axis.name == name]
    specs = {node: str(spec) for node, spec in plan.instructions.items()}
    assert {number: str(spec) for number, spec in plan.parameters.items()} == {
        0: "[x,-,-]",
        2: "[x,-,-]",
        3: "[x,-,-]",
    }
    assert (specs["turned"], specs["inner"], specs["made"]) == ("[x,-,-,-]",) * 3


@pytest.mark.parametrize("text", [TRAINED, MIXTURE, STACKED], ids=["MLP", "experts", "loop"])
def test_every_plan_computes_what_one_device_does(text: str):
    module = parse(text)
    alone = hloom.run(module, seed=1)
    plans = experts(module, Mesh.parse("x=4"))
    assert plans
    for plan in plans:
        spread = hloom.run(plan.annotate(module), inputs=list(alone.inputs), devices=4)
        for one, other in zip(alone.outputs, spread.outputs, strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-3, atol=1e-3 * float(np.abs(one).max()))


def test_experts_are_reached_by_all_to_all():
    module, mesh = parse(MIXTURE), Mesh.parse("x=4")
    name = "data parallel on x, expert parallel on x"
    (plan,) = [axis for axis in experts(module, mesh) if axis.name == name]
    compiled = partition(plan.annotate(module), 4)
    assert set(read_partitioned(compiled.module, 4, compiled.memory).comm_bytes_by_opcode) == {"all-to-all"}


def test_a_batch_that_is_too_small_leaves_the_sequence_to_the_other_axes():
    plans = plans_of(ATTENTION, "x=8,y=4")
    assert plans["data parallel on x, sequence split on y"] == {"x": "[x,y,-]"}


def test_tables_are_split_by_rows_or_by_columns():
    plans = plans_of(TABLE, "x=8")
    assert plans["data parallel on x, tables by rows on x"] == {"ids": "[x,-]", "table": "[x,-]"}
    assert plans["data parallel on x, tables by columns on x"] == {"ids": "[x,-]", "table": "[-,x]"}


def test_the_layers_of_a_stack_are_never_split():
    assert plans_of(STACKED, "x=2")["FSDP on x"] == {"x": "[x,-]", "stack": "[-,x,-]"}
    assert "stack" not in plans_of(STACKED, "x=6")["data parallel on x"]
    assert "FSDP on x" not in plans_of(STACKED, "x=6")


def test_nothing_is_left_to_choose_on_one_device():
    (plan,) = experts(parse(TRAINED), Mesh.parse("x=1"))
    assert (plan.name, plan.parameters) == ("one device", {})


def test_plans_that_come_to_the_same_are_given_once():
    plans = experts(parse(TRAINED), Mesh.parse("data=2,model=4"))
    assert len({str(plan.to_json()) for plan in plans}) == len(plans) <= 14


@pytest.mark.parametrize("text", [TRAINED, ATTENTION, TABLE], ids=["MLP", "attention", "table"])
def test_an_expert_plan_is_called_what_it_is_meant_to_be(text: str):
    module = parse(text)
    for plan in experts(module, Mesh.parse("data=2,model=4")):
        meant = plan.name.removesuffix(", weights gathered")
        assert sorted(_words(describe(module, plan))) == sorted(_words(meant))


def _words(name: str) -> list[str]:
    """The phrases of a name, one axis at a time."""
    parts = [part.rpartition(" on ") for part in name.replace(",model", ".model").split(", ")]
    return [f"{phrase} {axis}" for phrase, _, axes in parts for axis in axes.split(".")]


def test_any_plan_has_a_name():
    module, mesh = parse(TRAINED), Mesh.parse("data=2,model=4")
    assert describe(module, Plan(mesh)) == "replicated on data,model"
    assert describe(module, Plan(mesh, {0: spec_of(["model", None])})) == "replicated on data, weights split on model"
