"""What an instruction costs: whole numbers, so that totals are exact however many are added."""

from __future__ import annotations

from dataclasses import astuple, dataclass


@dataclass(frozen=True, slots=True)
class Cost:
    """Arithmetic operations, transcendental functions, and bytes read and written.

    >>> Cost(2, 0, 24) + Cost(1, 1, 8) * 3
    Cost(flops=5, transcendentals=3, bytes_accessed=48)
    """

    flops: int = 0
    transcendentals: int = 0
    bytes_accessed: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.flops + other.flops,
            self.transcendentals + other.transcendentals,
            self.bytes_accessed + other.bytes_accessed,
        )

    def __mul__(self, times: int) -> Cost:
        return Cost(self.flops * times, self.transcendentals * times, self.bytes_accessed * times)

    def times(self, each: Cost) -> Cost:
        """The cost with every property multiplied by its own factor."""
        return Cost(
            self.flops * each.flops,
            self.transcendentals * each.transcendentals,
            self.bytes_accessed * each.bytes_accessed,
        )

    def arithmetic(self, times: int = 1) -> Cost:
        """So many times the cost without its bytes: what a function applied inside an instruction adds to it."""
        return Cost(self.flops * times, self.transcendentals * times)

    def to_json(self) -> dict[str, int]:
        """The cost as a dict of plain values."""
        return dict(zip(("flops", "transcendentals", "bytes_accessed"), astuple(self), strict=True))


ZERO = Cost()
ONE = Cost(1, 1, 1)
"""As a number of times, for each property."""


def most(costs: list[Cost]) -> Cost:
    """The greatest of each property, each for itself."""
    return Cost(
        max(each.flops for each in costs),
        max(each.transcendentals for each in costs),
        max(each.bytes_accessed for each in costs),
    )


def least(costs: list[Cost]) -> Cost:
    """The smallest of each property, each for itself."""
    return Cost(
        min(each.flops for each in costs),
        min(each.transcendentals for each in costs),
        min(each.bytes_accessed for each in costs),
    )
