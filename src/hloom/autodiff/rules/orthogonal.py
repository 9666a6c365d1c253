"""QR decompositions and products of Householder reflectors: custom calls of LAPACK, cuSOLVER and XLA on TPU.

Source of the formulas: Walter and Lehmann, Algorithmic differentiation of linear algebra functions (2010), for Q and R;
Ballard et al., Reconstructing Householder vectors from tall-skinny QR (2015): I - Q = V U, an LU decomposition, from
which the tangents of the reflectors and of the further columns of a full Q follow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hloom.autodiff.emitter import REAL_OF, S32, Emitter, array_type
from hloom.autodiff.linear import LinearOps
from hloom.autodiff.loop_state import loop
from hloom.autodiff.rules.combiners import expanded
from hloom.autodiff.rules.custom import custom_call, expanded_call
from hloom.autodiff.rules.factorization import (
    RealPart,
    conjugate_transpose,
    lapack,
    leaves_from,
    matrix_part,
    padded_matrix,
    setting,
    solved,
    solver_of,
)
from hloom.autodiff.rules.linalg import adjoint, eye, times, triangle
from hloom.autodiff.rules.sort import permuted
from hloom.ir import Apply, Graph, Node, SliceDimension, TensorType

_GENERATORS = {"geqrf": "orgqr", "geqp3": "orgqr", "Qr": "ProductOfElementaryHouseholderReflectors"}
_PRODUCTS = [*lapack("orgqr", "ungqr"), "cusolver_orgqr_ffi", "ProductOfElementaryHouseholderReflectors"]
_MULTIPLICATIONS = [*lapack("ormqr", "unmqr"), "cusolver_ormqr_ffi"]
_DECOMPOSITIONS = frozenset([*lapack("geqrf", "geqp3"), "cusolver_geqrf_ffi", "Qr"])
_READERS = frozenset([*_PRODUCTS, *_MULTIPLICATIONS])
_PASSING = ("copy", "slice", "pad")
"""Opcodes that reflectors pass with their places in the matrix."""


@dataclass(frozen=True, slots=True)
class Decomposed:
    """A QR decomposition as a rule made it: the columns of Q that it determines, their tangent, and V's first rows.

    `solver` is the target of the calls that solve triangular systems beside it, or empty.
    """

    orthogonal: Node
    tangent: Any
    lower: Node
    solver: str


@custom_call(*lapack("geqrf"), "cusolver_geqrf_ffi", "Qr")
def geqrf(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    """dR in the upper triangle, and where something reads them the tangents of the reflectors.

    dQ is kept for the calls that make Q of the reflectors.
    """
    return leaves_from(node, _decomposed(t, node, 1, tangents[0]))


@custom_call(*lapack("geqp3"))
def geqp3(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    """The same of the matrix with its columns in the order that the pivots say."""
    p, value_type = t.primal, array_type(node.operands[0])
    pivots = p.element(node, 1)
    order = p.sub(pivots, p.like(1, pivots))
    return leaves_from(node, _decomposed(t, node, 2, permuted(t, tangents[0], order, value_type.rank - 1)))


def _decomposed(t: LinearOps, node: Apply, number: int, change: Any) -> dict[int, Any]:
    """The tangents of the packed matrix and of the scales, which is result `number`."""
    p = t.primal
    packed, scales = p.element(node, 0), p.element(node, number)
    value_type = array_type(packed)
    rows, columns = value_type.dims[-2:]
    least = min(rows, columns)
    square = TensorType(value_type.dtype, [*value_type.dims[:-2], least, least])
    own = matrix_part(p, packed, rows, least)
    orthogonal = _reflected(p, node, own, scales)
    is_upper = triangle(p, square, lower=False)
    upper = p.select(is_upper, matrix_part(p, packed, least, least), p.constant(0, square))
    first = matrix_part(t, change, rows, least)
    own_solved = solved(t, solver_of(node), upper, first, left=False, lower=False)
    inner = times(t, conjugate_transpose(p, orthogonal), own_solved, square)
    low = t.select(triangle(p, square, lower=True, strict=True), inner, None)
    turn = t.sub(low, adjoint(t, low))
    if value_type.dtype in REAL_OF:
        diagonal = t.select(eye(p, square), inner, None)
        turn = t.add(turn, t.sub(diagonal, t.op("complex", t.op("real", diagonal), t.zero(RealPart(square)))))
    of_upper = times(t, t.sub(inner, turn), upper, square)
    if rows == least:
        of_orthogonal = times(t, orthogonal, turn, square)
    else:
        of_orthogonal = t.add(times(t, orthogonal, t.sub(turn, inner), value_type), own_solved)
    if columns > least:
        rest = _columns(t, change, least, columns)
        value = times(t, conjugate_transpose(p, orthogonal), rest, value_type)
        value = t.sub(value, times(t, turn, _columns(p, packed, least, columns), value_type))
        of_upper = t.op("concatenate", of_upper, value, dimensions=(value_type.rank - 1,))
    is_lower = triangle(p, square, lower=True, strict=True)
    lower = p.select(is_lower, matrix_part(p, packed, least, least), p.zeros(square))
    lower = p.select(eye(p, square), p.constant(1, square), lower)
    t.shared[packed] = Decomposed(orthogonal, of_orthogonal, lower, solver_of(node))
    spread = padded_matrix(t, of_upper, rows, columns, p.constant(0, value_type.dtype))
    if t.source is not None and not _are_reflectors_read(t.source, number):
        return {0: spread}
    of_reflectors, of_scales = _of_reflectors(t, t.shared[packed], own)
    of_reflectors = padded_matrix(t, of_reflectors, rows, columns, p.constant(0, value_type.dtype))
    return {0: t.add(spread, of_reflectors), number: of_scales}


def _columns(p: Any, value: Any, start: int, limit: int) -> Any:
    dims = array_type(value).dims
    whole = [SliceDimension(0, size) for size in dims[:-1]]
    return p.op("slice", value, slice=(*whole, SliceDimension(start, limit)))


def _reflected(p: Emitter, node: Apply, packed: Node, scales: Node) -> Node:
    """Q of the reflectors, as the program itself computes it."""
    target = node.attributes["custom_call_target"]
    for name, other in _GENERATORS.items():
        target = target.replace(name, other)
    if target.startswith(("lapack_c", "lapack_z")):
        target = target.replace("orgqr", "ungqr")
    kept = {name: node.attributes[name] for name in ("api_version", "backend_config") if name in node.attributes}
    types = node.type.elements  # pyright: ignore[reportAttributeAccessIssue, reportOptionalMemberAccess]
    made = TensorType(types[0].dtype, array_type(packed).dims, types[0].layout)
    if "operand_layout_constraints" in node.attributes:
        kept["operand_layout_constraints"] = (made, types[-1])
    return p.op("custom-call", packed, scales, type=made, custom_call_target=target, **kept)


def _are_reflectors_read(node: Apply, number: int) -> bool:
    """Whether something but the products of reflectors and the selection of a triangle reads what is packed."""
    pending: list[Node] = []
    for user in node.users:
        if user.opcode != "get-tuple-element":
            return True
        if user.attributes["index"] in (0, number):
            pending.append(user)
    while pending:
        value = pending.pop()
        if value.is_output:
            return True
        for user in value.users:
            if user.opcode in _PASSING:
                pending.append(user)
            elif user.opcode == "custom-call" and user.attributes["custom_call_target"] in _READERS:
                continue
            elif user.opcode != "select" or array_type(value).rank < 2:
                return True
    return False


def _of_reflectors(t: LinearOps, known: Decomposed, packed: Node) -> tuple[Any, Any]:
    """The tangents of the reflectors below the diagonal, and of their scales: I - Q = V U."""
    p, value_type = t.primal, array_type(packed)
    rows, columns = value_type.dims[-2:]
    square = array_type(known.lower)
    upper = _upper(p, known, square)
    diagonal = p.op("and", eye(p, square), p.compare("EQ", upper, p.zeros(square)))
    safe = p.select(diagonal, p.constant(1, square), upper)
    change = t.neg(known.tangent)

    def by_upper(value: Any) -> Any:
        return solved(t, known.solver, safe, value, left=False, lower=False)

    top = _rows(t, change, 0, columns)
    inner = solved(t, known.solver, known.lower, top, left=True, lower=True, unit=True)
    low = t.select(triangle(p, square, lower=True, strict=True), by_upper(inner), None)
    of_upper = t.select(triangle(p, square, lower=False), t.sub(inner, times(t, low, upper, square)), None)
    of_lower = times(t, known.lower, low, square)
    of_lower = t.select(triangle(p, square, lower=True, strict=True), of_lower, None)
    scales = t.sum(t.select(eye(p, square), of_upper, None), [square.rank - 1])
    if rows > columns:
        below = _rows(p, packed, columns, rows)
        rest = t.sub(_rows(t, change, columns, rows), times(t, below, of_upper, value_type))
        rest = by_upper(rest)
        of_lower = t.op("concatenate", of_lower, rest, dimensions=(square.rank - 2,))
    return of_lower, scales


def _rows(p: Any, value: Any, start: int, limit: int) -> Any:
    dims = array_type(value).dims
    if (start, limit) == (0, dims[-2]):
        return value
    whole = [SliceDimension(0, size) for size in dims[:-2]]
    return p.op("slice", value, slice=(*whole, SliceDimension(start, limit), SliceDimension(0, dims[-1])))


def _upper(p: Emitter, known: Decomposed, square: TensorType) -> Node:
    """U of I - Q = V U, of the first rows."""
    top = p.sub(p.select(eye(p, square), p.constant(1, square), p.zeros(square)),
                _rows(p, known.orthogonal, 0, square.dims[-1]))  # fmt: skip
    return solved(p, known.solver, known.lower, top, left=True, lower=True, unit=True)


def _full(t: LinearOps, known: Decomposed, node: Apply) -> tuple[Node, Any]:
    """A full Q and its tangent; the further columns follow from the first by I - Q = V U."""
    p = t.primal
    value_type = array_type(known.orthogonal)
    rows, columns = value_type.dims[-2:]
    if rows == columns:
        return known.orthogonal, known.tangent
    batch, element = value_type.dims[:-2], value_type.dtype
    square = array_type(known.lower)
    upper = _upper(p, known, square)
    tall = TensorType(element, [*batch, rows, columns])
    identity = padded_matrix(p, p.select(eye(p, square), p.constant(1, square), p.zeros(square)), rows, columns,
                             p.constant(0, element))  # fmt: skip
    rest = p.sub(identity, known.orthogonal)
    below = conjugate_transpose(p, _rows(p, known.orthogonal, columns, rows))
    # G = (I - Q_1)^-H Q_2^H and K = (E - Q) (I - Q_1)^-H, with I - Q_1 = V_1 U
    g = solved(p, known.solver, upper, below, left=True, lower=False, turned="ADJOINT")
    g = solved(p, known.solver, known.lower, g, left=True, lower=True, unit=True, turned="ADJOINT")
    k = solved(p, known.solver, known.lower, conjugate_transpose(p, rest), left=True, lower=True, unit=True)
    k = solved(p, known.solver, upper, k, left=True, lower=False)
    k = conjugate_transpose(p, k)
    further = TensorType(element, [*batch, rows, rows - columns])
    corner = TensorType(element, [*batch, rows - columns, rows - columns])
    last = p.select(eye(p, corner), p.constant(1, corner), p.zeros(corner))
    stacked = p.op("concatenate", g, last, dimensions=(value_type.rank - 2,))
    across = times(t, adjoint(t, known.tangent), stacked, tall)
    beyond = t.sub(times(t, k, across, further), times(t, known.tangent, g, further))
    whole = p.add(times(p, rest, g, further), _shifted(p, last, columns))
    return (
        p.op("concatenate", known.orthogonal, whole, dimensions=(value_type.rank - 1,)),
        t.op("concatenate", known.tangent, beyond, dimensions=(value_type.rank - 1,)),
    )


def _shifted(p: Emitter, corner: Node, rows: int) -> Node:
    """A square with rows of zeros above it."""
    value_type = array_type(corner)
    above = p.zeros(TensorType(value_type.dtype, [*value_type.dims[:-2], rows, value_type.dims[-1]]))
    return p.op("concatenate", above, corner, dimensions=(value_type.rank - 2,))


def _source(node: Node) -> Node | None:
    """The element of a QR decomposition that reflectors are, or a part of; None where something else made them."""
    while node.opcode in _PASSING:
        node = node.operands[0]
    if node.opcode != "get-tuple-element" or node.attributes["index"]:
        return None
    made = node.operands[0]
    is_made = made.opcode == "custom-call" and made.attributes["custom_call_target"] in _DECOMPOSITIONS
    return node if is_made else None


def _known(t: LinearOps, packed: Node) -> Decomposed | None:
    """The decomposition that a rule kept."""
    source = _source(packed)
    if source is None:
        return None
    for element, known in t.shared.items():
        same = element.opcode == "get-tuple-element" and element.operands == source.operands
        if element is source or (same and element.attributes == source.attributes):
            return known
    return None


@custom_call(*_PRODUCTS)
def orgqr(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    """dQ, as the call that made the reflectors has it; None where they do not depend on an input."""
    known = _known(t, node.operands[0])
    if known is None:
        return None
    columns = array_type(node).dims[-1]
    if columns <= array_type(known.orthogonal).dims[-1]:
        return matrix_part(t, known.tangent, array_type(node).dims[-2], columns)
    return matrix_part(t, _full(t, known, node)[1], array_type(node).dims[-2], columns)


@custom_call(*_MULTIPLICATIONS)
def ormqr(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    """d(op(Q) C) = op(dQ) C + op(Q) dC, or the other way round; Q is written out."""
    p, operand = t.primal, node.operands[2]
    left, turned = setting(node, "left", "true") == "true", setting(node, "transpose", "false") == "true"
    known = _known(t, node.operands[0])
    if known is None:
        return None
    whole, tangent = _full(t, known, node)
    if turned:
        whole, tangent = conjugate_transpose(p, whole), adjoint(t, tangent)
    value_type = array_type(node)
    pairs = ((whole, tangents[2]), (tangent, operand)) if left else ((tangents[2], whole), (operand, tangent))
    total = None
    for first, second in pairs:
        if first is not None and second is not None:
            total = t.add(total, times(t, first, second, value_type))
    return total


@expanded_call(*_PRODUCTS)
def orgqr_of_any(session: Any, node: Apply) -> Graph | None:
    """Of reflectors that no decomposition made: applied to the identity one after the other."""
    if _source(node.operands[0]) is not None:
        return None

    def make(emitter: Emitter, operands: list[Node]) -> Node:
        value_type = array_type(node)
        rows, columns = value_type.dims[-2:]
        square = TensorType(value_type.dtype, [*value_type.dims[:-2], columns, columns])
        identity = emitter.select(eye(emitter, square), emitter.constant(1, square), emitter.zeros(square))
        start = padded_matrix(emitter, identity, rows, columns, emitter.constant(0, value_type.dtype))
        return _applied(session, emitter, operands[0], operands[1], start, left=True, turned=False)

    return expanded(session, node, make)


@expanded_call(*_MULTIPLICATIONS)
def ormqr_of_any(session: Any, node: Apply) -> Graph | None:
    """Of reflectors that no decomposition made: applied one after the other."""
    if _source(node.operands[0]) is not None:
        return None
    left, turned = setting(node, "left", "true") == "true", setting(node, "transpose", "false") == "true"
    return expanded(session, node, lambda emitter, given: _applied(session, emitter, *given, left=left, turned=turned))


def _applied(
    session: Any, emitter: Emitter, packed: Node, scales: Node, operand: Node, *, left: bool, turned: bool
) -> Node:
    """Reflectors I - s v v^H applied to matrices. Source: jax/_src/lax/linalg.py, _ormqr_lowering."""
    *batch, count = array_type(scales).dims
    value_type = array_type(packed)
    rows = value_type.dims[-2]
    tall = TensorType(value_type.dtype, [*batch, rows, count])
    low = emitter.select(triangle(emitter, tall, lower=True, strict=True), matrix_part(emitter, packed, rows, count),
                         emitter.zeros(tall))  # fmt: skip
    vectors = emitter.select(eye(emitter, tall), emitter.constant(1, tall), low)
    scales = emitter.conjugate(scales) if turned else scales
    is_last_first = left != turned

    def condition(inner: Emitter, state: list[Node]) -> Node:
        return inner.compare("LT", state[0], inner.constant(count, S32))

    def body(inner: Emitter, state: list[Node]) -> list[Node]:
        index, value, vectors, scales = state
        number = inner.sub(inner.constant(count - 1, S32), index) if is_last_first else index
        zero = [inner.constant(0, S32)] * len(batch)
        vector = inner.op("dynamic-slice", vectors, *zero, inner.constant(0, S32), number,
                          dynamic_slice_sizes=(*batch, rows, 1))  # fmt: skip
        scale = inner.op("dynamic-slice", scales, *zero, number, dynamic_slice_sizes=(*batch, 1))
        row = conjugate_transpose(inner, vector)
        value_type = array_type(value)
        update = (
            times(inner, vector, times(inner, row, value, value_type), value_type)
            if left
            else times(inner, times(inner, value, vector, value_type), row, value_type)
        )
        wide = inner.broadcast(inner.reshape(scale, batch), value_type.dims, list(range(len(batch))))
        return [inner.add(index, inner.constant(1, S32)), inner.sub(value, inner.mul(wide, update)), vectors, scales]

    done = loop(emitter, "reflectors", [emitter.constant(0, S32), operand, vectors, scales], condition, body)
    session.trips[done[0].operands[0]] = count
    return done[1]
