"""Standard streams: closed ones (`<&-`, `>&-`, `2>&-`), and what cannot be written."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hloom.text import unwritable

STDOUT = Path("-")
"""What -o names the standard output by."""


def replace_closed_streams() -> None:
    """Open something in the place of closed streams, so that no file that is opened later gets their numbers.

    What is written to a closed standard output fails, as with other programs; messages for a closed standard error are
    dropped. A closed standard input stays None, which its reader refuses.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_WRONLY if descriptor == 2 else os.O_RDONLY)  # it takes the smallest number: this
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115  as long as the process
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


@contextmanager
def writing_stdout() -> Iterator[None]:
    """Raise HloomError where the block cannot write to the standard output; a pipe without a reader stays an OSError.

    What is buffered then goes nowhere, or Python would fail once more when it ends.
    """
    try:
        yield
        sys.stdout.flush()
    except OSError as problem:
        if problem.errno == errno.EPIPE or problem.filename is not None:  # click ends quietly; another file's
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        raise unwritable("the standard output", problem) from None
