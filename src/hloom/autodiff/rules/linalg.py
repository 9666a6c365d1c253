"""Factorisations, triangular solves and Fourier transforms.

Source of the formulas: Murray, Differentiation of the Cholesky decomposition (2016); jax/_src/lax/linalg.py,
_cholesky_jvp_rule and triangular_solve_jvp_rule_a; jax/_src/lax/fft.py, _rfft_transpose and _irfft_transpose.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hloom.autodiff.backward import Backward
from hloom.autodiff.emitter import REAL_OF, S32, Emitter, array_type
from hloom.autodiff.linear import Linear, LinearOps
from hloom.autodiff.table import rules, transposition
from hloom.ir import Apply, Node, TensorType


def swapped(rank: int) -> list[int]:
    """The last two dimensions exchanged."""
    return [*range(rank - 2), rank - 1, rank - 2]


def triangle(p: Emitter, value_type: TensorType, *, lower: bool, strict: bool = False) -> Node:
    """Which elements of matrices stand in a triangle, the diagonal included unless it is strict: pred of their dims."""
    square = value_type.dims[-2:]
    rows, columns = p.iota(S32, square, 0), p.iota(S32, square, 1)
    direction = ("GT" if strict else "GE") if lower else ("LT" if strict else "LE")
    return p.broadcast(p.compare(direction, rows, columns), value_type.dims, [value_type.rank - 2, value_type.rank - 1])


def times(p: Any, left: Any, right: Any, value_type: TensorType) -> Any:
    """The product of matrices, all other dimensions batched."""
    batch = tuple(range(value_type.rank - 2))
    return p.op(
        "dot",
        left,
        right,
        lhs_batch_dims=batch,
        rhs_batch_dims=batch,
        lhs_contracting_dims=(value_type.rank - 1,),
        rhs_contracting_dims=(value_type.rank - 2,),
    )


def adjoint(t: LinearOps, tangent: Any) -> Any:
    return t.transpose(t.conjugate(tangent), swapped(array_type(tangent).rank))


@rules("cholesky")
def cholesky(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    """L phi(L^-1 dA L^-H), phi the lower triangle with half the diagonal; of dA the triangle that is read."""
    p, value_type = t.primal, array_type(node)
    lower = bool(node.attributes.get("lower"))
    own = triangle(p, value_type, lower=True)
    factor = node if lower else p.transpose(p.conjugate(node), swapped(value_type.rank))
    factor = p.select(own, factor, p.like(0, factor))
    change = tangents[0] if lower else adjoint(t, tangents[0])
    weights = halved_triangle(p, value_type, lower=True)
    half = t.mul(weights, change)
    whole = t.add(half, adjoint(t, half))
    solved = t.op("triangular-solve", factor, whole, left_side=False, lower=True, transpose_a="ADJOINT")
    inner = t.op("triangular-solve", factor, solved, left_side=True, lower=True, transpose_a="NO_TRANSPOSE")
    result = times(t, factor, t.mul(weights, inner), value_type)
    return result if lower else adjoint(t, result)


def eye(p: Emitter, value_type: TensorType) -> Node:
    """Which elements of matrices stand on the diagonal: pred of their dims."""
    square = value_type.dims[-2:]
    same = p.compare("EQ", p.iota(S32, square, 0), p.iota(S32, square, 1))
    return p.broadcast(same, value_type.dims, [value_type.rank - 2, value_type.rank - 1])


def halved_triangle(p: Emitter, value_type: TensorType, *, lower: bool) -> Node:
    """1 in a triangle, 1/2 on the diagonal, 0 in the other.

    A matrix times it, element by element, and the adjoint of that add up to the hermitian one that the triangle is of.
    """
    square = TensorType(value_type.dtype, value_type.dims[-2:])
    diagonal = p.select(eye(p, square), p.constant(0.5, square), p.constant(0, square))
    weights = p.select(triangle(p, square, lower=lower, strict=True), p.constant(1, square), diagonal)
    return p.broadcast(weights, value_type.dims, [value_type.rank - 2, value_type.rank - 1])


@rules("triangular-solve")
def triangular_solve(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    """d(op(A)^-1 B) = op(A)^-1 (dB - op(dA) X), of dA the triangle that is read."""
    p, (matrix, _) = t.primal, node.operands
    value_type, solution = array_type(matrix), array_type(node)
    attributes = {**node.attributes, "transpose_a": node.attributes.get("transpose_a") or "NO_TRANSPOSE"}
    right = tangents[1]
    if tangents[0] is not None:
        mask = triangle(
            p, value_type, lower=attributes.get("lower", False), strict=attributes.get("unit_diagonal", False)
        )
        change = t.select(mask, tangents[0], None)
        if attributes["transpose_a"] == "ADJOINT":
            change = t.conjugate(change)
        if attributes["transpose_a"] != "NO_TRANSPOSE":
            change = t.transpose(change, swapped(value_type.rank))
        pair = (change, node) if attributes.get("left_side") else (node, change)
        right = t.sub(right, times(t, *pair, solution))
    return t.op("triangular-solve", matrix, right, **attributes)


@transposition("triangular-solve")
def transpose_triangular_solve(b: Backward, value: Linear, cotangent: Node) -> None:
    """A solve with the transposed matrix."""
    matrix, right = value.operands
    attributes = dict(value.attributes)
    former = attributes.get("transpose_a") or "NO_TRANSPOSE"
    if former == "ADJOINT" and array_type(cotangent).dtype in REAL_OF:
        matrix = b.op("complex", b.op("real", matrix), b.neg(b.op("imag", matrix)))
    attributes["transpose_a"] = "TRANSPOSE" if former == "NO_TRANSPOSE" else "NO_TRANSPOSE"
    b.give(right, b.op("triangular-solve", matrix, cotangent, **attributes))


@rules("fft")
def fft(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    return t.op("fft", tangents[0], type=array_type(node), **node.attributes)


@transposition("fft")
def transpose_fft(b: Backward, value: Linear, cotangent: Node) -> None:
    operand = value.operands[0]
    form, lengths = value.attributes["fft_type"], value.attributes["fft_length"]
    if form in ("FFT", "IFFT"):
        b.give(operand, b.op("fft", cotangent, type=array_type(operand), fft_type=form, fft_length=lengths))
        return
    if not lengths[-1]:
        b.give(operand, b.zeros(operand.type))
        return
    value_type = array_type(operand)
    b.give(
        operand, _from_half(b, cotangent, value_type, lengths) if form == "RFFT" else _to_half(b, cotangent, lengths)
    )


def _from_half(b: Backward, cotangent: Node, value_type: TensorType, lengths: Any) -> Node:
    """Of RFFT, Re(sum of c_k e^(-i t k)): an IRFFT of the conjugate, those frequencies halved that stand for two."""
    given = array_type(cotangent)
    weights = np.full(given.dims[-1], 0.5)
    weights[0] = 1.0
    if lengths[-1] % 2 == 0:
        weights[-1] = 1.0
    values = (weights * math.prod(lengths)).astype(value_type.dtype.numpy)
    scale = b.broadcast(b.constant(values, TensorType(value_type.dtype, values.shape)), given.dims, [given.rank - 1])
    conjugate = b.op("complex", b.mul(b.op("real", cotangent), scale), b.neg(b.mul(b.op("imag", cotangent), scale)))
    return b.op("fft", conjugate, fft_type="IRFFT", fft_length=lengths)


def _to_half(b: Backward, cotangent: Node, lengths: Any) -> Node:
    """Of IRFFT: transformed, those frequencies doubled that stand for two, conjugated."""
    spectrum = b.op("fft", cotangent, fft_type="RFFT", fft_length=lengths)
    value_type = array_type(spectrum)
    weights = np.full(value_type.dims[-1], 2.0)
    weights[0] = 1.0
    if lengths[-1] % 2 == 0:
        weights[-1] = 1.0
    real = REAL_OF[value_type.dtype]
    scaled = b.constant((weights / math.prod(lengths)).astype(real.numpy), TensorType(real, weights.shape))
    wide = b.broadcast(scaled, value_type.dims, [value_type.rank - 1])
    return b.op("complex", b.mul(b.op("real", spectrum), wide), b.neg(b.mul(b.op("imag", spectrum), wide)))
