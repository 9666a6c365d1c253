"""Reductions to Hessenberg and tridiagonal form: custom calls of LAPACK and cuSOLVER, as loops over reflectors.

Each iteration computes one reflector I - s v v^H that makes a column zero below its subdiagonal, and applies it from
both sides. Its loop is differentiated as any other: the derivative exists where no such column is zero already.

Source: LAPACK, dgehd2 and zgehd2, dsytd2 and zhetd2, dlarfg and zlarfg, whose signs these are.
"""

from __future__ import annotations

from typing import Any

from hloom.autodiff.emitter import REAL_OF, S32, Emitter, array_type
from hloom.autodiff.loop_state import loop
from hloom.autodiff.rules.combiners import expanded
from hloom.autodiff.rules.custom import expanded_call
from hloom.autodiff.rules.factorization import lapack, setting
from hloom.ir import Apply, Graph, Node, SliceDimension, TensorType
from hloom.text import Unsupported


@expanded_call(*lapack("gehrd"))
def hessenberg(session: Any, node: Apply) -> Graph:
    """The packed matrix, the scales of the reflectors, and no failure."""
    rows = array_type(node.operands[0]).dims[-1]
    low, high = setting(node, "low", "1"), setting(node, "high", str(rows))
    if (low, high) != ("1", str(rows)):
        raise Unsupported(f"{node.name}: a Hessenberg form of rows {low} to {high} of {rows} has no derivative")

    def make(emitter: Emitter, operands: list[Node]) -> list[Node]:
        packed, scales = _reduced(session, emitter, operands[0])
        batch = array_type(packed).dims[:-2]
        return [packed, scales, emitter.zeros(TensorType(S32, batch))]

    return expanded(session, node, make)


@expanded_call(*lapack("sytrd", "hetrd"), "cusolver_sytrd_ffi")
def tridiagonal(session: Any, node: Apply) -> Graph:
    """The packed matrix, both diagonals, the scales of the reflectors, and no failure.

    The other triangle stays as it was. From the upper triangle reflectors are made in the reverse order: of the matrix
    with rows and columns reversed.
    """
    is_upper = setting(node, "uplo", "L") == "U" or setting(node, "lower", "true") == "false"

    def make(emitter: Emitter, operands: list[Node]) -> list[Node]:
        given = _reversed_matrix(emitter, operands[0]) if is_upper else operands[0]
        value_type = array_type(given)
        below = _compared(emitter, value_type, "GE")
        other = emitter.transpose(emitter.conjugate(given), _swapped(value_type.rank))
        packed, scales = _reduced(session, emitter, emitter.select(below, given, other))
        diagonal = _real(emitter, _diagonal(emitter, packed, "EQ", 0))
        beside = _real(emitter, _diagonal(emitter, packed, "EQ", 1))
        packed = emitter.select(below, packed, given)
        if is_upper:
            last = value_type.rank - 2
            packed = _reversed_matrix(emitter, packed)
            diagonal, beside, scales = (
                emitter.op("reverse", value, dimensions=(last,)) for value in (diagonal, beside, scales)
            )
        return [packed, diagonal, beside, scales, emitter.zeros(TensorType(S32, value_type.dims[:-2]))]

    return expanded(session, node, make)


def _reversed_matrix(emitter: Emitter, node: Node) -> Node:
    rank = array_type(node).rank
    return emitter.op("reverse", node, dimensions=(rank - 2, rank - 1))


def _swapped(rank: int) -> list[int]:
    return [*range(rank - 2), rank - 1, rank - 2]


def _compared(emitter: Emitter, value_type: TensorType, direction: str, shift: int = 0) -> Node:
    """How the number of each element's row compares with that of its column and a shift."""
    square = value_type.dims[-2:]
    columns = emitter.iota(S32, square, 1)
    columns = emitter.add(columns, emitter.constant(shift, TensorType(S32, square))) if shift else columns
    result = emitter.compare(direction, emitter.iota(S32, square, 0), columns)
    return emitter.broadcast(result, value_type.dims, [value_type.rank - 2, value_type.rank - 1])


def _diagonal(emitter: Emitter, node: Node, direction: str, shift: int) -> Node:
    """A diagonal of matrices, without the columns that it does not reach."""
    value_type = array_type(node)
    chosen = emitter.select(_compared(emitter, value_type, direction, shift), node, emitter.like(0, node))
    total = emitter.reduce("add", chosen, [value_type.rank - 2])
    dims = array_type(total).dims
    kept = [SliceDimension(0, size) for size in dims[:-1]]
    return emitter.op("slice", total, slice=(*kept, SliceDimension(0, dims[-1] - shift)))


def _real(emitter: Emitter, node: Node) -> Node:
    return emitter.op("real", node) if array_type(node).dtype in REAL_OF else node


