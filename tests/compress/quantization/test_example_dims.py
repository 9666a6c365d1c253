"""Inputs, targets, masks, states and caches are not weights, though products read them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hloom
from hloom.text import HloomError
from tests.compress.quantization.programs import normal


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


def graph_network(params, adjacency, features):
    h = jnp.tanh(features @ params["in"])
    return adjacency @ jnp.tanh(adjacency @ (h @ params["hidden"])) @ params["out"]


def graph_network_of_dicts(params, graph):
    h = graph["features"]
    for w in params:
        h = jnp.tanh(graph["adjacency"] @ (h @ w))
    return h


def graph_network_of_arrays(adjacency, features, w):
    return adjacency @ (jnp.tanh(features) @ w)


def one_layer_of_nodes(params, adjacency, features):
    return adjacency @ (jnp.tanh(features) @ params["w"])


def means_of_classes(x, w, targets):
    return targets.T @ (jnp.tanh(x) @ w)


def mixer_of_one(params, x):
    return jnp.einsum("btc,ts->bsc", jnp.tanh(x), params["tokens"]) @ params["channels"]


def value_iteration(transitions, rewards, values):
    def step(_, v):
        return jnp.max(rewards + 0.9 * jnp.einsum("ast,t->as", transitions, v), 0)

    return jax.lax.fori_loop(0, 5, step, values)


def mlp(x, up, down):
    return jnp.tanh(x @ up) @ down


def residual_stack(x, layers):
    return jax.lax.scan(lambda h, w: (h + jnp.tanh(h @ w), None), x, layers)[0]


def projection(params, x):
    return jnp.einsum("bthd,hdm->btm", x, params["w"])


def shapes_of(tree):
    return jax.tree.map(lambda dims: jax.ShapeDtypeStruct(dims, jnp.float32), tree, is_leaf=lambda one: isinstance(one, tuple))


def advised(function, *arguments) -> set[str]:
    module = hloom.load(jax.jit(function, keep_unused=True).lower(*map(shapes_of, arguments)))
    return {weight.name.removesuffix(".1") for weight in hloom.quantize(module).weights}


NODES = {"in": (5, 6), "hidden": (6, 6), "out": (6, 2)}
ONE_EXAMPLE = [(5, 1, 6), (1, 8), (1, 8), (6, 32), (8, 32), (32,)]


@pytest.mark.parametrize(
    ("function", "arguments", "weights"),
    [
        (graph_network, [NODES, (7, 7), (7, 5)], {"params__in__", "params__hidden__", "params__out__"}),
        (graph_network_of_dicts, [[(5, 6), (6, 6)], {"adjacency": (7, 7), "features": (7, 5)}], {"params_0_", "params_1_"}),
        (one_layer_of_nodes, [{"w": (5, 6)}, (7, 7), (7, 5)], {"params__w__"}),
        (mixer_of_one, [{"tokens": (5, 5), "channels": (8, 8)}, (1, 5, 8)], {"params__tokens__", "params__channels__"}),
        (lstm, ONE_EXAMPLE, {"wi", "wh"}),
        (mlp, [(1, 8), (8, 6), (6, 4)], {"up", "down"}),
        (mlp, [(8,), (8, 6), (6, 4)], {"up", "down"}),
        (residual_stack, [(1, 8), (3, 8, 8)], {"layers"}),
        (projection, [{"w": (4, 16, 64)}, (2, 8, 4, 16)], {"params__w__"}),
    ],
)  # fmt: skip
def test_graphs_and_single_examples(function, arguments, weights: set[str]):
    assert advised(function, *arguments) == weights


@pytest.mark.parametrize(
    ("function", "arguments", "says"),
    [
        (graph_network_of_arrays, [(7, 7), (7, 5), (5, 6)], "adjacency.1 may be a weight or a fixed matrix: it mixes what other weights keep apart"),
        (means_of_classes, [(7, 5), (5, 6), (7, 3)], "targets.1 may be a weight or a fixed matrix"),
        (value_iteration, [(3, 6, 6), (3, 6), (6,)], "transitions.1 may be a weight or a fixed matrix: it maps what it is multiplied with to the same again"),
        (mlp, [(1, 8), (8, 1), (1, 4)], "x.1 and up.1, which are multiplied with each other, one is a weight and one an input"),
    ],
)  # fmt: skip
def test_what_nothing_tells_apart_is_asked(function, arguments, says: str):
    with pytest.raises(HloomError, match=says) as caught:
        advised(function, *arguments)
    assert caught.value.hint is not None and "only=[" in caught.value.hint


def test_an_adjacency_is_reported():
    arguments = map(shapes_of, (NODES, (7, 7), (7, 5)))
    made = hloom.quantize(hloom.load(jax.jit(graph_network).lower(*arguments)))
    left = {one.name: one.reason for one in made.exclusions}
    assert left["adjacency.1"] == "it mixes what the weights keep apart, and is of another argument"
