"""Calls, branches and loops.

Covers `activity.py`, `calls.py`, `checkpointing.py`, `elementwise_loops.py`, `last_iteration.py`, `linearize.py`,
`loop_state.py`, `loops.py`.
"""

from __future__ import annotations

import numpy as np
import pytest

import hloom
from hloom.autodiff.emitter import leaf_types
from hloom.ir import Module, TensorType
from hloom.text import Unsupported

from .check import assert_derivatives, module, run


def test_call_of_a_shared_computation():
    assert_derivatives(module("f { a = f64[3] parameter(0) b = f64[3] parameter(1) s = f64[3] sine(a) "
                              "ROOT r = f64[3] multiply(s, b) } "
                              "ENTRY e { x = f64[3] parameter(0) y = f64[3] parameter(1) "
                              "c = f64[3] call(x, y), to_apply=f ROOT d = f64[3] call(c, x), to_apply=f }"))  # fmt: skip


def test_fusion():
    assert_derivatives(module("f { a = f64[3] parameter(0) s = f64[3] sine(a) ROOT r = f64[3] multiply(s, a) } "
                              "ENTRY e { x = f64[3] parameter(0) ROOT c = f64[3] fusion(x), kind=kLoop, calls=f }"))  # fmt: skip


@pytest.mark.parametrize("index", [0, 1, 2, 7])
def test_conditional_by_index(index):
    branches = module("f { a = f64[3] parameter(0) ROOT r = f64[3] sine(a) } "
                      "g { t = (f64[3], f64[3]) parameter(0) a = f64[3] get-tuple-element(t), index=0 "
                      "b = f64[3] get-tuple-element(t), index=1 ROOT r = f64[3] multiply(a, b) } "
                      "h { a = f64[3] parameter(0) e = f64[3] exponential(a) ROOT r = f64[3] multiply(e, a) } "
                      "ENTRY e { x = f64[3] parameter(0) y = f64[3] parameter(1) i = s32[] parameter(2) "
                      "t = (f64[3], f64[3]) tuple(x, y) "
                      "ROOT c = f64[3] conditional(i, x, t, y), branch_computations={f, g, h} }")  # fmt: skip
    rng = np.random.default_rng(0)
    assert_derivatives(branches, [rng.uniform(size=3), rng.uniform(size=3), np.array(index, np.int32)])


def test_residuals_of_the_taken_branch_alone():
    """Each branch keeps one array: they share its slot."""
    branches = module("f { a = f64[9] parameter(0) ROOT r = f64[9] sine(a) } "
                      "g { a = f64[9] parameter(0) ROOT r = f64[9] exponential(a) } "
                      "ENTRY e { p = pred[] parameter(0) x = f64[9] parameter(1) "
                      "ROOT c = f64[9] conditional(p, x, x), true_computation=f, false_computation=g }")  # fmt: skip
    gradient = hloom.vjp(branches)
    first = next(node for node in gradient.entry.nodes if node.opcode == "conditional")
    assert str(first.type) in ("(f64[9], f64[9])", "(f64[9])")


LOOP = """
body {{ s = (s32[], f64[3], f64[3]) parameter(0) i = s32[] get-tuple-element(s), index=0
  x = f64[3] get-tuple-element(s), index=1 w = f64[3] get-tuple-element(s), index=2
  one = s32[] constant(1) j = s32[] add(i, one) a = f64[3] sine(x) b = f64[3] multiply(a, w) ROOT t = (s32[], f64[3], f64[3]) tuple(j, b, w) }}
test {{ s = (s32[], f64[3], f64[3]) parameter(0) i = s32[] get-tuple-element(s), index=0 {limit} ROOT p = pred[] compare(i, n), direction=LT }}
ENTRY e {{ x = f64[3] parameter(0) w = f64[3] parameter(1) z = s32[] constant(0)
  t = (s32[], f64[3], f64[3]) tuple(z, x, w) l = (s32[], f64[3], f64[3]) while(t), condition=test, body=body
  ROOT r = f64[3] get-tuple-element(l), index=1 }}
"""


@pytest.mark.parametrize("count", [0, 1, 5])
def test_loop_of_a_known_trip_count(count):
    assert_derivatives(module(LOOP.format(limit=f"n = s32[] constant({count})")), low=0.5, high=1.5)


