"""Reading files that people name, up to a limit: a device such as /dev/zero never ends."""

from __future__ import annotations

import os

from hloom.text.errors import HloomError


def read_limited(path: str | os.PathLike[str], limit: int) -> bytes:
    """All bytes of a file of at most `limit` bytes; raises HloomError where it is larger or cannot be read."""
    name = os.fspath(path)
    try:
        with open(path, "rb") as file:
            data = file.read(limit + 1)
    except (OSError, ValueError) as problem:
        reason = (problem.strerror if isinstance(problem, OSError) else None) or str(problem)
        raise HloomError(f"cannot read {name}: {reason[:1].lower()}{reason[1:]}") from None
    if len(data) > limit:
        raise HloomError(f"cannot read {name}: it is larger than {limit:,} bytes, the limit for such a file")
    return data
