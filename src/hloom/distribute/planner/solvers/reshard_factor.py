"""A value read by several nodes: each requested spec is paid for once, however many readers request it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from hloom.distribute.planner.solvers.factors import Argument, CostFactor, Kept

MOST_READERS = 4
"""The maximum number of readers for which all partitions are enumerated: fifteen for four."""


NEVER = 1e9
"""Seconds that are more than anything costs."""
AT_ONCE = 1 << 18
"""The maximum number of values computed at once: more would not stay in a processor's cache."""


@dataclass(frozen=True, slots=True, eq=False)
class _Own:
    """Of one reader's blocks, in rows: its other members; and, from `starts` on, the partitions of all who are not."""

    others: np.ndarray
    rests: np.ndarray
    starts: np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class _Blocks:
    """All sets of readers (a row each, a column for each reader), and the partitions (a column for each set)."""

    members: np.ndarray
    partitions: np.ndarray
    of: tuple[_Own, ...]


@dataclass(slots=True, eq=False)
class ReshardFactor:
    """The cost of a value; the arguments are its source and its readers.

    `costs` has a row for each group of the source and a column for each spec; `specs` names the spec of each group of
    each reader. The cost is the sum over the distinct specs that are asked for. Costs are not negative, so it is also
    the least over all partitions of the readers into blocks of one spec that pay once: what `marginal` uses.
    """

    arguments: tuple[Argument, ...]
    costs: np.ndarray
    specs: tuple[np.ndarray, ...]
    _parts: list[ReshardFactor] = field(init=False, default_factory=list)

    @property
    def readers(self) -> int:
        """How many read."""
        return len(self.specs)

    @property
    def parts(self) -> Sequence[CostFactor]:
        """Fans of few readers, among which the costs are shared evenly; no spec is asked for more often than once."""
        return (self,) if self.readers <= MOST_READERS else self._split()

    def _split(self) -> list[ReshardFactor]:
        if not self._parts:
            count = math.ceil(self.readers / MOST_READERS)
            self._parts = [self._part(part, count) for part in range(count)]
        return self._parts

    def _part(self, number: int, count: int) -> ReshardFactor:
        chosen = range(number, self.readers, count)
        arguments = tuple(self.arguments[position].fresh() for position in (0, *(reader + 1 for reader in chosen)))
        return ReshardFactor(arguments, self.costs / count, tuple(self.specs[reader] for reader in chosen))

    def marginal(self, position: int) -> np.ndarray:
        """The least over the other arguments for each group of one, less their messages."""
        if self.readers == 2 and len(self.arguments[0].copies) == 1:
            return self._marginal_of_two(position)
        blocks = _blocks_of(self.readers)
        taken = self._taken()
        alone = self._alone(_sums(blocks.members, taken))
        if position == 0:
            return _sums(blocks.partitions, alone).min(axis=0)
        return self._marginal_of_reader(position, blocks.of[position - 1], taken, alone)

    def _marginal_of_two(self, position: int) -> np.ndarray:
        """The same for two readers of one copy: they ask for two specs, or for one that is paid once."""
        first, second = self._taken()[:, 0]
        if position == 0:
            apart = np.minimum.reduce(self.costs - first, axis=1) + np.minimum.reduce(self.costs - second, axis=1)
            return np.minimum(apart, np.minimum.reduce(self.costs - (first + second), axis=1))[None]
        other = second if position == 1 else first
        left = self.costs - self.arguments[0].message.T
        apart = np.minimum.reduce(left + np.minimum.reduce(self.costs - other, axis=1)[:, None], axis=0)
        least = np.minimum(apart, np.minimum.reduce(left, axis=0) - other)
        return least[self.specs[position - 1]][None]

    def _marginal_of_reader(self, position: int, own: _Own, taken: np.ndarray, alone: np.ndarray) -> np.ndarray:
        rest = np.minimum.reduceat(_sums(own.rests, alone), own.starts, axis=0) - self.arguments[0].message
        least = np.full((len(self.arguments[position].copies), self.costs.shape[1]), np.inf)
        for others, paid in zip(_sums(own.others, taken), rest, strict=True):
            np.minimum(least, (self.costs + paid[:, :, None]).min(axis=1) - others, out=least)
        return least[:, self.specs[position - 1]]

    def _taken(self) -> np.ndarray:
        """The messages by reader, row and spec; of specs that a reader cannot ask for so low that none would."""
        messages = np.full((self.readers, len(self.arguments[0].copies), self.costs.shape[1]), -NEVER)
        for reader, specs in enumerate(self.specs):
            messages[reader][:, specs] = self.arguments[reader + 1].message
        return messages

    def _alone(self, taken: np.ndarray) -> np.ndarray:
        """What each block costs at least, by row and the source's group."""
        if taken.size * len(self.costs) <= AT_ONCE:
            return (self.costs - taken[:, :, None, :]).min(axis=3)
        return np.stack([(self.costs - block[:, None, :]).min(axis=2) for block in taken])

    def given(self, position: int, groups: Sequence[int]) -> np.ndarray:
        """The cost of each group of one argument where the groups of the others are known."""
        asked = {
            int(specs[group])
            for number, (specs, group) in enumerate(zip(self.specs, groups[1:], strict=True), 1)
            if number != position
        }
        known = sorted(asked)
        if position == 0:
            return self.costs[:, known].sum(axis=1)
        row = self.costs[groups[0]]
        more = row.copy()
        more[known] = 0.0
        return more[self.specs[position - 1]] + row[known].sum()

    def restricted(self, kept: Kept) -> ReshardFactor:
        """The factor with fewer strategies, and only the specs that are still asked for."""
        (source, rows), *readers = (argument.restricted(kept) for argument in self.arguments)
        specs = [own[groups] for own, (_, groups) in zip(self.specs, readers, strict=True)]
        left, numbers = np.unique(np.concatenate(specs), return_inverse=True)
        cuts = np.cumsum([len(own) for own in specs])[:-1]
        arguments = (source, *(argument for argument, _ in readers))
        fewer = ReshardFactor(arguments, self.costs[np.ix_(rows, left)], tuple(np.split(np.ravel(numbers), cuts)))
        if self.readers > MOST_READERS:
            fewer._parts = [part.restricted(kept) for part in self._split()]
        return fewer

    def scaled(self, factor: float) -> ReshardFactor:
        """The factor times a number."""
        return ReshardFactor(tuple(argument.fresh() for argument in self.arguments), self.costs * factor, self.specs)


