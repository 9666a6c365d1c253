"""Reductions, windows, cumulative sums, sorting and Fourier transforms."""

import jax
import jax.numpy as jnp
from jax import lax

from .program import Family, bf16, c64, f32, f64, pred, s32, shape

reduction = Family()


@reduction(f32(3, 4, 5), s32(6), pred(2, 3))
def reduce(x, i, p):
    return (
        jnp.sum(x), jnp.sum(x, 1), jnp.max(x, (0, 2)), jnp.min(x, -1), jnp.prod(x, 0), jnp.all(p), jnp.any(p, 1),
        lax.reduce_and(i, (0,)), lax.reduce_or(i, (0,)), lax.reduce_xor(i, (0,)),
    )  # fmt: skip


@reduction(f32(3, 4), bf16(3, 4))
def arg_max(x, b):
    return jnp.argmax(x, 0), jnp.argmin(x), lax.argmax(b, 1, jnp.int64)


@reduction(f32(3, 4), s32(3, 4))
def reduce_variadic(x, i):
    def keep_larger(left, right):
        larger = left[0] > right[0]
        return jnp.where(larger, left[0], right[0]), jnp.where(larger, left[1], right[1])

    return lax.reduce((x, i), (jnp.float32(-jnp.inf), jnp.int32(0)), keep_larger, (1,))


@reduction(f32(3, 4))
def reduce_custom(x):
    return lax.reduce(x, jnp.float32(1), lambda left, right: left * right + 1, (0,))


@reduction(bf16(3, 4), shape(jnp.float16, 3, 4))
def reduce_mixed_precision(x, y):
    return jnp.mean(x, 0), jnp.var(y), jnp.linalg.norm(x.astype(jnp.float32))


@reduction(f32(1, 8, 8, 2))
def pooling(x):
    window, strides = (1, 2, 2, 1), (1, 2, 2, 1)
    return (
        lax.reduce_window(x, -jnp.inf, lax.max, window, strides, "VALID"),
        lax.reduce_window(x, 0.0, lax.add, window, strides, "SAME") / 4,
        lax.reduce_window(x, jnp.inf, lax.min, (1, 3, 3, 1), (1, 1, 1, 1), ((0, 0), (1, 2), (0, 1), (0, 0))),
    )


@reduction(f32(4, 9))
def window_dilated(x):
    return lax.reduce_window(
        x, 0.0, lax.add, (2, 3), (1, 2), ((1, 0), (2, 1)), base_dilation=(2, 1), window_dilation=(1, 2)
    )


@reduction(f32(6, 6))
def window_custom(x):
    return lax.reduce_window(x, jnp.float32(1), lambda a, b: a * b + 1, (2, 2), (2, 2), "VALID")


@reduction(f32(6, 6), s32(6, 6))
def window_variadic(x, i):
    def keep_smaller(left, right):
        smaller = left[0] < right[0]
        return jnp.where(smaller, left[0], right[0]), jnp.where(smaller, left[1], right[1])

    start = (jnp.float32(jnp.inf), jnp.int32(0))
    return lax.reduce_window((x, i), start, keep_smaller, (2, 2), (2, 2), "VALID")


@reduction(f32(1, 8, 8, 2))
def pooling_gradients(x):
    def max_pool(x):
        return jnp.sum(jnp.square(lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")))

    def average_pool(x):
        return jnp.sum(jnp.square(lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")))

    return jax.grad(max_pool)(x), jax.grad(average_pool)(x), jax.jvp(max_pool, (x,), (x,))


@reduction(f32(3, 7))
def cumulative(x):
    return (
        lax.cumsum(x, 1), lax.cumprod(x, 0), lax.cummax(x, 1), lax.cummin(x, 1, reverse=True), lax.cumlogsumexp(x, 1),
    )  # fmt: skip


@reduction(f32(3, 7))
def cumulative_gradients(x):
    return jax.grad(lambda x: jnp.sum(lax.cumsum(x, 1) * lax.cumprod(x, 1)))(x)


@reduction(f32(3, 7), s32(3, 7), pred(3, 7))
def sort(x, i, p):
    return (
        lax.sort(x), lax.sort((x, i, p), dimension=0, is_stable=True, num_keys=2), lax.sort(i, is_stable=False),
        jnp.argsort(x, descending=True), lax.sort_key_val(i, x), jnp.median(x),
    )  # fmt: skip


@reduction(c64(5), bf16(5))
def sort_complex(c, b):
    return lax.sort(c), lax.sort(b)


@reduction(f32(3, 9))
def top_k(x):
    return lax.top_k(x, 3)


@reduction(f32(4, 64))
def approximate_top_k(x):
    return lax.approx_max_k(x, 4), lax.approx_min_k(x, 2, recall_target=0.9)


@reduction(c64(3, 8), f32(4, 8), f64(2, 4, 6))
def fourier(c, x, d):
    return (
        jnp.fft.fft(c), jnp.fft.ifft(c), jnp.fft.rfft(x), jnp.fft.irfft(c), jnp.fft.fftn(d), jnp.fft.rfft2(d),
        jnp.fft.ifft2(c),
    )  # fmt: skip


@reduction(f32(4, 8))
def fourier_gradients(x):
    return jax.grad(lambda x: jnp.sum(jnp.abs(jnp.fft.rfft(x)) ** 2))(x)


@reduction(f32(4, 5))
def normalisation(x):
    mean = jnp.mean(x, -1, keepdims=True)
    return (x - mean) * lax.rsqrt(jnp.var(x, -1, keepdims=True) + 1e-5), jax.nn.logsumexp(x, 0)


@reduction(f32(4, 64), platform="tpu")
def approximate_top_k_on_tpu(x):
    return lax.approx_max_k(x, 4), lax.approx_min_k(x, 2, recall_target=0.9), lax.top_k(x, 3)
