"""Deadlines: the only limit that depends on the machine's speed."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field


@dataclass(slots=True)
class Deadline:
    """A point in time some seconds ahead, and whether anything was cut short by it. All other limits count steps."""

    seconds: float = math.inf
    has_cut: bool = False
    _end: float = field(init=False)

    def __post_init__(self) -> None:
        self._end = time.monotonic() + self.seconds

    @property
    def remaining(self) -> float:
        """The seconds that are left, none at least."""
        return max(0.0, self._end - time.monotonic())

    def cuts(self) -> bool:
        """Whether the time is over; records that the caller is cut short."""
        self.has_cut = self.has_cut or self.remaining <= 0
        return self.remaining <= 0
