"""Sizes as people write them, and sizes, times and shares as they are shown."""

from __future__ import annotations

import pytest

from hloom.text import HloomError, byte_text, parse_bytes, parse_capacity, percent_text, time_text


@pytest.mark.parametrize("text", ["", "GiB", "-3", "80 apples", "1e9"])
def test_what_is_no_size(text: str):
    with pytest.raises(HloomError, match=f"^'{text}' is not a number of bytes\n  write it as in 80GiB, 500MB or 4096$"):
        parse_bytes(text)


def test_a_small_number_needs_a_unit():
    assert (parse_bytes("16B"), parse_bytes(16), parse_bytes("0")) == (16, 16, 0)
    with pytest.raises(HloomError, match=r"^'16' has no unit\n  write 16GiB, or 16B$"):
        parse_bytes("16")


@pytest.mark.parametrize("size", ["0GiB", 0, -1, float("nan")])
def test_a_capacity_is_above_0(size: float | str):
    assert parse_capacity("1KiB") == 1024
    with pytest.raises(HloomError, match=r"^a device cannot hold \S+ bytes\n  give its memory, as in 16GiB$"):
        parse_capacity(size)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (5 * 2**20, "5.0 MiB"), (2**60, "1,024.0 PiB")],
)
def test_bytes(count: int, text: str):
    assert byte_text(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (2e-10, "0.2 ns"), (1e-6, "1 us"), (0.9999, "1e+03 ms"), (1, "1 s")]
)
def test_times(seconds: float, text: str):
    assert time_text(seconds) == text


def test_shares():
    assert (percent_text(1, 8), percent_text(0, 8), percent_text(1, 0)) == ("12.5", "0.0", "")
