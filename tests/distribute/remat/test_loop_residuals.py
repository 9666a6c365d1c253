"""Loops that stack less, and compute again: the same numbers from fewer bytes.

Covers `loop_residuals.py`, `residual_choice.py`, `residual_writer.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax import lax

import hloom
from hloom.distribute.remat import rematerialize
from hloom.distribute.remat.loop_residuals import find_loop_residuals
from hloom.distribute.remat.rematerialization import _prepare
from hloom.distribute.remat.residual_choice import choose_residuals
from hloom.distribute.remat.residual_writer import write_residuals
from hloom.formats.hlo import parse
from hloom.ir import Module

LENGTH, WIDTH = 6, 8
RANDOM = np.random.default_rng(0)


def normal(*dims: int) -> np.ndarray:
    return (RANDOM.standard_normal(dims) * 0.3).astype(np.float32)


ARGUMENTS = (normal(LENGTH, WIDTH, WIDTH), normal(3, WIDTH), normal(WIDTH))


def layers(w: Any, x: Any, bias: Any) -> Any:
    def layer(h: Any, w: Any) -> Any:
        y = jnp.tanh(h @ w + bias)
        return h + jnp.sin(y) * jax.nn.softmax(y), None

    return (lax.scan(layer, x, w)[0] ** 2).sum()


def reversed_layers(w: Any, x: Any, bias: Any) -> Any:
    def layer(h: Any, w: Any) -> Any:
        return jnp.tanh(h @ w) * jnp.exp(bias), None

    return (lax.scan(layer, x, w, reverse=True)[0] ** 2).sum()


def results_of_layers(w: Any, x: Any, bias: Any) -> Any:
    def layer(h: Any, w: Any) -> Any:
        y = jnp.tanh(h @ w + bias)
        return y * jnp.cos(y), y

    h, ys = lax.scan(layer, x, w)
    return (h**2).sum() + ys.sum(), ys


def counted(w: Any, x: Any, bias: Any) -> Any:
    def layer(i: Any, h: Any) -> Any:
        return jnp.tanh(h @ w[i] + bias * (3 * i + 1).astype(h.dtype)) + jnp.sin(h) / (1.0 + i)

    return (lax.fori_loop(0, LENGTH, layer, x) ** 2).sum()


def nested(w: Any, x: Any, bias: Any) -> Any:
    def layer(h: Any, w: Any) -> Any:
        return lax.scan(lambda g, _: (jnp.tanh(g @ w + bias), None), h, None, length=3)[0], None

    return (lax.scan(layer, x, w)[0] ** 2).sum()


def branching(w: Any, x: Any, bias: Any) -> Any:
    def layer(h: Any, w: Any) -> Any:
        return lax.cond(h.sum() > 0, lambda: jnp.tanh(h @ w), lambda: jnp.sin(h) * bias), None

    return (lax.scan(layer, x, w)[0] ** 2).sum()


def dropout(w: Any, x: Any, bias: Any) -> Any:
    def layer(h: Any, item: Any) -> Any:
        w, key = item
        return jnp.where(jax.random.bernoulli(key, 0.7, h.shape), jnp.tanh(h @ w), bias), None

    keys = jax.random.split(jax.random.key(0), LENGTH)
    return (lax.scan(layer, x, (w, keys))[0] ** 2).sum()


PROGRAMS: dict[str, Callable[..., Any]] = {
    program.__name__: program
    for program in (layers, reversed_layers, results_of_layers, counted, nested, branching, dropout)
}


def step_of(program: Callable[..., Any]) -> Module:
    """The program's value and gradients, prepared."""
    step = jax.value_and_grad(program, argnums=(0, 1, 2), has_aux=program is results_of_layers)
    lowered: Any = jax.jit(step, keep_unused=True).lower(*ARGUMENTS).compiler_ir("hlo")
    module = parse(lowered.as_hlo_text())
    _prepare(module)
    return module


