"""What an instruction does besides yielding its value."""

from __future__ import annotations

from enum import Enum


class Effect(Enum):
    """Why an instruction must not simply be dropped, merged, moved or duplicated.

    STATE: it reads or changes state of the device (random number state). ORDER: it only orders others (tokens).
    COMMUNICATION: other devices wait for it. OUTSIDE: the world outside the program sees it. CALLS: what its graphs do.
    """

    STATE = "state"
    ORDER = "order"
    COMMUNICATION = "communication"
    OUTSIDE = "outside world"
    CALLS = "what its graphs do"
