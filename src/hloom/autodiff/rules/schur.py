"""Schur forms, as JAX has LAPACK compute them: what sqrtm, funm and solve_sylvester are made of.

A = Z T Z^H with T upper triangular. With dZ = Z W, W skew-hermitian, Z^H dA Z = W T - T W + dT, whose strictly lower
part determines that of W, as dT has none: one triangular system for each column. The phases of the columns of Z are
free, and W is given a diagonal of zeros. The same holds of a real matrix whose eigenvalues are real; where they are
not, T has blocks of two rows, and all derivatives are NaN.
"""

from __future__ import annotations

import re
from typing import Any

from hloom.autodiff.backward import Backward
from hloom.autodiff.emitter import REAL_OF, S32, Emitter, array_type
from hloom.autodiff.linear import FORWARD_FORMS, Linear, LinearOps
from hloom.autodiff.loop_state import loop
from hloom.autodiff.rules.custom import custom_call
from hloom.autodiff.rules.factorization import conjugate_transpose, lapack, leaves_from
from hloom.autodiff.rules.linalg import adjoint, eye, times, triangle
from hloom.autodiff.table import transposition
from hloom.ir import Apply, Node, TensorType

SOLVE = "strictly-lower-sylvester-solve"
"""The linear op from M to the strictly lower X of which X T - T X has the strictly lower part of M.

With `turned`, Y T^T - T^T Y instead: its transposition.
"""


@custom_call(*lapack("gees"))
def schur(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    """dT is the upper triangle of Z^H dA Z - W T + T W, and dZ = Z W."""
    p = t.primal
    config = str(node.attributes.get("backend_config", ""))
    with_vectors = re.sub(r"mode\s*=\s*78\b", "mode = 86", config)
    whole: Node = node
    if with_vectors != config:
        attributes = {**node.attributes, "backend_config": with_vectors, "frontend_attributes": None}
        whole = p.op("custom-call", *node.operands, type=node.type, **attributes)
    form, vectors = p.element(whole, 0), p.element(whole, 1)
    value_type = array_type(form)
    upper = triangle(p, value_type, lower=False)
    change = tangents[0]
    if value_type.dtype not in REAL_OF:
        change = t.mul(_nan_where_complex(p, form), change)
    form = p.select(upper, form, p.like(0, form))
    inner = times(t, conjugate_transpose(p, vectors), times(t, change, vectors, value_type), value_type)
    lower = t.op(SOLVE, inner, form, type=value_type, turned=False)
    turn = t.sub(lower, adjoint(t, lower))
    moved = t.add(t.sub(inner, times(t, turn, form, value_type)), times(t, form, turn, value_type))
    moved = t.select(upper, moved, None)
    values = t.sum(t.select(eye(p, value_type), moved, None), [value_type.rank - 1])
    result = {0: moved, 2: values}
    if with_vectors == config:
        result[1] = times(t, vectors, turn, value_type)
    return leaves_from(node, result)


def _nan_where_complex(p: Emitter, form: Node) -> Node:
    """1 in matrices whose real Schur form is triangular, NaN in those with blocks of two rows."""
    value_type = array_type(form)
    below = p.select(triangle(p, value_type, lower=True, strict=True), form, p.like(0, form))
    rank = value_type.rank
    has_blocks = p.reduce("or", p.compare("NE", below, p.like(0, below)), [rank - 2, rank - 1])
    has_blocks = p.broadcast(has_blocks, value_type.dims, list(range(rank - 2)))
    return p.select(has_blocks, p.like(float("nan"), form), p.like(1, form))


def strictly_lower_solve(p: Emitter, right: Node, form: Node, *, type: Any, turned: bool) -> Node:
    """Column by column, from the first; where `turned`, from the last."""
    value_type = array_type(right)
    *batch, size, _ = value_type.dims
    rank = value_type.rank
    square = TensorType(S32, value_type.dims)
    outer = tuple(range(rank - 2))

    def condition(inner: Emitter, state: list[Node]) -> Node:
        return inner.compare("LT", state[0], inner.constant(size, S32))

    def body(inner: Emitter, state: list[Node]) -> list[Node]:
        step, total, matrix, given = state
        zero = inner.constant(0, S32)
        column = inner.sub(inner.constant(size - 1, S32), step) if turned else step
        first = [zero] * len(batch)
        at = [*first, zero, column]
        across = [*first, column, zero] if turned else at
        sizes = (*batch, 1, size) if turned else (*batch, size, 1)
        weights = inner.reshape(inner.op("dynamic-slice", matrix, *across, dynamic_slice_sizes=sizes), [*batch, size])
        value = inner.op("dynamic-slice", matrix, *first, column, column, dynamic_slice_sizes=(*batch, 1, 1))
        value = inner.broadcast(inner.reshape(value, batch), value_type.dims, outer)
        known = inner.op("dot", total, weights, lhs_batch_dims=outer, rhs_batch_dims=outer,
                         lhs_contracting_dims=(rank - 1,), rhs_contracting_dims=(rank - 2,))  # fmt: skip
        known = inner.reshape(known, [*batch, size, 1])
        wanted = inner.sub(inner.op("dynamic-slice", given, *at, dynamic_slice_sizes=(*batch, size, 1)), known)
        rows, columns = inner.iota(S32, square.dims, rank - 2), inner.iota(S32, square.dims, rank - 1)
        here = inner.broadcast(column, square.dims)
        below, beside = inner.compare("GT", rows, here), inner.compare("GT", columns, here)
        same = inner.compare("EQ", rows, columns)
        shifted = inner.sub(inner.select(same, value, inner.zeros(value_type)), matrix)
        one = inner.select(same, inner.like(1, matrix), inner.zeros(value_type))
        system = inner.select(inner.op("and", below, beside), shifted, one)
        tall = array_type(wanted)
        is_below = inner.compare("GT", inner.iota(S32, tall.dims, rank - 2), inner.broadcast(column, tall.dims))
        wanted = inner.select(is_below, wanted, inner.zeros(tall))
        solution = inner.op("triangular-solve", system, wanted, left_side=True, lower=False, unit_diagonal=False,
                            transpose_a="TRANSPOSE" if turned else "NO_TRANSPOSE")  # fmt: skip
        total = inner.op("dynamic-update-slice", total, solution, *at)
        return [inner.add(step, inner.constant(1, S32)), total, matrix, given]

    init = [p.constant(0, S32), p.zeros(value_type), form, right]
    return loop(p, "schur", init, condition, body)[1]


FORWARD_FORMS[SOLVE] = strictly_lower_solve


@transposition(SOLVE)
def transpose_strictly_lower_solve(b: Backward, value: Linear, cotangent: Node) -> None:
    """The same with the transposed matrix."""
    right, form = value.operands
    form = b.use(form) if form.graph is not b.graph else form
    turned = not value.attributes["turned"]
    b.give(right, strictly_lower_solve(b, cotangent, form, type=value.type, turned=turned))
