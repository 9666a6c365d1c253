"""The memory of a device at each moment of a step under a choice, on a time axis common to all choices.

A choice changes what is fused and when instructions run, so moments are named by the instructions of the original
program: the memory at an instruction is the maximum from the definition of its value until the next one's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from hloom.distribute.planner.memory_footprint import Footprint, footprint_of
from hloom.distribute.planner.problem import Problem
from hloom.ir import Node
from hloom.sharding import Spec

Choice = Mapping[int, int]
"""The strategy of each cluster."""


@dataclass(frozen=True, slots=True)
class MemoryProfile:
    """The bytes at the peak, and at each moment of the time axis: what is live, and the gaps that buffers leave."""

    bytes: int
    moments: np.ndarray


@dataclass(slots=True)
class MemoryProfiler:
    """Simulates the memory of choices, each once, and counts the instructions that were simulated.

    `specs_of` gives the specs of all values under a choice. The time axis is that of the first choice.
    """

    problem: Problem
    specs_of: Callable[[dict[int, int]], Mapping[Node, Spec]]
    simulated: int = 0
    profiles: dict[bytes, MemoryProfile] = field(default_factory=dict)
    _axis: dict[Node, int] = field(default_factory=dict)

    def footprint(self, choice: Choice) -> Footprint:
        """The buffers of a choice."""
        own = dict(choice)
        footprint = footprint_of(self.problem, own, self.specs_of(own))
        self.simulated += footprint.liveness.length
        return footprint

    def profile(self, choice: Choice) -> MemoryProfile:
        """The memory of a choice."""
        key = choice_key(choice)
        if key not in self.profiles:
            self.profiles[key] = self._profile(self.footprint(choice))
        return self.profiles[key]

    def is_known(self, choice: Choice) -> bool:
        """Whether a choice was simulated."""
        return choice_key(choice) in self.profiles

    def _profile(self, footprint: Footprint) -> MemoryProfile:
        liveness = footprint.liveness
        line = liveness.timeline()[: liveness.length]
        values = [self._value(footprint, node) for node in liveness.steps]
        if not self._axis:
            made = dict.fromkeys(value for value in values if value is not None)
            self._axis.update((value, number) for number, value in enumerate(made))
        moments = np.full(max(1, len(self._axis)), -1.0)
        now = 0
        for value, held in zip(values, line.tolist(), strict=False):
            now = self._axis.get(value, now) if value is not None else now
            moments[now] = max(moments[now], held)
        filled = _filled(moments)
        return MemoryProfile(footprint.bytes, filled + (footprint.bytes - filled.max()))

    @staticmethod
    def _value(footprint: Footprint, node: Node) -> Node | None:
        origin = footprint.origins.get(node)
        return origin.value if origin is not None and origin.read is None else None


def choice_key(choice: Choice) -> bytes:
    """A key that is equal for equal choices."""
    return np.array([choice[number] for number in sorted(choice)], np.int32).tobytes()


def _filled(moments: np.ndarray) -> np.ndarray:
    """Fill moments that a choice does not have (-1) with the value of the previous one."""
    known = np.where(moments >= 0, np.arange(len(moments)), 0)
    return np.maximum(moments[np.maximum.accumulate(known)], 0.0)
