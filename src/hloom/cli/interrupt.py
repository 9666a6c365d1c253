"""Ctrl-C: an end to what does not listen to it."""

from __future__ import annotations

import os
import signal
import threading
import time

from hloom.cli.exit_status import INTERRUPTED

MESSAGE = "interrupted"
GRACE = 1.0
"""Seconds from Ctrl-C until the process ends, whatever it does."""


def end_after_interrupt() -> None:
    """End this process soon after Ctrl-C, also while it is in a solver's or numpy's C code.

    Python raises KeyboardInterrupt when that code returns, which may be minutes later; a file that is being written is
    written by Python, and gone by then. Does nothing outside the main thread, where signals cannot be watched.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=_end_after, args=(reader,), daemon=True).start()


def _end_after(reader: int) -> None:
    """Wait for the byte that Python writes when a signal comes, whatever code is running then."""
    while os.read(reader, 1) != bytes([signal.SIGINT]):
        pass
    time.sleep(GRACE)
    os.write(2, f"{MESSAGE}\n".encode())
    os._exit(INTERRUPTED)