def with_residuals_of(module: Module, share: float) -> Module | None:
    """The module with so much of what its loops stack; None where they cannot do with so little."""
    residuals = find_loop_residuals(module)
    choice = choose_residuals(residuals, share * sum(pair.bytes for pair in residuals))
    if choice is None:
        return None
    made = module.clone()
    made.index_users()
    write_residuals(made, choice)
    hloom.verify(made)
    assert sum(pair.bytes for pair in find_loop_residuals(made)) <= share * sum(pair.bytes for pair in residuals)
    return made


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_numbers_stay(name: str):
    module = step_of(PROGRAMS[name])
    expected = hloom.evaluate(module, ARGUMENTS)
    tried = 0
    for share in (0.75, 0.4, 0.2):
        made = with_residuals_of(module, share)
        if made is None:
            continue
        tried += 1
        for value, other in zip(expected, hloom.evaluate(made, ARGUMENTS), strict=True):
            np.testing.assert_allclose(other, value, rtol=2e-5, atol=2e-6)
    assert tried


def test_the_first_operands_of_layers_are_enough():
    module = step_of(layers)
    [pair] = find_loop_residuals(module)
    made = with_residuals_of(module, (3 * WIDTH * 4 * LENGTH + WIDTH * 4 + 1) / pair.bytes)
    assert made is not None
    [smaller] = find_loop_residuals(made)
    assert [str(node.type).split("{")[0] for node in smaller.stacks] == [f"f32[3,{WIDTH}]"]
    assert made.entry.nodes and hloom.cost(made).total.flops < 1.4 * hloom.cost(module).total.flops


def test_stacks_that_are_results_stay():
    module = step_of(results_of_layers)
    made = with_residuals_of(module, 0.5)
    assert made is not None
    assert [node.type for node in made.entry.root.operands] == [node.type for node in module.entry.root.operands]


def test_a_budget_is_met_through_loops():
    module = step_of(layers)
    whole = rematerialize(module, 2**40)
    made = rematerialize(module, int(0.75 * whole.peak))
    assert made.peak <= 0.75 * whole.peak
    assert made.residuals is not None
    assert made.flops < 1.5 * made.original_flops


def test_in_place_writes_the_same_program():
    module = step_of(layers)
    budget = int(0.75 * rematerialize(module, 2**40).peak)
    made = hloom.remat(module, budget)
    assert hloom.print(hloom.opt(module, [f"remat(budget={budget})"])[0]) == hloom.print(made)


LOOPS = """HloModule loops
condition {{
  s = (s32[], f32[4], f32[{rows},4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant({count})
  ROOT r = pred[] compare(i, n), direction=LT }}
forward {{
  s = (s32[], f32[4], f32[{rows},4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  h = f32[4] get-tuple-element(s), index=1
  stack = f32[{rows},4] get-tuple-element(s), index=2
  one = s32[] constant(1)
  zero = s32[] constant(0)
  next = s32[] add(i, one)
  v = f32[4] tanh(h)
  w = f32[4] sine(v)
  row = f32[1,4] reshape(w)
  pushed = f32[{rows},4] dynamic-update-slice(stack, row, {slot}, zero)
  ROOT r = (s32[], f32[4], f32[{rows},4]) tuple(next, v, pushed) }}
backward {{
  s = (s32[], f32[4], f32[{rows},4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  g = f32[4] get-tuple-element(s), index=1
  stack = f32[{rows},4] get-tuple-element(s), index=2
  one = s32[] constant(1)
  zero = s32[] constant(0)
  last = s32[] constant({last})
  next = s32[] add(i, one)
  j = s32[] subtract(last, i)
  row = f32[1,4] dynamic-slice(stack, j, zero), dynamic_slice_sizes={{1,4}}
  w = f32[4] reshape(row)
  product = f32[4] multiply(g, w)
  ROOT r = (s32[], f32[4], f32[{rows},4]) tuple(next, product, stack) }}
ENTRY e {{
  x = f32[4] parameter(0)
  zero = s32[] constant(0)
  empty = f32[] constant(0)
  stack = f32[{rows},4] broadcast(empty), dimensions={{}}
  start = (s32[], f32[4], f32[{rows},4]) tuple(zero, x, stack)
  ahead = (s32[], f32[4], f32[{rows},4]) while(start), condition=condition, body=forward
  h = f32[4] get-tuple-element(ahead), index=1
  stacked = f32[{rows},4] get-tuple-element(ahead), index=2
  again = (s32[], f32[4], f32[{rows},4]) tuple(zero, h, stacked)
  back = (s32[], f32[4], f32[{rows},4]) while(again), condition=other_condition, body=backward
  ROOT r = f32[4] get-tuple-element(back), index=1 }}
"""
OTHER_CONDITION = LOOPS[LOOPS.index("condition {{") : LOOPS.index("forward {{")].replace(
    "condition", "other_condition", 1
)


