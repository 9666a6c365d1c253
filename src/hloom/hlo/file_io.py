"""Files read and written as a whole, with errors that name the file."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from hloom.text import HloomError, read_limited, read_stream, unreadable, unwritable

STDIN = "-"
"""The path that stands for the standard input, as programs have it."""


MODULE_BYTES = 8 << 30
"""The largest file that is read as a module."""
PIPE_BYTES = 2 << 30
"""How much is read from the standard input: as much as a proto can be."""


def read_bytes(path: str | os.PathLike[str], limit: int = MODULE_BYTES) -> bytes:
    """All bytes of a file; raises HloomError, with near misses, where it cannot be read or is larger than the limit."""
    if path != STDIN:
        return read_limited(path, limit)
    stream = getattr(sys.stdin, "buffer", None)  # none where the standard input is closed, as `<&-` does
    if stream is None:
        raise HloomError("cannot read the standard input: it is closed", hint="give a file, or pipe something into it")
    try:
        return read_stream(stream, min(limit, PIPE_BYTES), "the standard input")
    except (OSError, ValueError) as problem:
        raise unreadable("the standard input", problem) from None


def write_whole(path: str | os.PathLike[str], data: bytes | str) -> Path:
    """Write a file whole or not at all. Gives the path back; raises HloomError where it cannot be written."""
    contents = data if isinstance(data, bytes) else data.encode("utf-8", "surrogateescape")
    with replacing(path) as beside:
        beside.write_bytes(contents)
    return Path(path)


def write_folder(path: str | os.PathLike[str], texts: Mapping[str, str]) -> Path:
    """Write texts into a new folder, or an empty one, by file name: all of them or none.

    Gives the path back; raises HloomError where something is there, or it cannot be written.
    """
    check_new_folder(path)
    target = Path(os.path.realpath(path))
    beside = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}")
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
    """Raise HloomError where a folder cannot be written: something is there, or what it would be in is not."""
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
    """A new file beside `path` to be written in the block; it takes the other's place if the block ends well.

    What is not a plain file (a pipe, /dev/stdout) is yielded as is. Raises HloomError if it cannot be written, also
    where a file is there that may only be read.
    """
    target = Path(os.path.realpath(path))
    beside = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}")
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
        with suppress(OSError):  # on a file system that is read alone, not even a missing file is removed
            beside.unlink()
