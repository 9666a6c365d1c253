"""Runs one child process with limits: on its time, and on how much of what it prints is kept."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hloom.text import HloomError, end_group, ending, system_message, wait_readable

KEPT_HEAD, KEPT_TAIL = 64 << 10, 256 << 10
"""Bytes kept of the beginning and of the end of what a child prints; libtpu prints 100 kB of stacks when it dies."""
MOST_TELLING_LINES = 8
"""The maximum number of printed lines to show in an error."""
LONGEST_LINE = 300
"""The maximum number of characters of such a line."""
_FATAL = re.compile(r"^F\d{4} [\d:.]+ +\d+ (?P<location>[\w./-]+:\d+)\] (?P<words>.*)", re.MULTILINE)
_LOG = re.compile(r"^[IWEF]\d{4} [\d:.]+ +\d+ [\w./-]+:\d+\] ?")
_NOISE = re.compile(
    r"^\s*@ |^\*\*\* |^PC: @|^ *0x[0-9a-f]+ |^https?://|^[IW]\d{4} |^E\d{4} .*process_state|^WARNING: All log messages|"
    r"^Failed to find host bounds|^=+$|^\s*$"
)
"""Lines that tell nothing of the cause: stacks, information and warnings, and what libtpu always says."""


@dataclass(frozen=True, slots=True)
class ChildResult:
    """How a child ended: its exit status (negative: the signal), whether its time was over, and what it printed."""

    status: int
    timed_out: bool
    printed: str

    @property
    def ending(self) -> str:
        """How it ended, in words."""
        return ending(self.status)

    def telling_lines(self) -> list[str]:
        """The few lines of the output that say what happened: XLA's fatal message, or the last that are no noise."""
        fatal = _FATAL.search(self.printed)
        if fatal:
            return [f"{fatal['words'][:LONGEST_LINE]} ({fatal['location'][-LONGEST_LINE:]})"]
        lines = [line for line in self.printed.splitlines() if not _NOISE.match(line)]
        return [_LOG.sub("", line)[:LONGEST_LINE].rstrip() for line in lines[-MOST_TELLING_LINES:]]


def run_child(command: Sequence[str], environment: Mapping[str, str], folder: str, seconds: float) -> ChildResult:
    """Run a command in a folder until it ends or its seconds are over; it and what it started are killed then.

    Raises HloomError if it cannot be started.
    """
    try:
        process = subprocess.Popen(
            list(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=dict(environment), cwd=folder, start_new_session=True,
        )  # fmt: skip
    except OSError as problem:
        raise HloomError(f"cannot start {command[0]}: {system_message(problem)}") from None
    deadline = time.monotonic() + seconds
    printed = _Printed()
    try:
        timed_out = not _read_until_end(process, printed, deadline)
        if not timed_out:
            process.wait()
    finally:
        end_group(process)
        if process.stdout is not None:
            process.stdout.close()
    return ChildResult(process.returncode, timed_out, printed.text())


class _Printed:
    """The beginning and the end of an output, whatever its length."""

    def __init__(self) -> None:
        self.head, self.tail, self.dropped = bytearray(), bytearray(), 0

    def add(self, piece: bytes) -> None:
        room = KEPT_HEAD - len(self.head)
        self.head += piece[:room]
        self.tail += piece[max(room, 0) :]
        if len(self.tail) > 2 * KEPT_TAIL:
            self.dropped += len(self.tail) - KEPT_TAIL
            del self.tail[:-KEPT_TAIL]

    def text(self) -> str:
        between = f"\n[{self.dropped:,} bytes left out]\n".encode() if self.dropped else b""
        return (self.head + between + self.tail).decode("utf-8", "replace")


POLL_SECONDS = 0.05
"""Seconds between checks whether the child has ended while something it started keeps its output open."""


def _read_until_end(process: subprocess.Popen[bytes], printed: _Printed, deadline: float) -> bool:
    """Read what a child prints until it ends; False if the deadline comes first."""
    assert process.stdout is not None
    descriptor = process.stdout.fileno()
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        if wait_readable(descriptor, min(left, POLL_SECONDS)):
            piece = os.read(descriptor, 1 << 16)
            if not piece:
                break
            printed.add(piece)
        elif process.poll() is not None:
            return True
    try:  # the output is closed: the end of the process is near
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return False
    return True
