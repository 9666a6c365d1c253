"""Standard streams that are closed (`<&-`, `>&-`, `2>&-`), and errors of writing to them."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from hloom.text import HloomError, unwritable

STDOUT_NAME = "the standard output"


def replace_closed_streams() -> None:
    """Open something in the place of closed streams, so that no file that is opened later gets their numbers.

    What is written to a closed standard output fails, as with other programs; messages for a closed standard error are
    dropped. A closed standard input stays None, which its reader refuses.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_WRONLY if descriptor == 2 else os.O_RDONLY)  # takes the smallest number, this one
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115  it lives as long as the process
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


@contextmanager
def writing_stdout() -> Iterator[None]:
    """Raise HloomError where the block cannot write to the standard output, but for a pipe whose reader is gone."""
    try:
        yield
        sys.stdout.flush()
    except OSError as problem:
        if problem.errno == errno.EPIPE:  # click ends quietly
            raise
        discard_stdout()
        raise unwritable(STDOUT_NAME, problem) from None


def discard_stdout() -> None:
    """Let what is buffered for the standard output, and cannot be written, go nowhere when the process ends."""
