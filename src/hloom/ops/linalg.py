"""Factorisations, triangular solves and Fourier transforms."""

from __future__ import annotations

from collections.abc import Sequence

from hloom.ir import (
    UNBOUNDED,
    AxisMap,
    AxisMapBuilder,
    DTypeKind,
    FactorKind,
    TensorType,
    Trait,
    Type,
    TypeProblem,
    dtype,
    optional,
    required,
)
from hloom.ops.rows import BOOLEAN, ENUM, INTEGERS, row, table
from hloom.ops.shapes import array, extents, of_kinds, sizes_agree, tensor

FFT_TYPES = ("FFT", "IFFT", "RFFT", "IRFFT")
TRANSPOSES = ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")

_INEXACT = frozenset({DTypeKind.FLOAT, DTypeKind.COMPLEX})
_COMPLEX = frozenset({DTypeKind.COMPLEX})
_COMPLEX_OF = {dtype("f32"): dtype("c64"), dtype("f64"): dtype("c128")}
_REAL_OF = {wide: real for real, wide in _COMPLEX_OF.items()}


def infer_cholesky(operand: Type) -> TensorType:
    """The operand's type. Source: xla/service/shape_inference.cc, InferCholeskyShape."""
    return _square_matrices(array(operand))


def cholesky_axes(operand: Type) -> AxisMap:
    """[b,n,m] -> [b,n,m]: every matrix whole."""
    operand_type = _square_matrices(array(operand))
    build = AxisMapBuilder()
    dimensions = _batch(build, operand_type, 2) + [
        [build.factor(size, FactorKind.NEED_REPLICATION)] for size in operand_type.dims[-2:]
    ]
    return build.operand(*dimensions).result(*dimensions).finish()


def infer_triangular_solve(
    a: Type, b: Type, *, left_side: bool, transpose_a: str | None, result: Type | None = None
) -> TensorType:
    """The type of `b`. Source: xla/service/shape_inference.cc, InferTriangularSolveShape.

    XLA wants `transpose_a` where the result's type is left out, and takes its absence for NO_TRANSPOSE elsewhere.
    """
    _, right = _check_solve(a, b, left_side)
    if transpose_a is None and result is None:
        raise TypeProblem("transpose_a must be given where the result's type is left out")
    return right


def triangular_solve_axes(a: Type, b: Type, *, left_side: bool, transpose_a: str | None) -> AxisMap:
    """a x = b, left_side=true: ([b,r,c], [b,r,m]) -> [b,c,m]; right sides m are parallel, the matrix is whole."""
    matrix, right = _check_solve(a, b, left_side)
    build = AxisMapBuilder()
    batch = _batch(build, matrix, 2)
    rows, columns = (build.factor(size, FactorKind.NEED_REPLICATION) for size in matrix.dims[-2:])
    free = build.factor(right.dims[-1 if left_side else -2])
    turned = transpose_a not in (None, "NO_TRANSPOSE")
    given, solved = (rows, columns) if left_side != turned else (columns, rows)
    build.operand(*batch, [rows], [columns])
    build.operand(*batch, *([[given], [free]] if left_side else [[free], [given]]))
    return build.result(*batch, *([[solved], [free]] if left_side else [[free], [solved]])).finish()


def infer_fft(operand: Type, *, fft_type: str, fft_length: Sequence[int]) -> TensorType:
    """The operand's type; real transforms change the last dimension. Source: InferFftShape.

    XLA does not compare the lengths of complex transforms with the dimensions, and neither do we.
    """
    operand_type = array(operand)
    _check_fft(operand_type, fft_type, fft_length)
    if fft_type not in ("RFFT", "IRFFT"):
        return operand_type
    element = _COMPLEX_OF[operand_type.dtype] if fft_type == "RFFT" else _REAL_OF[operand_type.dtype]
    *outer, (last, moves) = extents(operand_type)
    length = fft_length[-1]
    if fft_type == "RFFT" and not length:
        return operand_type.with_dtype(element)
    size = length if fft_type == "IRFFT" else length // 2 + 1
    return tensor(element, [*outer, (size, moves and last != UNBOUNDED)])


