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
    report = memory(module, schedule=schedule)
    if report.peak <= limit:
        return
    lines = "".join(f"\n  {_line(buffer)}" for buffer in report.at_peak[:SHOWN])
    given = f"; donating inputs would save {report.donatable_bytes:,}" if report.donatable_bytes else ""
    raise AssertionError(
        f"{report.module} takes {report.peak:,} bytes, more than {limit:,}, at {report.peak_instruction}{given}:{lines}"
    )


def _line(buffer: LiveBuffer) -> str:
    element = "".join(f"{{{index}}}" for index in buffer.index)
    return (
        f"{buffer.bytes:,} bytes, {buffer.role}: {buffer.computation}/{buffer.name}{element} = {buffer.type} "
        f"{buffer.opcode}  {buffer.source}"
    )
