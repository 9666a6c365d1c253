"""How much memory this machine, or the container that we run in, has left."""

from __future__ import annotations

from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_GROUP = Path("/sys/fs/cgroup")


def available() -> int | None:
    """Bytes that can still be taken; None where the system does not say."""
    found = [each for each in (_of_machine(), _of_group()) if each is not None]
    return min(found, default=None)


def _of_machine() -> int | None:
    try:
        lines = _MEMINFO.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)


def _of_group() -> int | None:
    """What the control group may still take; None where it is not limited."""
    try:
        most, taken = ((_GROUP / name).read_text().strip() for name in ("memory.max", "memory.current"))
    except OSError:
        return None
    return max(0, int(most) - int(taken)) if most.isdecimal() and taken.isdecimal() else None
