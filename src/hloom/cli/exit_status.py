"""What a subcommand's exit status says: the same of all of them."""

from __future__ import annotations

import errno

from hloom.text import HloomError, Unattainable, system_message

YES = 0
"""It is done, or the answer is yes."""
NO = 1
"""The answer is no: it does not fit, it differs, nothing is found."""
TROUBLE = 2
"""It could not be done: the input or the usage is bad, or XLA fails. click ends with it on bad usage, too."""
INTERRUPTED = 130
"""Ctrl-C: 128 and the number of SIGINT, as shells have it."""
TERMINATED = 143
"""The same of SIGTERM."""


def status_of(error: Exception) -> int | None:
    """The exit status for what ends a subcommand; None where the error is none to be told in one line."""
    if isinstance(error, OSError) and error.errno == errno.EPIPE:
        return None  # click ends quietly when the reader of a pipe is gone
    if isinstance(error, Unattainable):
        return NO
    return TROUBLE if isinstance(error, (HloomError, OSError, MemoryError)) else None


def message_of(error: Exception) -> str:
    """What is told of it."""
    if isinstance(error, MemoryError):
        return "out of memory"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {system_message(error)}"
    return str(error)
