"""Custom calls of eigendecompositions and singular value decompositions that JAX emits.

Source of the formulas: jax/_src/lax/linalg.py, the JVP rules of eigh and svd; Townsend, Differentiating the singular
value decomposition (2016); Walter and Lehmann, Algorithmic differentiation of linear algebra functions (2010).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from hloom.autodiff.emitter import REAL_OF, Emitter, array_type
from hloom.autodiff.linear import LinearOps
from hloom.autodiff.rules.custom import custom_call
from hloom.autodiff.rules.factorization import (
    conjugate_transpose,
    hermitian,
    lapack,
    leaves_from,
    matrix_part,
    setting,
)
from hloom.autodiff.rules.linalg import adjoint, eye, times
from hloom.autodiff.rules.reduction import extreme_bound
from hloom.ir import Apply, Node, SliceDimension, TensorType, TupleType


@custom_call(*lapack("syevd", "heevd"), "cusolver_syevd_ffi", "Eigh")
def eigh(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    """dw = diag(V^H dA V), dV = V (F * V^H dA V), F = 1 / (w_j - w_i) off the diagonal."""
    p = t.primal
    vectors, values = p.element(node, 0), p.element(node, 1)
    value_type = array_type(vectors)
    lower = setting(node, "uplo", "L") == "L"
    change = hermitian(t, tangents[0], value_type, lower=lower)
    inner = times(t, conjugate_transpose(p, vectors), times(t, change, vectors, value_type), value_type)
    on_diagonal = t.select(eye(p, value_type), inner, None)
    moved = t.sum(on_diagonal, [value_type.rank - 1])
    moved = t.op("real", moved) if value_type.dtype in REAL_OF else moved
    rank = value_type.rank
    rows = p.broadcast(values, value_type.dims, [*range(rank - 2), rank - 1])
    columns = p.broadcast(values, value_type.dims, list(range(rank - 1)))
    apart = p.sub(rows, columns)
    same = eye(p, value_type)
    safe = p.select(same, p.like(1, apart), apart)
    factor = p.select(same, p.like(0, apart), p.div(p.like(1, apart), safe))
    turned = times(t, vectors, t.mul(_like_matrix(p, factor, value_type), inner), value_type)
    return leaves_from(node, {0: turned, 1: moved})


def _like_matrix(p: Emitter, factor: Node, value_type: TensorType) -> Node:
    """A real array in the element type of matrices."""
    if array_type(factor).dtype is value_type.dtype:
        return factor
    return (
        p.op("complex", factor, p.like(0, factor))
        if value_type.dtype in REAL_OF
        else p.convert(factor, value_type.dtype)
    )


@dataclass(frozen=True, slots=True)
class SingularVectors:
    """Which results of a decomposition are the left and the right vectors, and whether the right ones are columns."""

    left: int
    right: int
    are_columns: bool


def _svd_form(node: Apply) -> SingularVectors:
    """Source: jax/_src/lax/linalg.py, _svd_cpu_gpu_lowering and _svd_gpu_sub_lowering."""
    target = node.attributes["custom_call_target"]
    if setting(node, "transposed", "false") == "true":
        return SingularVectors(3, 2, False)
    return SingularVectors(2, 3, "gesvdj" in target or "gesvdp" in target)


@custom_call(*lapack("gesdd", "gesvd"), *[f"cusolver_{name}_ffi" for name in ("gesvd", "gesvdj", "gesvdp", "gesdd")])
def svd(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    """Singular values and vectors.

    The further columns of full matrices turn among each other as they like: they move only out of their space.
    """
    p = t.primal
    given = node.operands[0]
    rows, columns = array_type(given).dims[-2:]
    least = min(rows, columns)
    form = _svd_form(node)
    full, asked = node, True
    if setting(node, "mode", "S") == "N" or setting(node, "compute_uv", "true") == "false":
        full, asked = _with_vectors(p, node, form, rows, columns, least), False
    values, left, right = (p.element(full, number) for number in (1, form.left, form.right))
    if form.are_columns:
        right = conjugate_transpose(p, right)
    value_type = array_type(given).with_layout(None)
    square = TensorType(value_type.dtype, [*value_type.dims[:-2], least, least])
    first_left, first_right = matrix_part(p, left, rows, least), matrix_part(p, right, least, columns)
    right_vectors = conjugate_transpose(p, first_right)
    change = tangents[0]
    along = times(t, change, right_vectors, value_type)
    inner = times(t, conjugate_transpose(p, first_left), along, square)
    moved = t.sum(t.select(eye(p, square), inner, None), [square.rank - 1])
    moved = t.op("real", moved) if value_type.dtype in REAL_OF else moved
    if not asked:
        return leaves_from(node, {1: moved})
    rank = square.rank
    of_columns = p.broadcast(values, square.dims, [*range(rank - 2), rank - 1])
    of_rows = p.broadcast(values, square.dims, list(range(rank - 1)))
    same = eye(p, square)
    apart = p.mul(p.sub(of_columns, of_rows), p.add(of_columns, of_rows))
    safe = p.select(same, p.like(1, apart), apart)
    factor = _like_matrix(p, p.select(same, p.like(0, apart), p.div(p.like(1, apart), safe)), value_type)
    by_columns, by_rows = _like_matrix(p, of_columns, value_type), _like_matrix(p, of_rows, value_type)
    scaled, other = t.mul(by_columns, inner), t.mul(by_rows, inner)
    turn = t.mul(factor, t.add(scaled, adjoint(t, scaled)))
    if value_type.dtype in REAL_OF:
        inverse = p.div(p.like(0.5, of_columns), of_columns)
        inverse = _like_matrix(p, p.select(same, inverse, p.like(0, inverse)), value_type)
        turn = t.add(turn, t.mul(inverse, t.sub(inner, adjoint(t, inner))))
    of_left = times(t, first_left, turn, TensorType(value_type.dtype, array_type(first_left).dims))
    of_right = times(t, right_vectors, t.mul(factor, t.add(other, adjoint(t, other))), square)
    if rows > columns:
        outside = t.sub(along, times(t, first_left, inner, value_type))
        of_left = t.add(of_left, t.div(outside, _over_columns(p, values, array_type(first_left), value_type)))
    if columns > rows:
        across = times(t, adjoint(t, change), first_left, value_type)
        outside = t.sub(across, times(t, right_vectors, times(t, first_right, across, square), value_type))
        of_right = t.add(of_right, t.div(outside, _over_columns(p, values, array_type(right_vectors), value_type)))
    of_left = _with_complement(t, left, first_left, of_left)
    of_right = _with_complement(t, conjugate_transpose(p, right), right_vectors, of_right)
    of_right = of_right if form.are_columns else adjoint(t, of_right)
    return leaves_from(node, {1: moved, form.left: of_left, form.right: of_right})


def _with_complement(t: LinearOps, whole: Node, first: Node, tangent: Any) -> Any:
    """The tangent of all columns: dU_2 = -U_1 dU_1^H U_2, since U_1^H U_2 = 0."""
    p, value_type = t.primal, array_type(whole)
    size, count = value_type.dims[-1], array_type(first).dims[-1]
    if size == count:
        return tangent
    rows = [SliceDimension(0, dim) for dim in value_type.dims[:-1]]
    rest = p.op("slice", whole, slice=(*rows, SliceDimension(count, size)))
    beyond = times(t, first, times(t, adjoint(t, tangent), rest, value_type), value_type)
    return t.op("concatenate", tangent, t.neg(beyond), dimensions=(value_type.rank - 1,))


def _over_columns(p: Emitter, values: Node, shape: TensorType, value_type: TensorType) -> Node:
    wide = p.broadcast(values, shape.dims, [*range(shape.rank - 2), shape.rank - 1])
    return _like_matrix(p, wide, value_type)


def _with_vectors(p: Emitter, node: Apply, form: SingularVectors, rows: int, columns: int, least: int) -> Node:
    """The same decomposition with singular vectors, for one that asked for the values alone."""
    types = list(node.type.elements)  # pyright: ignore[reportAttributeAccessIssue, reportOptionalMemberAccess]
    first = types[0]
    batch, order = first.dims[:-2], first.layout
    if not form.are_columns:
        types[form.left] = TensorType(first.dtype, [*batch, rows, least], order)
        types[form.right] = TensorType(first.dtype, [*batch, least, columns], order)
    config = re.sub(r"mode\s*=\s*\d+", f"mode = {ord('S')}", str(node.attributes.get("backend_config", "")))
    config = re.sub(r"compute_uv\s*=\s*false", "compute_uv = true", config)
    if not form.are_columns:
        config = re.sub(r"full_matrices\s*=\s*true", "full_matrices = false", config)
    attributes = {**node.attributes, "backend_config": config, "frontend_attributes": None}
    return p.op("custom-call", *node.operands, type=TupleType(types), **attributes)


@custom_call(*lapack("geev"), "cuhybrid_eig_real", "cuhybrid_eig_comp")
def eig(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    """dw = diag(L^-1 dA R), dR = R (B / (w_j - w_i)), each column kept at length 1 and its largest element real.

    L and R are the left and right vectors, whose products say what R^-1 is. Source: Boeddeker et al., On the
    computation of complex-valued gradients with application to statistically optimum beamforming (2017).
    """
    p = t.primal
    value_type = array_type(node.operands[0])
    is_real = value_type.dtype not in REAL_OF
    first = 2 if is_real else 1
    config = str(node.attributes.get("backend_config", ""))
    config = re.sub(r"(compute_(?:left|right))\s*=\s*78", r"\1 = 86", config)
    config = re.sub(r"\b(left|right)\s*=\s*false", r"\1 = true", config)
    full = p.op("custom-call", *node.operands, type=node.type,
                **{**node.attributes, "backend_config": config, "frontend_attributes": None})  # fmt: skip
    values = p.op("complex", p.element(full, 0), p.element(full, 1)) if is_real else p.element(full, 0)
    left, right = p.element(full, first), p.element(full, first + 1)
    change = t.op("complex", tangents[0], t.zero(node.operands[0])) if is_real else tangents[0]
    moved, of_right = _eigenvectors(t, values, left, right, change)
    result = {0: t.op("real", moved), 1: t.op("imag", moved)} if is_real else {0: moved}
    if _asks(node, "right"):
        result[first + 1] = of_right
    if _asks(node, "left"):
        result[first] = _eigenvectors(t, p.conjugate(values), right, left, adjoint(t, change))[1]
    return leaves_from(node, result)


def _asks(node: Apply, side: str) -> bool:
    return setting(node, f"compute_{side}", "N") == "V" or setting(node, side, "false") == "true"


def _eigenvectors(t: LinearOps, values: Node, left: Node, right: Node, change: Any) -> tuple[Any, Any]:
    """The tangents of the eigenvalues and of the right vectors."""
    p = t.primal
    square = array_type(right).with_layout(None)
    rank = square.rank
    left_adjoint = conjugate_transpose(p, left)
    same = eye(p, square)
    products = p.mul(p.conjugate(left), right)
    scales = p.reduce("add", products, [rank - 2])
    inner = times(t, left_adjoint, times(t, change, right, square), square)
    inner = t.div(inner, p.broadcast(scales, square.dims, list(range(rank - 1))))
    moved = t.sum(t.select(same, inner, None), [rank - 1])
    apart = p.sub(p.broadcast(values, square.dims, [*range(rank - 2), rank - 1]),
                  p.broadcast(values, square.dims, list(range(rank - 1))))  # fmt: skip
    factor = p.select(same, p.like(0, apart), p.div(p.like(1, apart), p.select(same, p.like(1, apart), apart)))
    turned = times(t, right, t.mul(factor, inner), square)
    along = t.op("real", t.sum(t.mul(p.conjugate(right), turned), [rank - 2]))
    sizes = p.op("abs", right)
    columns = [*range(rank - 2), rank - 1]
    direction, bound = extreme_bound(p, sizes, p.reduce("maximum", sizes, [rank - 2]), "maximum")
    largest = p.compare(direction, sizes, p.broadcast(bound, square.dims, columns))
    count = p.reduce("add", p.convert(largest, array_type(sizes).dtype), [rank - 2])
    count = p.op("maximum", count, p.like(1, count))
    real = p.op("real", right)
    weight = p.mul(p.broadcast(count, square.dims, columns), p.select(largest, real, p.like(1, real)))
    weight = p.select(largest, p.div(p.like(1, weight), weight), p.like(0, weight))
    across = t.sum(t.mul(weight, t.op("imag", turned)), [rank - 2])
    both = t.broadcast(t.op("complex", along, across), square.dims, columns)
    return moved, t.sub(turned, t.mul(right, both))
