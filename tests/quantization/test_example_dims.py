"""Inputs, targets, masks, states and caches are no weights, though products read them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hloom
from tests.quantization.programs import normal


def cell(gates, c):
    i, f, o, z = jnp.split(gates, 4, -1)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(z)
    return jax.nn.sigmoid(o) * jnp.tanh(c), c


def lstm(xs, h0, c0, wi, wh, b):
    def step(state, x):
        h, c = cell(x @ wi + state[0] @ wh + b, state[1])
        return (h, c), h

    return jax.lax.scan(step, (h0, c0), xs)[1]


def lstm_of_columns(xs, wi, wh):
    def step(state, x):
        h, c = cell((wi @ x + wh @ state[0].T).T, state[1])
        return (h, c), h

    return jax.lax.scan(step, (jnp.zeros((2, 8)), jnp.zeros((2, 8))), xs)[1]


def projected_before(xs, wi, wh):
    def step(h, gates):
        h = jnp.tanh(gates + h @ wh)
        return h, h

    return jax.lax.scan(step, jnp.zeros((2, 8)), jnp.einsum("tbi,ih->tbh", xs, wi))[1]


def joined_kernels(xs, wi, wf, wh):
    def step(h, x):
        gates = x @ jnp.concatenate([wi, wf], 1) + h @ wh
        h = jnp.tanh(gates[:, :8]) * jax.nn.sigmoid(gates[:, 8:])
        return h, h

    return jax.lax.scan(step, jnp.zeros((2, 8)), xs)[1]


def scaled_kernels(xs, wi, wh):
    def step(h, x):
        h = jnp.tanh(x @ (wi * 2.0).T + h @ wh.T)
        return h, h

    return jax.lax.scan(step, jnp.zeros((2, 8)), xs)[1]


def cross_attention(x, wq, keys, values):
    q = (jnp.tanh(x) @ wq).reshape(2, 3, 2, 4)
    scores = jax.nn.softmax(jnp.einsum("bthd,bshd->bhts", q, keys))
    return jnp.einsum("bhts,bshd->bthd", scores, values)


def training(up, down, x, y):
    def loss(weights):
        return jnp.mean((jnp.tanh(x @ weights[0]) @ weights[1] - y) ** 2)

    return jax.grad(loss)((up, down))


def rotary(x, w, frequencies):
    return jnp.tanh(x) @ w * jnp.cos(jnp.outer(jnp.arange(5.0), frequencies))


def pooled(x, w, mask):
    return jnp.einsum("bt,btd->bd", mask, jnp.tanh(x) @ w)


def soft_targets(x, w, targets):
    return -jnp.einsum("btd,btd->", jax.nn.log_softmax(jnp.tanh(x) @ w), targets)


def experts(x, router, up, down):
    gates = jax.nn.softmax(jnp.tanh(x) @ router)
    h = jnp.einsum("be,bd->ebd", gates, jnp.tanh(x))
    return jnp.einsum("ebf,efd->bd", jnp.tanh(jnp.einsum("ebd,edf->ebf", h, up)), down)


def optimiser(w, momentum, x):
    h = jnp.tanh(x)
    return h @ w, 0.9 * momentum + 0.1 * (h.T @ (h @ w))


def memory_of_layers(x, memory, own, cross):
    return jax.lax.scan(lambda h, w: (jnp.tanh(h @ w[0] + memory @ w[1]), None), x, (own, cross))[0]


def mixer(x, tokens, channels, head):
    h = jnp.tanh(jnp.einsum("btc,ts->bsc", jnp.tanh(x), tokens))
    return jnp.tanh(h @ channels) @ head


def norms(x, gain, w, up, bias):
    h = x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True)) * gain
    return jnp.tanh(h @ w + bias) @ up


PROGRAMS = {
    lstm: ([(5, 2, 6), (2, 8), (2, 8), (6, 32), (8, 32), (32,)], {3, 4}),
    lstm_of_columns: ([(5, 6, 2), (32, 6), (32, 8)], {1, 2}),
    projected_before: ([(5, 2, 6), (6, 8), (8, 8)], {1, 2}),
    joined_kernels: ([(5, 2, 6), (6, 8), (6, 8), (8, 16)], {3}),
    scaled_kernels: ([(5, 2, 6), (8, 6), (8, 8)], {2}),
    cross_attention: ([(2, 3, 8), (8, 8), (2, 6, 2, 4), (2, 6, 2, 4)], {1}),
    training: ([(6, 8), (8, 3), (4, 6), (4, 3)], {0, 1}),
    rotary: ([(5, 8), (8, 4), (4,)], {1}),
    pooled: ([(2, 5, 8), (8, 4), (2, 5)], {1}),
    soft_targets: ([(2, 5, 8), (8, 4), (2, 5, 4)], {1}),
    experts: ([(3, 8), (8, 2), (2, 8, 4), (2, 4, 8)], {1, 2, 3}),
    optimiser: ([(8, 8), (8, 8), (3, 8)], {0}),
    memory_of_layers: ([(2, 8), (2, 8), (3, 8, 8), (3, 8, 8)], {2, 3}),
    mixer: ([(2, 5, 8), (5, 6), (8, 7), (7, 3)], {1, 2, 3}),
    norms: ([(2, 5, 8), (8,), (8, 6), (6, 3), (6,)], {2, 3}),
}


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda function: function.__name__)
def test_what_counts_as_a_weight(function):
    shapes, expected = PROGRAMS[function]
    arrays = [normal(*shape, seed=number) for number, shape in enumerate(shapes)]
    module = hloom.load(jax.jit(function, keep_unused=True).lower(*arrays))
    made = hloom.quantize(module)
    assert {weight.number for weight in made.weights} == expected
    outputs = hloom.run(made.module, made.convert(arrays)).outputs
    assert not hloom.compare(outputs, hloom.run(module, made.dequantized(arrays)).outputs, rtol=1e-4)
    assert all(np.isfinite(output).all() for output in outputs)


def test_an_input_is_reported_and_can_be_named():
    shapes, _ = PROGRAMS[cross_attention]
    module = hloom.load(jax.jit(cross_attention).lower(*[normal(*shape) for shape in shapes]))
    left = {one.name: one.reason for one in hloom.quantize(module).exclusions if "dot" not in one.name}
    assert left == dict.fromkeys(["keys.1", "values.1"], "it is an input: it has a dimension of examples")
    assert [weight.name for weight in hloom.quantize(module, only=["keys.1"]).weights] == ["keys.1"]
