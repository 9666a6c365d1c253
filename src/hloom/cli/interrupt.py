"""Ctrl-C and SIGTERM: an end that leaves nothing behind, also to what does not listen to them."""

from __future__ import annotations

import os
import signal
import threading
import time
from types import FrameType

from hloom.cli.exit_status import INTERRUPTED, TERMINATED

MESSAGE = "interrupted"
GRACE = 1.0
"""Seconds from a signal until the process ends, whatever it does."""
STATUSES = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: TERMINATED}
"""The exit status by the signal."""


def interrupted() -> SystemExit:
    """Tell the user that Ctrl-C stopped the program; gives the exit to raise."""
    os.write(2, f"{MESSAGE}\n".encode())
    return SystemExit(INTERRUPTED)


def end_after_interrupt() -> None:
    """End this process soon after Ctrl-C or SIGTERM, also while it is in a solver's or numpy's C code.

    Python raises KeyboardInterrupt or SystemExit when that code returns, which may be minutes later; a file that is
    being written is written by Python, and gone by then, as are children and their folders. Does nothing outside the
    main thread, where signals cannot be watched.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=_end_after, args=(reader,), daemon=True).start()


def _end_after(reader: int) -> None:
    """Wait for the byte that Python writes when a signal comes, whatever code is running then."""
    while (number := os.read(reader, 1)[0]) not in STATUSES:
        pass
    time.sleep(GRACE)
    if number == signal.SIGINT:
        os.write(2, f"{MESSAGE}\n".encode())
    os._exit(STATUSES[signal.Signals(number)])


def _terminate(number: int, frame: FrameType | None) -> None:
    raise SystemExit(TERMINATED)
