"""The cost of an instruction (XLA: HloCostAnalysis::Properties), in integers so that totals are exact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hloom.text import Record


@dataclass(frozen=True, slots=True)
class Cost(Record):
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

    def times(self, factors: Cost) -> Cost:
        """The cost with every property multiplied by its own factor."""
        return Cost(
            self.flops * factors.flops,
            self.transcendentals * factors.transcendentals,
            self.bytes_accessed * factors.bytes_accessed,
        )

    def arithmetic(self, times: int = 1) -> Cost:
        """The cost without its bytes, times a number: what a function applied inside an instruction adds to it."""
        return Cost(self.flops * times, self.transcendentals * times)

    def to_json(self) -> dict[str, Any]:
        """Plain values; what XLA's analysis does not know, and counts as -1, is 0."""
        return {name: max(count, 0) for name, count in Record.to_json(self).items()}


ZERO = Cost()
ONE = Cost(1, 1, 1)
"""A run count of one, for each property."""


def greatest(costs: list[Cost]) -> Cost:
    """The maximum of each property separately."""
    return Cost(
        max(cost.flops for cost in costs),
        max(cost.transcendentals for cost in costs),
        max(cost.bytes_accessed for cost in costs),
    )


def least(costs: list[Cost]) -> Cost:
    """The minimum of each property separately."""
    return Cost(
        min(cost.flops for cost in costs),
        min(cost.transcendentals for cost in costs),
        min(cost.bytes_accessed for cost in costs),
    )