def test_what_never_changes_is_not_stacked():
    gradient = hloom.vjp(module(LOOP.format(limit="n = s32[] constant(5)")))
    stacks = {str(leaf) for node in gradient.entry.nodes if node.opcode == "while" for leaf in leaf_types(node.type)}
    assert "f64[5,3]" in stacks
    first = next(node for node in gradient.entry.nodes if node.opcode == "while")
    assert sum(str(leaf) == "f64[5,3]" for leaf in leaf_types(first.type)) == 2


READ_BACKWARD = """
body { s = (s32[], f64[3]) parameter(0) i = s32[] get-tuple-element(s), index=0 x = f64[3] get-tuple-element(s), index=1
  one = s32[] constant(1) j = s32[] add(i, one) a = f64[3] tanh(x) b = f64[3] multiply(a, a) c = f64[3] sine(b)
  ROOT t = (s32[], f64[3]) tuple(j, c) }
test { s = (s32[], f64[3]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(4)
  ROOT p = pred[] compare(i, n), direction=LT }
ENTRY e { x = f64[3] parameter(0) z = s32[] constant(0) t = (s32[], f64[3]) tuple(z, x)
  l = (s32[], f64[3]) while(t), condition=test, body=body ROOT r = f64[3] get-tuple-element(l), index=1 }
"""


def test_what_only_the_backward_loop_reads_is_computed_there():
    """1 - a^2 and 2 a are computed of a, which is stacked in place of both."""
    program = module(READ_BACKWARD)
    assert_derivatives(program, [np.array([0.3, -0.2, 0.9])])
    gradient = hloom.vjp(program)
    first, second = (node for node in gradient.entry.nodes if node.opcode == "while")
    assert [str(leaf) for leaf in leaf_types(first.type)].count("f64[4,3]") == 2
    opcodes = [[node.opcode for node in loop.attributes["body"].nodes] for loop in (first, second)]
    assert [("subtract" in listed, "cosine" in listed) for listed in opcodes] == [(False, True), (True, False)]


BARRIER = """
body { s = (s32[], f64[3]) parameter(0) i = s32[] get-tuple-element(s), index=0 x = f64[3] get-tuple-element(s), index=1
  one = s32[] constant(1) j = s32[] add(i, one) a = f64[3] %s b = f64[3] sine(a) c = f64[3] exponential(b)
  d = f64[3] cosine(c) e = f64[3] tanh(d) ROOT t = (s32[], f64[3]) tuple(j, e) }
test { s = (s32[], f64[3]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(4)
  ROOT p = pred[] compare(i, n), direction=LT }
ENTRY e { x = f64[3] parameter(0) z = s32[] constant(0) t = (s32[], f64[3]) tuple(z, x)
  l = (s32[], f64[3]) while(t), condition=test, body=body ROOT r = f64[3] get-tuple-element(l), index=1 }
"""


@pytest.mark.parametrize(("opcode", "stacks"), [("opt-barrier(x)", 1), ("copy(x)", 3)])
def test_what_stands_behind_a_barrier_is_computed_again(opcode: str, stacks: int):
    program = module(BARRIER % opcode)
    assert_derivatives(program, [np.array([0.3, -0.2, 0.9])])
    first = next(node for node in hloom.vjp(program).entry.nodes if node.opcode == "while")
    assert [str(leaf) for leaf in leaf_types(first.type)].count("f64[4,3]") == stacks


DYNAMIC = """
body { s = (s32[], s32[], f64[3], f64[3]) parameter(0) i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1 x = f64[3] get-tuple-element(s), index=2 w = f64[3] get-tuple-element(s), index=3
  one = s32[] constant(1) j = s32[] add(i, one) a = f64[3] sine(x) b = f64[3] multiply(a, w) c = f64[3] add(b, w)
  ROOT t = (s32[], s32[], f64[3], f64[3]) tuple(j, n, c, w) }
test { s = (s32[], s32[], f64[3], f64[3]) parameter(0) i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1 ROOT p = pred[] compare(i, n), direction=LT }
ENTRY e { x = f64[3] parameter(0) w = f64[3] parameter(1) n = s32[] parameter(2) z = s32[] constant(0)
  t = (s32[], s32[], f64[3], f64[3]) tuple(z, n, x, w)
  l = (s32[], s32[], f64[3], f64[3]) while(t), condition=test, body=body
  ROOT r = f64[3] get-tuple-element(l), index=2 }
"""


