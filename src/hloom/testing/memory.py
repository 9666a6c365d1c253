"""Assertions about how much memory a program takes."""

from __future__ import annotations

from hloom.analysis import LiveBuffer, bytes_of, memory
from hloom.ir import Module

SHOWN = 5
"""How many buffers a message names."""


def assert_peak_memory(module: Module, *, at_most: float | str, schedule: str | None = None) -> None:
    """Assert that a run takes no more than so many bytes: a number, or a text such as "80GiB".

    `schedule` is as `hloom.analysis.memory` takes it. Raises AssertionError, which names the largest buffers in use at
    the peak with their source lines, and ValueError for a text that is no number of bytes.
    """
    limit = bytes_of(at_most) if isinstance(at_most, str) else at_most
    found = memory(module, schedule=schedule)
    if found.peak <= limit:
        return
    lines = "".join(f"\n  {_line(each)}" for each in found.at_peak[:SHOWN])
    given = f"; donating inputs would save {found.donatable_bytes:,}" if found.donatable_bytes else ""
    raise AssertionError(
        f"{found.module} takes {found.peak:,} bytes, more than {limit:,}, at {found.peak_instruction}{given}:{lines}"
    )


def _line(each: LiveBuffer) -> str:
    element = "".join(f"{{{place}}}" for place in each.index)
    return (
        f"{each.bytes:,} bytes, {each.kind}: {each.computation}/{each.name}{element} = {each.type} {each.opcode}  "
        f"{each.source}"
    )
