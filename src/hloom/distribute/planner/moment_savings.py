"""The effect of strategy changes on the memory at each moment, learned from simulated choices.

Near one choice, the effects of single changes are added up; if a simulated choice differs from that, the difference is
attributed to its changes, mostly to those with the largest effect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from hloom.distribute.planner.memory_profile import Choice, MemoryProfile, choice_key
from hloom.distribute.planner.solvers.moment_program import MomentUse

SMALL = 1e-3
"""The share of the peak that all changes of a choice count together at least, where errors are put down to them."""
EXACT = 0.25
"""The part of an error that changes take which were simulated beside the same choice, beside those that were not."""


@dataclass(slots=True)
class MomentSavings:
    """The differences in bytes between the strategies of a node at each moment; `members` are a node's clusters.

    `beside` says next to which choice a strategy was simulated.
    """

    members: Mapping[int, Sequence[int]]
    by_node: dict[int, dict[int, np.ndarray]] = field(default_factory=dict)
    beside: dict[tuple[int, int], bytes] = field(default_factory=dict)

    def start(self, base: Mapping[int, int], profile: MemoryProfile) -> None:
        """Begin with the strategies of a choice by node."""
        for node, strategy in base.items():
            self.by_node.setdefault(node, {}).setdefault(strategy, np.zeros(len(profile.moments)))

    def learn(
        self, base: Mapping[int, int], held: MemoryProfile, node: int, strategy: int, changed: MemoryProfile
    ) -> None:
        """Attribute to a strategy of one node the difference between a choice with it and the base."""
        own = self.by_node[node]
        own[strategy] = own[base[node]] + changed.moments - held.moments
        self.beside[node, strategy] = choice_key(base)

    def copy(self) -> MomentSavings:
        """The same, to be corrected apart."""
        return MomentSavings(self.members, {node: dict(own) for node, own in self.by_node.items()}, dict(self.beside))

    def added(self, base: Mapping[int, int], node: int, strategy: int, moments: Sequence[int]) -> np.ndarray:
        """The bytes that a strategy for all clusters of a node adds to the base; zero if it was not simulated."""
        own = self.by_node[node]
        return own[strategy][moments] - own[base[node]][moments] if strategy in own else np.zeros(len(moments))

    def use(
        self, base: Mapping[int, int], held: MemoryProfile, kept: Mapping[int, np.ndarray], moments: Sequence[int]
    ) -> MomentUse:
        """The bytes of strategies at some moments."""
        unary = {
            node: np.stack([self.added(base, node, int(strategy), moments) for strategy in strategies])
            for node, strategies in kept.items()
        }
        return MomentUse(held.moments[moments], unary)

    def predicted(
        self, base: Mapping[int, int], held: MemoryProfile, choice: Choice, moments: Sequence[int]
    ) -> np.ndarray:
        """The predicted bytes of a choice at some moments: the base plus the effects of single changes."""
        total = held.moments[moments]
        for node, strategy, share in self._changes(base, choice):
            total = total + share * self.added(base, node, strategy, moments)
        return total

    def correct(
        self,
        base: Mapping[int, int],
        held: MemoryProfile,
        choice: Choice,
        profile: MemoryProfile,
        moments: Sequence[int],
    ) -> None:
        """Attribute the prediction error of a choice to its changes."""
        wrong = profile.moments[moments] - self.predicted(base, held, choice, moments)
        parts = list(self._changes(base, choice))
        if not parts:
            return
        here = choice_key(base)
        trust = [EXACT if self.beside.get((node, strategy)) == here else 1.0 for node, strategy, _ in parts]
        shares = np.stack(
            [
                share * own * np.abs(self.added(base, node, strategy, moments))
                for own, (node, strategy, share) in zip(trust, parts, strict=True)
            ]
        )
        shares += SMALL * held.bytes / len(parts)
        shares /= shares.sum(axis=0)
        for (node, strategy, share), own in zip(parts, shares, strict=True):
            known = self.by_node[node]
            changed = known.get(strategy, known[base[node]]).copy()
            changed[moments] += wrong * own / share
            known[strategy] = changed

    def _changes(self, base: Mapping[int, int], choice: Choice) -> Iterable[tuple[int, int, float]]:
        """The strategies of a choice that are not the base's, with the share of the node's clusters that have them."""
        for node, numbers in self.members.items():
            for strategy, count in Counter(choice[number] for number in numbers).items():
                if strategy != base[node]:
                    yield node, strategy, count / len(numbers)