def _reduced(session: Any, emitter: Emitter, matrix: Node) -> tuple[Node, Node]:
    """A matrix reduced to Hessenberg form, the reflectors in the zeros below, and their scales."""
    value_type = array_type(matrix)
    *batch, rows, _ = value_type.dims
    count = max(rows - 1, 0)
    scales = emitter.zeros(TensorType(value_type.dtype, [*batch, count]))
    if not count:
        return matrix, scales

    def condition(inner: Emitter, state: list[Node]) -> Node:
        return inner.compare("LT", state[0], inner.constant(count, S32))

    def body(inner: Emitter, state: list[Node]) -> list[Node]:
        index, value, scales = state
        first = [inner.constant(0, S32)] * len(batch)
        at = [*first, inner.constant(0, S32), index]
        column = inner.op("dynamic-slice", value, *at, dynamic_slice_sizes=(*batch, rows, 1))
        vector, scale, after = _reflector(inner, inner.reshape(column, [*batch, rows]), index)
        value = _applied_on_both_sides(inner, value, vector, scale, index)
        value = inner.op("dynamic-update-slice", value, inner.reshape(after, [*batch, rows, 1]), *at)
        scales = inner.op("dynamic-update-slice", scales, inner.reshape(scale, [*batch, 1]), *first, index)
        return [inner.add(index, inner.constant(1, S32)), value, scales]

    done = loop(emitter, "hessenberg", [emitter.constant(0, S32), matrix, scales], condition, body)
    session.trips[done[0].operands[0]] = count
    return done[1], done[2]


def _reflector(emitter: Emitter, column: Node, index: Node) -> tuple[Node, Node, Node]:
    """The reflector that makes a column zero behind its element `index + 1`: v, s, and the column as it is stored."""
    value_type = array_type(column)
    spread = list(range(value_type.rank - 1))
    is_complex = value_type.dtype in REAL_OF
    numbers = emitter.iota(S32, value_type.dims, value_type.rank - 1)
    pivot = emitter.broadcast(emitter.add(index, emitter.constant(1, S32)), value_type.dims)
    is_pivot, is_behind = emitter.compare("EQ", numbers, pivot), emitter.compare("GT", numbers, pivot)
    zero = emitter.like(0, column)
    alpha = emitter.reduce("add", emitter.select(is_pivot, column, zero), [value_type.rank - 1])
    behind = emitter.select(is_behind, column, zero)
    size = emitter.reduce("add", _squared_size(emitter, behind), [value_type.rank - 1])
    nothing = emitter.like(0, size)
    is_done = emitter.compare("EQ", size, nothing)
    if is_complex:
        is_done = emitter.op("and", is_done, emitter.compare("EQ", emitter.op("imag", alpha), nothing))
    one = emitter.like(1, size)
    norm = emitter.op("sqrt", emitter.select(is_done, one, emitter.add(size, _squared_size(emitter, alpha))))
    leading = _real(emitter, alpha)
    beta = emitter.select(emitter.compare("GE", leading, nothing), emitter.neg(norm), norm)
    beta = _like(emitter, emitter.select(is_done, leading, beta), value_type)
    unit, none = emitter.like(1, alpha), emitter.like(0, alpha)
    difference = emitter.sub(alpha, beta)
    scale = emitter.div(emitter.neg(difference), emitter.select(is_done, unit, beta))
    scale = emitter.select(is_done, none, scale)
    divisor = emitter.broadcast(emitter.select(is_done, unit, difference), value_type.dims, spread)
    tail = emitter.div(behind, divisor)
    vector = emitter.select(is_pivot, emitter.like(1, column), tail)
    stored = emitter.select(is_behind, tail, column)
    return vector, scale, emitter.select(is_pivot, emitter.broadcast(beta, value_type.dims, spread), stored)


def _squared_size(emitter: Emitter, node: Node) -> Node:
    if array_type(node).dtype not in REAL_OF:
        return emitter.mul(node, node)
    parts = emitter.op("real", node), emitter.op("imag", node)
    return emitter.add(*[emitter.mul(part, part) for part in parts])


def _like(emitter: Emitter, node: Node, value_type: TensorType) -> Node:
    return emitter.op("complex", node, emitter.like(0, node)) if value_type.dtype in REAL_OF else node


def _applied_on_both_sides(emitter: Emitter, matrix: Node, vector: Node, scale: Node, index: Node) -> Node:
    """(I - conj(s) v v^H) A (I - s v v^H), in the columns behind `index`."""
    value_type = array_type(matrix)
    rank = value_type.rank
    batch = tuple(range(rank - 2))
    spread = list(batch)
    columns = emitter.iota(S32, value_type.dims, rank - 1)
    is_behind = emitter.compare("GT", columns, emitter.broadcast(index, value_type.dims))
    adjoint = emitter.conjugate(vector)
    scales = emitter.broadcast(scale, array_type(vector).dims, spread)

    def outer(left: Node, right: Node) -> Node:
        by_rows = emitter.broadcast(left, value_type.dims, [*spread, rank - 2])
        return emitter.mul(by_rows, emitter.broadcast(right, value_type.dims, [*spread, rank - 1]))

    def product(vector: Node, dim: int) -> Node:
        return emitter.op("dot", matrix, vector, lhs_batch_dims=batch, rhs_batch_dims=batch,
                          lhs_contracting_dims=(dim,), rhs_contracting_dims=(rank - 2,))  # fmt: skip

    matrix = emitter.sub(matrix, outer(emitter.mul(scales, product(vector, rank - 1)), adjoint))
    change = outer(vector, emitter.mul(emitter.conjugate(scales), product(adjoint, rank - 2)))
    return emitter.select(is_behind, emitter.sub(matrix, change), matrix)
