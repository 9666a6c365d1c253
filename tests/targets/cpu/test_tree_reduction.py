"""Reductions by windows: what is stored before a sum that the library does not have."""

from __future__ import annotations

from hloom.formats.hlo import parse
from hloom.targets.cpu import simulate_buffers
from tests.targets.cpu.programs import program


def sizes(*lines: str) -> list[int]:
    """The bytes of the temporaries, the largest first."""
    buffers = simulate_buffers(parse(program(*lines))).allocation.temporaries
    return sorted((buffer.size for buffer in buffers), reverse=True)


def test_a_small_sum_stores_its_windows():
    """2048 elements are too few for the library: 64 sums of windows of 32 are stored."""
    lines = (
        "x = f32[2048] parameter(0)",
        "z = f32[] constant(0)",
        "s = f32[] reduce(x, z), dimensions={0}, to_apply=add",
        "ROOT r = (f32[], f32[]) tuple(s, s)",
    )
    assert sizes(*lines)[:1] == [4 * 64]


def test_a_large_sum_is_the_library_s():
    lines = (
        "x = f32[64,256] parameter(0)",
        "z = f32[] constant(0)",
        "ROOT s = f32[64] reduce(x, z), dimensions={1}, to_apply=add",
    )
    assert sizes(*lines) == []
