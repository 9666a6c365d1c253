"""A value that several nodes read: each spec that is asked for is paid once, however many ask for it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from hloom.sharding.planners.terms import Kept, Side, Term

MOST_READERS = 4
"""Of how many readers all partitions are looked at: fifteen for four."""


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    """Readers that ask for the same spec: what each spec that all of them know costs, and which group that is."""

    costs: np.ndarray
    groups: dict[int, np.ndarray]


@dataclass(slots=True, eq=False)
class Fan:
    """What a value costs: sides are its source and its readers.

    `costs` has a row for each group of the source and a column for each spec; `specs` names the spec of each group of
    each reader. The cost is the sum over the distinct specs that are asked for. Costs are not negative, so it is also
    the least over all partitions of the readers into blocks of one spec that pay once: what `marginal` uses.
    """

    sides: tuple[Side, ...]
    costs: np.ndarray
    specs: tuple[np.ndarray, ...]
    _parts: list[Fan] = field(init=False, default_factory=list)
    _blocks: dict[int, _Block] = field(init=False, default_factory=dict)

    @property
    def readers(self) -> int:
        """How many read."""
        return len(self.specs)

    @property
    def parts(self) -> Sequence[Term]:
        """Fans of few readers, among which the costs are shared evenly; no spec is asked for more often than once."""
        return (self,) if self.readers <= MOST_READERS else self._split()

    def _split(self) -> list[Fan]:
        if not self._parts:
            count = math.ceil(self.readers / MOST_READERS)
            self._parts = [self._part(each, count) for each in range(count)]
        return self._parts

    def _part(self, number: int, count: int) -> Fan:
        chosen = range(number, self.readers, count)
        sides = tuple(self.sides[place].fresh() for place in (0, *(each + 1 for each in chosen)))
        return Fan(sides, self.costs / count, tuple(self.specs[each] for each in chosen))

    def marginal(self, place: int) -> np.ndarray:
        """The least over the other sides for each group of one, less their messages."""
        everyone = (1 << self.readers) - 1
        if place == 0:
            return self._paid(everyone)[everyone]
        rest = everyone & ~(1 << (place - 1))
        paid = self._paid(rest)
        source = self.sides[0].message
        found = np.full(self.sides[place].message.shape, np.inf)
        for members, block in self._known_blocks().items():
            if members & ~rest:
                costs = self._block_costs(block, without=place - 1)
                total = (costs + (paid[everyone & ~members] - source)[:, :, None]).min(axis=1)
                groups = block.groups[place - 1]
                found[:, groups] = np.minimum(found[:, groups], total)
        return found

    def _paid(self, everyone: int) -> dict[int, np.ndarray]:
        """For each subset of some readers what they cost at least, by the source's group."""
        alone = {
            members: self._block_costs(block).min(axis=2)
            for members, block in self._known_blocks().items()
            if not members & ~everyone
        }
        rows = self.sides[0].message.shape
        paid = {0: np.zeros(rows)}
        for readers in range(1, everyone + 1):
            if not readers & ~everyone:
                options = [alone[first] + paid[readers ^ first] for first in _with_lowest(readers) if first in alone]
                paid[readers] = np.minimum.reduce(options)
        return paid

    def _block_costs(self, block: _Block, without: int | None = None) -> np.ndarray:
        """Costs of a block by row, source's group and spec, less the messages of its readers but one."""
        costs = block.costs[None]
        for reader, groups in block.groups.items():
            if reader != without:
                costs = costs - self.sides[reader + 1].message[:, None, groups]
        return costs

    def _known_blocks(self) -> dict[int, _Block]:
        if not self._blocks:
            for members in range(1, 1 << self.readers):
                block = self._block([reader for reader in range(self.readers) if members >> reader & 1])
                if block is not None:
                    self._blocks[members] = block
        return self._blocks

    def _block(self, readers: list[int]) -> _Block | None:
        common = set.intersection(*(set(self.specs[reader].tolist()) for reader in readers))
        if not common:
            return None
        specs = sorted(common)
        places = [{spec: group for group, spec in enumerate(self.specs[reader].tolist())} for reader in readers]
        groups = {
            reader: np.array([place[spec] for spec in specs]) for reader, place in zip(readers, places, strict=True)
        }
        return _Block(self.costs[:, specs], groups)

    def given(self, place: int, groups: Sequence[int]) -> np.ndarray:
        """The cost of each group of one side where the groups of the others are known."""
        asked = {
            int(specs[group])
            for number, (specs, group) in enumerate(zip(self.specs, groups[1:], strict=True), 1)
            if number != place
        }
        known = sorted(asked)
        if place == 0:
            return self.costs[:, known].sum(axis=1)
        row = self.costs[groups[0]]
        more = row.copy()
        more[known] = 0.0
        return more[self.specs[place - 1]] + row[known].sum()

    def restricted(self, kept: Kept) -> Fan:
        """The term with fewer strategies, and only the specs that are still asked for."""
        (source, rows), *readers = (side.restricted(kept) for side in self.sides)
        specs = [each[groups] for each, (_, groups) in zip(self.specs, readers, strict=True)]
        left, numbers = np.unique(np.concatenate(specs), return_inverse=True)
        cuts = np.cumsum([len(each) for each in specs])[:-1]
        sides = (source, *(side for side, _ in readers))
        fewer = Fan(sides, self.costs[np.ix_(rows, left)], tuple(np.split(np.ravel(numbers), cuts)))
        if self.readers > MOST_READERS:
            fewer._parts = [part.restricted(kept) for part in self._split()]
        return fewer

    def scaled(self, factor: float) -> Fan:
        """The term times a number."""
        return Fan(tuple(side.fresh() for side in self.sides), self.costs * factor, self.specs)


def _with_lowest(readers: int) -> Iterator[int]:
    """The subsets of some readers that have the first of them."""
    lowest = readers & -readers
    rest = readers ^ lowest
    chosen = rest
    while True:
        yield chosen | lowest
        if not chosen:
            return
        chosen = (chosen - 1) & rest
