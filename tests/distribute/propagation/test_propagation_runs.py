"""What is propagated, written as shardings, run by XLA's partitioner on virtual devices: the numbers of one device."""

from __future__ import annotations

import numpy as np
import pytest

from hloom.distribute.propagation import Propagation, propagate
from hloom.formats.hlo import parse
from hloom.ir import Module, TensorType
from hloom.runtime import run
from hloom.sharding import Mesh
from hloom.sharding.hlo_sharding import to_tiled
from tests.distribute.propagation.programs import random_program
from tests.distribute.propagation.test_propagation_brute import random_seeds

STEP = """HloModule step
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
cond { s = (s32[], f32[16,8], f32[8,8]) parameter(0) n = s32[] get-tuple-element(s), index=0 k = s32[] constant(3)
  ROOT lt = pred[] compare(n, k), direction=LT }
layer { h = f32[16,8] parameter(0) w = f32[8,8] parameter(1)
  d = f32[16,8] dot(h, w), lhs_contracting_dims={1}, rhs_contracting_dims={0} ROOT t = f32[16,8] add(d, h) }
body { s = (s32[], f32[16,8], f32[8,8]) parameter(0) n = s32[] get-tuple-element(s), index=0 one = s32[] constant(1)
  h = f32[16,8] get-tuple-element(s), index=1 w = f32[8,8] get-tuple-element(s), index=2 more = s32[] add(n, one)
  c = f32[16,8] call(h, w), to_apply=layer ROOT t = (s32[], f32[16,8], f32[8,8]) tuple(more, c, w) }
ENTRY main { table = f32[32,8] parameter(0) ids = s32[16,1] parameter(1) w = f32[8,8] parameter(2)
  up = f32[8,32] parameter(3) down = f32[32,8] parameter(4)
  h = f32[16,8] gather(table, ids), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
    index_vector_dim=1, slice_sizes={1,8}
  n = s32[] constant(0) s = (s32[], f32[16,8], f32[8,8]) tuple(n, h, w)
  l = (s32[], f32[16,8], f32[8,8]) while(s), condition=cond, body=body o = f32[16,8] get-tuple-element(l), index=1
  u = f32[16,32] dot(o, up), lhs_contracting_dims={1}, rhs_contracting_dims={0} g = f32[16,32] maximum(u, u)
  r = f32[16,4,8] reshape(g) q = f32[16,4,8] negate(r) p = f32[16,32] reshape(q)
  y = f32[16,8] dot(p, down), lhs_contracting_dims={1}, rhs_contracting_dims={0} zero = f32[] constant(0)
  e = f32[15,8] slice(y), slice={[1:16], [0:8]} loss = f32[8] reduce(y, zero), dimensions={0}, to_apply=sum
  ROOT out = (f32[16,8], f32[15,8], f32[8]) tuple(y, e, loss) }
"""


def annotated(propagation: Propagation) -> Module:
    """A copy of the module in which every array has a sharding."""
    copy = propagation.module.clone()
    texts = {(n.graph.name, n.name): [to_tiled(spec, propagation.mesh) for spec in s] for n, s in propagation.specs}
    for graph in copy.graphs:
        for node in graph.nodes:
            shardings = texts.get((graph.name, node.name))
            if shardings and isinstance(node.type, TensorType) and node.opcode != "constant":
                graph.set_attributes(node, node.attributes.changed(sharding=shardings[0]))
    return copy


def check(program: Module, propagation: Propagation, inputs: list[np.ndarray]) -> None:
    whole = run(program, inputs)
    parts = run(annotated(propagation), inputs, devices=propagation.mesh.device_count)
    assert len(parts.per_device) == propagation.mesh.device_count
    for one, other in zip(whole.outputs, parts.outputs, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "seeds",
    [
        ["ids:0=data"],
        ["ids:0=data", "up:1=model"],
        ["table:0=model", "ids:0=data"],
        ["table:1=model", "ids:0=data"],
        ["table:0=data", "ids:0=data", "down:0=model"],
        ["w:0=model", "w:1=data"],
        ["up:1=model.data"],
        ["r:1=model", "r:2=data"],
    ],
    ids=" ".join,
)
def test_a_model_on_eight_devices(seeds: list[str]):
    source = np.random.default_rng(0)
    shapes = [(32, 8), (16, 1), (8, 8), (8, 32), (32, 8)]
    inputs: list[np.ndarray] = [source.integers(-2, 3, shape).astype(np.float32) for shape in shapes]
    inputs[1] = source.integers(0, 32, (16, 1)).astype(np.int32)
    program = parse(STEP)
    check(program, propagate(program, seeds, Mesh.parse("data=2,model=4")), inputs)


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_on_four_devices(seed: int):
    program = random_program(seed, 6)
    values = program.values(seed)
    module = parse(program.text)
    propagation = propagate(module, random_seeds(program, seed), Mesh.parse("x=2,y=2"))
    check(module, propagation, [values[name] for name in program.parameters])
