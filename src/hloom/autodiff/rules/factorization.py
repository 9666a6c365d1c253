"""Custom calls of matrix factorisations that JAX emits: LAPACK's, cuSOLVER's, and XLA's own on TPU.

Source of the formulas: jax/_src/lax/linalg.py, the JVP rules of lu, qr, eigh and svd; Townsend, Differentiating the
singular value decomposition (2016); Walter and Lehmann, Algorithmic differentiation of linear algebra functions (2010).
"""

from __future__ import annotations

import re
from typing import Any

from hloom.autodiff.emitter import REAL_OF, S32, Emitter, array_type, leaf_types
from hloom.autodiff.linear import LinearOps
from hloom.autodiff.linearize import place_of
from hloom.autodiff.loop_state import loop
from hloom.autodiff.rules.custom import custom_call
from hloom.autodiff.rules.linalg import adjoint, swapped, times, triangle
from hloom.autodiff.rules.sort import take_rows
from hloom.ir import Apply, Node, PaddingDimension, SliceDimension, TensorType, TupleType
from hloom.text import Unsupported

_SETTING = re.compile(r"(\w+)\s*=\s*(\w+)")


def _lapack(*names: str) -> list[str]:
    """The targets of some routines on the CPU, for each element type."""
    return [f"lapack_{value_type}{name}_ffi" for name in names for value_type in "sdcz"]


def _setting(node: Apply, name: str, default: str) -> str:
    """A letter among the settings of the call: `uplo = 76 : ui8` is L."""
    result = dict(_SETTING.findall(str(node.attributes.get("backend_config", ""))))
    value = result.get(name)
    if value is None:
        return default
    return chr(int(value)) if value.isdigit() and int(value) > 31 else value


def _half(t: LinearOps, tangent: Any, value_type: TensorType, *, lower: bool) -> Any:
    """The hermitian matrix of which a triangle is read."""
    p = t.primal
    strict = t.select(triangle(p, value_type, lower=lower, strict=True), tangent, None)
    diagonal = t.select(_eye(p, value_type), tangent, None)
    if value_type.dtype in REAL_OF:
        diagonal = t.op("complex", t.op("real", diagonal), t.zero(_Real(value_type)))
    return t.add(t.add(strict, diagonal), adjoint(t, strict))


class _Real:
    """Something of the type of the real part."""

    def __init__(self, value_type: TensorType) -> None:
        self.type = value_type.with_dtype(REAL_OF[value_type.dtype])


def _eye(p: Emitter, value_type: TensorType) -> Node:
    square = value_type.dims[-2:]
    same = p.compare("EQ", p.iota(S32, square, 0), p.iota(S32, square, 1))
    return p.broadcast(same, value_type.dims, [value_type.rank - 2, value_type.rank - 1])


def _conjugate_transpose(p: Emitter, node: Node) -> Node:
    return p.transpose(p.conjugate(node), swapped(array_type(node).rank))


def _matrix(node: Node) -> TensorType:
    return array_type(node)


def _part(p: Any, value: Any, rows: int, columns: int) -> Any:
    """The upper left part of matrices."""
    dims = array_type(value).dims
    if dims[-2:] == (rows, columns):
        return value
    whole = [SliceDimension(0, size) for size in dims[:-2]]
    return p.op("slice", value, slice=(*whole, SliceDimension(0, rows), SliceDimension(0, columns)))


def _padded(p: Any, value: Any, rows: int, columns: int, zero: Node) -> Any:
    dims = array_type(value).dims
    if dims[-2:] == (rows, columns):
        return value
    sides = [PaddingDimension(0, 0)] * (len(dims) - 2)
    sides += [PaddingDimension(0, rows - dims[-2]), PaddingDimension(0, columns - dims[-1])]
    return p.op("pad", value, zero, padding=tuple(sides))


def _nothing(node: Apply, result: dict[int, Any]) -> list[Any]:
    return [result.get(leaf) for leaf in range(len(leaf_types(node.type)))]


