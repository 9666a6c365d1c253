"""Factorisations, solves and Fourier transforms: the types that XLA infers, and which of its answers we do not give.

fft             negative lengths: XLA aborts, or takes them where the dimension is `?`; we refuse

Covers `linalg.py`.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from .agreement import assert_agrees, quickly
from .operand_types import DIMS, braces, elements, like, numbers
from .oracle import module_text, ours

inexact = st.one_of(st.sampled_from(["f32", "f64", "c64", "c128", "bf16"]), elements)


@quickly
@given(DIMS, st.integers(0, 3), inexact, st.data())
def test_cholesky(batch: list[int], size: int, element: str, data: st.DataObject) -> None:
    operand_type = data.draw(like([*batch, size, size], element))
    assert_agrees(f"cholesky(p0), lower={data.draw(st.sampled_from(['true', 'false']))}", [operand_type])


@quickly
@given(DIMS, st.integers(0, 3), st.integers(0, 3), inexact, st.data())
def test_triangular_solve(batch: list[int], size: int, free: int, element: str, data: st.DataObject) -> None:
    left = data.draw(st.booleans())
    kinds = [
        data.draw(like([*batch, size, size], element)),
        data.draw(like([*batch, *([size, free] if left else [free, size])], element)),
    ]
    how = data.draw(st.sampled_from(["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT", ""]))
    text = f"triangular-solve(p0, p1), left_side={str(left).lower()}"
    assert_agrees(text + (f", transpose_a={how}" if how else ""), kinds)


ELEMENTS = {"FFT": ["c64", "c128"], "IFFT": ["c64", "c128"], "RFFT": ["f32", "f64"], "IRFFT": ["c64", "c128"]}


@quickly
@given(st.sampled_from(list(ELEMENTS)), st.lists(st.integers(0, 4), max_size=2), st.data())
def test_fft(name: str, batch: list[int], data: st.DataObject) -> None:
    lengths = data.draw(st.lists(st.integers(0, 6), max_size=4))
    dims = [*lengths[:-1], lengths[-1] // 2 + 1] if name == "IRFFT" and lengths else lengths
    operand_type = data.draw(like([*batch, *dims], data.draw(st.sampled_from([*ELEMENTS[name] * 3, "f16", "s32"]))))
    text = f"fft(p0), fft_type={name}, fft_length={braces(data.draw(numbers(lengths)))}"
    assert_agrees(text, [operand_type], we_refuse=("must not be negative",), xla_aborts=("must not be negative",))


@pytest.mark.parametrize(
    ("text", "kinds", "problem"),
    [
        ("cholesky(p0)", ["f32[3,4]"], "the operand must end in two dimensions of the same size, but is f32[3,4]"),
        ("cholesky(p0)", ["s32[3,3]"], "the operand must be of float or complex type, but is s32[3,3]"),
        (
            "triangular-solve(p0, p1), left_side=true",
            ["f32[3,3]", "f32[3,2]"],
            "transpose_a must be given where the result's type is left out",
        ),
        (
            "triangular-solve(p0, p1), left_side=true, transpose_a=ADJOINT",
            ["f32[3,3]", "f32[2,3]"],
            "the right side f32[2,3] must have as many rows as the matrix f32[3,3]",
        ),
        (
            "triangular-solve(p0, p1), left_side=true, transpose_a=ADJOINT",
            ["f32[3,3]", "f64[3,2]"],
            "the matrix f32[3,3] and the right side f64[3,2] must have the same element type",
        ),
        (
            "triangular-solve(p0, p1), left_side=true, transpose_a=ADJOINT",
            ["f32[5,3,3]", "f32[3,2]"],
            "the matrix f32[5,3,3] and the right side f32[3,2] must have the same batch dimensions",
        ),
        (
            "fft(p0), fft_type=FFT, fft_length={2,8}",
            ["c64[8]"],
            "fft_length={2,8} must name 1 to 3 dimensions of c64[8]",
        ),
        ("fft(p0), fft_type=FFT, fft_length={8}", ["f32[8]"], "the operand must be of complex type, but is f32[8]"),
        (
            "fft(p0), fft_type=RFFT, fft_length={8}",
            ["f16[8]"],
            "the operand of RFFT must be of f32 or f64, but is f16[8]",
        ),
        ("fft(p0), fft_type=IRFFT, fft_length={10}", ["c64[5]"], "fft_length={10} does not fit c64[5]"),
        ("fft(p0), fft_type=RFFT, fft_length={-8}", ["f32[?]"], "fft_length={-8} must not be negative"),
    ],
)
def test_refusals_say_what_would_be_right(text: str, kinds: list[str], problem: str) -> None:
    assert problem in str(ours(module_text(text, kinds)))
