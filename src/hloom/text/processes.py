"""Child processes on Linux, macOS and Windows: how one ended, waiting for what it prints, and ending it."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess  # not imported by programs that start no child
if sys.platform == "win32":
    import _winapi
    import msvcrt

PEEK_SECONDS = 0.01
"""Seconds between looks at a pipe on Windows, which cannot wait for one."""


def ending(status: int) -> str:
    """How a process ended, in words; its exit status is negative where a signal ended it."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"signal {signal.Signals(-status).name}"
    except ValueError:
        return f"signal {-status}"


def wait_readable(descriptor: int, seconds: float | None) -> bool:
    """Wait until a pipe has bytes to read or has been closed; False if neither happens within the given seconds."""
    if sys.platform != "win32":
        return bool(select.select([descriptor], [], [], seconds)[0])
    deadline = None if seconds is None else time.monotonic() + seconds  # select takes nothing but sockets there
    handle = msvcrt.get_osfhandle(descriptor)
    while True:
        try:
            if _winapi.PeekNamedPipe(handle, 0)[0]:
                return True
        except OSError:  # closed by the writer: a read returns at once
            return True
        if deadline is not None and time.monotonic() >= deadline:
            return False
        time.sleep(PEEK_SECONDS)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a child that was started with `start_new_session=True`, and all that it started.

    Windows has no process groups: only the child itself ends there.
    """
    try:
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        process.kill()
    process.wait()
