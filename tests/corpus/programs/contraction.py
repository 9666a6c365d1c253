"""Dots and convolutions, with their precisions, dimension numbers and gradients."""

import jax
import jax.numpy as jnp
from jax import lax

from .program import Family, bf16, c64, f32, f64, s32, shape

contraction = Family()


@contraction(f32(3, 4), f32(4, 5))
def dot(x, y):
    return x @ y


@contraction(f32(2, 3, 4), f32(2, 4, 5))
def dot_batched(x, y):
    return lax.dot_general(x, y, (((2,), (1,)), ((0,), (0,))))


@contraction(f32(2, 3, 4, 5), f32(5, 2, 4, 6))
def dot_many_dimensions(x, y):
    return lax.dot_general(x, y, (((2, 3), (2, 0)), ((0,), (1,)))), jnp.einsum("bijk,kbjl->bil", x, y)


@contraction(f32(4), f32(4), f32(3, 4))
def dot_vectors(x, y, matrix):
    return jnp.dot(x, y), jnp.outer(x, y), matrix @ x, jnp.vdot(x, y)


@contraction(bf16(3, 4), bf16(4, 5), shape(jnp.int8, 3, 4), shape(jnp.int8, 4, 5))
def dot_preferred_type(x, y, i, j):
    return (
        lax.dot(x, y, preferred_element_type=jnp.float32),
        lax.dot(i, j, preferred_element_type=jnp.int32),
        lax.dot(x, y),
    )


@contraction(f32(3, 4), f32(4, 5))
def dot_precision(x, y):
    return (
        lax.dot(x, y, precision=lax.Precision.HIGH),
        lax.dot(x, y, precision=(lax.Precision.HIGHEST, lax.Precision.DEFAULT)),
    )


@contraction(f32(3, 4), f32(4, 5), platform="cuda")
def dot_algorithms(x, y):
    presets = lax.DotAlgorithmPreset
    return [
        lax.dot(x, y, precision=preset)
        for preset in (presets.BF16_BF16_F32_X3, presets.TF32_TF32_F32, presets.TF32_TF32_F32_X3, presets.F32_F32_F32)
    ]


@contraction(c64(3, 4), c64(4, 5), f64(2, 2))
def dot_complex_and_double(x, y, d):
    return x @ y, d @ d


@contraction(f32(6, 4), f32(2, 4, 5), s32(2))
def ragged_dot(x, weights, sizes):
    return lax.ragged_dot(x, weights, sizes)


@contraction(f32(6, 4), f32(6, 5), s32(2))
def ragged_dot_contracting(x, y, sizes):
    numbers = lax.RaggedDotDimensionNumbers((((0,), (0,)), ((), ())), [0], [])
    return lax.ragged_dot_general(x, y, sizes, numbers)


@contraction(
    shape(jnp.float8_e4m3fn, 1, 4, 64), shape(jnp.float8_e4m3fn, 1, 8, 64),
    shape(jnp.float8_e8m0fnu, 1, 4, 2), shape(jnp.float8_e8m0fnu, 1, 8, 2),
)  # fmt: skip
def scaled_dot(x, y, x_scale, y_scale):
    return lax.scaled_dot(
        x, y, lhs_scale=x_scale, rhs_scale=y_scale,
        dimension_numbers=(((2,), (2,)), ((0,), (0,))), preferred_element_type=jnp.bfloat16,
    )  # fmt: skip


@contraction(f32(2, 3, 8), f32(4, 3, 3))
def convolution_1d(x, kernel):
    return lax.conv_general_dilated(x, kernel, (1,), "SAME")


@contraction(f32(2, 8, 8, 3), f32(3, 3, 3, 4))
def convolution_2d(x, kernel):
    return lax.conv_general_dilated(x, kernel, (2, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


@contraction(f32(1, 4, 5, 6, 2), f32(2, 3, 2, 2, 3))
def convolution_3d(x, kernel):
    return lax.conv_general_dilated(
        x, kernel, (1, 2, 1), [(0, 1), (1, 0), (2, -1)], dimension_numbers=("NDHWC", "DHWIO", "NDHWC")
    )


@contraction(f32(1, 2, 9, 9), f32(4, 2, 3, 3))
def convolution_dilated(x, kernel):
    return lax.conv_general_dilated(x, kernel, (1, 1), [(1, 1), (0, 2)], lhs_dilation=(2, 1), rhs_dilation=(1, 2))


@contraction(f32(1, 8, 8, 6), f32(3, 3, 2, 9), f32(4, 5, 5, 3), f32(3, 3, 3, 4))
def convolution_grouped(x, kernel, y, batch_kernel):
    names = ("NHWC", "HWIO", "NHWC")
    return (
        lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=names, feature_group_count=3),
        lax.conv_general_dilated(y, batch_kernel, (1, 1), "SAME", dimension_numbers=names, batch_group_count=2),
    )


@contraction(f32(1, 8, 8, 6), f32(3, 3, 1, 6))
def convolution_depthwise(x, kernel):
    names = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=names, feature_group_count=6)


@contraction(f32(1, 4, 4, 3), f32(3, 3, 3, 5))
def convolution_transposed(x, kernel):
    return lax.conv_transpose(x, kernel, (2, 2), "SAME")


@contraction(f32(2, 8, 8, 3), f32(3, 3, 3, 4))
def convolution_gradients(x, kernel):
    def loss(x, kernel):
        y = lax.conv_general_dilated(x, kernel, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return jnp.sum(jnp.square(y))

    return jax.grad(loss, (0, 1))(x, kernel)


@contraction(bf16(1, 4, 4, 3), bf16(3, 3, 3, 4))
def convolution_precision(x, kernel):
    return lax.conv_general_dilated(
        x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"),
        precision=lax.Precision.HIGHEST, preferred_element_type=jnp.float32,
    )  # fmt: skip


@contraction(f32(1, 3, 6, 6))
def convolution_patches(x):
    return lax.conv_general_dilated_patches(x, (2, 2), (1, 1), "VALID")


@contraction(f32(3, 4), f32(4, 5))
def dot_gradients(x, y):
    return jax.grad(lambda x, y: jnp.sum(jnp.tanh(x @ y)), (0, 1))(x, y)
