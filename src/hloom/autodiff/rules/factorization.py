"""Custom calls of LU and Cholesky decompositions and solves that JAX emits: LAPACK's, cuSOLVER's, and XLA's on TPU.

Source of the formulas: jax/_src/lax/linalg.py, the JVP rules of lu, triangular_solve and cholesky.
"""

from __future__ import annotations

import re
from typing import Any

from hloom.autodiff.backward import Backward
from hloom.autodiff.emitter import REAL_OF, S32, Emitter, array_type, leaf_types
from hloom.autodiff.linear import FORWARD_FORMS, Linear, LinearOps
from hloom.autodiff.loop_state import loop
from hloom.autodiff.recognition import FUNCTIONS, FunctionRule, Recognized, splat
from hloom.autodiff.rules.custom import custom_call
from hloom.autodiff.rules.indexing import is_same_value
from hloom.autodiff.rules.linalg import adjoint, eye, halved_triangle, swapped, times, triangle
from hloom.autodiff.rules.sort import permuted
from hloom.autodiff.table import transposition
from hloom.ir import Apply, Layout, Node, PaddingDimension, SliceDimension, TensorType, TupleType

_SETTING = re.compile(r"(\w+)\s*=\s*(\w+)")


def lapack(*names: str) -> list[str]:
    """The targets of some routines on the CPU, for each element type."""
    return [f"lapack_{value_type}{name}_ffi" for name in names for value_type in "sdcz"]


def setting(node: Apply, name: str, default: str) -> str:
    """A letter among the settings of the call: `uplo = 76 : ui8` is L."""
    result = dict(_SETTING.findall(str(node.attributes.get("backend_config", ""))))
    value = result.get(name)
    if value is None:
        return default
    return chr(int(value)) if value.isdecimal() and len(value) < 4 and int(value) > 31 else value


def hermitian(t: LinearOps, tangent: Any, value_type: TensorType, *, lower: bool) -> Any:
    """The hermitian matrix of which a triangle is read."""
    half = t.mul(halved_triangle(t.primal, value_type, lower=lower), tangent)
    return t.add(half, adjoint(t, half))


class RealPart:
    """Something of the type of the real part."""

    def __init__(self, value_type: TensorType) -> None:
        self.type = value_type.with_dtype(REAL_OF[value_type.dtype])


def conjugate_transpose(p: Emitter, node: Node) -> Node:
    return p.transpose(p.conjugate(node), swapped(array_type(node).rank))


def _matrix(node: Node) -> TensorType:
    return array_type(node)


def matrix_part(p: Any, value: Any, rows: int, columns: int) -> Any:
    """The upper left part of matrices."""
    dims = array_type(value).dims
    if dims[-2:] == (rows, columns):
        return value
    whole = [SliceDimension(0, size) for size in dims[:-2]]
    return p.op("slice", value, slice=(*whole, SliceDimension(0, rows), SliceDimension(0, columns)))


def padded_matrix(p: Any, value: Any, rows: int, columns: int, zero: Node) -> Any:
    dims = array_type(value).dims
    if dims[-2:] == (rows, columns):
        return value
    sides = [PaddingDimension(0, 0)] * (len(dims) - 2)
    sides += [PaddingDimension(0, rows - dims[-2]), PaddingDimension(0, columns - dims[-1])]
    return p.op("pad", value, zero, padding=tuple(sides))


def leaves_from(node: Apply, result: dict[int, Any]) -> list[Any]:
    return [result.get(leaf) for leaf in range(len(leaf_types(node.type)))]


_LETTERS = {"NO_TRANSPOSE": "N", "TRANSPOSE": "T", "ADJOINT": "C"}
SOLVE = "triangular-solve-by-call"
"""The linear op of a triangular solve by LAPACK, as the program that called LAPACK has it done."""


def solver_of(node: Apply) -> str:
    """The target that solves triangular systems beside a call of LAPACK; empty for calls of other libraries."""
    target = re.fullmatch(r"lapack_([sdcz])\w+_ffi", node.attributes["custom_call_target"])
    return "" if target is None else f"lapack_{target[1]}trsm_ffi"


