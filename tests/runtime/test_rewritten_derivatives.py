"""Derivatives of `hloom.jit` where rules put functions with derivatives of their own: these count, and jax's other rules.

Covers `rewritten_derivatives.py` and `derivative_rules.py`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

import hloom
from hloom.rewrite import marked_calls
from hloom.runtime.derivative_rules import lowered_with_rules, rules_of
from tests.runtime.steep_function import to_twice_steep, twice_steep

X = jnp.linspace(-1.0, 1.0, 6).reshape(2, 3)


@hloom.rule
def negated_to_twice_steep(p: Any):
    """tanh(negate(x)) -> twice_steep(negate(x))"""
    x = p.value("x")
    negated = p.op("negate", x)
    result = p.op("tanh", negated)
    with p.rewrite() as r:
        r.replace({result: r.call(twice_steep, r.op("negate", x))})


rewritten = partial(hloom.jit, passes=[to_twice_steep])


def slope(x: Any) -> Any:
    return 2 * (1 - jnp.tanh(x) ** 2)


tripled = rewritten(lambda x: jnp.tanh(x) * 3)


def of_sum(function: Any) -> Any:
    return jax.grad(lambda x: function(x).sum())


TRANSFORMED = {
    "grad": lambda: of_sum(tripled)(X),
    "value_and_grad": lambda: jax.value_and_grad(lambda x: tripled(x).sum())(X)[1],
    "vjp": lambda: jax.vjp(tripled, X)[1](jnp.ones_like(X))[0],
    "jit of grad": lambda: jax.jit(of_sum(tripled))(X),
    "grad of jit": lambda: of_sum(jax.jit(tripled))(X),
    "vmap of grad": lambda: jax.vmap(of_sum(tripled))(X),
    "vmap of vmap of grad": lambda: jax.vmap(jax.vmap(jax.grad(tripled)))(X),
    "grad of vmap": lambda: of_sum(jax.vmap(tripled))(X),
    "checkpoint": lambda: of_sum(jax.checkpoint(tripled))(X),
    "jacrev": lambda: jax.jacrev(tripled)(X).reshape(6, 6).diagonal().reshape(2, 3),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_the_functions_own_derivative_counts_under(name: str):
    np.testing.assert_allclose(TRANSFORMED[name](), 3 * slope(X), rtol=1e-5)


def test_with_trees_keywords_static_arguments_and_scalars():
    @partial(hloom.jit, passes=[to_twice_steep], static_argnums=1, static_argnames="mode")
    def function(tree: Any, power: int, scale: Any, *, shift: Any, mode: str) -> Any:
        assert mode == "all"
        return {"out": [(jnp.tanh(tree["x"][0]) ** power + shift) * scale]}

    def loss(x: Any, scale: Any) -> Any:
        return function({"x": (x, None)}, 1, scale, shift=X, mode="all")["out"][0].sum()

    of_x, of_scale = jax.grad(loss, (0, 1))(X, 3.0)
    np.testing.assert_allclose(of_x, 3 * slope(X), rtol=1e-5)
    np.testing.assert_allclose(of_scale, (jnp.tanh(X) + X).sum(), rtol=1e-5, atol=1e-6)


def test_in_64_bits_and_16():
    with jax.enable_x64(True):
        x = jnp.asarray(np.linspace(-1, 1, 6))
        gradient = jax.vmap(jax.grad(rewritten(jnp.tanh)))(x)
        assert gradient.dtype == np.float64
        np.testing.assert_allclose(gradient, slope(x), rtol=1e-12)
    assert of_sum(tripled)(X.astype(jnp.bfloat16)).dtype == jnp.bfloat16


def test_in_branches_and_maps():
    chosen = of_sum(lambda x: jax.lax.cond(x.sum() < 9, tripled, jnp.sin, x))
    np.testing.assert_allclose(chosen(X), 3 * slope(X), rtol=1e-5)
    np.testing.assert_allclose(of_sum(lambda x: jax.lax.map(tripled, x))(X), 3 * slope(X), rtol=1e-5)


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def by_pallas(x: Any, interpret: bool) -> Any:
    def block(x_ref: Any, result_ref: Any) -> None:
        result_ref[...] = jnp.tanh(x_ref[...])

    whole = jax.ShapeDtypeStruct(x.shape, x.dtype)
    row = pl.BlockSpec((1, x.shape[1]), lambda number: (number, 0))
    return pl.pallas_call(block, whole, grid=x.shape[:1], in_specs=[row], out_specs=row, interpret=interpret)(x)


by_pallas.defvjp(lambda x, interpret: (by_pallas(x, interpret), x), lambda _, x, cotangent: (cotangent * slope(x),))


def tanh_of_pallas(x: Any, *, interpret: bool) -> Any:
    return by_pallas(x, interpret)


def to_pallas(interpret: bool) -> Any:
    def replaced(p: Any) -> None:
        """tanh(x) -> by_pallas(x)"""
        x = p.value("x", rank=2)
        result = p.op("tanh", x)
        with p.rewrite() as r:
            r.replace({result: r.call(tanh_of_pallas, x, interpret=interpret)})

    return hloom.rule(replaced)


def test_a_kernel_of_pallas():
    function = hloom.jit(lambda x: jnp.tanh(x) * 3, [to_pallas(True)])
    np.testing.assert_allclose(function(X), 3 * jnp.tanh(X), rtol=1e-5)
    np.testing.assert_allclose(of_sum(function)(X), 3 * slope(X), rtol=1e-5)
    np.testing.assert_allclose(jax.vmap(of_sum(function))(jnp.stack([X, X]))[1], 3 * slope(X), rtol=1e-5)
    with pytest.raises(hloom.RewriteError, match=r"tanh_of_pallas of f32\[2,3\] cannot be traced: Only interpret mode"):
        hloom.jit(lambda x: jnp.tanh(x) * 3, [to_pallas(False)])(X)


def test_nested_and_in_a_scan():
    outer = rewritten(lambda x: tripled(x) * jnp.tanh(x))
    np.testing.assert_allclose(of_sum(outer)(X), 6 * jnp.tanh(X) * slope(X), rtol=1e-5, atol=1e-6)
    twice = partial(jax.lax.scan, lambda carry, _: (tripled(carry), None), length=2)
    expected = 3 * slope(X) * 3 * slope(3 * jnp.tanh(X))
    np.testing.assert_allclose(of_sum(lambda x: twice(x)[0])(X), expected, rtol=1e-5)


def test_a_scan_that_is_rewritten():
    inside = rewritten(lambda x: jax.lax.scan(lambda carry, _: (jnp.tanh(carry) * 3, None), x, length=2)[0])
    np.testing.assert_allclose(of_sum(inside)(X), 3 * slope(X) * 3 * slope(3 * jnp.tanh(X)), rtol=1e-5)


def test_second_order_is_of_the_derivative_that_counts():
    np.testing.assert_allclose(of_sum(of_sum(tripled))(X), of_sum(lambda x: 3 * slope(x))(X), rtol=1e-5, atol=1e-6)


def test_forward_mode_is_refused_as_jax_refuses_it():
    with pytest.raises(
        hloom.HloomError, match=r"twice_steep of f32\[2,3\] has no derivative: can't apply forward-mode"
    ):
        jax.jvp(tripled, (X,), (X,))


def test_stopped_gradients_stay_stopped_in_every_order():
    def stopping(x: Any) -> Any:
        return jax.lax.stop_gradient(x) * jnp.tanh(x)

    gradient = of_sum(rewritten(stopping))
    np.testing.assert_allclose(gradient(X), X * slope(X), rtol=1e-5)
    expected = of_sum(lambda x: jax.lax.stop_gradient(x) * slope(x))(X)
    np.testing.assert_allclose(of_sum(gradient)(X), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(jax.vmap(of_sum(rewritten(stopping)))(X), X * slope(X), rtol=1e-5)


def test_other_functions_keep_their_rules():
    @jax.custom_jvp
    def steep(x: Any, y: Any) -> Any:
        return x * y

    @steep.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        x, y = primals
        return x * y, 5 * tangents[0] * y + 7 * x * tangents[1]

    def function(x: Any) -> Any:
        return steep(x, x) + jnp.tanh(x) + jax.nn.relu(x - x)  # relu's slope at 0 is a rule: 0

    for passes in ([to_twice_steep], ["inline", "simplify", to_twice_steep]):
        np.testing.assert_allclose(of_sum(hloom.jit(function, passes))(X), 12 * X + slope(X), rtol=1e-5, atol=1e-5)


def test_softmax_is_differentiated_with_or_without_its_rule():
    def function(x: Any) -> Any:
        return jax.nn.softmax(x) + jax.nn.logsumexp(x) + jax.nn.log_softmax(x)

    for traced in (function, jax.vmap(function), jax.vmap(jax.vmap(function))):
        assert rules_of(jax.make_jaxpr(traced)(X[None])) == []
    loss = lambda x: (jax.nn.softmax(jnp.tanh(x)) * X).sum()  # noqa: E731
    plain = lambda x: (jax.nn.softmax(twice_steep(x)) * X).sum()  # noqa: E731
    np.testing.assert_allclose(jax.grad(rewritten(loss))(X), jax.grad(plain)(X), rtol=1e-4, atol=1e-6)


def test_a_rule_in_what_is_replaced_is_named():
    def hides(x: Any) -> Any:
        return jnp.tanh(jax.lax.stop_gradient(-x)) + jax.lax.stop_gradient(x) * x

    function = hloom.jit(hides, [negated_to_twice_steep])
    np.testing.assert_allclose(function(X), hides(X), rtol=1e-6)
    with pytest.raises(
        hloom.RewriteError, match=r"derivative rule of its own, jax.lax.stop_gradient at .*\.py:\d+"
    ) as caught:
        of_sum(function)(X)
    assert "steep_function.twice_steep" in caught.value.message


def test_of_differentiable_functions_jax_s_rules_count_too():
    function = hloom.differentiable(lambda x: jax.lax.stop_gradient(x) * twice_steep(x))
    np.testing.assert_allclose(of_sum(function)(X), X * slope(X), rtol=1e-5)


def test_keys_of_random_numbers():
    def noisy(key: Any, x: Any) -> Any:
        noise = jax.random.normal(key, x.shape)
        return jnp.tanh(x) + jax.lax.stop_gradient(noise), jax.random.split(key)

    function, key = rewritten(noisy), jax.random.key(3)
    (value, keys), (expected, expected_keys) = function(key, X), noisy(key, X)
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    assert (keys == expected_keys).all()
    np.testing.assert_allclose(jax.grad(lambda x: function(key, x)[0].sum())(X), slope(X), rtol=1e-5)
    batch = jax.vmap(jax.grad(lambda x: function(key, x)[0].sum()))(jnp.stack([X, X]))
    np.testing.assert_allclose(batch[1], slope(X), rtol=1e-5)


@pytest.mark.parametrize(
    ("effect", "reason"),
    [
        (lambda x: jax.debug.print("{}", x.sum()), "it has effects"),
        (lambda x: jax.pure_callback(lambda y: y, x, jax.lax.stop_gradient(x)), "calls back into Python"),
    ],
)
def test_effects_are_refused_where_the_derivative_would_be_another(effect: Any, reason: str):
    def function(x: Any) -> Any:
        value = effect(x)
        return jnp.tanh(x) if value is None else jnp.tanh(x) + value

    with pytest.raises(hloom.RewriteError, match=f"twice_steep, which has a derivative of its own.*{reason}"):
        of_sum(rewritten(function))(X)


def test_of_rules_that_call_nothing_the_parts_are_rewritten():
    @hloom.rule
    def sine_to_cosine(p: Any):
        """sine(x) -> cosine(x)"""
        x = p.value("x")
        result = p.op("sine", x)
        with p.rewrite() as r:
            r.replace({result: r.op("cosine", x)})

    function = hloom.jit(jnp.sin, [sine_to_cosine])
    np.testing.assert_allclose(function(X), jnp.cos(X), rtol=1e-6)
    np.testing.assert_allclose(of_sum(function)(X), jnp.cos(X), rtol=1e-6)


def test_rules_as_marked_calls():
    jaxpr = jax.make_jaxpr(lambda x: twice_steep(x) + jax.lax.stop_gradient(x))(X)
    module = lowered_with_rules(jaxpr)
    marks = [
        dict(node.attributes.get("frontend_attributes") or ()) for node in module.entry.nodes if node.opcode == "call"
    ]
    assert [mark["inlineable"] for mark in marks] == ["false", "false"]
    assert not marked_calls(module), "no rule of a pattern made them"
    assert len(rules_of(jaxpr)) == 2