@pytest.mark.parametrize(("count", "checkpoints"), [(0, 4), (1, 4), (2, 2), (7, 2), (37, 4), (100, 6), (64, 128)])
def test_loop_of_a_trip_count_known_when_it_runs(count, checkpoints):
    rng = np.random.default_rng(0)
    inputs = [rng.uniform(size=3), rng.uniform(0.5, 1.1, size=3), np.array(count, np.int32)]
    orders = 2 if count < 10 else 1
    assert_derivatives(module(DYNAMIC), inputs, checkpoints=checkpoints, orders=orders)


def sizes_in(program: Module) -> set[int]:
    types = [leaf for node in program.nodes() for leaf in leaf_types(node.type)]
    return {leaf.element_count for leaf in types if isinstance(leaf, TensorType)}


@pytest.mark.parametrize("count", [0, 1, 5])
def test_a_loop_over_elements_carries_the_diagonals_of_its_jacobian(count: int):
    rng = np.random.default_rng(0)
    inputs = [rng.uniform(size=3), rng.uniform(0.5, 1.1, size=3), np.array(count, np.int32)]
    assert_derivatives(module(DYNAMIC), inputs, orders=3)
    gradient = hloom.vjp(module(DYNAMIC))
    assert sizes_in(gradient) == {1, 3}
    assert sum(node.opcode == "while" for node in gradient.nodes()) == 1


OVERWRITING = """
draw { s = (s32[], s32[], f64[2,2], f64[2], f64[2]) parameter(0) i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1 m = f64[2,2] get-tuple-element(s), index=2 v = f64[2] get-tuple-element(s), index=3
  o = s32[] constant(1) j = s32[] add(i, o) f = f64[] convert(j) b = f64[2] broadcast(f), dimensions={} u = f64[2] multiply(b, v)
  a = f64[2] sine(u) d = f64[2] dot(m, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (s32[], s32[], f64[2,2], f64[2], f64[2]) tuple(j, n, m, v, d) }
test { s = (s32[], s32[], f64[2,2], f64[2], f64[2]) parameter(0) i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1 ROOT p = pred[] compare(i, n), direction=LT }
ENTRY e { m = f64[2,2] parameter(0) v = f64[2] parameter(1) x = f64[2] parameter(2) n = s32[] parameter(3) z = s32[] constant(0)
  t = (s32[], s32[], f64[2,2], f64[2], f64[2]) tuple(z, n, m, v, x)
  l = (s32[], s32[], f64[2,2], f64[2], f64[2]) while(t), condition=test, body=draw
  y = f64[2] get-tuple-element(l), index=4 w = f64[2] get-tuple-element(l), index=3 r = f64[2] multiply(y, w)
  ROOT q = f64[2] sine(r) }
"""


@pytest.mark.parametrize("count", [0, 1, 4])
def test_of_a_loop_that_overwrites_its_state_the_last_iteration_counts(count: int):
    rng = np.random.default_rng(0)
    inputs = [rng.uniform(size=dims) for dims in ((2, 2), (2,), (2,))]
    assert_derivatives(module(OVERWRITING), [*inputs, np.array(count, np.int32)])
    gradient = hloom.vjp(module(OVERWRITING))
    assert sizes_in(gradient) == {1, 2, 4}
    assert sum(node.opcode == "while" for node in gradient.nodes()) == 2


