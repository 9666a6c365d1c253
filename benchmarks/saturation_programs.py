"""Programs as people write them, of attention, experts, convolutions, gradients and physics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import hloom
from hloom.ir import Module

PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {}
"""By name, a function of arrays and their dimensions."""


def _program(*shapes: tuple[int, ...]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def take(function: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS[function.__name__] = function, shapes
        return function

    return take


def lowered(name: str) -> Module:
    """A program as jax lowers it, calls inlined."""
    function, shapes = PROGRAMS[name]
    arrays = [jax.ShapeDtypeStruct(dims, jnp.float32) for dims in shapes]
    computation: Any = jax.jit(function, keep_unused=True).lower(*arrays).compiler_ir("hlo")
    return hloom.opt(hloom.parse(computation.as_hlo_text()), ["inline"])[0]


@_program((2, 4, 256, 32), (2, 4, 256, 32), (2, 4, 256, 32))
def attention(q, k, v):
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(32)
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores), v)


@_program((2, 4, 256, 32), (2, 4, 256, 32), (2, 4, 256, 32), (256, 256))
def biased_attention(q, k, v, bias):
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) * 0.1 + bias
    weights = jnp.exp(scores - scores.max(-1, keepdims=True))
    return jnp.einsum("bhqk,bhkd->bhqd", weights / weights.sum(-1, keepdims=True), v)


@_program((2, 4, 256, 32), (2, 4, 256, 32), (2, 4, 256, 32))
def linear_attention(q, k, v):
    weights = jnp.einsum("bhqd,bhkd->bhqk", jax.nn.elu(q) + 1, jax.nn.elu(k) + 1)
    return jnp.einsum("bhqk,bhkd->bhqd", weights, v)


@_program((2, 4, 128, 32), (2, 4, 128, 32), (2, 4, 128, 32))
def gradient_of_attention(q, k, v):
    return jax.grad(lambda q, k, v: jnp.sum(attention(q, k, v) ** 2), (0, 1, 2))(q, k, v)


@_program((512, 64), (64, 8), (8, 64, 128), (8, 128, 64))
def dense_mixture_of_experts(x, gate, up, down):
    weights = jax.nn.softmax(x @ gate)
    hidden = jax.nn.relu(jnp.einsum("td,edh->teh", x, up))
    return jnp.einsum("te,teh,ehd->td", weights, hidden, down)


@_program((512, 64), (64, 64), (64, 8), (8, 64))
def low_rank_adaptation(x, w, a, b):
    return x @ (w + 2.0 * (a @ b))


@_program((512, 64), (64, 64), (64, 64))
def gated_unit(x, w, v):
    return jax.nn.silu(x @ w) * (x @ v) + (x @ w)


@_program((8, 32, 32, 16), (3, 3, 16, 32), (32,), (32,), (32,), (32,))
def convolution_and_normalisation(x, w, mean, variance, scale, bias):
    y = lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return jax.nn.relu((y - mean) * lax.rsqrt(variance + 1e-5) * scale + bias)


@_program((8, 32, 32, 16), (3, 3, 16, 16), (1, 1, 16, 16))
def parallel_convolutions(x, w, v):
    def convolve(kernel):
        return lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    return convolve(w) * 0.5 + convolve(2 * w) + convolve(v)


@_program((8, 32, 32, 16), (3, 3, 16, 32))
def cropped_convolution(x, w):
    y = lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return jnp.tanh(y * 0.1)[:, 8:24, 8:24, :]


@_program((256, 64), (64,), (256,))
def gradient_of_least_squares(x, w, y):
    return jax.grad(lambda w: 0.5 * jnp.mean((x @ w - y) ** 2) + 0.1 * jnp.sum(w**2))(w)


@_program((256, 256), (256, 256), (256, 256), (256, 256), (), ())
def adam(p, m, v, g, t, rate):
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return p - rate * (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8), m, v


@_program((256, 64), (64,), (64,), (256, 64))
def gradient_of_layer_norm(x, scale, bias, y):
    def loss(x, scale, bias):
        mean = x.mean(-1, keepdims=True)
        variance = ((x - mean) ** 2).mean(-1, keepdims=True)
        return jnp.sum(((x - mean) * lax.rsqrt(variance + 1e-6) * scale + bias) * y)

    return jax.grad(loss, (0, 1, 2))(x, scale, bias)


@_program((256, 64), (64, 128), (128, 10), (256, 10))
def gradient_of_perceptron(x, w, v, y):
    def loss(w, v):
        scores = jnp.tanh(x @ w) @ v
        return -jnp.mean(jnp.sum(y * jax.nn.log_softmax(scores), -1))

    return jax.grad(loss, (0, 1))(w, v)


@_program(
    (256, 256),
)
def heat_equation(u):
    def laplacian(u):
        return (jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1) - 4 * u) / 0.01

    return u + 0.001 * 0.5 * laplacian(u)


@_program((256, 256), (256, 256), ())
def advection(u, v, dt):
    flux = 0.5 * (v[1:, :] + v[:-1, :]) * 0.5 * (u[1:, :] + u[:-1, :])
    return (u[1:-1, :] - dt / 0.1 * (flux[1:, :] - flux[:-1, :]))[:, 64:192]


@_program((256, 3), (256,))
def gravity(x, mass):
    difference = x[:, None, :] - x[None, :, :]
    distance = jnp.sum(difference**2, -1) + 1e-3
    force = 6.67 * mass[:, None] * mass[None, :] / distance**1.5
    return jnp.sum(force[:, :, None] * difference, 1)


@_program((256, 8), (256,), (64, 8))
def gaussian_process(x, alpha, query):
    distance = jnp.sum((query[:, None, :] - x[None, :, :]) ** 2, -1)
    return 2.0 * (jnp.exp(-0.5 * distance / 0.3**2) @ alpha)


@_program((64,), (64, 64), (64, 64), (16, 64), (16, 16), (16,))
def kalman_filter(x, p, f, h, r, z):
    x, p = f @ x, f @ p @ f.T
    gain = p @ h.T @ jnp.linalg.inv(h @ p @ h.T + r)
    return x + gain @ (z - h @ x), (jnp.eye(64) - gain @ h) @ p


@_program((64, 64), (64, 64), (64, 64), (64,))
def power_iteration(a, b, c, x):
    return a @ b @ c @ x / jnp.linalg.norm(a @ b @ c @ x)
