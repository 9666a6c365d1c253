"""Programs in the manner of jax's own examples, with its example libraries."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.example_libraries import optimizers, stax

from .jax_calls import floats, integers, key, texts
from .registry import Call, Program, register

__all__ = ["PROGRAMS", "texts"]

PROGRAMS: dict[str, Program] = {}
program = partial(register, PROGRAMS)


def _cross_entropy(logits: Any, targets: Any) -> Any:
    return -jnp.mean(jnp.sum(jax.nn.log_softmax(logits) * targets, axis=-1))


def _stax_step(layers: tuple[Any, Any], optimizer: Any, images: Any, targets: Any) -> Call:
    initialize, apply = layers
    weights = jax.eval_shape(lambda: initialize(key(), images.shape)[1])
    start, update, parameters_of = optimizer
    state = jax.eval_shape(start, weights)

    def step(index: Any, state: Any, images: Any, targets: Any) -> Any:
        def loss(weights: Any) -> Any:
            return _cross_entropy(apply(weights, images, rng=key()), targets)

        return update(index, jax.grad(loss)(parameters_of(state)), state)

    return step, (integers(), state, images, targets)


@program
def stax_classifier() -> Call:
    layers = stax.serial(stax.Flatten, stax.Dense(64), stax.Relu, stax.Dropout(0.8), stax.Dense(10), stax.LogSoftmax)
    return _stax_step(layers, optimizers.momentum(1e-3, 0.9), floats(32, 14, 14, 1), floats(32, 10))


@program
def stax_residual_network() -> Call:
    main = stax.serial(stax.Conv(8, (3, 3), padding="SAME"), stax.BatchNorm(), stax.Relu)
    block = stax.serial(stax.FanOut(2), stax.parallel(main, stax.Identity), stax.FanInSum, stax.Relu)
    layers = stax.serial(
        stax.GeneralConv(("NHWC", "HWIO", "NHWC"), 8, (5, 5), (2, 2), "SAME"),
        stax.MaxPool((3, 3), strides=(2, 2)), block, stax.AvgPool((3, 3)), stax.Flatten, stax.Dense(10),
    )  # fmt: skip
    return _stax_step(layers, optimizers.adam(1e-3), floats(4, 24, 24, 3), floats(4, 10))


@program
def private_gradients() -> Call:
    """Gradients for each example, clipped, summed, with noise."""

    def loss(weights: Any, image: Any, target: Any) -> Any:
        first, second = weights
        return _cross_entropy(jnp.tanh(image @ first) @ second, target)

    def step(weights: Any, images: Any, targets: Any, key: Any) -> Any:
        def clipped(image: Any, target: Any) -> Any:
            gradients = jax.grad(loss)(weights, image, target)
            norm = jnp.sqrt(sum(jnp.vdot(leaf, leaf) for leaf in jax.tree.leaves(gradients)))
            return jax.tree.map(lambda leaf: leaf / jnp.maximum(norm / 1.5, 1.0), gradients)

        summed = jax.tree.map(lambda leaf: leaf.sum(0), jax.vmap(clipped)(images, targets))
        keys = jax.random.split(key, len(weights))
        noise = [jax.random.normal(one, leaf.shape) for one, leaf in zip(keys, summed, strict=True)]
        return [w - 0.1 * (g + n) for w, g, n in zip(weights, summed, noise, strict=True)]

    return step, ([floats(20, 32), floats(32, 5)], floats(16, 20), floats(16, 5), key())


@program
def gaussian_process() -> Call:
    def covariance(scale: Any, x: Any, y: Any) -> Any:
        return jnp.exp(-jnp.sum(jnp.square(x[:, None] - y) / scale, -1))

    def fit(parameters: Any, x: Any, y: Any, points: Any) -> Any:
        def likelihood(parameters: Any) -> Any:
            noise, scale = jax.nn.softplus(parameters[0]), jax.nn.softplus(parameters[1])
            factor = jax.scipy.linalg.cholesky(covariance(scale, x, x) + (noise + 1e-6) * jnp.eye(len(x)), lower=True)
            weights = jax.scipy.linalg.solve_triangular(factor, y, lower=True)
            return 0.5 * weights @ weights + jnp.log(jnp.diag(factor)).sum()

        def step(_: Any, parameters: Any) -> Any:
            return parameters - 0.01 * jax.grad(likelihood)(parameters)

        fitted = jax.lax.fori_loop(0, 20, step, parameters)
        scale = jax.nn.softplus(fitted[1])
        return covariance(scale, points, x) @ jnp.linalg.solve(covariance(scale, x, x) + jnp.eye(len(x)), y)

    return fit, (floats(2), floats(12, 3), floats(12), floats(5, 3))


@program
def variational_inference() -> Call:
    def step(mean: Any, log_scale: Any, key: Any) -> Any:
        def density(x: Any) -> Any:
            return -0.5 * ((x[0] / jnp.exp(x[1])) ** 2 + 2 * x[1] + (x[1] / 1.35) ** 2)

        def bound(mean: Any, log_scale: Any, key: Any) -> Any:
            sample = mean + jnp.exp(log_scale) * jax.random.normal(key, mean.shape)
            return density(sample) + log_scale.sum()

        def average(parameters: Any) -> Any:
            return jax.vmap(partial(bound, *parameters))(jax.random.split(key, 40)).mean()

        value, gradients = jax.value_and_grad(average)((mean, log_scale))
        return value, gradients

    return step, (floats(2), floats(2), key())


@program
def kernel_least_squares() -> Call:
    def fit(x: Any, y: Any) -> Any:
        gram = jax.vmap(lambda one: jax.vmap(lambda other: (1 + one @ other) ** 3)(x))(x)
        loss = lambda weights: jnp.sum((gram @ weights - y) ** 2) + 0.1 * weights @ gram @ weights  # noqa: E731
        step = lambda state: (state[0] + 1, state[1] - 1e-4 * jax.grad(loss)(state[1]))  # noqa: E731
        is_going = lambda state: (state[0] < 50) & (jnp.linalg.norm(jax.grad(loss)(state[1])) > 1e-3)  # noqa: E731
        return jax.lax.while_loop(is_going, step, (0, jnp.zeros_like(y)))

    return fit, (floats(20, 4), floats(20))


@program
def beam_search() -> Call:
    """Beams of a recurrent model, kept by top_k, until each has ended or the text is full."""

    def search(embedding: Any, recurrent: Any, output: Any) -> Any:
        width, vocabulary, length = 3, output.shape[-1], 10

        def step(state: Any) -> Any:
            index, texts, scores, hidden = state
            hidden = jnp.tanh(embedding[texts[:, index]] + hidden @ recurrent)
            totals = scores[:, None] + jax.nn.log_softmax(hidden @ output)
            scores, best = jax.lax.top_k(totals.reshape(-1), width)
            beams, tokens = best // vocabulary, best % vocabulary
            texts = texts[beams].at[:, index + 1].set(tokens)
            return index + 1, texts, scores, hidden[beams]

        texts = jnp.zeros((width, length), jnp.int32)
        start = 0, texts, jnp.array([0.0, -jnp.inf, -jnp.inf]), jnp.zeros((width, recurrent.shape[0]))
        is_going = lambda state: (state[0] < length - 1) & (state[1][:, state[0]] != 1).any()  # noqa: E731
        return jax.lax.while_loop(is_going, step, start)[1:3]

    return search, (floats(17, 8), floats(8, 8), floats(8, 17))


@program
def flash_attention() -> Call:
    """Attention block by block, with the running maximum and sum; its gradient recomputes the blocks."""

    def attention(query: Any, keys: Any, values: Any) -> Any:
        @jax.checkpoint
        def block(state: Any, part: Any) -> Any:
            highest, total, result = state
            keys, values = part
            scores = jnp.einsum("hqd,hkd->hqk", query, keys) / 4
            new = jnp.maximum(highest, scores.max(-1))
            weights, correction = jnp.exp(scores - new[..., None]), jnp.exp(highest - new)
            result = result * correction[..., None] + jnp.einsum("hqk,hkd->hqd", weights, values)
            return (new, total * correction + weights.sum(-1), result), None

        blocks = tuple(jnp.moveaxis(part.reshape(2, 4, 8, 16), 1, 0) for part in (keys, values))
        start = jnp.full((2, 16), -jnp.inf), jnp.zeros((2, 16)), jnp.zeros((2, 16, 16))
        _, total, result = jax.lax.scan(block, start, blocks)[0]
        return (result / total[..., None]).sum()

    return jax.value_and_grad(attention, (0, 1, 2)), (floats(2, 16, 16), floats(2, 32, 16), floats(2, 32, 16))


@program
def levenshtein() -> Call:
    """The edit distance of two texts, row by row; a scan in a scan over integers."""

    def distance(one: Any, other: Any) -> Any:
        def row(previous: Any, token: Any) -> Any:
            def cell(left: Any, values: Any) -> Any:
                above, corner, token_of_other = values
                new = jnp.minimum(jnp.minimum(left, above) + 1, corner + (token_of_other != token))
                return new, new

            first = previous[0] + 1
            _, rest = jax.lax.scan(cell, first, (previous[1:], previous[:-1], other))
            return jnp.concatenate([first[None], rest]), None

        return jax.lax.scan(row, jnp.arange(len(other) + 1), one)[0][-1]

    return jax.vmap(distance), (integers(3, 9), integers(3, 7))


@program
def spectrogram() -> Call:
    def loss(signal: Any, target: Any) -> Any:
        _, _, transformed = jax.scipy.signal.stft(signal, nperseg=32, noverlap=16)
        return jnp.mean((jnp.log1p(jnp.abs(transformed)) - target) ** 2)

    return jax.value_and_grad(loss), (floats(2, 128), floats(2, 17, 9))


@program
def eigenvalue_gradients() -> Call:
    def loss(matrix: Any) -> Any:
        values, vectors = jnp.linalg.eigh(matrix @ matrix.T)
        return (values[:2] * vectors[0, :2] ** 2).sum() + jnp.linalg.norm(matrix, ord="nuc")

    return jax.value_and_grad(loss), (floats(5, 6),)
