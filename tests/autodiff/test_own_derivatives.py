"""Calls of functions that bring their derivatives along: modules, files, jax; what has none, what is not defined.

Covers `own_derivatives.py`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hloom
from hloom.rewrite import RuleError, called_function
from hloom.text import HloomError

f32 = partial(np.array, dtype=np.float32)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def told_apart(factor: float, x: Any, y: Any, mask: Any) -> Any:
    return jnp.tanh(x) * y * mask


def _forward(factor: float, x: Any, y: Any, mask: Any) -> Any:
    return told_apart(factor, x, y, mask), (x, y)


def _backward(factor: float, residuals: Any, cotangent: Any) -> Any:
    x, y = residuals
    return cotangent * y * factor, cotangent * x * 10, None


told_apart.defvjp(_forward, _backward)


def kernel(x: Any, y: Any, mask: Any, *, factor: float) -> Any:
    """A product whose gradient is another one's, so that it can be told apart."""
    return told_apart(factor, x, y, mask)


@jax.custom_vjp
def rounded(x: Any) -> Any:
    return jnp.round(x)


rounded.defvjp(lambda x: (jnp.round(x), None), lambda _, cotangent: (cotangent * 3,))


@jax.custom_jvp
def forward_too(x: Any) -> Any:
    return jnp.tanh(x)


forward_too.defjvp(lambda primals, tangents: (jnp.tanh(primals[0]), 5 * tangents[0]))


@hloom.rule
def put_kernel(p: Any) -> None:
    """tanh(x) * y * mask -> kernel(x, y, mask)"""
    x, y, mask = p.value("x"), p.value("y"), p.value("mask")
    product = p.op("multiply", p.op("multiply", p.op("tanh", x), y), p.op("convert", mask))
    with p.rewrite() as r:
        r.replace({product: r.call(kernel, x, y, mask, factor=100.0)})


def rule_of(function: Any, opcode: str) -> Any:
    def replaced(p: Any) -> None:
        x = p.value("x")
        result = p.op(opcode, x)
        with p.rewrite() as r:
            r.replace({result: r.call(function, x)})

    replaced.__doc__ = "an op -> a function"
    return hloom.rule(replaced)


def loss(x: Any, y: Any, mask: Any) -> Any:
    return ((jnp.tanh(x) * y) * mask.astype("f4")).sum() + (x * y).sum()


X, Y, MASK = f32([1, 2, 3]), f32([4, 5, 6]), np.array([True, False, True])
OF_X, OF_Y = Y * 100 + Y, X * 10 + X


def replaced_loss() -> hloom.Module:
    module, report = hloom.opt(hloom.load(jax.jit(loss).lower(X, Y, MASK)), put_kernel)
    assert report.matched == 1
    return module


def test_the_gradient_is_the_function_s_own():
    of_x, of_y = hloom.evaluate(hloom.grad(replaced_loss(), wrt=[0, 1]), [X, Y, MASK])
    np.testing.assert_allclose(of_x, OF_X)
    np.testing.assert_allclose(of_y, OF_Y)
    (of_y,) = hloom.evaluate(hloom.grad(replaced_loss(), wrt=[1]), [X, Y, MASK])
    np.testing.assert_allclose(of_y, OF_Y)
    value, *_ = hloom.run(hloom.value_and_grad(replaced_loss(), wrt=[0]), (X, Y, MASK)).outputs
    np.testing.assert_allclose(value, loss(X, Y, MASK), rtol=1e-6)


def test_of_a_module_that_was_written_and_read():
    module = hloom.parse(hloom.print(replaced_loss()))
    (call,) = (node for node in module.entry.nodes if node.opcode == "call")
    own = called_function(call)  # pyright: ignore[reportArgumentType]
    assert own is not None and own.function is kernel and own.keywords == {"factor": 100.0}
    of_x, _ = hloom.run(hloom.grad(module, wrt=[0, 1]), (X, Y, MASK)).outputs
    np.testing.assert_allclose(of_x, OF_X)


def test_of_a_function_that_is_not_defined():
    text = hloom.print(replaced_loss()).replace("tests.autodiff", "elsewhere")
    with pytest.raises(
        RuleError, match=r"is a call of elsewhere\.test_own_derivatives\.kernel, which has a derivative"
    ):
        hloom.grad(hloom.parse(text), wrt=[0])
    inlined, _ = hloom.opt(hloom.parse(text), "inline")
    (of_x,) = hloom.evaluate(hloom.grad(inlined, wrt=[0]), [X, Y, MASK])
    np.testing.assert_allclose(of_x, jax.grad(loss)(X, Y, MASK), rtol=1e-5)
    broken = hloom.print(replaced_loss()).replace('hloom_keywords="', 'hloom_keywords="x')
    with pytest.raises(RuleError, match="the keywords of its function do not read"):
        hloom.grad(hloom.parse(broken), wrt=[0])


def test_under_jax():
    rewritten = hloom.differentiable(hloom.jit(loss, put_kernel))
    for transformed in (jax.grad(rewritten, (0, 1)), jax.jit(jax.grad(rewritten, (0, 1)))):
        of_x, of_y = transformed(X, Y, MASK)
        np.testing.assert_allclose(of_x, OF_X)
        np.testing.assert_allclose(of_y, OF_Y)


