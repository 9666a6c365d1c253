"""Loops that search by comparisons: the derivative of their programs is the bounds', and refused.

Covers `autodiff/interval_search.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import hloom
from hloom.ir import Module

State = tuple[Any, ...]


def lowered(function: Callable[[Any], Any], example: Any = 3.0) -> Module:
    return hloom.load(jax.jit(function).lower(np.asarray(example, np.float32)))


def loop(body: Callable[[Any, State], State], start: Callable[[Any], State]) -> Callable[[Any], Any]:
    """The sum of a state after five iterations."""
    return lambda a: sum(map(jnp.sum, lax.fori_loop(0, 5, lambda _, state: body(a, state), start(a))))


def moving(a: Any) -> State:
    return 0 * a, a + 1


def narrowed(point: Callable[[Any, Any], Any]) -> Callable[[Any, State], State]:
    """An interval that is cut at a point, by whether a cube is below a number."""

    def body(a: Any, state: State) -> State:
        lower, upper = state
        middle = point(lower, upper)
        is_below = middle**3 < a
        return jnp.where(is_below, middle, lower), jnp.where(is_below, upper, middle)

    return body


halved = narrowed(lambda lower, upper: (lower + upper) / 2)


def by_cond(a: Any, state: State) -> State:
    lower, upper = state
    middle = 0.5 * (lower + upper)
    return lax.cond(middle**3 < a, lambda: (middle, upper), lambda: (lower, middle))


def kept_middle(a: Any, state: State) -> State:
    lower, middle, upper = state
    is_below = middle**3 < a
    lower, upper = jnp.where(is_below, middle, lower), jnp.where(is_below, upper, middle)
    return lower, (lower + upper) / 2, upper


def golden_section(a: Any, state: State) -> State:
    lower, upper = state
    left, right = upper - (upper - lower) * 0.618, lower + (upper - lower) * 0.618
    is_left = (left - 2) ** 2 < (right - 2) ** 2
    return jnp.where(is_left, lower, left), jnp.where(is_left, right, upper)


def shrinking_step(a: Any, state: State) -> State:
    value, step = state
    return jnp.where((value + step) ** 3 < a, value + step, value), step * 0.5


def until_narrow(a: Any) -> Any:
    return lax.while_loop(lambda s: s[1] - s[0] > 1e-3, lambda s: halved(a, s), moving(a))[0]


def scanned(a: Any) -> Any:
    return lax.scan(lambda state, _: (halved(a, state), None), moving(a), None, length=4)[0][0]


SEARCHES = {
    "mean": loop(halved, moving),
    "lower bound and half the width": loop(narrowed(lambda lower, upper: lower + (upper - lower) * 0.5), moving),
    "geometric mean": loop(narrowed(lambda lower, upper: jnp.sqrt(lower * upper)), lambda a: (a * 0.1, a + 1)),
    "a third": loop(narrowed(lambda lower, upper: lower * 0.75 + 0.25 * upper), moving),
    "branches": loop(by_cond, moving),
    "a middle in the state": loop(kept_middle, lambda a: (0 * a, a / 2, a)),
    "golden section": loop(golden_section, moving),
    "a step that is halved": loop(shrinking_step, moving),
    "without a trip count": until_narrow,
    "scan": scanned,
    "inside another loop": lambda a: lax.fori_loop(0, 2, lambda _, x: loop(halved, moving)(x), a),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_is_refused(name: str):
    module = lowered(SEARCHES[name])
    for derivative in (hloom.grad, hloom.jvp, hloom.vjp):
        with pytest.raises(hloom.HloomError, match=r"while.*: this loop searches by bisection: the derivative of") as raised:
            derivative(module)
        assert raised.value.hint is not None
        assert "stop=while" in raised.value.hint


def test_of_many_numbers_at_once():
    with pytest.raises(hloom.HloomError, match="searches by bisection"):
        hloom.grad(lowered(loop(halved, moving), [1.0, 2.0, 3.0]))


def test_what_is_found_may_be_a_constant():
    module = lowered(lambda a: a * until_narrow(a))
    (name,) = [node.name for node in module.nodes() if node.opcode == "while"]
    (gradient,) = hloom.evaluate(hloom.grad(module, stop=[name]), [np.float32(8)])
    assert abs(gradient - 2) < 2e-3


def secant(a: Any, state: State) -> State:
    return narrowed(lambda lower, upper: lower - (lower**3 - a) * (upper - lower) / (upper**3 - lower**3))(a, state)


OTHERS = {
    "constant bounds": loop(halved, lambda a: (jnp.float32(0), jnp.float32(10))),
    "regula falsi": loop(secant, moving),
    "a step of its own choosing": loop(
        lambda a, s: (jnp.where(s[0] * s[1] < a, s[0] + s[1] * s[0] * a, s[0]), s[1] * 0.9), lambda a: (a, a * 0.1)
    ),
    "exchange": loop(lambda a, s: (jnp.minimum(*s), jnp.where(s[0] < s[1], s[1], s[0])), lambda a: (a, a * a)),
    "average without a choice": loop(lambda a, s: ((s[0] + s[1]) / 2, jnp.where(s[0] < a, s[1], s[0])), moving),
    "branches of other results than operands": loop(
        lambda a, s: lax.cond(s[0] < s[1], lambda: (s[0] * a, s[1], s[0]), lambda: (s[1], s[0], a)), lambda a: (a, a * a, a)
    ),
    "branches without operands": loop(lambda a, s: (lax.cond(s[0] > 1e9, lambda: 1.0, lambda: 0.5) * s[0],), lambda a: (a,)),
    "a clipped step": loop(lambda a, s: (jnp.where(s[0] < 2 * a, s[0] + s[1], s[0]), s[1] * 0.5), moving),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_loops_have_the_derivative_that_they_have_in_jax(name: str):
    function = OTHERS[name]
    (gradient,) = hloom.evaluate(hloom.grad(lowered(function)), [np.float32(3)])
    np.testing.assert_allclose(gradient, jax.jacfwd(function)(jnp.float32(3)), rtol=1e-4)
