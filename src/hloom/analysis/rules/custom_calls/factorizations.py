"""Factorizations and solves: LAPACK on CPUs, cuSOLVER and hipSOLVER on GPUs, and XLA's own for TPUs.

The counts are the leading terms of published ones, of real matrices; complex numbers cost four times as many. Sources:
LAPACK working note 41 (Installation guide for LAPACK), appendix C, and, for what iterates (eigenvalues, singular
values), Golub and Van Loan, Matrix Computations, 4th edition, 7.5.6, 8.3.3 and figure 8.6.1.
"""

from __future__ import annotations

from collections.abc import Callable

from hloom.analysis.rules.custom_calls.backend_config import CallConfig, Uncountable
from hloom.analysis.rules.custom_calls.kinds import CallCount, CallWork, array, first_result, kind
from hloom.analysis.rules.table import Instruction
from hloom.analysis.sizes import elements
from hloom.ir import TensorType, Type

COMPLEX = 4
"""Real operations of complex arithmetic for each one of real: a product has 6, a sum 2, and they are equally many."""
MatrixCount = Callable[[int, int], float]
"""FLOPs of one m by n matrix."""


def cholesky_flops(rows: int, columns: int) -> float:
    """POTRF."""
    return columns**3 / 3


def lu_flops(rows: int, columns: int) -> float:
    """GETRF: m n^2 - n^3/3 for a tall matrix, n m^2 - m^3/3 for a wide one."""
    shorter, longer = sorted((rows, columns))
    return longer * shorter**2 - shorter**3 / 3


def qr_flops(rows: int, columns: int) -> float:
    """GEQRF: 2 m n^2 - 2 n^3/3 for a tall matrix, 2 n m^2 - 2 m^3/3 for a wide one."""
    return 2 * lu_flops(rows, columns)


def tridiagonal_flops(rows: int, columns: int) -> float:
    """SYTRD."""
    return 4 * columns**3 / 3


def hessenberg_flops(rows: int, columns: int) -> float:
    """GEHRD."""
    return 10 * columns**3 / 3


def inverse_flops(rows: int, columns: int) -> float:
    """TRTRI: the inverse of a triangular matrix."""
    return columns**3 / 3


def reflector_flops(rows: int, columns: int, reflectors: int) -> float:
    """ORGQR: the m by n matrix that k reflectors make."""
    return 4 * rows * columns * reflectors - 2 * (rows + columns) * reflectors**2 + 4 * reflectors**3 / 3


def svd_flops(rows: int, columns: int, vectors: int) -> float:
    """Golub and Reinsch's algorithm: singular values alone, with as many left vectors as columns, or with all."""
    rows, columns = max(rows, columns), min(rows, columns)
    if vectors == 0:
        return 4 * rows * columns**2 - 4 * columns**3 / 3
    if vectors <= columns:
        return 14 * rows * columns**2 + 8 * columns**3
    return 4 * rows**2 * columns + 8 * rows * columns**2 + 9 * columns**3


def _matrix(instruction: Instruction) -> TensorType:
    """The matrix: the first operand with two dimensions; LAPACK's calls before the typed FFI begin with scalars."""
    for operand in instruction.operands:
        if isinstance(operand, TensorType) and operand.rank >= 2 and not operand.dtype.is_integer:
            return operand
    raise Uncountable("no operand is a matrix")


def _work(matrix: TensorType, flops: float, *types: Type | None) -> CallWork:
    """The work of all matrices of a batch, each with that many FLOPs."""
    rows, columns = matrix.dims[-2:]
    batch = elements(matrix) // (rows * columns) if rows * columns else 0
    complexity = COMPLEX if matrix.dtype.is_complex else 1
    return CallWork(round(batch * flops * complexity), matrix_types=(matrix, *types))


def _of_matrix(flops: MatrixCount) -> CallCount:
    def count(instruction: Instruction, config: CallConfig) -> CallWork:
        matrix = _matrix(instruction)
        return _work(matrix, flops(matrix.dims[-2], matrix.dims[-1]))

    return count


def _reflectors(instruction: Instruction, config: CallConfig) -> CallWork:
    matrix = _matrix(instruction)
    scales = next(
        value
        for value in instruction.operands
        if isinstance(value, TensorType) and value.dtype is matrix.dtype and value.rank == matrix.rank - 1
    )
    return _work(matrix, reflector_flops(matrix.dims[-2], matrix.dims[-1], scales.dims[-1]))


def _apply_reflectors(instruction: Instruction, config: CallConfig) -> CallWork:
    """ORMQR: 4 m n k - 2 n k^2 from the left, where the reflectors have m rows; alike from the right."""
    reflectors, scales, matrix = (array(instruction.operand(number)) for number in range(3))
    rows, columns = matrix.dims[-2:]
    if not config.flag("left", default=True):
        rows, columns = columns, rows
    count = scales.dims[-1]
    return _work(matrix, 4 * rows * columns * count - 2 * columns * count**2, reflectors)


def _triangular_solve(instruction: Instruction, config: CallConfig) -> CallWork:
    """TRSM: as many FLOPs for each element of the right-hand sides as the matrix has rows."""
    matrix, right = array(instruction.operand(0)), array(instruction.operand(1))
    if matrix.rank < 2:
        raise Uncountable("its first operand is not a matrix")
    complexity = COMPLEX if matrix.dtype.is_complex else 1
    return CallWork(matrix.dims[-1] * elements(right) * complexity, matrix_types=(matrix, right))


