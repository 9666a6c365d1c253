"""Functions of TensorFlow, compiled by its own XLA."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf  # pyright: ignore[reportMissingImports]

from .registry import Call, Program, register

PROGRAMS: dict[str, Program] = {}
program = partial(register, PROGRAMS)
RANDOM = np.random.default_rng(0)


def texts(call: Call) -> Iterator[tuple[str, str]]:
    """The HLO of a function: as TensorFlow writes it, then as XLA optimises it."""
    function, arguments = call
    compiled = tf.function(function, jit_compile=True).experimental_get_compiler_ir(*arguments)
    yield "", compiled(stage="hlo")
    yield ".optimized", compiled(stage="optimized_hlo")


def _floats(*dims: int) -> Any:
    return tf.constant(RANDOM.normal(size=dims).astype(np.float32))


@program
def attention_gradient() -> Call:
    def gradient(x: Any, weights: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(weights)
            query, key, value = tf.split(tf.einsum("btd,de->bte", x, weights), 3, axis=-1)
            mask = tf.linalg.band_part(tf.ones((x.shape[1], x.shape[1])), -1, 0)
            scores = tf.where(mask > 0, tf.matmul(query, key, transpose_b=True), -1e9)
            loss = tf.reduce_mean(tf.matmul(tf.nn.softmax(scores), value) ** 2)
        return loss, tape.gradient(loss, weights)

    return gradient, (_floats(2, 5, 8), _floats(8, 24))


@program
def while_loop() -> Call:
    def newton(x: Any) -> Any:
        def step(index: Any, x: Any) -> Any:
            return index + 1, x - (x**3 - 2.0) / (3 * x**2 + 0.1)

        return tf.while_loop(lambda index, x: (index < 20) & (tf.reduce_max(tf.abs(x**3 - 2)) > 1e-4), step, (0, x))

    return newton, (_floats(6),)


@program
def convolution_step() -> Call:
    def step(images: Any, kernel: Any, scale: Any, offset: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([kernel, scale, offset])
            hidden = tf.nn.conv2d(images, kernel, 2, "SAME")
            hidden, mean, variance = tf.compat.v1.nn.fused_batch_norm(hidden, scale, offset)
            pooled = tf.nn.avg_pool2d(tf.nn.relu6(hidden), 2, 2, "VALID") + tf.nn.max_pool2d(hidden, 2, 2, "VALID")
            loss = tf.reduce_sum(pooled**2)
        return mean, variance, tape.gradient(loss, [kernel, scale, offset])

    return step, (_floats(2, 8, 8, 3), _floats(3, 3, 3, 4), _floats(4), _floats(4))


@program
def branches() -> Call:
    def choose(x: Any, index: Any) -> Any:
        first = tf.cond(tf.reduce_sum(x) > 0, lambda: tf.sin(x), lambda: tf.sort(x, axis=-1))
        branches = [lambda: first * 2, lambda: tf.cumsum(first, axis=1), lambda: tf.reverse(first, [0])]
        return tf.switch_case(index, branches)

    return choose, (_floats(3, 4), tf.constant(1))


@program
def gathers_and_segments() -> Call:
    def collect(x: Any, indices: Any) -> Any:
        return (
            tf.gather(x, indices, axis=1, batch_dims=0), tf.gather_nd(x, tf.stack([indices, indices], -1)),
            tf.math.unsorted_segment_mean(x, indices[:3], 4), tf.tensor_scatter_nd_add(x, indices[:, None], x),
            tf.math.top_k(x, 2), tf.one_hot(indices, 4), tf.linalg.diag(x[0]), tf.roll(x, 1, 0),
        )  # fmt: skip

    return collect, (_floats(3, 4), tf.constant([0, 2, 1], tf.int32))


@program
def linear_algebra() -> Call:
    def solve(x: Any, y: Any) -> Any:
        positive = tf.matmul(x, x, transpose_a=True) + tf.eye(4)
        return tf.linalg.cholesky(positive), tf.linalg.triangular_solve(x, y), tf.linalg.qr(x), tf.linalg.matmul(x, y)

    return solve, (_floats(4, 4), _floats(4, 2))


@program
def random_numbers() -> Call:
    def draw(seed: Any) -> Any:
        return (
            tf.random.stateless_normal((3, 4), seed), tf.random.stateless_uniform((5,), seed, 0, 10, tf.int32),
            tf.random.stateless_truncated_normal((4,), seed),
        )  # fmt: skip

    return draw, (tf.constant([1, 2]),)


@program
def signals() -> Call:
    def transform(x: Any) -> Any:
        spectrum = tf.signal.rfft(x)
        return (
            tf.signal.irfft(spectrum * tf.math.conj(spectrum)),
            tf.math.angle(spectrum),
            tf.signal.fft(tf.cast(x, tf.complex64)),
        )

    return transform, (_floats(2, 16),)


@program
def tensor_array() -> Call:
    def recurrence(x: Any, weights: Any) -> Any:
        states = tf.TensorArray(tf.float32, size=5)
        state = tf.zeros((2, 4))
        for index in tf.range(5):
            state = tf.tanh(x[:, index] + tf.matmul(state, weights))
            states = states.write(index, state)
        return tf.transpose(states.stack(), (1, 0, 2))

    return recurrence, (_floats(2, 5, 4), _floats(4, 4))
