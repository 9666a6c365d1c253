"""Reads user-named files up to a size limit, because a device such as /dev/zero never ends."""

from __future__ import annotations

import os
import select
import stat
from difflib import get_close_matches
from pathlib import Path
from time import monotonic
from typing import BinaryIO

from hloom.text.source import HloomError

PIECE_BYTES = 1 << 20
"""Bytes to read between checks of the limit when the length is not known in advance."""
WRITER_SECONDS = 30.0
"""Seconds to wait for a named pipe to get a writer; once it has one, the writer may take any time."""
LOOK_SECONDS = 0.05
"""Seconds between checks whether a named pipe has a writer."""


def read_limited(path: str | os.PathLike[str], limit: int) -> bytes:
    """All bytes of a file or pipe of at most `limit` bytes.

    Raises HloomError if it is larger, is a device, is a pipe without a writer or cannot be read; the hint lists similar
    names.
    """
    try:
        if stat.S_ISFIFO(os.stat(path).st_mode):
            return _read_pipe(path, limit)
        with open(path, "rb") as file:
            return read_stream(file, limit, os.fspath(path))
    except (OSError, ValueError) as problem:
        raise unreadable(path, problem) from None


def read_stream(stream: BinaryIO, limit: int, name: str, beginning: bytes = b"") -> bytes:
    """All bytes of an open file, pipe or buffer of at most `limit` bytes, appended to those already read.

    Raises HloomError as `read_limited` does.
    """
    status = _status(stream)
    if status is not None and (stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode)) and not stream.isatty():
        raise HloomError(f"cannot read {name}: it is a device, neither a file nor a pipe")
    if status is not None and status.st_size > limit:
        raise _too_large(name, limit)
    pieces = [beginning] if beginning else []
    left = limit - len(beginning)
    expected = status.st_size + 1 if status is not None and stat.S_ISREG(status.st_mode) else 0
    while piece := stream.read(max(PIECE_BYTES, expected)):  # a file is read as one piece, which saves joining pieces
        left -= len(piece)
        if left < 0:
            raise _too_large(name, limit)
        pieces.append(piece)
    return b"".join(pieces)


def _read_pipe(path: str | os.PathLike[str], limit: int) -> bytes:
    """All bytes of a pipe once it has a writer; raises HloomError if there is none within WRITER_SECONDS."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a blocking open of a pipe without a writer never returns
    with open(descriptor, "rb") as pipe:
        beginning = _first_byte(descriptor, os.fspath(path))
        os.set_blocking(descriptor, True)
        return read_stream(pipe, limit, os.fspath(path), beginning)


def _first_byte(descriptor: int, name: str) -> bytes:
    """The first byte of a non-blocking pipe; empty if its writer has written nothing yet or has closed it."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    deadline = monotonic() + WRITER_SECONDS
    while monotonic() < deadline:
        has_ended = bool(poll.poll(LOOK_SECONDS * 1000))
        try:
            beginning = os.read(descriptor, 1)
        except BlockingIOError:
            return b""
        if beginning or has_ended:
            return beginning
    raise HloomError(
        f"cannot read {name}: nothing writes into this pipe",
        hint=f"start what writes into it within {WRITER_SECONDS:.0f} s",
    )


def unreadable(path: str | os.PathLike[str], problem: Exception) -> HloomError:
    """The error for a path that cannot be read; the caller raises it."""
    hint = _near_names(Path(path)) if isinstance(problem, FileNotFoundError) else None
    return HloomError(f"cannot read {os.fspath(path)}: {system_message(problem)}", hint=hint)


def unwritable(path: str | os.PathLike[str], problem: OSError) -> HloomError:
    """The error for a path that cannot be written; the caller raises it."""
    return HloomError(f"cannot write {os.fspath(path)}: {system_message(problem)}")


def system_message(problem: Exception) -> str:
    """The operating system's message about a file that cannot be read or written, for use inside a sentence."""
    text = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem)
    return text[:1].lower() + text[1:]


def _status(stream: BinaryIO) -> os.stat_result | None:
    """The status of an open file; None for a buffer in memory."""
    try:
        return os.fstat(stream.fileno())
    except (OSError, AttributeError):
        return None


def _too_large(name: str, limit: int) -> HloomError:
    return HloomError(f"cannot read {name}: it is larger than {limit:,} bytes, the limit for such a file")


def _near_names(path: Path) -> str | None:
    try:
        names = os.listdir(path.parent)
    except OSError:
        return None
    near = get_close_matches(path.name, names, 3)
    return f"near: {', '.join(str(path.parent / name) for name in near)}" if near else None