def loops(*, rows: int = 5, count: int = 5, last: int = 4, slot: str = "i") -> Module:
    text = LOOPS.replace("forward {{", OTHER_CONDITION + "forward {{", 1)
    module = parse(text.format(rows=rows, count=count, last=last, slot=slot))
    _prepare(module)
    return module


def test_a_stack_of_results_becomes_one_of_what_they_are_computed_from():
    module = loops()
    [pair] = find_loop_residuals(module)
    assert (pair.rows, pair.bytes, {value.name for value in pair.values}) == (5, 80, {"forward.h", "v", "w"})


@pytest.mark.parametrize(
    "changed",
    [
        {"rows": 6},  # a row is never written
        {"count": 4},  # rows are left as they were before the loop
        {"last": 5},  # the first read is beyond the last row, and clamped
        {"slot": "zero"},  # every slice is written over
    ],
)
def test_slices_that_are_not_written_once_are_left_alone(changed: dict[str, Any]):
    assert not find_loop_residuals(loops(**changed))


OPERATIONS: dict[str, Callable[..., Any]] = {
    "tanh": lambda a, b, w, bias: jnp.tanh(a),
    "sin": lambda a, b, w, bias: jnp.sin(a),
    "multiply": lambda a, b, w, bias: a * b,
    "add": lambda a, b, w, bias: a + b,
    "matmul": lambda a, b, w, bias: a @ w,
    "scale": lambda a, b, w, bias: a * jnp.exp(bias),
}


@st.composite
def bodies(draw: st.DrawFn) -> list[tuple[str, int, int]]:
    """Instructions of a layer: an operation, and which values before it are its operands."""
    count = draw(st.integers(2, 8))
    operations = st.sampled_from(sorted(OPERATIONS))
    return [(draw(operations), draw(st.integers(0, index)), draw(st.integers(0, index))) for index in range(count)]


@given(bodies(), st.floats(0.1, 0.9), st.booleans())
def test_random_loops_keep_their_numbers(body: list[tuple[str, int, int]], share: float, is_reversed: bool):
    def program(w: Any, x: Any, bias: Any) -> Any:
        def layer(h: Any, w: Any) -> Any:
            values = [h]
            for operation, a, b in body:
                values.append(OPERATIONS[operation](values[a], values[b], w, bias))
            return jnp.tanh(values[-1]), None

        return (lax.scan(layer, x, w, reverse=is_reversed)[0] ** 2).sum()

    module = step_of(program)
    made = with_residuals_of(module, share) if find_loop_residuals(module) else None
    if made is not None:
        for value, other in zip(hloom.evaluate(module, ARGUMENTS), hloom.evaluate(made, ARGUMENTS), strict=True):
            np.testing.assert_allclose(other, value, rtol=1e-4, atol=1e-5)


def test_a_loop_is_paired_with_the_loop_that_reads_most_of_its_stacks():
    """The next layer's loop reads the outputs of the one before, the backward loop all residuals."""

    def loss(weights: Any, x: Any) -> Any:
        for w in weights:
            _, x = lax.scan(lambda h, v, w=w: (jnp.tanh(jnp.sin(h @ w) + v), jnp.cos(h)), x[0], x)
        return (x * x).mean()

    shapes = [jax.ShapeDtypeStruct((16, 16), jnp.float32)] * 2, jax.ShapeDtypeStruct((8, 4, 16), jnp.float32)
    module = parse(jax.jit(jax.grad(loss)).lower(*shapes).as_text("hlo"))
    _prepare(module)
    loops = [node for node in module.entry.nodes if node.opcode == "while"]
    pairs = {(loops.index(pair.forward), loops.index(pair.backward)) for pair in find_loop_residuals(module)}
    assert pairs == {(0, 3), (1, 2)}
