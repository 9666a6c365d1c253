"""Factorisations, triangular solves and Fourier transforms."""

from __future__ import annotations

import math

import numpy as np

from hloom.evaluator.table import Runner, Value, Values, array_type, arrays_of, evaluator
from hloom.ir import Apply
from hloom.text import Unsupported


@evaluator("cholesky")
def _cholesky(node: Apply, operands: Values, run: Runner) -> Value:
    """The triangular factor of each matrix, of which one triangle is read; NaN where there is none."""
    (operand,) = arrays_of(operands)
    is_lower = node.attribute("lower")
    wide = _wide(operand)
    lower = np.tril(wide) if is_lower else _adjoint(np.triu(wide))
    matrices = lower.reshape(math.prod(lower.shape[:-2]), *lower.shape[-2:])
    factors = np.array([_factor(matrix) for matrix in matrices], lower.dtype).reshape(lower.shape)
    return (factors if is_lower else _adjoint(factors)).astype(operand.dtype)


def _factor(lower: np.ndarray) -> np.ndarray:
    """The lower factor of one matrix, whose lower triangle is given."""
    try:
        return np.linalg.cholesky(lower)
    except np.linalg.LinAlgError:
        return np.full_like(lower, np.nan)


@evaluator("triangular-solve")
def _triangular_solve(node: Apply, operands: Values, run: Runner) -> Value:
    """x of op(a) x = b, or of x op(a) = b; the other triangle of a is not read."""
    a, b = (_wide(matrix) for matrix in arrays_of(operands))
    how, is_lower = node.attribute("transpose_a"), node.attribute("lower")
    if how in ("TRANSPOSE", "ADJOINT"):
        a, is_lower = (_adjoint(a) if how == "ADJOINT" else _transposed(a)), not is_lower
    if not node.attribute("left_side"):
        a, b, is_lower = _transposed(a), _transposed(b), not is_lower
    x = _substituted(a, b, is_lower, node.attribute("unit_diagonal"))
    x = x if node.attribute("left_side") else _transposed(x)
    return x.astype(arrays_of(operands)[1].dtype)


def _substituted(a: np.ndarray, b: np.ndarray, is_lower: bool, is_unit: bool) -> np.ndarray:
    """Forward or backward substitution, row by row, on all matrices at once."""
    x = np.zeros_like(b)
    count = a.shape[-1]
    for row in range(count) if is_lower else reversed(range(count)):
        known = slice(0, row) if is_lower else slice(row + 1, count)
        rest = b[..., row, :] - (a[..., row, None, known] @ x[..., known, :])[..., 0, :]
        x[..., row, :] = rest if is_unit else rest / a[..., row, row, None]
    return x


@evaluator("fft")
def _fft(node: Apply, operands: Values, run: Runner) -> Value:
    """A transform of the last dimensions, as many as `fft_length` has."""
    (operand,) = arrays_of(operands)
    length = node.attribute("fft_length")
    operand_type = array_type(node)
    if 0 in operand_type.dims or 0 in operand.shape:
        return np.zeros(operand_type.dims, operand_type.dtype.numpy)
    axes = tuple(range(operand.ndim - len(length), operand.ndim))
    whole = operand_type.dims if node.attribute("fft_type") == "IRFFT" else operand.shape
    if tuple(length) != whole[operand.ndim - len(length) :]:
        raise Unsupported("fft_length is not the size of the last dimensions")
    return _TRANSFORMS[node.attribute("fft_type")](_wide(operand), length, axes).astype(operand_type.dtype.numpy)


_TRANSFORMS = {"FFT": np.fft.fftn, "IFFT": np.fft.ifftn, "RFFT": np.fft.rfftn, "IRFFT": np.fft.irfftn}


def _wide(operand: np.ndarray) -> np.ndarray:
    return operand.astype(np.complex128 if operand.dtype.kind == "c" else np.float64)


def _transposed(matrix: np.ndarray) -> np.ndarray:
    return np.swapaxes(matrix, -1, -2)


def _adjoint(matrix: np.ndarray) -> np.ndarray:
    return np.conj(_transposed(matrix))
