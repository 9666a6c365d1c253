"""What one instruction says about places: which part of which dimension is which part of which other.

A place is a part of a dimension: (value, dimension, major), where `major` counts the equal parts that are cut before
it. Splitting f32[8] over an axis of size 2 takes the part at 1; splitting it further takes the part at 2. A reshape
moves parts: [8,32] -> [256] has the part at 1 of dimension 1 as the part at 8 of the result, which cannot be split
alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from hloom.ir import AxisMap, Factor, FactorKind

Dims = tuple[int, ...]

CARRYING = frozenset((FactorKind.PARALLEL, FactorKind.CONTRACTED, FactorKind.REDUCED, FactorKind.INDEXED))
"""The kinds of factors that a split passes; the others need what lies on other devices."""
SUMMING = frozenset((FactorKind.CONTRACTED, FactorKind.REDUCED, FactorKind.INDEXED))
"""The kinds whose split leaves a partial result where the result does not have the factor."""


class Side(NamedTuple):
    """One dimension of an operand or result: its factors, each with how many parts stand before it.

    `is_single` says that the dimension is one factor and nothing else: it then passes whole, evenly cut or not.
    """

    factors: tuple[tuple[int, int], ...]
    is_single: bool


class Standing(NamedTuple):
    """Where a factor stands: the leaf (operands first), the dimension, the parts before it, and `Side.is_single`."""

    slot: int
    dimension: int
    front: int
    is_single: bool


@dataclass(frozen=True, slots=True)
class Relation:
    """An axis map made ready for looking up; `results` is the number of the first result among the leaves.

    `reason` says why there is no rule, where there is none.
    """

    factors: tuple[Factor, ...]
    sides: tuple[tuple[Side, ...], ...]
    standing: tuple[tuple[Standing, ...], ...]
    carries: tuple[bool, ...]
    results: int
    reason: str = ""

    @property
    def is_cheap(self) -> bool:
        """Whether the results can be made anew for each use: nothing is summed up, searched or moved."""
        return bool(self.factors) and all(factor.kind is FactorKind.PARALLEL for factor in self.factors)

    def born_free(self, slot: int, known: Sequence[frozenset[int]]) -> frozenset[int]:
        """The dimensions of a result that only free dimensions of operands feed, or none at all."""
        return frozenset(
            dimension
            for dimension, side in enumerate(self.sides[slot])
            if all(
                each.dimension in known[each.slot]
                for factor, _ in side.factors
                for each in self.standing[factor]
                if each.slot < self.results
            )
        )

    def factor_at(self, slot: int, dimension: int, major: int) -> tuple[int, int] | None:
        """The factor that a part of a dimension is of, and the part of the factor; None where it is of none."""
        for factor, front in self.sides[slot][dimension].factors:
            if front <= major < front * self.factors[factor].size and major % front == 0:
                return factor, major // front
        return None

    def passes(self, slot: int, dimension: int, factor: int, within: int, size: int) -> bool:
        """Whether an axis of this size passes from here: the factor carries and is cut evenly, or passes whole."""
        if not self.carries[factor]:
            return False
        return self.factors[factor].size % (within * size) == 0 or self.sides[slot][dimension].is_single

    def leaves_sums(self, factor: int) -> bool:
        """Whether a split of this factor leaves partial results: it sums, and no result has it."""
        is_kept = any(each.slot >= self.results for each in self.standing[factor])
        return self.factors[factor].kind in SUMMING and not is_kept


def relation_of(found: AxisMap, dims: Sequence[Dims]) -> Relation:
    """The relation of an axis map between leaves of these dimensions, operands first."""
    leaves = (*found.operands, *found.results)
    sides = tuple(
        tuple(_side(found, factors, size) for factors, size in zip(leaf, sizes, strict=True))
        for leaf, sizes in zip(leaves, dims, strict=True)
    )
    standing: list[list[Standing]] = [[] for _ in found.factors]
    carries = [factor.kind in CARRYING for factor in found.factors]
    for slot, leaf in enumerate(sides):
        for dimension, side in enumerate(leaf):
            product = math.prod(found.factors[factor].size for factor, _ in side.factors)
            for factor, front in side.factors:
                standing[factor].append(Standing(slot, dimension, front, side.is_single))
                if product != dims[slot][dimension]:  # the sizes differ where a window slides
                    carries[factor] = False
    return Relation(found.factors, sides, tuple(map(tuple, standing)), tuple(carries), len(found.operands))


def _side(found: AxisMap, factors: Dims, size: int) -> Side:
    front, placed = 1, []
    for factor in factors:
        placed.append((factor, front))
        front *= found.factors[factor].size
    return Side(tuple(placed), len(placed) == 1 and found.factors[factors[0]].size == size)


@lru_cache(maxsize=1 << 14)
def same(dims: Dims) -> Relation:
    """Two leaves that are one value."""
    dimension = tuple((number,) for number in range(len(dims)))
    return relation_of(AxisMap(tuple(map(Factor, dims)), (dimension,), (dimension,)), (dims, dims))


def unrelated(operands: Sequence[Dims], results: Sequence[Dims], reason: str) -> Relation:
    """Leaves of which nothing is known."""
    sides = tuple(tuple(Side((), False) for _ in leaf) for leaf in (*operands, *results))
    return Relation((), sides, (), (), len(operands), reason)


def batched(operands: Sequence[Dims], results: Sequence[Dims], inner: int, reason: str) -> Relation:
    """Leaves that share the first operand's leading dimensions; all others are whole."""
    batch = operands[0][: max(len(operands[0]) - inner, 0)]
    factors = list(map(Factor, batch))
    leaves: list[tuple[Dims, ...]] = []
    for dims in (*operands, *results):
        has_batch = bool(batch) and dims[: len(batch)] == batch
        leaf: list[Dims] = [(number,) for number in range(len(batch))] if has_batch else []
        for size in dims[len(leaf) :]:
            leaf.append((len(factors),))
            factors.append(Factor(size, FactorKind.WHOLE))
        leaves.append(tuple(leaf))
    found = AxisMap(tuple(factors), tuple(leaves[: len(operands)]), tuple(leaves[len(operands) :]))
    made = relation_of(found, (*operands, *results))
    return Relation(made.factors, made.sides, made.standing, made.carries, made.results, reason)