@custom_call(*_lapack("trsm"), "cublas_trsm_ffi", "cusolver_trsm_ffi")
def trsm(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    """A triangular solve: as of the instruction triangular-solve."""
    p, matrix = t.primal, node.inputs[0]
    value_type, solution = _matrix(matrix), _matrix(node)
    lower, left = _setting(node, "uplo", "L") == "L", _setting(node, "side", "L") == "L"
    unit = _setting(node, "diag", "N") == "U"
    turned = {"N": "NO_TRANSPOSE", "T": "TRANSPOSE", "C": "ADJOINT"}[_setting(node, "trans_x", "N")]
    total = tangents[1]
    if tangents[0] is not None:
        change = t.select(triangle(p, value_type, lower=lower, strict=unit), tangents[0], None)
        change = t.conjugate(change) if turned == "ADJOINT" else change
        change = t.transpose(change, swapped(value_type.rank)) if turned != "NO_TRANSPOSE" else change
        total = t.sub(total, times(t, change, node, solution) if left else times(t, node, change, solution))
    return t.op("triangular-solve", matrix, total, left_side=left, lower=lower, unit_diagonal=unit, transpose_a=turned)


@custom_call(*_lapack("potrf"), "cusolver_potrf_ffi")
def potrf(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    """The Cholesky factor in the triangle that is read; the other triangle, left as it was, has its own tangent."""
    p, value_type = t.primal, _matrix(node.inputs[0])
    lower = _setting(node, "uplo", "L") == "L"
    own = triangle(p, value_type, lower=lower)
    result = p.element(node, 0)
    factor = result if lower else _conjugate_transpose(p, result)
    mask = triangle(p, value_type, lower=True)
    factor = p.select(mask, factor, p.like(0, factor))
    whole = _half(t, tangents[0], value_type, lower=lower)
    solved = t.op("triangular-solve", factor, whole, left_side=False, lower=True, transpose_a="ADJOINT")
    inner = t.op("triangular-solve", factor, solved, left_side=True, lower=True, transpose_a="NO_TRANSPOSE")
    strict = triangle(p, value_type, lower=True, strict=True)
    phi = p.select(strict, p.like(1, factor), p.select(_eye(p, value_type), p.like(0.5, factor), p.like(0, factor)))
    value = times(t, factor, t.mul(phi, inner), value_type)
    value = value if lower else adjoint(t, value)
    return _nothing(node, {0: t.select(own, value, tangents[0])})


@custom_call(*_lapack("getrf"), "cusolver_getrf_ffi", "LuDecomposition")
def getrf(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    """dL = L low(X), dU = up(X) U with X = L^-1 (P dA) U^-1; both triangles in one matrix."""
    p = t.primal
    packed, pivots = p.element(node, 0), p.element(node, 1)
    value_type = _matrix(packed)
    rows, columns = value_type.dims[-2:]
    least = min(rows, columns)
    one_based = node.attributes["custom_call_target"] != "LuDecomposition"
    order = _permutation(p, pivots, rows, one_based=one_based)
    moved = take_rows(t, tangents[0], order)
    zero = p.constant(0, value_type.dtype)
    tall = TensorType(value_type.dtype, [*value_type.dims[:-2], rows, rows])
    wide = TensorType(value_type.dtype, [*value_type.dims[:-2], columns, columns])
    below = _padded(p, _part(p, packed, rows, least), rows, rows, zero)
    below = p.select(triangle(p, tall, lower=True, strict=True), below, p.constant(0, tall))
    below = p.select(_eye(p, tall), p.constant(1, tall), below)
    above = _padded(p, _part(p, packed, least, columns), columns, columns, zero)
    above = p.select(triangle(p, wide, lower=False), above, p.constant(0, wide))
    if columns > least:
        corner = p.compare("GE", p.iota(S32, wide.dims, wide.rank - 1), p.constant(least, TensorType(S32, wide.dims)))
        above = p.select(p.op("and", corner, _eye(p, wide)), p.constant(1, wide), above)
    solved = t.op(
        "triangular-solve", below, moved, left_side=True, lower=True, unit_diagonal=True, transpose_a="NO_TRANSPOSE"
    )
    both = t.op("triangular-solve", above, solved, left_side=False, lower=False, transpose_a="NO_TRANSPOSE")
    strict = triangle(p, value_type, lower=True, strict=True)
    low, up = t.select(strict, both, None), t.select(strict, None, both)
    return _nothing(node, {0: t.add(times(t, below, low, value_type), times(t, up, above, value_type))})


def _permutation(p: Emitter, pivots: Node, rows: int, *, one_based: bool) -> Node:
    """Where each row comes from, once the rows were exchanged in order as the pivots say."""
    value_type = array_type(pivots)
    *batch, steps = value_type.dims
    dims = [*batch, rows]
    last = len(dims) - 1
    numbers = p.iota(S32, dims, last)
    swaps = p.convert(pivots, S32)
    swaps = p.sub(swaps, p.like(1, swaps)) if one_based else swaps

    def condition(inner: Emitter, state: list[Node]) -> Node:
        return inner.compare("LT", state[0], inner.constant(steps, S32))

    def body(inner: Emitter, state: list[Node]) -> list[Node]:
        index, order, targets = state
        at = [inner.constant(0, S32)] * last
        target = inner.op("dynamic-slice", targets, *at, index, dynamic_slice_sizes=(*batch, 1))
        own = inner.op("dynamic-slice", order, *at, index, dynamic_slice_sizes=(*batch, 1))
        spread = list(range(last))
        target = inner.broadcast(inner.reshape(target, batch), dims, spread)
        own = inner.broadcast(inner.reshape(own, batch), dims, spread)
        places = inner.iota(S32, dims, last)
        is_target = inner.compare("EQ", places, target)
        is_own = inner.compare("EQ", places, inner.broadcast(index, dims))
        other = inner.reduce("add", inner.select(is_target, order, inner.zeros(array_type(order))), [last])
        other = inner.broadcast(other, dims, spread)
        swapped_order = inner.select(is_own, other, inner.select(is_target, own, order))
        return [inner.add(index, inner.constant(1, S32)), swapped_order, targets]

    return loop(p, "permutation", [p.constant(0, S32), numbers, swaps], condition, body)[1]


@custom_call(*_lapack("syevd", "heevd"), "cusolver_syevd_ffi", "Eigh")
def eigh(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    """dw = diag(V^H dA V), dV = V (F * V^H dA V), F = 1 / (w_j - w_i) off the diagonal."""
    p = t.primal
    vectors, values = p.element(node, 0), p.element(node, 1)
    value_type = _matrix(vectors)
    lower = _setting(node, "uplo", "L") == "L"
    change = _half(t, tangents[0], value_type, lower=lower)
    inner = times(t, _conjugate_transpose(p, vectors), times(t, change, vectors, value_type), value_type)
    on_diagonal = t.select(_eye(p, value_type), inner, None)
    moved = t.sum(on_diagonal, [value_type.rank - 1])
    moved = t.op("real", moved) if value_type.dtype in REAL_OF else moved
    rank = value_type.rank
    rows = p.broadcast(values, value_type.dims, [*range(rank - 2), rank - 1])
    columns = p.broadcast(values, value_type.dims, list(range(rank - 1)))
    apart = p.sub(rows, columns)
    same = _eye(p, value_type)
    safe = p.select(same, p.like(1, apart), apart)
    factor = p.select(same, p.like(0, apart), p.div(p.like(1, apart), safe))
    turned = times(t, vectors, t.mul(_like_matrix(p, factor, value_type), inner), value_type)
    return _nothing(node, {0: turned, 1: moved})


def _like_matrix(p: Emitter, factor: Node, value_type: TensorType) -> Node:
    """A real array in the element type of matrices."""
    if array_type(factor).dtype is value_type.dtype:
        return factor
    return (
        p.op("complex", factor, p.like(0, factor))
        if value_type.dtype in REAL_OF
        else p.convert(factor, value_type.dtype)
    )


@custom_call(*_lapack("gesdd"), "cusolver_gesvdj_ffi", "cusolver_gesvd_ffi")
def svd(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    """Singular values, and of the thin decomposition the vectors."""
    p = t.primal
    if not node.attributes["custom_call_target"].startswith("lapack"):
        raise Unsupported(f"{place_of(node)}: the singular value decomposition of a GPU has no derivative here yet")
    given = node.inputs[0]
    rows, columns = _matrix(given).dims[-2:]
    least = min(rows, columns)
    full = node
    if _setting(node, "mode", "S") == "N":
        full = _with_vectors(p, node, rows, columns, least)
    values, left, right = (p.element(full, number) for number in (1, 2, 3))
    if _matrix(left).dims[-1] != least or _matrix(right).dims[-2] != least:
        raise Unsupported(f"{place_of(node)}: a singular value decomposition with full matrices has no derivative")
    value_type = _matrix(given).with_layout(None)
    square = TensorType(value_type.dtype, [*value_type.dims[:-2], least, least])
    right_vectors = _conjugate_transpose(p, right)
    left_adjoint = _conjugate_transpose(p, left)
    change = tangents[0]
    along = times(t, change, right_vectors, value_type)
    inner = times(t, left_adjoint, along, square)
    moved = t.sum(t.select(_eye(p, square), inner, None), [square.rank - 1])
    moved = t.op("real", moved) if value_type.dtype in REAL_OF else moved
    if full is not node:
        return _nothing(node, {1: moved})
    rank = square.rank
    of_columns = p.broadcast(values, square.dims, [*range(rank - 2), rank - 1])
    of_rows = p.broadcast(values, square.dims, list(range(rank - 1)))
    same = _eye(p, square)
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
    of_left = times(t, left, turn, TensorType(value_type.dtype, _matrix(left).dims))
    of_right = times(t, right_vectors, t.mul(factor, t.add(other, adjoint(t, other))), square)
    if rows > columns:
        outside = t.sub(along, times(t, left, inner, value_type))
        of_left = t.add(of_left, t.div(outside, _over_columns(p, values, _matrix(left), value_type)))
    if columns > rows:
        across = times(t, adjoint(t, change), left, value_type)
        outside = t.sub(across, times(t, right_vectors, times(t, right, across, square), value_type))
        of_right = t.add(of_right, t.div(outside, _over_columns(p, values, _matrix(right_vectors), value_type)))
    return _nothing(node, {1: moved, 2: of_left, 3: adjoint(t, of_right)})


def _over_columns(p: Emitter, values: Node, shape: TensorType, value_type: TensorType) -> Node:
    wide = p.broadcast(values, shape.dims, [*range(shape.rank - 2), shape.rank - 1])
    return _like_matrix(p, wide, value_type)


def _with_vectors(p: Emitter, node: Apply, rows: int, columns: int, least: int) -> Node:
    """The same decomposition with singular vectors, for one that asked for the values alone."""
    first, values, _, _, info = node.type.elements  # pyright: ignore[reportAttributeAccessIssue, reportOptionalMemberAccess]
    batch = first.dims[:-2]
    order = first.layout
    left = TensorType(first.dtype, [*batch, rows, least], order)
    right = TensorType(first.dtype, [*batch, least, columns], order)
    config = re.sub(r"mode\s*=\s*\d+", f"mode = {ord('S')}", str(node.attributes.get("backend_config", "")))
    attributes = {**node.attributes, "backend_config": config, "frontend_attributes": None}
    return p.op("custom-call", *node.inputs, type=TupleType([first, values, left, right, info]), **attributes)


_GENERATORS = {"geqrf": "orgqr", "Qr": "ProductOfElementaryHouseholderReflectors"}


@custom_call(*_lapack("geqrf"), "cusolver_geqrf_ffi", "Qr")
def geqrf(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    """dQ and dR of the thin decomposition: dR in the upper triangle; dQ for the call that makes Q of the reflectors.

    The reflectors themselves have no tangent, so that only such calls may read them.
    """
    p = t.primal
    packed, scales = p.element(node, 0), p.element(node, 1)
    value_type = _matrix(packed)
    rows, columns = value_type.dims[-2:]
    if rows < columns:
        raise Unsupported(f"{place_of(node)}: the decomposition of a wide matrix (more columns than rows)")
    square = TensorType(value_type.dtype, [*value_type.dims[:-2], columns, columns])
    orthogonal = _reflected(p, node, packed, scales)
    upper = p.select(triangle(p, square, lower=False), _part(p, packed, columns, columns), p.constant(0, square))
    solved = t.op("triangular-solve", upper, tangents[0], left_side=False, lower=False, transpose_a="NO_TRANSPOSE")
    inner = times(t, _conjugate_transpose(p, orthogonal), solved, square)
    low = t.select(triangle(p, square, lower=True, strict=True), inner, None)
    turn = t.sub(low, adjoint(t, low))
    if value_type.dtype in REAL_OF:
        diagonal = t.select(_eye(p, square), inner, None)
        imaginary = t.sub(diagonal, t.op("complex", t.op("real", diagonal), t.zero(_Real(square))))
        turn = t.add(turn, imaginary)
    of_upper = times(t, t.sub(inner, turn), upper, square)
    t.shared[packed] = t.add(times(t, orthogonal, t.sub(turn, inner), value_type), solved)
    spread = _padded(t, of_upper, rows, columns, p.constant(0, value_type.dtype))
    return _nothing(node, {0: spread})


def _reflected(p: Emitter, node: Apply, packed: Node, scales: Node) -> Node:
    """Q of the reflectors, as the program itself computes it."""
    target = node.attributes["custom_call_target"]
    for name, other in _GENERATORS.items():
        target = target.replace(name, other)
    if target.startswith(("lapack_c", "lapack_z")):
        target = target.replace("orgqr", "ungqr")
    kept = {name: node.attributes[name] for name in ("api_version", "backend_config") if name in node.attributes}
    types = node.type.elements  # pyright: ignore[reportAttributeAccessIssue, reportOptionalMemberAccess]
    if "operand_layout_constraints" in node.attributes:
        kept["operand_layout_constraints"] = types[:2]
    return p.op("custom-call", packed, scales, type=types[0], custom_call_target=target, **kept)


@custom_call(*_lapack("orgqr", "ungqr"), "cusolver_orgqr_ffi", "ProductOfElementaryHouseholderReflectors")
def orgqr(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    """dQ, as the call that made the reflectors has it."""
    packed = node.inputs[0]
    while packed not in t.shared and packed.opcode in ("copy", "slice", "pad") and packed.inputs:
        packed = packed.inputs[0]
    for known, tangent in t.shared.items():
        same = known is packed or (
            known.opcode == packed.opcode == "get-tuple-element"
            and known.inputs == packed.inputs
            and known.attributes == packed.attributes
        )
        if same:
            if array_type(tangent).dims != array_type(node).dims:
                raise Unsupported(f"{place_of(node)}: a QR decomposition with full matrices has no derivative")
            return tangent
    raise Unsupported(f"{place_of(node)}: the product of reflectors that no QR decomposition here made")
