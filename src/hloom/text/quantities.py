"""Numbers with units: sizes as people write them, and sizes, times, shares and counts as they are shown."""

from __future__ import annotations

import re
from typing import TypeVar

from hloom.text.source import HloomError

Number = TypeVar("Number", int, float)

LEAST_WITHOUT_UNIT = 1024
"""Smaller numbers need a unit: a user who gives a device 16 of memory means GiB."""
LARGEST_SIZE = 2.0**63
"""The maximum number of bytes that a text may specify."""
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([KMGTP]?)(i?)B?\s*", re.IGNORECASE)


def parse_bytes(size: Number | str) -> Number | int:
    """Parse a number of bytes, as in 80GiB; raises HloomError if it is not a size, or small and without a unit.

    >>> parse_bytes("80GiB"), parse_bytes("1.5 MB"), parse_bytes("4096"), parse_bytes("16B"), parse_bytes(80e9)
    (85899345920, 1500000, 4096, 16, 80000000000.0)
    >>> parse_bytes("16")
    Traceback (most recent call last):
        ...
    hloom.text.source.HloomError: '16' has no unit
      write 16GiB, or 16B
    """
    if not isinstance(size, str):
        return size
    match = _SIZE.fullmatch(size)
    if match is None:
        raise HloomError(f"'{size}' is not a number of bytes", hint="write it as in 80GiB, 500MB or 4096")
    power = " KMGTP".index(match[2].upper() or " ")
    count = float(match[1]) * (1024 if match[3] else 1000) ** power
    if count > LARGEST_SIZE:
        raise HloomError(f"'{size[:40]}' is more bytes than there are", hint="write it as in 80GiB, 500MB or 4096")
    if size.strip().isdecimal() and 0 < count < LEAST_WITHOUT_UNIT:
        raise HloomError(f"'{size}' has no unit", hint=f"write {size.strip()}GiB, or {size.strip()}B")
    return int(count)


def parse_capacity(size: Number | str) -> Number | int:
    """The bytes that something can hold, written as for `parse_bytes`; raises HloomError unless they are above 0."""
    count = parse_bytes(size)
    if not count > 0:
        raise HloomError(f"a device cannot hold {count:,} bytes", hint="give its memory, as in 16GiB")
    return count


def byte_text(count: float) -> str:
    """A number of bytes with a binary unit.

    >>> byte_text(512), byte_text(1536), byte_text(3 * 2**30), byte_text(-1536)
    ('512 B', '1.5 KiB', '3.0 GiB', '-1.5 KiB')
    """
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} PiB"


LONGEST_SECONDS = 600
"""Seconds above which a time is shown in two larger units."""
MOST_DAYS = 10_000
"""Days above which a time is shown in years."""
YEAR = 365.25 * 86_400


def time_text(seconds: float) -> str:
    """Seconds with a unit; from ten minutes on two units, as people write times.

    >>> time_text(0.0123), time_text(4.5e-6), time_text(75), time_text(0), time_text(-0.5)
    ('12.3 ms', '4.5 us', '75 s', '0 s', '-500 ms')
    >>> time_text(754), time_text(8_230), time_text(200_000), time_text(1e10)
    ('12 min 34 s', '2 h 17 min', '2 d 8 h', '317 years')
    """
    if not abs(seconds) < LONGEST_SECONDS:
        return _long_time(seconds)
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if abs(seconds) * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns" if seconds else "0 s"


def _long_time(seconds: float) -> str:
    if not abs(seconds) < MOST_DAYS * 86_400:  # infinite, and not a number, too
        return f"{seconds / YEAR:.3g} years"
    sign, whole = "-" if seconds < 0 else "", round(abs(seconds))
    if whole < 3_600:
        return f"{sign}{whole // 60} min {whole % 60} s"
    minutes = round(abs(seconds) / 60)
    if minutes < 2 * 1_440:
        return f"{sign}{minutes // 60} h {minutes % 60} min"
    hours = round(abs(seconds) / 3_600)
    return f"{sign}{hours // 24:,} d {hours % 24} h"


def percent_text(part: float, total: float) -> str:
    """A share in percent, with one decimal; empty where there is no total."""
    return f"{100 * part / total:.1f}" if total else ""


def count_text(count: int, noun: str) -> str:
    """A count with its noun in the singular or the plural.

    >>> count_text(1, "replica"), count_text(1200, "instruction")
    ('1 replica', '1,200 instructions')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