def test_max_iterations_stacks():
    rng = np.random.default_rng(0)
    inputs = [rng.uniform(size=3), rng.uniform(0.5, 1.1, size=3), np.array(13, np.int32), np.ones(3)]
    stacked = run(hloom.vjp(module(DYNAMIC), max_iterations=20), inputs)
    kept = run(hloom.vjp(module(DYNAMIC)), inputs)
    for a, b in zip(stacked, kept, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_more_iterations_than_max_iterations_give_nan():
    inputs = [np.ones(3), np.ones(3), np.array(13, np.int32), np.ones(3)]
    assert all(np.isnan(value).all() for value in run(hloom.vjp(module(DYNAMIC), max_iterations=12), inputs))


def test_memory_does_not_depend_on_the_trip_count():
    gradient = hloom.vjp(module(DYNAMIC), checkpoints=8)
    assert max(sizes_in(gradient)) == 9 * 40  # the table of binomials


@pytest.mark.parametrize("options", [{}, {"max_iterations": 3}])
@pytest.mark.parametrize("count", [0, 2])
def test_a_loop_that_overwrites_what_it_is_given_and_may_not_run(options: dict[str, int], count: int):
    program = module("""
body { s = (s32[], s32[], f64[2]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] get-tuple-element(s), index=1
  o = s32[] constant(1) j = s32[] add(i, o) c = f64[] constant(5) b = f64[2] broadcast(c), dimensions={}
  ROOT t = (s32[], s32[], f64[2]) tuple(j, n, b) }
less { s = (s32[], s32[], f64[2]) parameter(0) i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1 ROOT p = pred[] compare(i, n), direction=LT }
ENTRY e { x = f64[2] parameter(0) n = s32[] parameter(1) z = s32[] constant(0)
  t = (s32[], s32[], f64[2]) tuple(z, n, x) w = (s32[], s32[], f64[2]) while(t), condition=less, body=body
  y = f64[2] get-tuple-element(w), index=2 ROOT r = f64[2] sine(y) }""")
    assert_derivatives(program, [np.array([0.3, 0.7]), np.array(count, np.int32)], orders=1, **options)


def test_slices_whose_starts_wrap_around():
    """The count of iterations goes through eight bits: the starts behind 127 are negative, and clamped to the first row."""
    program = module("""
more { s = (s32[], f64[150], f64[1]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(140)
  ROOT p = pred[] compare(i, n), direction=LT }
step { s = (s32[], f64[150], f64[1]) parameter(0) i = s32[] get-tuple-element(s), index=0
  x = f64[150] get-tuple-element(s), index=1 a = f64[1] get-tuple-element(s), index=2 j = s8[] convert(i)
  k = s32[] convert(j) d = f64[1] dynamic-slice(x, k), dynamic_slice_sizes={1} q = f64[1] multiply(d, d)
  b = f64[1] add(a, q) o = s32[] constant(1) l = s32[] add(i, o) ROOT t = (s32[], f64[150], f64[1]) tuple(l, x, b) }
ENTRY e { x = f64[150] parameter(0) z = s32[] constant(0) a = f64[1] constant({0}) t = (s32[], f64[150], f64[1]) tuple(z, x, a)
  w = (s32[], f64[150], f64[1]) while(t), condition=more, body=step ROOT r = f64[1] get-tuple-element(w), index=2 }""")
    (result,) = run(hloom.vjp(program), [np.ones(150), np.ones(1)])
    np.testing.assert_array_equal(result, [26.0, *[2.0] * 127, *[0.0] * 22])


DRAWING = """
more { s = (f64[1], f64[1]) parameter(0) y = f64[1] get-tuple-element(s), index=1 v = f64[] reshape(y) n = f64[] constant(3)
  ROOT p = pred[] compare(v, n), direction=LT }
step { s = (f64[1], f64[1]) parameter(0) x = f64[1] get-tuple-element(s), index=0 y = f64[1] get-tuple-element(s), index=1
  o = f64[] constant(1) z = f64[] constant(0) u = f64[1] rng(z, o), distribution=rng_uniform m = f64[1] multiply(u, x)
  k = f64[1] OPCODE h = f64[1] add(k, m) ROOT t = (f64[1], f64[1]) tuple(x, h) }
ENTRY e { x = f64[1] parameter(0) z = f64[1] constant({0}) t = (f64[1], f64[1]) tuple(x, z)
  w = (f64[1], f64[1]) while(t), condition=more, body=step y = f64[1] get-tuple-element(w), index=1 ROOT r = f64[] reshape(y) }
"""


def test_iterations_that_draw_random_numbers_are_not_computed_again():
    """The numbers would be others: such a loop is refused, unless the states of all iterations are kept."""
    program = module(DRAWING.replace("OPCODE", "reverse(y), dimensions={0}"))
    with pytest.raises(Unsupported, match="u: rng in the loop w, whose trip count is not known") as raised:
        hloom.grad(program)
    assert raised.value.hint == "max_iterations=N (--max-iterations N) keeps the states of all iterations"
    assert hloom.verify(hloom.grad(program, max_iterations=100)).level is hloom.Level.HLO


def test_a_loop_over_elements_draws_random_numbers_once():
    """The sum of some numbers times x: its slope is that sum."""
    gradient = hloom.value_and_grad(module(DRAWING.replace("OPCODE", "copy(y)")))
    value, slope = hloom.run(gradient, [np.array([0.25])]).outputs
    np.testing.assert_allclose(slope, [np.asarray(value) / 0.25], rtol=1e-12)
