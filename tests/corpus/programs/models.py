"""Whole training steps: what users bring."""

import jax
import jax.numpy as jnp
from jax import lax

from .program import Family, bf16, f32, s32, shape, u32

models = Family()


def descend(parameters, gradients):
    return jax.tree.map(lambda parameter, gradient: parameter - 0.1 * gradient, parameters, gradients)


@models([(f32(8, 16), f32(16)), (f32(16, 4), f32(4))], f32(5, 8), s32(5), jit={"donate_argnums": (0,)})
def multilayer_perceptron(parameters, x, labels):
    def loss(parameters):
        hidden = x
        for weights, bias in parameters[:-1]:
            hidden = jnp.tanh(hidden @ weights + bias)
        logits = hidden @ parameters[-1][0] + parameters[-1][1]
        return -jnp.mean(jax.nn.log_softmax(logits)[jnp.arange(5), labels])

    value, gradients = jax.value_and_grad(loss)(parameters)
    return value, descend(parameters, gradients)


def layer_norm(x, scale):
    return (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-6) * scale


def attention(x, layer, heads=2):
    batch, length, width = x.shape
    query, key, value = jnp.split((x @ layer["qkv"]).reshape(batch, length, heads, -1), 3, axis=-1)
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) / jnp.sqrt(width / heads)
    scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), value)
    return mixed.reshape(batch, length, width) @ layer["out"]


def transformer_block(x, layer):
    x = x + attention(layer_norm(x, layer["norm"]), layer)
    return x + jax.nn.gelu(layer_norm(x, layer["norm"]) @ layer["up"]) @ layer["down"]


def transformer_shapes(dtype, *leading):
    width = 8
    return {
        "norm": shape(dtype, *leading, width), "qkv": shape(dtype, *leading, width, 3 * width),
        "out": shape(dtype, *leading, width, width), "up": shape(dtype, *leading, width, 4 * width),
        "down": shape(dtype, *leading, 4 * width, width),
    }  # fmt: skip


def token_loss(table, x, tokens):
    logits = x @ table.T
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[..., None], -1)
    return -jnp.mean(picked)


@models(f32(11, 8), [transformer_shapes(jnp.float32)] * 2, s32(2, 6), jit={"donate_argnums": (0, 1)})
def transformer(table, layers, tokens):
    def loss(table, layers):
        x = table[tokens]
        for layer in layers:
            x = transformer_block(x, layer)
        return token_loss(table, x, tokens)

    value, gradients = jax.value_and_grad(loss, (0, 1))(table, layers)
    return value, descend((table, layers), gradients)


@models(bf16(11, 8), transformer_shapes(jnp.bfloat16, 3), s32(2, 6))
def transformer_scanned_with_remat(table, layers, tokens):
    def loss(table, layers):
        block = jax.checkpoint(lambda x, layer: (transformer_block(x, layer).astype(jnp.bfloat16), None))
        return token_loss(table, lax.scan(block, table[tokens], layers)[0], tokens)

    return jax.grad(loss, (0, 1))(table, layers)


@models((f32(3, 3, 1, 4), f32(3, 3, 4, 8), f32(32, 10)), f32(2, 8, 8, 1), s32(2))
def convolutional_network(parameters, images, labels):
    def loss(parameters):
        first, second, last = parameters
        names = ("NHWC", "HWIO", "NHWC")
        x = jax.nn.relu(lax.conv_general_dilated(images, first, (1, 1), "SAME", dimension_numbers=names))
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        x = jax.nn.relu(lax.conv_general_dilated(x, second, (2, 2), "SAME", dimension_numbers=names))
        logits = x.reshape(2, -1) @ last
        return -jnp.mean(jax.nn.one_hot(labels, 10) * jax.nn.log_softmax(logits))

    return descend(parameters, jax.grad(loss)(parameters))


@models({"input": f32(3, 16), "state": f32(4, 16), "bias": f32(16)}, f32(7, 2, 3))
def long_short_term_memory(parameters, sequence):
    def step(carry, x):
        hidden, cell = carry
        gates = x @ parameters["input"] + hidden @ parameters["state"] + parameters["bias"]
        input_gate, forget, candidate, output = jnp.split(gates, 4, -1)
        cell = jax.nn.sigmoid(forget) * cell + jax.nn.sigmoid(input_gate) * jnp.tanh(candidate)
        return (jax.nn.sigmoid(output) * jnp.tanh(cell), cell), hidden

    start = (jnp.zeros((2, 4)), jnp.zeros((2, 4)))
    return lax.scan(step, start, sequence)


@models({"input": f32(3, 16), "state": f32(4, 16), "bias": f32(16)}, f32(7, 2, 3))
def long_short_term_memory_gradients(parameters, sequence):
    return jax.grad(lambda parameters: long_short_term_memory(parameters, sequence)[1].sum())(parameters)


@models([f32(8, 8), f32(8)], [f32(8, 8), f32(8)], [f32(8, 8), f32(8)], s32(), f32(3, 8))
def adam(parameters, first, second, count, x):
    def loss(parameters):
        return jnp.mean(jnp.square(x @ parameters[0] + parameters[1]))

    gradients = jax.grad(loss)(parameters)
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradients)
    count = count + 1
    correction = jnp.sqrt(1 - 0.999**count) / (1 - 0.9**count)
    step = lambda p, m, v: p - 1e-3 * correction * m / (jnp.sqrt(v) + 1e-8)  # noqa: E731
    return jax.tree.map(step, parameters, first, second), first, second, count


@models(shape(jnp.int4, 8, 16), f32(16), bf16(3, 8))
def quantised_matmul(weights, scales, x):
    return (x @ weights.astype(jnp.bfloat16)).astype(jnp.float32) * scales


@models(shape(jnp.int8, 3, 8), shape(jnp.int8, 8, 4), f32(), f32(4))
def quantised_integers(x, weights, x_scale, weight_scales):
    accumulated = lax.dot(x, weights, preferred_element_type=jnp.int32)
    requantised = jnp.clip(jnp.round(accumulated * x_scale * weight_scales), -128, 127)
    return requantised.astype(jnp.int8)


@models(u32(2), f32(4, 8), f32(8, 8))
def dropout_training(key, x, weights):
    def loss(weights):
        hidden = jax.nn.relu(x @ weights)
        return jnp.sum(jnp.where(jax.random.bernoulli(key, 0.5, hidden.shape), hidden * 2, 0))

    return jax.value_and_grad(loss)(weights)


@models(f32(6, 8), f32(8, 4), f32(4, 8, 8))
def mixture_of_experts(x, router, experts):
    weights, chosen = lax.top_k(jax.nn.softmax(x @ router), 2)
    outputs = jnp.einsum("td,edf->tef", x, experts)
    return jnp.einsum("tk,tkf->tf", weights, jnp.take_along_axis(outputs, chosen[..., None], 1))


@models(f32(2, 16, 2, 4), f32(2, 16, 2, 4), f32(2, 16, 2, 4))
def library_attention(query, key, value):
    return jax.nn.dot_product_attention(query, key, value, is_causal=True)


@models(f32(2, 4, 8), f32(2, 4, 8), s32(), f32(2, 1, 8), jit={"donate_argnums": (0, 1)})
def key_value_cache(keys, values, position, x):
    keys = lax.dynamic_update_slice_in_dim(keys, x, position, 1)
    values = lax.dynamic_update_slice_in_dim(values, x * 2, position, 1)
    scores = jnp.where(jnp.arange(4) <= position, jnp.einsum("bqd,bkd->bqk", x, keys), -jnp.inf)
    return keys, values, jax.nn.softmax(scores) @ values
