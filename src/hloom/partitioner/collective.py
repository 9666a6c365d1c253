"""One collective that is expected: its kind, its groups, its elements."""

from __future__ import annotations

from dataclasses import dataclass, field

from hloom.sharding.spec import Axes


@dataclass(frozen=True, slots=True)
class Step:
    """One collective: its kind, the devices of a group, and the elements that it is about on one device.

    `elements` are those of the result for an all-gather, of the operand for a reduce-scatter, and of either for the
    others.
    """

    kind: str
    group: int
    elements: int
    axes: Axes = field(default=(), compare=False, repr=False)
    """The mesh axes that it goes over; none where that is not known, which counts as all of them."""
    side: int | None = field(default=None, compare=False, repr=False)
    """The operand of a dot that it moves."""
    mark: tuple = field(default=(), compare=False, repr=False)
    """Which devices do what: a value goes through equal collectives once, whoever asks for them."""

    @property
    def sent(self) -> float:
        """The elements that a device sends in a ring."""
        share = (self.group - 1) / self.group
        if self.kind == "collective-permute":
            return float(self.elements)
        return (2 if self.kind == "all-reduce" else 1) * share * self.elements