def test_a_derivative_where_the_program_has_none():
    """Rounding has a zero derivative; the function says another one."""
    module = hloom.parse(
        "ENTRY e { x = f32[] parameter(0) s = f32[] sine(x) r = f32[] round-nearest-even(s) ROOT y = f32[] multiply(r, x) }"
    )
    after, report = hloom.opt(module, rule_of(rounded, "round-nearest-even"))
    assert report.matched == 1
    (slope,) = hloom.evaluate(hloom.grad(after), [f32(1.0)])
    np.testing.assert_allclose(slope, 1 + 3 * np.cos(1.0), rtol=1e-6)


def test_forward_mode():
    module = hloom.parse("ENTRY e { x = f32[2] parameter(0) ROOT t = f32[2] tanh(x) }")
    after, _ = hloom.opt(module, rule_of(forward_too, "tanh"))
    assert hloom.evaluate(hloom.jvp(after), [f32([1, 2]), f32([1, 2])])[1].tolist() == [5, 10]
    (cotangent,) = hloom.evaluate(hloom.vjp(after), [f32([1, 2]), f32([1, 2])])
    assert cotangent.tolist() == [5, 10]
    with pytest.raises(
        HloomError, match=r"kernel of f32\[3\], f32\[3\], pred\[3\] has no derivative: can't apply forward"
    ):
        hloom.jvp(replaced_loss(), wrt=[0])


def test_functions_of_one_name_are_told_apart():
    def make(factor: float) -> Any:
        @jax.custom_vjp
        def same_name(x: Any) -> Any:
            return jnp.tanh(x)

        same_name.defvjp(lambda x: (jnp.tanh(x), None), lambda _, cotangent: (cotangent * factor,))
        return same_name

    module = hloom.parse("ENTRY e { x = f32[] parameter(0) ROOT t = f32[] tanh(x) }")
    first, _ = hloom.opt(module, rule_of(make(2.0), "tanh"))
    second, _ = hloom.opt(module, rule_of(make(3.0), "tanh"))
    slopes = [float(hloom.evaluate(hloom.grad(module), [f32(1.0)])[0]) for module in (first, second)]
    assert slopes == [2.0, 3.0]


def test_a_function_without_one_is_differentiated_by_its_program():
    module = hloom.parse("ENTRY e { x = f32[] parameter(0) ROOT t = f32[] tanh(x) }")
    after, _ = hloom.opt(module, rule_of(plain, "tanh"))
    assert "hloom_function" not in hloom.print(after)
    (slope,) = hloom.evaluate(hloom.grad(after), [f32(1.0)])
    np.testing.assert_allclose(slope, 1 - np.tanh(1.0) ** 2, rtol=1e-5)


def plain(x: Any) -> Any:
    return jnp.sinh(x) / jnp.cosh(x)


@pytest.mark.parametrize("keyword", [(1, 2), np.float32(3), None, "text", 1e-9])
def test_keywords_are_written_down(keyword: Any):
    def replaced(p: Any) -> None:
        x = p.value("x")
        result = p.op("tanh", x)
        with p.rewrite() as r:
            r.replace({result: r.call(with_keyword, x, keyword=keyword)})

    replaced.__doc__ = "an op -> a function"
    module = hloom.parse("ENTRY e { x = f32[] parameter(0) ROOT t = f32[] tanh(x) }")
    after, _ = hloom.opt(module, hloom.rule(replaced))
    own = called_function(hloom.parse(hloom.print(after)).entry.root)  # pyright: ignore[reportArgumentType]
    assert own is not None and own.keywords == {"keyword": keyword}
    assert type(own.keywords["keyword"]) is type(keyword)


def with_keyword(x: Any, *, keyword: Any) -> Any:
    return forward_too(x)


def test_a_pallas_kernel():
    """In interpret mode, over blocks of rows: its program is loops, its gradient is told."""
    from jax.experimental import pallas

    def block(x_ref: Any, y_ref: Any, result_ref: Any) -> None:
        result_ref[...] = jnp.tanh(x_ref[...]) * y_ref[...]

    @jax.custom_vjp
    def blocks(x: Any, y: Any) -> Any:
        rows = pallas.BlockSpec((4, x.shape[1]), lambda i: (i, 0))
        return pallas.pallas_call(
            block,
            out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
            grid=(x.shape[0] // 4,),
            in_specs=[rows, rows],
            out_specs=rows,
            interpret=True,
        )(x, y)

    def backward(residuals: Any, cotangent: Any) -> Any:
        x, y = residuals
        return cotangent * y * (1 - jnp.tanh(x) ** 2), cotangent * jnp.tanh(x)

    blocks.defvjp(lambda x, y: (blocks(x, y), (x, y)), backward)

    @hloom.rule
    def put_blocks(p: Any) -> None:
        """tanh(x) * y -> blocks(x, y)"""
        x, y = p.value("x", rank=2), p.value("y", rank=2)
        product = p.op("multiply", p.op("tanh", x), y)
        with p.rewrite() as r:
            r.replace({product: r.call(blocks, x, y)})

    def total(x: Any, y: Any) -> Any:
        return (jnp.tanh(x) * y).sum()

    x, y = (np.random.default_rng(seed).normal(size=(8, 2)).astype(np.float32) for seed in range(2))
    module, report = hloom.opt(hloom.load(jax.jit(total).lower(x, y)), put_blocks)
    assert report.matched == 1
    rewritten = jax.grad(hloom.differentiable(hloom.jit(total, put_blocks)), (0, 1))
    for gradients in (hloom.run(hloom.grad(module), (x, y)).outputs, rewritten(x, y)):
        for one, other in zip(gradients, jax.grad(total, (0, 1))(x, y), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
