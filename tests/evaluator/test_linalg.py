"""Factorisations, solves and transforms beside XLA's, to 1e-4 (single) and 1e-9 (double precision)."""

import numpy as np
import pytest

from tests.evaluator.xla import agree, plain, program, types

KINDS = types("f32 c64", long="f64 c128")


@pytest.mark.parametrize("dtype", KINDS)
def test_cholesky(dtype):
    body = """
  x = T[2,4,4] parameter(0)
  a = T[2,4,4] cholesky(x), lower=true
  b = T[2,4,4] cholesky(x)
"""
    x = plain(dtype, (2, 4, 4))
    agree(program(body, dtype), [x @ np.conj(np.swapaxes(x, 1, 2)) + np.eye(4, dtype=x.dtype)])


def test_cholesky_of_what_is_not_positive_definite():
    body = "  x = f32[2,2,2] parameter(0)\n  a = f32[2,2,2] cholesky(x), lower=true\n"
    agree(program(body), [np.array([[[1, 2], [2, 1]], [[4, 2], [2, 5]]], np.float32)])


@pytest.mark.parametrize("dtype", KINDS)
def test_triangular_solve(dtype):
    lines = ["  a = T[2,4,4] parameter(0)\n  b = T[2,4,3] parameter(1)\n  c = T[2,3,4] parameter(2)"]
    for how in ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"):
        for lower in ("true", "false"):
            for unit in ("true", "false"):
                rest = f"lower={lower}, unit_diagonal={unit}, transpose_a={how}"
                name = f"{how}_{lower}_{unit}".lower()
                lines.append(f"  left_{name} = T[2,4,3] triangular-solve(a, b), left_side=true, {rest}")
                lines.append(f"  right_{name} = T[2,3,4] triangular-solve(a, c), {rest}")
    a = plain(dtype, (2, 4, 4)) * 0.3 + np.eye(4) * 2
    agree(
        program("\n".join(lines), dtype),
        [a.astype(plain(dtype, ()).dtype), plain(dtype, (2, 4, 3)), plain(dtype, (2, 3, 4))],
    )


@pytest.mark.parametrize(
    ("real", "complex_type"), [("f32", "c64"), pytest.param("f64", "c128", marks=pytest.mark.long)]
)
def test_fft(real, complex_type):
    body = """
  x = C[3,6,8] parameter(0)
  r = R[3,6,8] parameter(1)
  h = C[3,6,5] parameter(2)
  z = C[0,8] parameter(3)
  forward = C[3,6,8] fft(x), fft_type=FFT, fft_length={8}
  forward_two = C[3,6,8] fft(x), fft_type=FFT, fft_length={6,8}
  back = C[3,6,8] fft(x), fft_type=IFFT, fft_length={8}
  back_three = C[3,6,8] fft(x), fft_type=IFFT, fft_length={3,6,8}
  half = C[3,6,5] fft(r), fft_type=RFFT, fft_length={8}
  half_two = C[3,6,5] fft(r), fft_type=RFFT, fft_length={6,8}
  real_even = R[3,6,8] fft(h), fft_type=IRFFT, fft_length={8}
  real_odd = R[3,6,9] fft(h), fft_type=IRFFT, fft_length={9}
  real_two = R[3,6,8] fft(h), fft_type=IRFFT, fft_length={6,8}
  nothing = C[0,8] fft(z), fft_type=FFT, fft_length={8}
""".replace("C[", f"{complex_type}[").replace("R[", f"{real}[")
    inputs = [
        plain(complex_type, (3, 6, 8)),
        plain(real, (3, 6, 8)),
        plain(complex_type, (3, 6, 5)),
        plain(complex_type, (0, 8)),
    ]
    agree(program(body), inputs)
