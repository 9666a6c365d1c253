"""Reads and writes whole files; errors name the file."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from hloom.text import HloomError, read_limited, read_stream, unreadable, unwritable

STDIN = "-"
"""The path that stands for standard input, by convention."""


MODULE_BYTES = 8 << 30
"""The maximum size of a module file, in bytes."""
PIPE_BYTES = 2 << 30
"""The maximum number of bytes to read from standard input: the maximum size of a proto."""


def read_bytes(path: str | os.PathLike[str], limit: int = MODULE_BYTES) -> bytes:
    """All bytes of a file; raises HloomError, with similar names, if it cannot be read or exceeds the limit."""
    if path != STDIN:
        return read_limited(path, limit)
    stream = getattr(sys.stdin, "buffer", None)  # None if standard input is closed, as with `<&-`
    if stream is None:
        raise HloomError("cannot read the standard input: it is closed", hint="give a file, or pipe something into it")
    try:
        return read_stream(stream, min(limit, PIPE_BYTES), "the standard input")
    except (OSError, ValueError) as problem:
        raise unreadable("the standard input", problem) from None


def write_whole(path: str | os.PathLike[str], data: bytes | str) -> Path:
    """Write a file atomically and return its path; raises HloomError if it cannot be written."""
    contents = data if isinstance(data, bytes) else data.encode("utf-8", "surrogateescape")
    with replacing(path) as beside:
        beside.write_bytes(contents)
    return Path(path)


def write_folder(path: str | os.PathLike[str], texts: Mapping[str, str]) -> Path:
    """Write texts, by file name, into a new or empty folder: all of them or none.

    Returns the path; raises HloomError if the folder is not empty or cannot be written.
    """
    check_new_folder(path)
    target = Path(os.path.realpath(path))
    beside = target.with_name(f".{target.name[:100]}.{os.urandom(4).hex()}")
    try:
        beside.mkdir()
        for name, text in texts.items():
            (beside / name).write_text(text, encoding="utf-8", errors="surrogateescape")
        beside.replace(target)
    except OSError as problem:
        raise unwritable(path, problem) from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return Path(path)


def check_new_folder(path: str | os.PathLike[str]) -> None:
    """Raise HloomError if a folder cannot be created: it exists and is not empty, or its parent is missing."""
    target = Path(path)
    if target.exists() and not target.is_dir():
        raise HloomError(f"{target} is a file, and a folder is written", hint="give a new folder, or an empty one")
    try:
        if target.is_dir() and any(target.iterdir()):
            raise HloomError(f"{target} is not empty", hint="give a new folder, or an empty one")
        if not target.absolute().parent.is_dir():
            raise unwritable(target, OSError(errno.ENOENT, os.strerror(errno.ENOENT)))
    except OSError as problem:
        raise unwritable(target, problem) from None


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A new file next to `path` to write in the block; it replaces `path` if the block succeeds.

    If `path` is not a plain file (a pipe, /dev/stdout), it is yielded itself. Raises HloomError if it cannot be
    written, also if a read-only file exists there.
    """
    target = Path(os.path.realpath(path))
    beside = target.with_name(f".{target.name[:100]}.{os.urandom(4).hex()}")
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            yield Path(path)
            return
        if target.exists() and not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, "the file may only be read")
        os.close(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        yield beside
        if target.exists():
            beside.chmod(target.stat().st_mode & 0o7777)
        beside.replace(target)
    except OSError as problem:
        raise unwritable(path, problem) from None
    finally:
        with suppress(OSError):  # on a read-only file system, even removing a missing file fails
            beside.unlink()
