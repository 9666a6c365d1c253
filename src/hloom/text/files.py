"""Reading files that people name, up to a limit: a device such as /dev/zero never ends."""

from __future__ import annotations

import os
import stat
from difflib import get_close_matches
from pathlib import Path
from typing import BinaryIO

from hloom.text.errors import HloomError

PIECE_BYTES = 1 << 20
"""How much is read between two looks at the limit, of what does not say how long it is."""


def read_limited(path: str | os.PathLike[str], limit: int) -> bytes:
    """All bytes of a file or pipe of at most `limit` bytes.

    Raises HloomError where it is larger, is a device or cannot be read; near misses of the name are its hint.
    """
    try:
        with open(path, "rb") as file:
            return read_stream(file, limit, os.fspath(path))
    except (OSError, ValueError) as problem:
        raise unreadable(path, problem) from None


def read_stream(stream: BinaryIO, limit: int, name: str) -> bytes:
    """All bytes of an open file, pipe or buffer of at most `limit` bytes; raises HloomError as `read_limited` does."""
    status = _status(stream)
    if status is not None and (stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode)) and not stream.isatty():
        raise HloomError(f"cannot read {name}: it is a device, neither a file nor a pipe")
    if status is not None and status.st_size > limit:
        raise _too_large(name, limit)
    pieces: list[bytes] = []
    left = limit
    expected = status.st_size + 1 if status is not None and stat.S_ISREG(status.st_mode) else 0
    while piece := stream.read(max(PIECE_BYTES, expected)):  # a file is one piece, so that nothing is joined
        left -= len(piece)
        if left < 0:
            raise _too_large(name, limit)
        pieces.append(piece)
    return b"".join(pieces)


def unreadable(path: str | os.PathLike[str], problem: Exception) -> HloomError:
    """The error for a path that cannot be read; the caller raises it."""
    hint = _near_names(Path(path)) if isinstance(problem, FileNotFoundError) else None
    return HloomError(f"cannot read {os.fspath(path)}: {system_message(problem)}", hint=hint)


def system_message(problem: Exception) -> str:
    """What the system says of a file that cannot be read or written, to stand inside a sentence."""
    text = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem)
    return text[:1].lower() + text[1:]


def _status(stream: BinaryIO) -> os.stat_result | None:
    """What the system says of an open file; None for a buffer in memory."""
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
