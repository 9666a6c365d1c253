"""Files read and written as a whole, with errors that name the file."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path

from hloom.text import HloomError

STDIN = "-"
"""The path that stands for the standard input, as programs have it."""


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """All bytes of a file; raises HloomError, with near misses, where it cannot be read."""
    if path == STDIN:
        return sys.stdin.buffer.read()
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as problem:
        raise unreadable(path, problem) from None


def write_whole(path: str | os.PathLike[str], data: bytes | str) -> Path:
    """Write a file whole or not at all. Gives the path back; raises HloomError where it cannot be written."""
    contents = data if isinstance(data, bytes) else data.encode("utf-8", "surrogateescape")
    with replacing(path) as beside:
        beside.write_bytes(contents)
    return Path(path)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A new file beside `path` to be written in the block; it takes the other's place if the block ends well.

    What is no plain file (a pipe, /dev/stdout) is given as it is. Raises HloomError where nothing can be written.
    """
    target = Path(os.path.realpath(path))
    beside = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}")
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            yield Path(path)
            return
        os.close(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        yield beside
        if target.exists():
            beside.chmod(target.stat().st_mode & 0o7777)
        beside.replace(target)
    except OSError as problem:
        raise HloomError(f"cannot write {os.fspath(path)}: {_reason(problem)}") from None
    finally:
        beside.unlink(missing_ok=True)


def unreadable(path: str | os.PathLike[str], problem: Exception) -> HloomError:
    """The error for a path that cannot be read; the caller raises it."""
    hint = _near_names(Path(path)) if isinstance(problem, FileNotFoundError) else None
    return HloomError(f"cannot read {os.fspath(path)}: {_reason(problem)}", hint=hint)


def _near_names(path: Path) -> str | None:
    try:
        names = os.listdir(path.parent)
    except OSError:
        return None
    near = get_close_matches(path.name, names, 3)
    return f"near: {', '.join(str(path.parent / name) for name in near)}" if near else None


def _reason(problem: Exception) -> str:
    reason = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem)
    return reason[:1].lower() + reason[1:]
