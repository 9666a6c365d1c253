"""Factorisations, triangular solves and Fourier transforms."""

from hloom.ir import optional, required
from hloom.ops.rows import BOOLEAN, ENUM, INTEGERS, row, table

FFT_TYPES = ("FFT", "IFFT", "RFFT", "IRFFT")
TRANSPOSES = ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")

ROWS = table(
    row("cholesky", 1, {"lower": optional(BOOLEAN, False)}, omits_type=True),
    row(
        "triangular-solve",
        2,
        {
            "left_side": optional(BOOLEAN, False),
            "lower": optional(BOOLEAN, False),
            "unit_diagonal": optional(BOOLEAN, False),
            "transpose_a": optional(ENUM, choices=TRANSPOSES),
        },
        omits_type=True,
    ),
    row(
        "fft",
        1,
        {"fft_type": required(ENUM, choices=FFT_TYPES), "fft_length": required(INTEGERS)},
        omits_type=True,
    ),
)
