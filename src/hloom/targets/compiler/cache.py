"""Keeps what compilers answered, in files of the user's cache folder, by the content of the question.

A cache that cannot be read or written is passed over: it never makes a compilation fail.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import secrets
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

MOST_CACHE_BYTES = 1 << 30
"""The maximum size of the cache folder; the answers used least recently go first."""
MOST_ENTRY_BYTES = 128 << 20
"""The maximum size of one packed answer; modules of 100,000 instructions take about 10 MB."""
MOST_UNPACKED_BYTES = 2 << 30
"""The maximum size of an answer, unpacked."""
FORMAT = 1
"""The version of the files' contents; other versions are not read."""
FOLDER_VARIABLE = "HLOOM_CACHE_DIR"


def cache_folder() -> Path | None:
    """The folder of compiled programs: in $HLOOM_CACHE_DIR, $XDG_CACHE_HOME/hloom or ~/.cache/hloom.

    None if the user has no home folder, as in some containers: nothing is kept then.
    """
    given = os.environ.get(FOLDER_VARIABLE)
    if given:
        return Path(given) / "compiled"
    base = os.environ.get("XDG_CACHE_HOME")
    if base and os.path.isabs(base):
        return Path(base) / "hloom" / "compiled"
    home = os.path.expanduser("~")
    return Path(home) / ".cache" / "hloom" / "compiled" if os.path.isabs(home) else None


def cache_key(question: Mapping[str, Any], program: bytes) -> str:
    """The name of an answer: a digest of the question, as JSON, and of the program."""
    digest = hashlib.sha256(json.dumps({"format": FORMAT, **question}, sort_keys=True).encode())
    digest.update(program)
    return digest.hexdigest()


def read_cached(key: str) -> dict[str, Any] | None:
    """The answer that is kept under a key; None if there is none, or it is damaged."""
    path = _path(key)
    if path is None:
        return None
    try:
        with open(path, "rb") as file:
            packed = file.read(MOST_ENTRY_BYTES + 1)
        unpacker = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        data = unpacker.decompress(packed, MOST_UNPACKED_BYTES)
        answer = json.loads(data) if unpacker.eof else None
    except (OSError, ValueError, zlib.error, MemoryError, RecursionError):
        return None
    if not isinstance(answer, dict):
        return None
    with suppress(OSError):
        os.utime(path)
    return answer


def keep(key: str, answer: Mapping[str, Any]) -> None:
    """Keep an answer under a key, if the folder can be written, and make room."""
    packed = gzip.compress(json.dumps(answer).encode("utf-8", "surrogatepass"), compresslevel=1, mtime=0)
    path = _path(key)
    if path is None or len(packed) > MOST_ENTRY_BYTES:
        return
    beside = path.with_name(f".{key[:16]}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(packed)
        beside.replace(path)
        _make_room(path.parent)
    except OSError:
        with suppress(OSError):
            beside.unlink()


def _path(key: str) -> Path | None:
    folder = cache_folder()
    return folder and folder / f"{key}.json.gz"


def _make_room(folder: Path) -> None:
    """Remove the answers used least recently until the folder is small enough."""
    entries = []
    for entry in os.scandir(folder):
        with suppress(OSError):
            if entry.is_file(follow_symlinks=False) and entry.name.endswith(".json.gz"):
                entries.append((entry.stat().st_mtime, entry.stat().st_size, entry.path))
    total = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if total <= MOST_CACHE_BYTES:
            return
        with suppress(OSError):
            os.unlink(path)
        total -= size
