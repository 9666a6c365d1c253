"""Random numbers, linear algebra, loops and language models in jax alone."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .registry import cross_entropy, floats, integers, key, program


@program
def normal_numbers() -> Any:
    return jax.jit(lambda random: jax.random.normal(random, (1000, 37))), (key(),)


@program
def permutation() -> Any:
    return jax.jit(lambda random: jax.random.permutation(random, 5000)), (key(),)


@program
def gamma_and_categorical_numbers() -> Any:
    def draw(random):
        return jax.random.gamma(random, 2.0, (300,)), jax.random.categorical(random, floats(64, 10))

    return jax.jit(draw), (key(),)


@program
def rejection_sampling() -> Any:
    def draw(random):
        def step(state):
            return jax.random.split(state[0])[0], jax.random.uniform(state[0])

        return lax.while_loop(lambda state: state[1] < 0.9, step, (random, 0.0))

    return jax.jit(lambda random: jax.vmap(draw)(jax.random.split(random, 300))), (key(),)


@program
def newton_iterations() -> Any:
    def root(x):
        def step(state):
            return 0.5 * (state[0] + x / state[0]), state[1] + 1

        return lax.while_loop(lambda state: jnp.abs(state[0] ** 2 - x) > 1e-6, step, (x, 0))

    return jax.jit(jax.vmap(root)), (floats(256),)


@program
def kalman_filter() -> Any:
    move, look = floats(12, 12), floats(5, 12)

    def step(state, z):
        mean, spread = move @ state[0], move @ state[1] @ move.T + jnp.eye(12)
        total = look @ spread @ look.T + jnp.eye(5)
        gain = jnp.linalg.solve(total, look @ spread).T
        mean, spread = mean + gain @ (z - look @ mean), spread - gain @ look @ spread
        return (mean, spread), mean

    return jax.jit(lambda z: lax.scan(step, (floats(12), jnp.eye(12)), z)), (floats(100, 5),)


@program
def cholesky_gradient() -> Any:
    def density(a, x):
        factor = jnp.linalg.cholesky(a @ a.T + jnp.eye(64))
        solved = jax.scipy.linalg.solve_triangular(factor, x, lower=True)
        return jnp.sum(solved**2) + jnp.sum(jnp.log(jnp.diag(factor)))

    return jax.jit(jax.grad(density)), (floats(64, 64), floats(64))


@program
def convolution_by_fourier_transform() -> Any:
    return jax.jit(lambda a, b: jnp.fft.irfft2(jnp.fft.rfft2(a) * jnp.fft.rfft2(b))), (
        floats(8, 128, 128),
        floats(8, 128, 128),
    )


@program
def gated_recurrent_units() -> Any:
    def cell(p, h, x):
        gate = jax.nn.sigmoid(x @ p["wz"] + h @ p["uz"])
        return (1 - gate) * h + gate * jnp.tanh(x @ p["wc"] + (gate * h) @ p["uc"])

    def loss(p, rows):
        _, made = lax.scan(lambda h, x: (cell(p, h, x),) * 2, floats(16, 128), rows)
        return jnp.mean(made**2)

    weights = {name: floats(128, 128) for name in ("wz", "uz", "wc", "uc")}
    return jax.jit(jax.value_and_grad(loss)), (weights, floats(50, 16, 128))


@program
def physics_informed_network() -> Any:
    def value(p, x):
        for w, b in p[:-1]:
            x = jnp.tanh(x @ w + b)
        return (x @ p[-1][0] + p[-1][1])[0]

    def loss(p, points):
        def residual(x):
            return jax.grad(value, 1)(p, x)[0] - jnp.trace(jax.hessian(value, 1)(p, x))

        return jnp.mean(jax.vmap(residual)(points) ** 2)

    weights = [(floats(2, 64), floats(64)), (floats(64, 64), floats(64)), (floats(64, 1), floats(1))]
    return jax.jit(jax.value_and_grad(loss)), (weights, floats(200, 2))


@program
def message_passing() -> Any:
    def loss(p, x, sources, targets):
        for w in p:
            x = jax.nn.relu(jax.ops.segment_sum((x @ w)[sources], targets, num_segments=500)) + x
        return jnp.mean(x**2)

    return jax.jit(jax.value_and_grad(loss)), ([floats(48, 48)] * 3, floats(500, 48), integers(3000), integers(3000))


@program
def decoding_with_a_cache() -> Any:
    layers, heads, width, length = 3, 4, 32, 128

    def step(p, cache, x, time):
        written = []
        for layer in range(layers):
            q, k, v = ((x @ p["qkv"][layer, part]).reshape(8, heads, width) for part in range(3))
            keys = lax.dynamic_update_slice(cache[layer][0], k[:, None], (0, time, 0, 0))
            values = lax.dynamic_update_slice(cache[layer][1], v[:, None], (0, time, 0, 0))
            written.append((keys, values))
            scores = jnp.einsum("bhd,bthd->bht", q, keys) / width**0.5
            shares = jax.nn.softmax(jnp.where(jnp.arange(length) <= time, scores, -1e9))
            x = x + jnp.einsum("bht,bthd->bhd", shares, values).reshape(8, heads * width) @ p["o"][layer]
        return x, written

    weights = {"qkv": floats(layers, 3, 128, 128), "o": floats(layers, 128, 128)}
    cache = [(floats(8, length, heads, width), floats(8, length, heads, width)) for _ in range(layers)]
    return jax.jit(step, donate_argnums=1), (weights, cache, floats(8, 128), jnp.int32(3))


@program
def llama_layers_in_bf16() -> Any:
    width, heads, groups, head = 128, 8, 2, 16

    def normalised(x, gain):
        return x * lax.rsqrt(jnp.mean(x.astype(jnp.float32) ** 2, -1, keepdims=True) + 1e-5).astype(x.dtype) * gain

    def layer(x, p):
        h = normalised(x, p["g1"])
        q = (h @ p["q"]).reshape(*x.shape[:2], groups, heads // groups, head)
        k, v = ((h @ p[name]).reshape(*x.shape[:2], groups, head) for name in "kv")
        scores = jnp.einsum("btkgd,bskd->bkgts", q, k) / head**0.5
        scores = jnp.where(jnp.tril(jnp.ones((x.shape[1],) * 2, bool)), scores, -1e9)
        shares = jax.nn.softmax(scores.astype(jnp.float32)).astype(x.dtype)
        x = x + jnp.einsum("bkgts,bskd->btkgd", shares, v).reshape(*x.shape[:2], -1) @ p["o"]
        h = normalised(x, p["g2"])
        return x + (jax.nn.silu(h @ p["w1"]) * (h @ p["w3"])) @ p["w2"], None

    def zeros(*dims):
        return jnp.zeros((4, *dims), jnp.bfloat16)

    sizes = {"g1": (width,), "g2": (width,), "q": (width, heads * head), "k": (width, groups * head)}
    sizes |= {"v": (width, groups * head), "o": (heads * head, width)}
    sizes |= {"w1": (width, 320), "w3": (width, 320), "w2": (320, width)}
    weights = {name: zeros(*dims) for name, dims in sizes.items()}

    def loss(p, x):
        return jnp.mean(lax.scan(layer, x, p)[0].astype(jnp.float32) ** 2)

    return jax.jit(jax.value_and_grad(loss)), (weights, jnp.zeros((4, 96, width), jnp.bfloat16))


@program
def checkpointed_layers_in_bf16() -> Any:
    def layer(x, p):
        scale = lax.rsqrt((x.astype(jnp.float32) ** 2).mean(-1, keepdims=True) + 1e-6).astype(x.dtype)
        n = x * scale * p["n"]
        q, k, v = ((n @ p[name]).reshape(*x.shape[:2], 4, -1) for name in "qkv")
        scores = jnp.einsum("bthd,bshd->bhts", q, k).astype(jnp.float32) / 5
        shares = jax.nn.softmax(jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -1e9))
        x = x + jnp.einsum("bhts,bshd->bthd", shares.astype(x.dtype), v).reshape(x.shape) @ p["o"]
        return x + (jax.nn.silu(x @ p["g"]) * (x @ p["u"])) @ p["d"], None

    def loss(p, x):
        h, _ = lax.scan(jax.checkpoint(layer), p["e"][x], p["l"])
        return cross_entropy((h @ p["e"].T).astype(jnp.float32), x)

    def zeros(*dims):
        return jnp.zeros(dims, jnp.bfloat16)

    layers = {name: zeros(4, 128, 128) for name in "qkvo"} | {"n": zeros(4, 128), "d": zeros(4, 344, 128)}
    layers |= {name: zeros(4, 128, 344) for name in "gu"}
    weights = {"e": zeros(1000, 128), "l": layers}
    return jax.jit(lambda p, x: jax.tree.map(lambda w, g: w - g, p, jax.grad(loss)(p, x)), donate_argnums=0), (
        weights,
        integers(8, 128),
    )


@program
def checkpointed_layers() -> Any:
    def layer(h, p):
        return h + jnp.tanh(jax.nn.gelu(h @ p["a"]) @ p["b"]), None

    def loss(p, x):
        return jnp.mean(lax.scan(jax.checkpoint(layer), x, p)[0] ** 2)

    return jax.jit(jax.value_and_grad(loss)), ({"a": floats(6, 192, 384), "b": floats(6, 384, 192)}, floats(256, 192))
