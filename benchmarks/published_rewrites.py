"""Published rewrites as pairs of programs that compute the same: the axioms of TASO and Tensat, and onnxscript's rules.

TASO's verified axioms (Jia et al. 2019), Tensat's rules of merged siblings (Yang et al. 2021), and of onnxscript's
rewriter the rules whose ops HLO has. Restated in JAX.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax


def _shape(*dims: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(dims, jnp.float32)


def _convolution(image: Any, kernel: Any, padding: str = "SAME", feature_group_count: int = 1) -> Any:
    layouts = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(
        image, kernel, (1, 1), padding, dimension_numbers=layouts, feature_group_count=feature_group_count
    )


def _joined(dimension: int, *arrays: Any) -> Any:
    return jnp.concatenate(arrays, dimension)


def _average(image: Any) -> Any:
    return lax.reduce_window(image, 0.0, lax.add, (1, 3, 3, 1), (1, 1, 1, 1), "SAME") / 9.0


def _maximum(image: Any) -> Any:
    return lax.reduce_window(image, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 1, 1, 1), "SAME")


def _enlarged(kernel: Any) -> Any:
    return jnp.pad(kernel, ((1, 1), (1, 1), (0, 0), (0, 0)))


SCALAR, MATRIX = _shape(), _shape(32, 32)
IMAGE, KERNEL, SMALL_KERNEL = _shape(2, 12, 12, 8), _shape(3, 3, 8, 8), _shape(1, 1, 8, 8)

REWRITES: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[jax.ShapeDtypeStruct, ...]]] = {
    "ewadd assoc": (lambda a, b, c: a + (b + c), lambda a, b, c: a + b + c, (MATRIX, MATRIX, MATRIX)),
    "ewadd comm": (lambda a, b: a + b, lambda a, b: b + a, (MATRIX, MATRIX)),
    "ewmul assoc": (lambda a, b, c: a * (b * c), lambda a, b, c: a * b * c, (MATRIX, MATRIX, MATRIX)),
    "distrib": (lambda a, b, c: (a + b) * c, lambda a, b, c: a * c + b * c, (MATRIX, MATRIX, MATRIX)),
    "smul assoc": (lambda a, s, t: a * s * t, lambda a, s, t: a * (s * t), (MATRIX, SCALAR, SCALAR)),
    "smul distrib": (lambda a, b, s: (a + b) * s, lambda a, b, s: a * s + b * s, (MATRIX, MATRIX, SCALAR)),
    "smul ewmul": (lambda a, b, s: a * b * s, lambda a, b, s: a * (b * s), (MATRIX, MATRIX, SCALAR)),
    "transpose twice": (lambda a: a.T.T, lambda a: a, (MATRIX,)),
    "transpose ewadd": (lambda a, b: (a + b).T, lambda a, b: a.T + b.T, (MATRIX, MATRIX)),
    "transpose ewmul": (lambda a, b: (a * b).T, lambda a, b: a.T * b.T, (MATRIX, MATRIX)),
    "transpose smul": (lambda a, s: (a * s).T, lambda a, s: a.T * s, (MATRIX, SCALAR)),
    "transpose relu": (lambda a: jax.nn.relu(a).T, lambda a: jax.nn.relu(a.T), (MATRIX,)),
    "matmul assoc": (
        lambda a, b, c: a @ b @ c,
        lambda a, b, c: a @ (b @ c),
        (_shape(32, 16), _shape(16, 48), _shape(48, 8)),
    ),
    "matmul smul": (lambda a, b, s: a @ b * s, lambda a, b, s: a @ (b * s), (_shape(64, 8), _shape(8, 16), SCALAR)),
    "matmul distrib": (lambda a, b, c: a @ b + a @ c, lambda a, b, c: a @ (b + c), (MATRIX, MATRIX, MATRIX)),
    "matmul distrib left": (lambda a, b, c: a @ c + b @ c, lambda a, b, c: (a + b) @ c, (MATRIX, MATRIX, MATRIX)),
    "matmul transpose": (lambda a, b: (a @ b).T, lambda a, b: b.T @ a.T, (MATRIX, MATRIX)),
    "matmul identity": (lambda a: a @ jnp.eye(32), lambda a: a, (MATRIX,)),
    "ewmul ones": (lambda a: a * jnp.ones((32, 32)), lambda a: a, (MATRIX,)),
    "conv smul": (
        lambda x, w, s: _convolution(x * s, w),
        lambda x, w, s: _convolution(x, w * s),
        (IMAGE, KERNEL, SCALAR),
    ),
    "conv smul out": (
        lambda x, w, s: _convolution(x, w) * s,
        lambda x, w, s: _convolution(x, w * s),
        (IMAGE, KERNEL, SCALAR),
    ),
    "conv distrib kernel": (
        lambda x, w, v: _convolution(x, w) + _convolution(x, v),
        lambda x, w, v: _convolution(x, w + v),
        (IMAGE, KERNEL, KERNEL),
    ),
    "conv distrib image": (
        lambda x, y, w: _convolution(x, w) + _convolution(y, w),
        lambda x, y, w: _convolution(x + y, w),
        (IMAGE, IMAGE, KERNEL),
    ),
    "conv enlarge": (
        lambda x, w: _convolution(x, w),
        lambda x, w: _convolution(x, _enlarged(w)),
        (IMAGE, SMALL_KERNEL),
    ),
    "conv sum enlarge": (
        lambda x, w, v: _convolution(x, w) + _convolution(x, v),
        lambda x, w, v: _convolution(x, w + _enlarged(v)),
        (IMAGE, KERNEL, SMALL_KERNEL),
    ),
    "avgpool as conv": (
        lambda x: _average(x),
        lambda x: _convolution(x, jnp.full((3, 3, 1, 8), 1 / 9.0), feature_group_count=8),
        (IMAGE,),
    ),
    "conv identity": (lambda x: _convolution(x, jnp.eye(8)[None, None]), lambda x: x, (IMAGE,)),
    "split concat 0": (lambda a, b: _joined(1, a, b)[:, :32], lambda a, b: a, (MATRIX, MATRIX)),
    "split concat 1": (lambda a, b: _joined(1, a, b)[:, 32:], lambda a, b: b, (MATRIX, MATRIX)),
    "concat geometry": (
        lambda a, b, c, d: _joined(0, _joined(1, a, b), _joined(1, c, d)),
        lambda a, b, c, d: _joined(1, _joined(0, a, c), _joined(0, b, d)),
        (MATRIX, MATRIX, MATRIX, MATRIX),
    ),
    "concat ewadd": (
        lambda a, b, c, d: _joined(0, a + b, c + d),
        lambda a, b, c, d: _joined(0, a, c) + _joined(0, b, d),
        (MATRIX, MATRIX, MATRIX, MATRIX),
    ),
    "concat ewmul": (
        lambda a, b, c, d: _joined(1, a * b, c * d),
        lambda a, b, c, d: _joined(1, a, c) * _joined(1, b, d),
        (MATRIX, MATRIX, MATRIX, MATRIX),
    ),
    "concat relu": (
        lambda a, b: _joined(0, jax.nn.relu(a), jax.nn.relu(b)),
        lambda a, b: jax.nn.relu(_joined(0, a, b)),
        (MATRIX, MATRIX),
    ),
    "concat tanh": (
        lambda a, b: _joined(0, jnp.tanh(a), jnp.tanh(b)),
        lambda a, b: jnp.tanh(_joined(0, a, b)),
        (MATRIX, MATRIX),
    ),
    "concat smul": (
        lambda a, b, s: _joined(0, a * s, b * s),
        lambda a, b, s: _joined(0, a, b) * s,
        (MATRIX, MATRIX, SCALAR),
    ),
    "concat transpose": (lambda a, b: _joined(0, a.T, b.T), lambda a, b: _joined(1, a, b).T, (MATRIX, MATRIX)),
    "concat matmul rhs": (
        lambda a, b, c: _joined(1, a @ b, a @ c),
        lambda a, b, c: a @ _joined(1, b, c),
        (MATRIX, MATRIX, MATRIX),
    ),
    "concat matmul lhs": (
        lambda a, b, c: _joined(0, a @ c, b @ c),
        lambda a, b, c: _joined(0, a, b) @ c,
        (MATRIX, MATRIX, MATRIX),
    ),
    "concat matmul sum": (
        lambda a, b, c, d: a @ b + c @ d,
        lambda a, b, c, d: _joined(1, a, c) @ _joined(0, b, d),
        (MATRIX, MATRIX, MATRIX, MATRIX),
    ),
    "concat conv kernels": (
        lambda x, w, v: _joined(3, _convolution(x, w), _convolution(x, v)),
        lambda x, w, v: _convolution(x, _joined(3, w, v)),
        (IMAGE, KERNEL, KERNEL),
    ),
    "concat conv sum": (
        lambda x, y, w, v: _convolution(x, w) + _convolution(y, v),
        lambda x, y, w, v: _convolution(_joined(3, x, y), _joined(2, w, v)),
        (IMAGE, IMAGE, KERNEL, KERNEL),
    ),
    "concat conv images": (
        lambda x, y, w: _joined(0, _convolution(x, w), _convolution(y, w)),
        lambda x, y, w: _convolution(_joined(0, x, y), w),
        (IMAGE, IMAGE, KERNEL),
    ),
    "concat avgpool": (
        lambda x, y: _joined(3, _average(x), _average(y)),
        lambda x, y: _average(_joined(3, x, y)),
        (IMAGE, IMAGE),
    ),
    "concat maxpool": (
        lambda x, y: _joined(3, _maximum(x), _maximum(y)),
        lambda x, y: _maximum(_joined(3, x, y)),
        (IMAGE, IMAGE),
    ),
    "two matmuls": (
        lambda a, b, c: (a @ b, a @ c),
        lambda a, b, c: tuple(jnp.split(a @ _joined(1, b, c), 2, 1)),
        (MATRIX, MATRIX, MATRIX),
    ),
    "two matmuls shared weight": (
        lambda a, b, c: (a @ c, b @ c),
        lambda a, b, c: tuple(jnp.split(_joined(0, a, b) @ c, 2, 0)),
        (MATRIX, MATRIX, MATRIX),
    ),
    "two convs": (
        lambda x, w, v: (_convolution(x, w), _convolution(x, v)),
        lambda x, w, v: tuple(jnp.split(_convolution(x, _joined(3, w, v)), 2, 3)),
        (IMAGE, KERNEL, KERNEL),
    ),
    "two convs relu": (
        lambda x, w, v: (jax.nn.relu(_convolution(x, w)), jax.nn.relu(_convolution(x, v))),
        lambda x, w, v: tuple(jnp.split(jax.nn.relu(_convolution(x, _joined(3, w, v))), 2, 3)),
        (IMAGE, KERNEL, KERNEL),
    ),
    "two convs shared kernel": (
        lambda x, y, w: (_convolution(x, w), _convolution(y, w)),
        lambda x, y, w: tuple(jnp.split(_convolution(_joined(0, x, y), w), 2, 0)),
        (IMAGE, IMAGE, KERNEL),
    ),
    "two convs enlarged": (
        lambda x, w, v: (_convolution(x, w), _convolution(x, v)),
        lambda x, w, v: tuple(jnp.split(_convolution(x, _joined(3, w, _enlarged(v))), 2, 3)),
        (IMAGE, KERNEL, SMALL_KERNEL),
    ),
    "two batched matmuls": (
        lambda a, b, c, d: (a @ b, c @ d),
        lambda a, b, c, d: tuple(jnp.stack([a, c]) @ jnp.stack([b, d])),
        (MATRIX, MATRIX, MATRIX, MATRIX),
    ),
    "qkv": (
        lambda x, q, k, v: (x @ q, x @ k, x @ v),
        lambda x, q, k, v: tuple(jnp.split(x @ _joined(1, q, k, v), 3, 1)),
        (MATRIX, MATRIX, MATRIX, MATRIX),
    ),
    "grouped conv merge": (
        lambda x, w, v: _joined(3, _convolution(x[..., :4], w), _convolution(x[..., 4:], v)),
        lambda x, w, v: _convolution(x, _joined(3, w, v), feature_group_count=2),
        (IMAGE, _shape(3, 3, 4, 4), _shape(3, 3, 4, 4)),
    ),
    "grouped as dense": (
        lambda x, w: _convolution(x, w, feature_group_count=2),
        lambda x, w: _convolution(
            x,
            _joined(
                3,
                jnp.pad(w[..., :4], ((0, 0), (0, 0), (0, 4), (0, 0))),
                jnp.pad(w[..., 4:], ((0, 0), (0, 0), (4, 0), (0, 0))),
            ),
        ),
        (IMAGE, _shape(3, 3, 4, 8)),
    ),
    "lstm gates": (
        lambda x, h, a, b, c, d: (jax.nn.sigmoid(x @ a + h @ b), jnp.tanh(x @ c + h @ d)),
        lambda x, h, a, b, c, d: (lambda z: (jax.nn.sigmoid(z[:, :32]), jnp.tanh(z[:, 32:])))(
            _joined(1, x, h) @ _joined(1, _joined(0, a, b), _joined(0, c, d))
        ),
        (MATRIX, MATRIX, MATRIX, MATRIX, MATRIX, MATRIX),
    ),
    "onnx transpose matmul": (
        lambda a, b: jnp.swapaxes(a, -1, -2) @ b,
        lambda a, b: lax.dot_general(a, b, (((0,), (0,)), ((), ()))),
        (MATRIX, MATRIX),
    ),
    "onnx reshape matmul reshape": (
        lambda a, b: (a.reshape(2, 16, 32) @ b.reshape(32, 32)).reshape(32, 32),
        lambda a, b: a @ b,
        (MATRIX, MATRIX),
    ),
    "onnx slice+concat split": (lambda a: _joined(1, a[:, :16], a[:, 16:]), lambda a: a, (MATRIX,)),
    "onnx cast cast": (
        lambda a: a.astype(jnp.float64 if 0 else jnp.bfloat16).astype(jnp.float32).astype(jnp.bfloat16),
        lambda a: a.astype(jnp.bfloat16),
        (MATRIX,),
    ),
    "onnx transpose transpose": (
        lambda x: x.transpose(0, 2, 1, 3).transpose(0, 1, 3, 2),
        lambda x: x.transpose(0, 2, 3, 1),
        (IMAGE,),
    ),
    "onnx unsqueeze unsqueeze": (lambda a: a[None][None], lambda a: a.reshape(1, 1, 32, 32), (MATRIX,)),
    "onnx expand identity": (lambda a: jnp.broadcast_to(a, (32, 32)) + 0, lambda a: a, (MATRIX,)),
    "onnx bn into conv": (
        lambda x, w, g, b, m, v: (_convolution(x, w) - m) * lax.rsqrt(v + 1e-05) * g + b,
        lambda x, w, g, b, m, v: _convolution(x, w * (lax.rsqrt(v + 1e-05) * g)) + (b - m * (lax.rsqrt(v + 1e-05) * g)),
        (IMAGE, KERNEL, _shape(8), _shape(8), _shape(8), _shape(8)),
    ),
    "onnx pad into conv": (
        lambda x, w: _convolution(jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))), w, "VALID"),
        lambda x, w: _convolution(x, w),
        (IMAGE, KERNEL),
    ),
    "onnx relu clip": (lambda a: jnp.clip(jax.nn.relu(a), 0, 6), lambda a: jnp.clip(a, 0, 6), (MATRIX,)),
    "onnx min min": (
        lambda a, s, t: jnp.minimum(jnp.minimum(a, s), t),
        lambda a, s, t: jnp.minimum(a, jnp.minimum(s, t)),
        (MATRIX, SCALAR, SCALAR),
    ),
    "onnx max min consts": (lambda a: jnp.minimum(jnp.minimum(a, 3.0), 2.0), lambda a: jnp.minimum(a, 2.0), (MATRIX,)),
    "onnx scatter to identity": (lambda a, b: lax.dynamic_update_slice(a, b, (0, 0)), lambda a, b: b, (MATRIX, MATRIX)),
    "onnx gather identity": (lambda a: a[jnp.arange(32)], lambda a: a, (MATRIX,)),
    "onnx sqrt div": (lambda a, b: a / jnp.sqrt(b), lambda a, b: a * lax.rsqrt(b), (MATRIX, MATRIX)),
    "onnx pow 2": (lambda a: a**2.0, lambda a: a * a, (MATRIX,)),
    "onnx hardswish": (lambda a: a * jnp.clip(a / 6 + 0.5, 0, 1), lambda a: a * jnp.clip(a + 3, 0, 6) / 6, (MATRIX,)),
    "onnx matmul scale merge": (
        lambda a, b, s: a * s @ b.T * s,
        lambda a, b, s: a @ b.T * (s * s),
        (MATRIX, MATRIX, SCALAR),
    ),
}
"""By name, both sides and what they take."""
