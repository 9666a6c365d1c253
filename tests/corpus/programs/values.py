"""Constants of every type with their odd values, zero-sized arrays, scalars, and shapes at the edge."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

from .program import Family, f32, f64, s32

values = Family()

ODD_FLOATS = (np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.5, 1e-45, 1.1754942e-38, 3.4028235e38, 1 / 3, 0.1)
NARROW = (
    ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3b11fnuz,
    ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2fnuz, ml_dtypes.float8_e3m4, ml_dtypes.float8_e4m3,
    ml_dtypes.float8_e8m0fnu, ml_dtypes.float4_e2m1fn,
)  # fmt: skip
ODD_F32 = np.array(ODD_FLOATS, np.float32)
ODD_F64 = np.array([*ODD_FLOATS, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, np.pi], np.float64)
ODD_F16 = np.array([np.nan, np.inf, -np.inf, -0.0, 65504, 6e-8, 0.1], np.float16)
NAN_PAYLOADS = np.array([0x7FC00000, 0x7FC00001, 0xFFC00000, 0x7F800001, 0xFFFFFFFF], np.uint32).view(np.float32)


@values()
def odd_floats():
    return ODD_F32, ODD_F64, ODD_F16


@values()
def nan_payloads():
    return NAN_PAYLOADS, jnp.float32(jnp.nan), -jnp.float64(jnp.nan)


@values()
def narrow_float_constants():
    codes = np.arange(256, dtype=np.uint8)
    return [np.arange(-3, 4).astype(dtype) for dtype in NARROW] + [codes.view(dtype) for dtype in NARROW[1:-1]]


@values()
def integer_limits():
    types = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
    return [np.array([np.iinfo(dtype).min, 0, 1, np.iinfo(dtype).max], dtype) for dtype in types]


@values()
def narrow_integer_constants():
    return (
        np.arange(-8, 8).astype(ml_dtypes.int4), np.arange(16).astype(ml_dtypes.uint4),
        np.arange(-2, 2).astype(ml_dtypes.int2), np.arange(4).astype(ml_dtypes.uint2),
    )  # fmt: skip


@values()
def complex_constants():
    return (
        np.array([1 + 2j, complex(0, -0.0), complex(np.inf, np.nan), complex(-0.5, 1e30)], np.complex64),
        np.complex128(1 / 3 - 2j), np.array([[1j, 2]], np.complex128),
    )  # fmt: skip


@values()
def predicate_constants():
    return np.array([True, False, True]), np.bool_(True), np.eye(4, dtype=bool)


@values(f32(40, 3))
def large_constants(x):
    rng = np.random.default_rng(0)
    weights, table = rng.normal(size=(3, 50)).astype(np.float32), rng.integers(0, 255, (4, 5, 6, 2), np.uint8)
    return x @ weights, table, np.arange(300, dtype=np.int16).reshape(2, 2, 3, 5, 5), np.full((20, 20), 0.5)


@values(f32(2, 3))
def constants_of_rank(x):
    return [np.arange(2**rank, dtype=np.float32).reshape((2,) * rank) for rank in range(6)] + [x]


@values(f32(0, 3), f32(2, 0))
def zero_sized(x, y):
    return x + 1, y.sum(1), jnp.concatenate([x, x]), y @ x, np.zeros((0, 4), np.int32), x.reshape(3, 0)


@values(f32(), s32(), f64())
def scalars(x, i, d):
    return x * i, i // 2, d + x, jnp.where(i > 0, x, 1.0), i.astype(jnp.float32)[None]


@values()
def nothing():
    return ()


@values(f32(1), f32(1, 1, 1, 1))
def single_elements(x, y):
    return x + y, x[0], y.reshape(()), jnp.squeeze(y)


@values(f32(2, 1, 2, 1, 2, 1, 2))
def many_dimensions(x):
    return x.sum((0, 3)), x.transpose(), x[..., None]


@values(f32(*[1] * 12))
def twelve_dimensions(x):
    return jnp.sin(x)


@values([f32(2)] * 13)
def many_operands(parts):
    return jnp.concatenate(parts), tuple(part + 1 for part in parts)


@values(f32(64, 64), f32(64, 64))
def weakly_typed(x, y):
    return x * 2 + 1, 3 * y, jax.numpy.power(x, 2), x / 7, y**0.5
