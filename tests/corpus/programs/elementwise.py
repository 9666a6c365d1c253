"""Elementwise operations over every element type, comparisons, selections and conversions."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .program import Family, bf16, c64, f32, f64, pred, s32, shape, u32

elementwise = Family()

FLOAT_UNARY: tuple[Any, ...] = (
    lax.abs, lax.neg, lax.sign, lax.floor, lax.ceil, lax.round, lax.exp, lax.exp2, lax.expm1, lax.log, lax.log1p,
    lax.sin, lax.cos, lax.tan, lax.tanh, lax.logistic, lax.sqrt, lax.rsqrt, lax.cbrt, lax.erf, lax.square,
    lax.reciprocal,
)  # fmt: skip
HYPERBOLIC = (lax.asin, lax.acos, lax.atan, lax.sinh, lax.cosh, lax.asinh, lax.acosh, lax.atanh)
SPECIAL: tuple[Any, ...] = (lax.erfc, lax.erf_inv, lax.lgamma, lax.digamma, lax.bessel_i0e, lax.bessel_i1e)
FLOAT_BINARY: tuple[Any, ...] = (
    lax.add,
    lax.sub,
    lax.mul,
    lax.div,
    lax.rem,
    lax.pow,
    lax.max,
    lax.min,
    lax.atan2,
    lax.nextafter,
)
INTEGER_BINARY = (
    lax.add, lax.sub, lax.mul, lax.div, lax.rem, lax.max, lax.min, lax.bitwise_and, lax.bitwise_or, lax.bitwise_xor,
    lax.shift_left, lax.shift_right_logical, lax.shift_right_arithmetic,
)  # fmt: skip
COMPARISONS = (lax.eq, lax.ne, lax.lt, lax.le, lax.gt, lax.ge)
NARROW_FLOATS = (
    jnp.float8_e4m3fn, jnp.float8_e5m2, jnp.float8_e4m3b11fnuz, jnp.float8_e4m3fnuz, jnp.float8_e5m2fnuz,
    jnp.float8_e3m4, jnp.float8_e4m3, jnp.float8_e8m0fnu, jnp.float4_e2m1fn,
)  # fmt: skip


for dtype in (jnp.float32, jnp.float64, jnp.bfloat16, jnp.float16):

    @elementwise(shape(dtype, 2, 3), name=f"unary_{jnp.dtype(dtype).name}")
    def unary(x):
        return [operation(x) for operation in FLOAT_UNARY] + [lax.is_finite(x), lax.integer_pow(x, 5)]

    @elementwise(shape(dtype, 2, 3), shape(dtype, 2, 3), name=f"binary_{jnp.dtype(dtype).name}")
    def binary(x, y):
        return [operation(x, y) for operation in FLOAT_BINARY + COMPARISONS]


@elementwise(f32(5))
def hyperbolic(x):
    return [operation(x) for operation in HYPERBOLIC]


@elementwise(f32(5), f32(5))
def special_functions(x, y):
    return [operation(x) for operation in SPECIAL] + [lax.igamma(x, y), lax.polygamma(x, y), lax.zeta(x, y)]


@elementwise(f32(4), f32(4), f32(4))
def incomplete_beta(a, b, x):
    return lax.betainc(a, b, x), lax.igammac(a, x), lax.random_gamma_grad(a, x)  # pyright: ignore[reportCallIssue]


for dtype in (jnp.int8, jnp.int16, jnp.int32, jnp.int64, jnp.uint8, jnp.uint16, jnp.uint32, jnp.uint64):

    @elementwise(shape(dtype, 7), shape(dtype, 7), name=f"integer_{jnp.dtype(dtype).name}")
    def integer(x, y):
        counts = [lax.population_count(x), lax.clz(x), lax.bitwise_not(x), lax.sign(x), jnp.abs(x)]
        return counts + [operation(x, y) for operation in INTEGER_BINARY + COMPARISONS]


for dtype in (jnp.int4, jnp.uint4, jnp.int2, jnp.uint2):

    @elementwise(shape(dtype, 8), shape(dtype, 8), name=f"integer_{jnp.dtype(dtype).name}")
    def narrow_integer(x, y):
        return x + y, x * y, lax.max(x, y), x.astype(jnp.int32), (x.astype(jnp.float32) * 0.5).astype(x.dtype)


for dtype in (jnp.complex64, jnp.complex128):

    @elementwise(shape(dtype, 3), shape(dtype, 3), name=f"complex_{jnp.dtype(dtype).name}")
    def complex_numbers(x, y):
        unary = [f(x) for f in (lax.abs, lax.neg, lax.exp, lax.log, lax.sin, lax.tanh, lax.sqrt, lax.sign, lax.conj)]
        parts = [lax.real(x), lax.imag(y), lax.complex(lax.real(y), lax.imag(x)), x == y, lax.ne(x, y)]
        return unary + parts + [x + y, x * y, x / y, lax.pow(x, y)]


@elementwise(pred(4), pred(4))
def predicates(x, y):
    return x & y, x | y, x ^ y, ~x, x == y, lax.lt(x, y), jnp.where(x, 1.0, 2.0), x.astype(jnp.int8), lax.max(x, y)


for dtype in NARROW_FLOATS:

    @elementwise(shape(dtype, 6), f32(6), name=f"narrow_{jnp.dtype(dtype).name}")
    def narrow_float(x, y):
        return x.astype(jnp.float32) + y, y.astype(x.dtype), x.astype(jnp.bfloat16)


@elementwise(u32(5), u32(5))
def high_multiply(x, y):
    return lax.mulhi(x, y)


@elementwise(f32(3, 4), f32(3, 4), pred(3, 4), pred())
def select_and_clamp(x, y, mask, whole):
    return (
        lax.select(mask, x, y),
        lax.select(whole, x, y),
        lax.clamp(jnp.float32(0), x, jnp.float32(6)),
        lax.clamp(x, y, x + 1),
    )


@elementwise(s32(4), f32(4), f32(4), f32(4))
def select_among_many(which, x, y, z):
    return lax.select_n(which, x, y, z)


@elementwise(f32(4), s32(4), bf16(4), pred(4), f64(4))
def convert(x, i, b, p, d):
    return (
        x.astype(jnp.int32), i.astype(jnp.float32), b.astype(jnp.float64), p.astype(jnp.float16), d.astype(jnp.bool_),
        x.astype(jnp.complex64), i.astype(jnp.uint8), d.astype(jnp.bfloat16), x.astype(jnp.int4),
    )  # fmt: skip


@elementwise(f32(4), f64(2), u32(3, 2), c64(2))
def bitcast_convert(x, d, u, c):
    return (
        lax.bitcast_convert_type(x, jnp.int32),
        lax.bitcast_convert_type(d, jnp.uint8),
        lax.bitcast_convert_type(u, jnp.uint64),
        lax.bitcast_convert_type(lax.real(c), jnp.uint32),
    )


@elementwise(f32(4), f64(4))
def reduce_precision(x, d):
    return lax.reduce_precision(x, 8, 7), lax.reduce_precision(d, 5, 10)


@elementwise(f32(4))
def result_accuracy(x):
    return (
        lax.exp(x, accuracy=lax.AccuracyMode.HIGHEST),
        lax.tanh(x, accuracy=lax.Tolerance(atol=1e-3, rtol=1e-2, ulps=5)),
        lax.log(x, accuracy=lax.AccuracyMode.DEFAULT),
    )


@elementwise(f32(6))
def total_order(x):
    return lax.sort(x), lax.eq_to_p.bind(x, x), lax.lt_to_p.bind(x, x)


@elementwise(f32(3, 1), f32(1, 4), f32())
def implicit_broadcast(x, y, scalar):
    return x + y, jnp.maximum(x, scalar), scalar * 2 + 1


@elementwise(f32(4), f32(4))
def gelu_and_softmax(x, y):
    return jax.nn.gelu(x), jax.nn.softmax(y), jax.nn.silu(x), jax.nn.log_softmax(y), jax.nn.relu6(x)
