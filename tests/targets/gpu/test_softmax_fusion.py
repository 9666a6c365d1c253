"""Where a reduction of rows meets the rows that it is of."""

from __future__ import annotations

import pytest

from hloom.targets.gpu.softmax_fusion import reduction_diamonds
from tests.targets.gpu.kernels import entry

ROWS = "f32[64,128]"
REDUCED = "reduce({}, zero), dimensions={{{}}}, to_apply=add"


def diamonds(*lines: str) -> dict[str, str]:
    found = reduction_diamonds(entry(f"x = {ROWS} parameter(0)", "zero = f32[] constant(0)", *lines))
    return {reduction.name: root.name for reduction, root in found.items()}


def test_a_softmax_meets_twice():
    lines = (
        f"m = f32[64] {REDUCED.format('x', 1)}",
        f"mb = {ROWS} broadcast(m), dimensions={{0}}",
        f"d = {ROWS} subtract(x, mb)",
        f"e = {ROWS} exponential(d)",
        f"s = f32[64] {REDUCED.format('e', 1)}",
        f"sb = {ROWS} broadcast(s), dimensions={{0}}",
        f"ROOT r = {ROWS} divide(e, sb)",
    )
    assert diamonds(*lines) == {"m": "d", "s": "r"}


def test_sums_of_squares_meet_what_was_squared():
    lines = (
        f"q = {ROWS} multiply(x, x)",
        f"s = f32[64] {REDUCED.format('q', 1)}",
        "n = f32[64] rsqrt(s)",
        f"b = {ROWS} broadcast(n), dimensions={{0}}",
        f"ROOT r = {ROWS} multiply(x, b)",
    )
    assert diamonds(*lines) == {"s": "r"}


@pytest.mark.parametrize(
    ("reduction", "broadcast"),
    [(f"f32[128] {REDUCED.format('x', 0)}", "1"), (f"f32[64] {REDUCED.format('y', 1)}", "0")],
)
def test_columns_and_other_rows_do_not_meet(reduction: str, broadcast: str):
    lines = (
        f"y = {ROWS} parameter(1)",
        f"s = {reduction}",
        f"b = {ROWS} broadcast(s), dimensions={{{broadcast}}}",
        f"ROOT r = {ROWS} divide(x, b)",
    )
    assert not diamonds(*lines)
