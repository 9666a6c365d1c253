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
            assert buffer.name.startswith((f"({buffer.opcode} for ", f"({buffer.opcode} of "))
            continue
        node = known[buffer.computation, buffer.name]
        assert str(without_layout(node.type or TOKEN)) == buffer.type or buffer.index


def test_what_was_inlined_has_its_name_in_the_called_computation(report: hloom.MemoryReport):
    names = {(buffer.computation, buffer.name) for buffer in report.at_peak}
    assert ("widen", "e") in names or ("widen", "w") in names or ("square", "multiply.1") in names


def test_scope_means_the_scope(report: hloom.MemoryReport):
    assert {buffer.scope for buffer in report.at_peak} <= {"layer", "inputs/a", "inputs", "(no scope)"}


STEPS_OF_THE_COMPILER = """HloModule step
body {
  state = (s32[], f32[1,32], f32[32,32]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  h = f32[1,32] get-tuple-element(state), index=1
  w = f32[32,32] get-tuple-element(state), index=2
  product = f32[1,32] dot(h, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(step)/cell/dot_general"}
  next = f32[1,32] tanh(product), metadata={op_name="jit(step)/cell/tanh"}
  one = s32[] constant(1)
  more = s32[] add(i, one)
  ROOT result = (s32[], f32[1,32], f32[32,32]) tuple(more, next, w)
}
condition {
  state = (s32[], f32[1,32], f32[32,32]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  n = s32[] constant(12)
  ROOT less = pred[] compare(i, n), direction=LT
}
ENTRY main {
  h = f32[1,32] parameter(0), metadata={op_name="h"}
  w = f32[32,32] parameter(1), metadata={op_name="w"}
  first = s32[] constant(0)
  start = (s32[], f32[1,32], f32[32,32]) tuple(first, h, w)
  loop = (s32[], f32[1,32], f32[32,32]) while(start), condition=condition, body=body, metadata={op_name="jit(step)/cell/while"}
  ROOT last = f32[1,32] get-tuple-element(loop), index=1
}"""


def test_steps_of_the_compiler_say_what_they_are_for():
    """A copy of what the caller keeps, and a dot of fewer dimensions than the user's."""
    buffers = hloom.memory(hloom.parse(STEPS_OF_THE_COMPILER)).at_peak
    assert buffers and not [buffer.name for buffer in buffers if "of the compiler" in buffer.name]
    assert {buffer.name for buffer in buffers if buffer.type.startswith("(")} == {"(tuple for loop)"}
    assert {buffer.scope for buffer in buffers} <= {"cell", "cell/while/body", "inputs/h", "inputs/w", "inputs", "(no scope)"}
