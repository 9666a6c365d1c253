"""Many f32 written at once are written as C's printf writes each: `f32_text.py`."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from hloom.ir.f32_text import f32_rows

COUNT = 4096


def by_printf(flat: np.ndarray) -> list[str]:
    """Six digits where they read back as the number, else nine."""
    with np.errstate(over="ignore"):
        short = [f"{value:.6g}" for value in flat.tolist()]
        return [
            text if np.float32(float(text)) == value else f"{value:.9g}"
            for text, value in zip(short, flat, strict=True)
        ]


def arrays(seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    normal = random.normal(size=COUNT)
    sizes = 10.0 ** random.integers(-6, 12, COUNT)
    families = {
        "any bits": random.integers(0, 2**32, COUNT, dtype=np.uint64).astype(np.uint32).view(np.float32),
        "weights": normal * 0.02,
        "every exponent": normal * sizes,
        "a few decimals": np.round(normal * 1000, 2),
        "integers": random.integers(-(2**25), 2**25, COUNT),
        "dyadic": random.integers(-(2**20), 2**20, COUNT) / 2.0 ** random.integers(0, 20, COUNT),
        "next to powers of ten": sizes * random.choice([1, 1 - 2**-24, 1 + 2**-23, 0.5, 9.999999], COUNT),
        "powers of two": 2.0 ** random.integers(-30, 40, COUNT),
        "repeated": random.choice([1.5, -2, 0.1, 3e-9, 0], COUNT),
    }
    return {name: np.ascontiguousarray(values, np.float32) for name, values in families.items()}


@given(st.integers(0, 2**32 - 1))
def test_rows_are_what_printf_writes(seed: int) -> None:
    for name, flat in arrays(seed).items():
        finite = flat[np.isfinite(flat)]
        assert f32_rows(finite, 1, by_printf) == by_printf(finite), name


@pytest.mark.parametrize("size", [1, 3, 1000, 30_000])
def test_a_row_holds_as_many_numbers_as_asked_for(size: int) -> None:
    flat = np.random.default_rng(0).normal(size=size * 3).astype(np.float32)
    texts = by_printf(flat)
    assert f32_rows(flat, size, by_printf) == [", ".join(texts[start : start + size]) for start in (0, size, 2 * size)]