def _tridiagonal_solve(instruction: Instruction, config: CallConfig) -> CallWork:
    """GTSV: three FLOPs for each row to eliminate, and five for each element of the right-hand sides."""
    right, diagonal = array(instruction.operand(3)), array(instruction.operand(1))
    complexity = COMPLEX if right.dtype.is_complex else 1
    return CallWork((3 * elements(diagonal) + 5 * elements(right)) * complexity)


def _sylvester(instruction: Instruction, config: CallConfig) -> CallWork:
    """TRSYL: m^2 n + m n^2."""
    right = array(instruction.operand(2))
    rows, columns = right.dims[-2:]
    return _work(right, rows * columns * (rows + columns))


def _svd(instruction: Instruction, config: CallConfig) -> CallWork:
    matrix = _matrix(instruction)
    rows, columns = matrix.dims[-2:]
    if "compute_uv" in config.values:
        is_full, has_vectors = config.flag("full_matrices"), config.flag("compute_uv")
    elif "mode" in config.values:
        mode = config.text("mode")
        letter = chr(int(mode)) if mode.isdecimal() and len(mode) < 4 else mode
        is_full, has_vectors = letter == "A", letter != "N"
    else:
        raise Uncountable("its configuration does not say whether it computes vectors")
    shorter, longer = sorted((rows, columns))
    return _work(matrix, svd_flops(rows, columns, (longer if is_full else shorter) if has_vectors else 0))


def _symmetric(instruction: Instruction, config: CallConfig) -> CallWork:
    """Symmetric QR: 4 n^3/3 for eigenvalues, 9 n^3 with vectors. Calls on GPUs always compute vectors."""
    matrix = _matrix(instruction)
    order = matrix.dims[-1]
    return _work(matrix, 9 * order**3 if config.flag("mode", default=True) else 4 * order**3 / 3)


def _general(instruction: Instruction, config: CallConfig) -> CallWork:
    """Francis' QR: 10 n^3 for eigenvalues, 25 n^3 with vectors of one side or both."""
    matrix = _matrix(instruction)
    names = ("compute_left", "compute_right", "left", "right", "mode")
    given = [name for name in names if name in config.values]
    if not given:
        raise Uncountable("its configuration does not say whether it computes vectors")
    order = matrix.dims[-1]
    return _work(matrix, (25 if any(map(config.flag, given)) else 10) * order**3)


def _sparse_product(instruction: Instruction, config: CallConfig) -> CallWork:
    """A product for each stored value and column of the right operand."""
    values = array(instruction.operand(0))
    result = first_result(instruction)
    right = array(instruction.operand(len(instruction.operands) - 1))
    columns = result.dims[-1] if result.rank == 2 and right.rank == 2 else 1
    complexity = COMPLEX if values.dtype.is_complex else 1
    return CallWork(2 * elements(values) * columns * complexity)


def _routine(names: str, what: str, count: CallCount, because: str, *others: str) -> None:
    """A routine of LAPACK, of the GPU's solver library and, under other targets, of XLA."""
    named = f"({names})" if "|" in names else names
    libraries = rf"(lapack|blas)_(s|d|c|z){named}(_ffi)?", rf"(cu|hip)(solver|blas)_{named}(_batched)?(_ffi)?"
    kind((*libraries, *others), what, count, because=because)


_routine("potrf", "Cholesky factorization", _of_matrix(cholesky_flops), "n^3/3", "Cholesky")
_routine("getrf", "LU factorization", _of_matrix(lu_flops), "m n^2 - n^3/3", "LuDecomposition(Block)?")
_routine("geqrf|geqp3", "QR factorization", _of_matrix(qr_flops), "2 m n^2 - 2 n^3/3", "Qr", "QrDecompositionBlock")
_routine(
    "orgqr|ungqr",
    "matrix of Householder reflectors",
    _reflectors,
    "4 m n k - 2 (m + n) k^2 + 4 k^3/3",
    "ProductOfElementaryHouseholderReflectors",
)
_routine("ormqr|unmqr", "product with Householder reflectors", _apply_reflectors, "4 m n k - 2 n k^2")
_routine("trsm", "triangular solve", _triangular_solve, "n^2 for each right-hand side", r"__cublas\$triangularSolve")
_routine("gesdd|gesvd|gesvdj|gesvdp", "singular values", _svd, "4 m n^2 - 4 n^3/3; with vectors 14 m n^2 + 8 n^3")
_routine("syevd?|heevd?|syevj", "symmetric eigenvalues", _symmetric, "4 n^3/3; with vectors 9 n^3", "Eigh")
_routine("geev|gees", "eigenvalues", _general, "10 n^3; with vectors 25 n^3")
_routine("gehrd", "Hessenberg form", _of_matrix(hessenberg_flops), "10 n^3/3")
_routine("sytrd|hetrd", "tridiagonal form", _of_matrix(tridiagonal_flops), "4 n^3/3")
_routine("trsyl", "Sylvester equation", _sylvester, "m^2 n + m n^2")
kind(
    (r"lapack_(s|d|c|z)gtsv(_ffi)?", r"(cu|hip)sparse_gtsv2(_\w+)?"),
    "tridiagonal solve",
    _tridiagonal_solve,
    because="3 FLOPs per row, 5 per element of the right-hand sides",
)
kind(
    r"(cu|hip)sparse_(csr|coo)_mat(vec|mat)(_ffi)?",
    "sparse product",
    _sparse_product,
    because="2 FLOPs for each stored value and column",
)
kind(
    ("InvertDiagBlocksLowerTriangular", "CompactWyHelper"),
    "inverse of triangular blocks",
    _of_matrix(inverse_flops),
    because="n^3/3 for each block",
)
kind(
    "EighTpu",
    "symmetric eigenvalues, a step of Jacobi's method",
    None,
    because="the number of its sweeps depends on the data",
)