def solved(
    t: LinearOps | Emitter, target: str, matrix: Node, right: Any, *, left: bool, lower: bool, unit: bool = False,
    turned: str = "NO_TRANSPOSE",
) -> Any:  # fmt: skip
    """A triangular solve: a call of the target, or where there is none the instruction."""
    if not target:
        return t.op(
            "triangular-solve", matrix, right, left_side=left, lower=lower, unit_diagonal=unit, transpose_a=turned
        )
    kept = array_type(right).with_layout(None)
    if isinstance(t, Emitter):
        return _called_solve(t, matrix, right, type=kept, target=target, left=left, lower=lower, unit=unit,
                             turned=turned)  # fmt: skip
    return t.op(SOLVE, matrix, right, type=kept, target=target, left=left, lower=lower, unit=unit, turned=turned)


def _called_solve(
    p: Emitter, matrix: Node, right: Node, *, type: Any, target: str, left: bool, lower: bool, unit: bool, turned: str
) -> Node:
    given, made = _column_major(array_type(matrix)), _column_major(array_type(right))
    letters = {"diag": "U" if unit else "N", "side": "L" if left else "R", "trans_x": _LETTERS[turned],
               "uplo": "L" if lower else "U"}  # fmt: skip
    config = ", ".join(f"{name} = {ord(letter)} : ui8" for name, letter in letters.items())
    return p.op(
        "custom-call", matrix, right, type=made, custom_call_target=target,
        operand_layout_constraints=(given, made), api_version="API_VERSION_TYPED_FFI",
        backend_config=f"{{{config}}}", frontend_attributes=(("num_batch_dims", str(given.rank - 2)),),
    )  # fmt: skip


def _column_major(value_type: TensorType) -> TensorType:
    """The type in the layout in which LAPACK has matrices."""
    rank = value_type.rank
    return value_type.with_layout(Layout((rank - 2, rank - 1, *reversed(range(rank - 2)))))


FORWARD_FORMS[SOLVE] = _called_solve


@transposition(SOLVE)
def transpose_called_solve(b: Backward, value: Linear, cotangent: Node) -> None:
    """A solve with the transposed matrix."""
    matrix, right = value.operands
    attributes = dict(value.attributes)
    former = attributes["turned"]
    if former == "ADJOINT":
        matrix = b.conjugate(b.use(matrix) if matrix.graph is not b.graph else matrix)
    attributes["turned"] = "TRANSPOSE" if former == "NO_TRANSPOSE" else "NO_TRANSPOSE"
    b.give(right, _called_solve(b, matrix, cotangent, type=value.type, **attributes))