def _sums(rows: np.ndarray, of: np.ndarray) -> np.ndarray:
    """Of arrays the sums that the rows pick."""
    return (rows @ of.reshape(len(of), -1)).reshape(len(rows), *of.shape[1:])


@lru_cache
def _blocks_of(readers: int) -> _Blocks:
    count = (1 << readers) - 1
    members = np.array([[number >> reader & 1 for reader in range(readers)] for number in range(1, count + 1)], float)
    partitions = _as_rows(_partitions(count), count)
    own = tuple(_own(reader, count, members) for reader in range(readers))
    return _Blocks(members, partitions, own)


def _own(reader: int, everyone: int, members: np.ndarray) -> _Own:
    """The blocks of one reader: who else is in each, and the partitions of those who are not."""
    blocks = [number for number in range(1, everyone + 1) if number >> reader & 1]
    others = members[[number - 1 for number in blocks]].copy()
    others[:, reader] = 0.0
    rests = [list(_partitions(everyone & ~number)) for number in blocks]
    starts = np.cumsum([0, *(len(partitions) for partitions in rests[:-1])])
    return _Own(others, _as_rows((partition for rest in rests for partition in rest), everyone), starts)


def _as_rows(partitions: Iterable[tuple[int, ...]], count: int) -> np.ndarray:
    return np.array([[float(number in partition) for number in range(1, count + 1)] for partition in partitions])


def _partitions(readers: int) -> Iterator[tuple[int, ...]]:
    """The ways to part some readers (bits of a number) into blocks."""
    if not readers:
        yield ()
        return
    lowest = readers & -readers
    rest = chosen = readers ^ lowest
    while True:
        for others in _partitions(rest ^ chosen):
            yield (chosen | lowest, *others)
        if not chosen:
            return
        chosen = (chosen - 1) & rest
