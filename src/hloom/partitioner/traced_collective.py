"""One collective of the trace: its opcode, the size of its groups, and its elements."""

from __future__ import annotations

from dataclasses import dataclass, field

from hloom.analysis import comm_factor
from hloom.sharding import Axes


@dataclass(frozen=True, slots=True)
class TracedCollective:
    """One collective: its opcode, the number of devices in a group, and its elements on one device.

    `elements` are those of the result for an all-gather, of the operand for a reduce-scatter, and of either for the
    others.
    """

    opcode: str
    group_size: int
    elements: int
    axes: Axes = field(default=(), compare=False, repr=False)
    """The mesh axes that its groups span; empty where they are not known, which counts as all axes."""
    operand_index: int | None = field(default=None, compare=False, repr=False)
    """The operand of a dot that is resharded; None for a dot's result and outside of dots."""
    signature: tuple = field(default=(), compare=False, repr=False)
    """The opcode, dimensions and devices: XLA emits equal collectives of one value once (`PartitionedHlo::Reshard`'s
    cache), so that two of equal signature are one."""

    @property
    def elements_sent(self) -> float:
        """The elements that a device sends in a ring (Thakur, Rabenseifner and Gropp, Optimization of collective
        communication operations in MPICH, 2005)."""
        return comm_factor(self.opcode, self.group_size) * self.elements