@custom_call(*lapack("trsm"), "cublas_trsm_ffi", "cusolver_trsm_ffi")
def trsm(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    """A triangular solve: as of the instruction triangular-solve."""
    p, matrix = t.primal, node.operands[0]
    value_type, solution = _matrix(matrix), _matrix(node)
    lower, left = setting(node, "uplo", "L") == "L", setting(node, "side", "L") == "L"
    unit = setting(node, "diag", "N") == "U"
    turned = {"N": "NO_TRANSPOSE", "T": "TRANSPOSE", "C": "ADJOINT"}[setting(node, "trans_x", "N")]
    total = tangents[1]
    if tangents[0] is not None:
        change = t.select(triangle(p, value_type, lower=lower, strict=unit), tangents[0], None)
        change = t.conjugate(change) if turned == "ADJOINT" else change
        change = t.transpose(change, swapped(value_type.rank)) if turned != "NO_TRANSPOSE" else change
        total = t.sub(total, times(t, change, node, solution) if left else times(t, node, change, solution))
    return solved(t, solver_of(node), matrix, total, left=left, lower=lower, unit=unit, turned=turned)


@custom_call(*lapack("potrf"), "cusolver_potrf_ffi")
def potrf(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    """The Cholesky factor in the triangle that is read; the other triangle, left as it was, has its own tangent."""
    p, value_type = t.primal, _matrix(node.operands[0])
    lower = setting(node, "uplo", "L") == "L"
    own = triangle(p, value_type, lower=lower)
    result = p.element(node, 0)
    factor = result if lower else conjugate_transpose(p, result)
    mask = triangle(p, value_type, lower=True)
    factor = p.select(mask, factor, p.like(0, factor))
    whole = hermitian(t, tangents[0], value_type, lower=lower)
    target = solver_of(node)
    half = solved(t, target, factor, whole, left=False, lower=True, turned="ADJOINT")
    inner = solved(t, target, factor, half, left=True, lower=True)
    value = times(t, factor, t.mul(halved_triangle(p, value_type, lower=True), inner), value_type)
    value = value if lower else adjoint(t, value)
    return leaves_from(node, {0: t.select(own, value, tangents[0])})


@custom_call(*lapack("getrf"), "cusolver_getrf_ffi", "LuDecomposition")
def getrf(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    """dL = L low(X), dU = up(X) U with X = L^-1 (P dA) U^-1; both triangles in one matrix."""
    p = t.primal
    packed = p.element(node, 0)
    value_type = _matrix(packed)
    rows, columns = value_type.dims[-2:]
    least = min(rows, columns)
    order = _permutation_of(t, node)
    moved = permuted(t, tangents[0], order, value_type.rank - 2)
    zero = p.constant(0, value_type.dtype)
    tall = TensorType(value_type.dtype, [*value_type.dims[:-2], rows, rows])
    wide = TensorType(value_type.dtype, [*value_type.dims[:-2], columns, columns])
    below = padded_matrix(p, matrix_part(p, packed, rows, least), rows, rows, zero)
    below = p.select(triangle(p, tall, lower=True, strict=True), below, p.constant(0, tall))
    below = p.select(eye(p, tall), p.constant(1, tall), below)
    above = padded_matrix(p, matrix_part(p, packed, least, columns), columns, columns, zero)
    above = p.select(triangle(p, wide, lower=False), above, p.constant(0, wide))
    if columns > least:
        corner = p.compare("GE", p.iota(S32, wide.dims, wide.rank - 1), p.constant(least, TensorType(S32, wide.dims)))
        above = p.select(p.op("and", corner, eye(p, wide)), p.constant(1, wide), above)
    target = solver_of(node)
    is_square = rows == columns
    is_diagonal = is_square and t.source is not None and _is_diagonal_read_alone(t, t.source)
    half = solved(t, target, packed if is_square else below, moved, left=True, lower=True, unit=True)
    both = solved(t, target, packed if is_square else above, half, left=False, lower=False)
    if is_diagonal:
        return leaves_from(node, {0: t.mul(packed, t.select(eye(p, value_type), both, None))})
    strict = triangle(p, value_type, lower=True, strict=True)
    low, up = t.select(strict, both, None), t.select(strict, None, both)
    return leaves_from(node, {0: t.add(times(t, below, low, value_type), times(t, up, above, value_type))})


def _is_diagonal_read_alone(t: LinearOps, node: Apply) -> bool:
    """Whether nothing reads the triangles of an LU decomposition but solutions and what takes the diagonal.

    That is what determinants are made of: of the product L dU + dL U their derivatives need the diagonal alone.
    """
    functions = t.functions_in(node.graph)
    pending = [user for user in node.users if user.opcode == "get-tuple-element" and not user.attributes["index"]]
    if any(user.opcode != "get-tuple-element" for user in node.users):
        return False
    while pending:
        value = pending.pop()
        if value.is_output:
            return False
        for user in value.users:
            if user.opcode == "copy" or (user.opcode == "select" and splat(user.operands[2]) is not None):
                pending.append(user)
            elif not _is_part_of_solution(functions, user, value) and not _takes_diagonal(user):
                return False
    return True


def _is_part_of_solution(functions: dict[Node, Recognized], node: Node, packed: Node) -> bool:
    """Whether a node is one of the triangular solves of a solution that is differentiated as one."""
    if node.opcode != "custom-call" or packed in node.operands[1:]:
        return False
    if node in functions:
        return True
    return not node.is_output and all(
        user in functions and functions[user].nodes.get("inner") is node for user in node.users
    )


def _takes_diagonal(node: Node) -> bool:
    """Whether a node is a gather of single elements whose row and column have the same number."""
    if not isinstance(node, Apply) or node.opcode != "gather":
        return False
    rank, indices = array_type(node.operands[0]).rank, node.operands[1]
    sizes, last = node.attributes["slice_sizes"], (rank - 2, rank - 1)
    if indices.opcode != "concatenate" or tuple(node.attributes["start_index_map"]) != last or sizes[-2:] != (1, 1):
        return False
    is_along_vector = indices.attributes["dimensions"] == (node.attributes["index_vector_dim"],)  # pyright: ignore[reportAttributeAccessIssue]
    return is_along_vector and len(indices.operands) == 2 and is_same_value(*indices.operands)


def _solution_of(node: Apply) -> Recognized | None:
    """A solution by both triangles of one LU decomposition: of A X = B, or of its transposition.

    trsm(lu, trsm(lu, P b), uplo=U)                  x of A x = b
    trsm(lu, trsm(lu, b, uplo=U, trans_x=T), trans_x=T, diag=U)         P x of A^T x = b
    """
    target = node.attributes["custom_call_target"]
    if target not in _TRIANGULAR:
        return None
    packed, inner = node.operands
    if inner.opcode != "custom-call" or inner.attributes["custom_call_target"] != target:  # pyright: ignore[reportAttributeAccessIssue]
        return None
    forms = [tuple(setting(call, name, "") for name in ("side", "uplo", "diag", "trans_x")) for call in (inner, node)]  # pyright: ignore[reportArgumentType]
    is_turned = forms in [[("L", "U", "N", turn), ("L", "L", "U", turn)] for turn in "TC"]
    if inner.operands[0] is not packed or (forms != [("L", "L", "U", "N"), ("L", "U", "N", "N")] and not is_turned):
        return None
    passed: list[Node] = [node, inner]
    decomposition = packed
    while decomposition.opcode in ("copy", "select") or is_element_of_tuple(decomposition):
        passed.append(decomposition)
        if decomposition.opcode == "copy":
            decomposition = decomposition.operands[0]
            continue
        if decomposition.opcode == "get-tuple-element":
            decomposition = decomposition.operands[0].operands[decomposition.attributes["index"]]  # pyright: ignore[reportAttributeAccessIssue]
            continue
        _, on_true, on_false = decomposition.operands
        failed = splat(on_false)
        if failed is None or failed == failed:
            return None
        decomposition = on_true
    if decomposition.opcode != "get-tuple-element" or decomposition.attributes["index"]:  # pyright: ignore[reportAttributeAccessIssue]
        return None
    call = decomposition.operands[0]
    if call.opcode != "custom-call" or call.attributes["custom_call_target"] not in _DECOMPOSITIONS:  # pyright: ignore[reportAttributeAccessIssue]
        return None
    nodes = {"matrix": call.operands[0], "right": inner.operands[1], "packed": packed, "call": call, "inner": inner}
    return Recognized(_SOLUTION, nodes, frozenset([*passed, decomposition, call]))


def is_element_of_tuple(node: Node) -> bool:
    return node.opcode == "get-tuple-element" and node.operands[0].opcode == "tuple"


def solution(t: LinearOps, node: Apply, nodes: dict[str, Node], tangents: dict[str, Any]) -> Any:
    """dX = A^-1 (dB - dA X): with the triangles that are there, and no tangent of the decomposition."""
    value_type = _matrix(node).with_layout(None)
    turned = setting(node, "trans_x", "N")
    change, right = tangents["matrix"], tangents["right"]
    if change is not None:
        order, rows = _permutation_of(t, nodes["call"]), value_type.rank - 2
        change = permuted(t, change, order, rows) if turned != "N" else change
        change = t.conjugate(change) if turned == "C" else change
        change = change if turned == "N" else t.transpose(change, swapped(array_type(change).rank))
        product = times(t, change, node, value_type)
        product = permuted(t, product, order, rows) if turned == "N" else product
        right = t.sub(right, product)
    turn = {"N": "NO_TRANSPOSE", "T": "TRANSPOSE", "C": "ADJOINT"}[turned]
    target, packed = node.attributes["custom_call_target"], nodes["packed"]
    for is_lower in (turned == "N", turned != "N"):
        right = solved(t, target, packed, right, left=True, lower=is_lower, unit=is_lower, turned=turn)
    return right


_TRIANGULAR, _DECOMPOSITIONS = frozenset(lapack("trsm")), frozenset(lapack("getrf"))
_SOLUTION = FunctionRule((), ("matrix", "right"), solution)
FUNCTIONS.setdefault("custom-call", []).append(_solution_of)


def _permutation_of(t: LinearOps, node: Node) -> Node:
    """Where each row of the matrix of an LU decomposition comes from; made once."""
    if node not in t.shared:
        p = t.primal
        packed, pivots = p.element(node, 0), p.element(node, 1)
        one_based = node.attributes["custom_call_target"] != "LuDecomposition"  # pyright: ignore[reportAttributeAccessIssue]
        t.shared[node] = _permutation(p, pivots, array_type(packed).dims[-2], one_based=one_based)
    return t.shared[node]


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
        if not batch:
            target = inner.reshape(inner.op("dynamic-slice", targets, index, dynamic_slice_sizes=(1,)), [])
            own, other = (inner.op("dynamic-slice", order, n, dynamic_slice_sizes=(1,)) for n in (index, target))
            order = inner.op("dynamic-update-slice", order, other, index)
            order = inner.op("dynamic-update-slice", order, own, target)
            return [inner.add(index, inner.constant(1, S32)), order, targets]
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


@custom_call(*lapack("gtsv"), "cusparse_gtsv2_ffi")
def gtsv(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    """d(T^-1 B) = T^-1 (dB - dT X), T of three diagonals."""
    p = t.primal
    is_tuple = isinstance(node.type, TupleType)
    solution = p.element(node, 3) if is_tuple else node
    value_type = _matrix(solution).with_layout(None)
    total = tangents[3]
    for tangent, shift in zip(tangents[:3], (1, 0, -1), strict=True):
        if tangent is not None:
            wide = t.broadcast(tangent, value_type.dims, list(range(value_type.rank - 1)))
            total = t.sub(total, t.mul(_moved_rows(p, solution, shift), wide))
    result = t.op(TRIDIAGONAL, total, *node.operands[:3], type=value_type, call=node)
    return leaves_from(node, {3: result}) if is_tuple else result


TRIDIAGONAL = "tridiagonal-solve"
"""The linear op that solves with a matrix of three diagonals."""


def _moved_rows(p: Emitter, node: Node, shift: int, *, from_end: int = 2) -> Node:
    """The rows one further down or up, zeros where there are none."""
    value_type = array_type(node)
    if not shift:
        return node
    padding = [PaddingDimension(0, 0)] * value_type.rank
    padding[value_type.rank - from_end] = PaddingDimension(shift, -shift)
    return p.op("pad", node, p.constant(0, value_type.dtype), padding=tuple(padding))


def _tridiagonal_solve(p: Emitter, right: Node, low: Node, middle: Node, high: Node, *, type: Any, call: Apply) -> Node:
    made = p.op("custom-call", low, middle, high, right, type=call.type, **call.attributes)
    return p.element(made, 3) if isinstance(call.type, TupleType) else made


FORWARD_FORMS[TRIDIAGONAL] = _tridiagonal_solve


@transposition(TRIDIAGONAL)
def transpose_tridiagonal_solve(b: Backward, value: Linear, cotangent: Node) -> None:
    """A solve with the transposed matrix: the outer diagonals change sides."""
    right, low, middle, high = value.operands
    low, middle, high = (b.use(node) if node.graph is not b.graph else node for node in (low, middle, high))
    turned = _moved_rows(b, high, 1, from_end=1), middle, _moved_rows(b, low, -1, from_end=1)
    b.give(right, _tridiagonal_solve(b, cotangent, *turned, type=value.type, call=value.attributes["call"]))