def fft_axes(operand: Type, *, fft_type: str, fft_length: Sequence[int]) -> AxisMap:
    """[b,n] -> [b,n]: what is transformed is whole; a last dimension that changes size is another factor."""
    operand_type = array(operand)
    result = infer_fft(operand_type, fft_type=fft_type, fft_length=fft_length)
    build = AxisMapBuilder()
    rank = len(fft_length)
    taken = _batch(build, operand_type, rank) + [
        [build.factor(size, FactorKind.NEED_REPLICATION)] for size in operand_type.dims[-rank:]
    ]
    last = (
        taken[-1] if result.dims == operand_type.dims else [build.factor(result.dims[-1], FactorKind.NEED_REPLICATION)]
    )
    return build.operand(*taken).result(*taken[:-1], last).finish()


def _batch(build: AxisMapBuilder, array_type: TensorType, inner: int) -> list[list[int]]:
    return [[build.factor(size)] for size in array_type.dims[: array_type.rank - inner]]


def _square_matrices(array_type: TensorType) -> TensorType:
    of_kinds(array_type, _INEXACT)
    if array_type.rank < 2 or not sizes_agree(*array_type.dims[-2:]):
        raise TypeProblem(f"the operand must end in two dimensions of the same size, but is {array_type}")
    return array_type


def _check_solve(a: Type, b: Type, left_side: bool) -> tuple[TensorType, TensorType]:
    matrix, right = _square_matrices(array(a, "the matrix")), array(b, "the right side")
    if matrix.dtype is not right.dtype:
        raise TypeProblem(f"the matrix {matrix} and the right side {right} must have the same element type")
    if matrix.rank != right.rank or matrix.dims[:-2] != right.dims[:-2]:
        raise TypeProblem(f"the matrix {matrix} and the right side {right} must have the same batch dimensions")
    if not sizes_agree(matrix.dims[-1], right.dims[-2 if left_side else -1]):
        which = "rows" if left_side else "columns"
        raise TypeProblem(f"the right side {right} must have as many {which} as the matrix {matrix}")
    return matrix, right


def _check_fft(array_type: TensorType, fft_type: str, lengths: Sequence[int]) -> None:
    rank = len(lengths)
    if not 1 <= rank <= 3 or array_type.rank < rank:
        raise TypeProblem(f"fft_length={{{','.join(map(str, lengths))}}} must name 1 to 3 dimensions of {array_type}")
    if fft_type == "RFFT":
        if array_type.dtype not in _COMPLEX_OF:
            raise TypeProblem(f"the operand of RFFT must be of f32 or f64, but is {array_type}")
        wrong = [n for n, size in zip(lengths, array_type.dims[-rank:], strict=True) if not sizes_agree(n, size)]
    else:
        of_kinds(array_type, _COMPLEX)
        wrong = _wrong_inverse_lengths(array_type, lengths) if fft_type == "IRFFT" else []
    if wrong:
        raise TypeProblem(f"fft_length={{{','.join(map(str, lengths))}}} does not fit {array_type}")
    if fft_type in ("RFFT", "IRFFT") and lengths[-1] < 0:
        raise TypeProblem(f"fft_length={{{','.join(map(str, lengths))}}} must not be negative")


def _wrong_inverse_lengths(array_type: TensorType, lengths: Sequence[int]) -> list[int]:
    """Lengths of a real inverse transform that do not fit: all but the last are equal, the last is twice as long."""
    outer = array_type.dims[array_type.rank - len(lengths) : -1]
    wrong = [n for n, size in zip(lengths, outer, strict=False) if n != size]
    last, length = array_type.dims[-1], lengths[-1]
    fits = last == length == 0 or sizes_agree(last, length // 2 + 1)
    return wrong if fits else [*wrong, length]


ROWS = table(
    row(
        "cholesky",
        1,
        {"lower": optional(BOOLEAN, False)},
        infer=infer_cholesky,
        axes=cholesky_axes,
        traits=(Trait.ROUNDS,),
    ),
    row(
        "triangular-solve",
        2,
        {
            "left_side": optional(BOOLEAN, False),
            "lower": optional(BOOLEAN, False),
            "unit_diagonal": optional(BOOLEAN, False),
            "transpose_a": optional(ENUM, choices=TRANSPOSES),
        },
        infer=infer_triangular_solve,
        axes=triangular_solve_axes,
        traits=(Trait.ROUNDS,),
    ),
    row(
        "fft",
        1,
        {"fft_type": required(ENUM, choices=FFT_TYPES), "fft_length": required(INTEGERS)},
        infer=infer_fft,
        axes=fft_axes,
        traits=(Trait.ROUNDS,),
    ),
)
