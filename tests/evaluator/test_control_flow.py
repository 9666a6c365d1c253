"""Calls, loops, branches, asynchronous pairs and one device's collectives.

Covers `collective.py`.
"""

import numpy as np
import pytest

from hloom.evaluator import CannotEvaluate, evaluate
from hloom.formats.hlo import parse
from tests.evaluator.xla import agree, plain, program

LOOP = """
below { s = (s32[], f32[3]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(5) ROOT p = pred[] compare(i, n), direction=LT }
step { s = (s32[], f32[3]) parameter(0) i = s32[] get-tuple-element(s), index=0 x = f32[3] get-tuple-element(s), index=1
  one = s32[] constant(1) j = s32[] add(i, one) y = f32[3] add(x, x) ROOT t = (s32[], f32[3]) tuple(j, y) }
"""


def test_while():
    body = """
  x = f32[3] parameter(0)
  z = s32[] parameter(1)
  start = (s32[], f32[3]) tuple(z, x)
  end = (s32[], f32[3]) while(start), condition=below, body=step
  i = s32[] get-tuple-element(end), index=0
  y = f32[3] get-tuple-element(end), index=1
"""
    text = program(body, graphs=LOOP).replace("tuple(start, end, ", "tuple(")
    for start in (0, 4, 9):
        agree(text, [plain("f32", (3,)), np.int32(start)])


BRANCHES = """
first { x = f32[2] parameter(0) ROOT y = f32[2] add(x, x) }
second { x = f32[2] parameter(0) ROOT y = f32[2] multiply(x, x) }
third { x = f32[2] parameter(0) ROOT y = f32[2] copy(x) }
"""


@pytest.mark.parametrize("index", [-2, 0, 1, 3])
def test_a_branch_index_out_of_range_means_the_last(index):
    body = """
  i = s32[] parameter(0)
  x = f32[2] parameter(1)
  a = f32[2] conditional(i, x, x, x), branch_computations={first, second, third}
"""
    agree(program(body, graphs=BRANCHES), [np.int32(index), plain("f32", (2,))])


def test_true_and_false_branches():
    body = """
  p = pred[] parameter(0)
  x = f32[2] parameter(1)
  a = f32[2] conditional(p, x, x), true_computation=first, false_computation=second
  b = f32[2] call(x), to_apply=second
  c = f32[2] fusion(x), kind=kLoop, calls=first
  d = f32[2] opt-barrier(x)
"""
    for predicate in (True, False):
        agree(program(body, graphs=BRANCHES), [np.bool_(predicate), plain("f32", (2,))])


def test_map():
    graphs = "both { a = f32[] parameter(0) b = f32[] parameter(1) c = f32[] constant(3) d = f32[] multiply(a, c) ROOT e = f32[] add(d, b) }"
    body = """
  x = f32[4,3] parameter(0)
  y = f32[4,3] parameter(1)
  a = f32[4,3] map(x, y), dimensions={0,1}, to_apply=both
"""
    agree(program(body, graphs=graphs), [plain("f32", (4, 3)), plain("f32", (4, 3), 1)])


def test_a_mapped_graph_that_ignores_its_operands():
    module = parse("""
      five { a = f32[] parameter(0) ROOT b = s32[] constant(5) }
      ENTRY e { x = f32[2,2] parameter(0) ROOT y = s32[2,2] map(x), dimensions={0,1}, to_apply=five }
    """)
    assert evaluate(module, [plain("f32", (2, 2))])[0].tolist() == [[5, 5], [5, 5]]


def test_asynchronous_pairs_give_what_they_start():
    module = parse("""
      first { x = f32[2] parameter(0) ROOT y = f32[2] negate(x) }
      ENTRY e {
        x = f32[2] parameter(0)
        start = ((f32[2]), f32[2], u32[]) async-start(x), calls=first
        update = ((f32[2]), f32[2], u32[]) async-update(start)
        done = f32[2] async-done(update)
        copying = (f32[2], f32[2], u32[]) copy-start(done)
        copied = f32[2] copy-done(copying)
        gathering = (f32[2], f32[2]) all-gather-start(copied), dimensions={0}, replica_groups={{0}}
        ROOT gathered = f32[2] all-gather-done(gathering)
      }""")
    assert evaluate(module, [np.array([1, 2], np.float32)])[0].tolist() == [-1, -2]


ALONE = """
  x = f32[2,3] parameter(0)
  a = f32[2,3] all-reduce(x), replica_groups={{0}}, to_apply=add
  b = f32[2,3] all-gather(x), dimensions={1}, replica_groups={{0}}
  c = f32[2,3] reduce-scatter(x), dimensions={0}, replica_groups={{0}}, to_apply=add
  d = f32[2,3] all-to-all(x), dimensions={0}, replica_groups={{0}}
  f = f32[2,3] collective-permute(x), source_target_pairs={{0,0}}
  g = f32[2,3] collective-permute(x), source_target_pairs={}
  h = u32[] replica-id()
  i = u32[] partition-id()
"""


def test_collectives_of_one_device_are_identities():
    add = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }"
    x = plain("f32", (2, 3))
    *same, nothing, replica, partition = evaluate(parse(program(ALONE, graphs=add)), [x])
    assert all(np.array_equal(output, x) for output in same)
    assert not nothing.any() and replica == partition == 0


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("collective-permute(x), source_target_pairs={{0,1},{1,0}}", "moves values between devices"),
        ("all-to-all(x), dimensions={0}, replica_groups={{0,1}}", "joins several devices: replica_groups={{0,1}}"),
        ("all-gather(x), dimensions={0}, replica_groups=[2,1]<=[2]", "joins several devices"),
        ('custom-call(x), custom_call_target="f"', "only the backend knows what the target computes"),
    ],
)
def test_what_cannot_be_evaluated_is_named(line, message):
    module = parse(f"ENTRY e {{ x = f32[2] parameter(0) y = f32[2] negate(x) ROOT bad = f32[2] {line} }}")
    with pytest.raises(CannotEvaluate, match=r"^bad: cannot evaluate ") as caught:
        evaluate(module, [np.array([1, 2], np.float32)])
    assert message in str(caught.value)
