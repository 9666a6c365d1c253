"""The report of a program before optimisation names buffers after the user's instructions, not the model's."""

from __future__ import annotations

import pytest

import hloom
from hloom.ir import TOKEN, without_layout

CALLED = """HloModule step
square {
  constant.1 = f32[64,64] parameter(0), metadata={op_name="x"}
  ROOT multiply.1 = f32[64,64] multiply(constant.1, constant.1), metadata={op_name="jit(step)/layer/mul"}
}
widen {
  x = f32[64,64] parameter(0)
  s = f32[64,64] call(x), to_apply=square
  w = f32[64,64] dot(s, s), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(step)/layer/dot"}
  ROOT e = f32[64,64] exponential(w), metadata={op_name="jit(step)/layer/exp"}
}
ENTRY main {
  a = f32[64,64] parameter(0), metadata={op_name="a"}
  constant.103 = s32[] constant(3)
  first = f32[64,64] call(a), to_apply=widen
  second = f32[64,64] call(first), to_apply=widen
  both = f32[64,64] dot(first, second), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = s32[2] broadcast(constant.103), dimensions={}
  ROOT t = (f32[64,64], s32[2]) tuple(both, c)
}"""


@pytest.fixture(scope="module")
def report() -> hloom.MemoryReport:
    return hloom.memory(hloom.parse(CALLED))


def test_every_name_is_one_of_the_module_or_says_what_the_step_is(report: hloom.MemoryReport):
    module = hloom.parse(CALLED)
    known = {(graph.name, node.name): node for graph in module.graphs for node in graph.nodes}
    assert report.schedule == "cpu" and report.at_peak
    for buffer in report.at_peak:
        if buffer.name.startswith("("):
            assert buffer.name == f"({buffer.opcode} of the compiler)"
            continue
        node = known[buffer.computation, buffer.name]
        assert str(without_layout(node.type or TOKEN)) == buffer.type or buffer.index


def test_what_was_inlined_has_its_name_in_the_called_computation(report: hloom.MemoryReport):
    names = {(buffer.computation, buffer.name) for buffer in report.at_peak}
    assert ("widen", "e") in names or ("widen", "w") in names or ("square", "multiply.1") in names


def test_scope_means_the_scope(report: hloom.MemoryReport):
    assert {buffer.scope for buffer in report.at_peak} <= {"layer", "inputs/a", "inputs", "(no scope)"}
