"""What XLA's partitioner emits, beside what the prices say it does."""

from __future__ import annotations

import random

import pytest

from hloom.hlo import parse
from hloom.ir import Apply, AxisMap, node_axes
from hloom.partitioner.spec_reshard import reshard
from hloom.planner.cost_model import Lies, contracting, roles_of
from hloom.planner.partitioned import emitted
from hloom.planner.plan import Plan
from hloom.runtime.partition import partition
from hloom.sharding import Mesh, Spec
from tests.runtime.micro import Micro, every_spec, kind_of

MESH = Mesh.parse("x=2,y=4")
MESHES = tuple(map(Mesh.parse, ("x=8", "x=2,y=4", "x=4,y=2", "x=2,y=2,z=2")))
CASES = 60
"""How many of all changes, or dots, are tried on each mesh."""


@pytest.mark.parametrize("mesh", MESHES, ids=str)
@pytest.mark.parametrize("dims", [(64,), (64, 32), (64, 32, 16), (16, 32, 8, 16)], ids=kind_of)
def test_changes_of_spec_send_what_is_expected(mesh: Mesh, dims: tuple[int, ...]):
    specs = list(every_spec(mesh, len(dims)))
    pairs = [(a, b) for a in specs for b in specs if a != b]
    pairs = random.Random(5).sample(pairs, min(CASES, len(pairs)))
    micro = Micro(mesh)
    for have, want in pairs:
        micro.add((kind_of(dims), want), [(kind_of(dims), have)], "negate({0})")
    for (have, want), sent in zip(pairs, micro.sent(), strict=True):
        expected = sum(step.sent for step in reshard(dims, have, want, mesh)) * 4
        assert expected == pytest.approx(sent), f"{have} -> {want}"


DOTS = {
    "matrices": ((64, 128), (128, 256), (64, 256), "lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
    "rows of a batch": ((64, 32, 128), (128, 256), (64, 32, 256), "lhs_contracting_dims={2}, rhs_contracting_dims={0}"),
    "gradient of weights": (
        (64, 32, 128),
        (64, 32, 256),
        (128, 256),
        "lhs_contracting_dims={0,1}, rhs_contracting_dims={0,1}",
    ),
    "heads": (
        (32, 16, 64, 128),
        (32, 16, 128, 256),
        (32, 16, 64, 256),
        "lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_contracting_dims={2}",
    ),
}
KNOWN_APART = 0.05
"""The share of dots over three axes, in specs that have nothing to do with each other, that are another way round."""


@pytest.mark.parametrize("mesh", MESHES, ids=str)
@pytest.mark.parametrize("name", DOTS)
def test_dots_send_what_is_expected_however_they_lie(mesh: Mesh, name: str):
    left, right, result, text = DOTS[name]
    choose, micro = random.Random(5), Micro(mesh)
    specs = [list(every_spec(mesh, len(each))) for each in (left, right, result)]
    cases = [tuple(choose.choice(each) for each in specs) for _ in range(CASES)]
    for a, b, made in cases:
        operands = [(kind_of(left), a), (kind_of(right), b)]
        micro.add((kind_of(result), made), operands, "dot({0}, {1}), " + text.replace("{", "{{").replace("}", "}}"))
    roles = roles_of(_map(name))
    apart = 0
    for lies, sent in zip(cases, micro.sent(), strict=True):
        held = [Lies(dims, 4, spec.dims) for dims, spec in zip((left, right, result), lies, strict=True)]
        expected = sum(step.sent for step in contracting(roles, held[0], held[1], held[2], mesh)[0])
        apart += expected != pytest.approx(sent)
    assert apart <= (KNOWN_APART * CASES if len(mesh.names) > 2 else 0)


def _map(name: str) -> AxisMap:
    left, right, result, text = DOTS[name]
    module = parse(
        f"HloModule d\n\nENTRY e {{\n l = {kind_of(left)} parameter(0)\n r = {kind_of(right)} parameter(1)\n"
        f" ROOT d = {kind_of(result)} dot(l, r), {text}\n}}\n"
    )
    node = module.entry["d"]
    assert isinstance(node, Apply)
    found = node_axes(node)
    assert found is not None
    return found


def test_a_loops_body_counts_as_often_as_it_runs():
    text = """HloModule loop

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

body {
  s = (s32[], f32[64,64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  v = f32[64,64] get-tuple-element(s), index=1
  d = f32[64,64] dot(v, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (s32[], f32[64,64]) tuple(j, d)
}

condition {
  s = (s32[], f32[64,64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT less = pred[] compare(i, n), direction=LT
}

ENTRY main {
  p = f32[64,64] parameter(0)
  zero = s32[] constant(0)
  s = (s32[], f32[64,64]) tuple(zero, p)
  w = (s32[], f32[64,64]) while(s), condition=condition, body=body
  ROOT r = f32[64,64] get-tuple-element(w), index=1
}
"""
    found = emitted(partition(Plan(MESH, {0: Spec.replicated(2)}).annotate(parse(text)), 8).module, 8, 0)
    assert found.flops == 5 * 2 * 64**3
    assert found.wire == 0
