"""The sharding rule of one instruction: which parts of which dimensions correspond.

A sharded dimension is a part of a dimension: (value, dimension, major), where `major` counts the equal parts split off
before it. Splitting f32[8] over an axis of size 2 takes the part at 1; splitting it further takes the part at 2. A
reshape moves parts: for [8,32] -> [256] the part at 1 of dimension 1 is the part at 8 of the result, which cannot be
split alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from hloom.ir import AxisMap, Factor, FactorKind

Dims = tuple[int, ...]

PROPAGATING = frozenset((FactorKind.PARALLEL, FactorKind.CONTRACTED, FactorKind.REDUCED, FactorKind.INDEXED))
"""The kinds of factors through which a split propagates; the others need data from other devices."""
SUMMING = frozenset((FactorKind.CONTRACTED, FactorKind.REDUCED, FactorKind.INDEXED))
"""The kinds whose split leaves a partial result where the result does not have the factor."""


class DimFactors(NamedTuple):
    """One dimension of an operand or result: its factors, each with the number of parts before it.

    `is_single` says that the dimension is exactly one factor: it then propagates even if split unevenly.
    """

    factors: tuple[tuple[int, int], ...]
    is_single: bool


class FactorDim(NamedTuple):
    """A dimension that has a factor: the leaf (operands first), the dimension, the parts before the factor in it."""

    slot: int
    dimension: int
    front: int
    is_single: bool


@dataclass(frozen=True, slots=True)
class ShardingRule:
    """An axis map indexed for lookups; `results` is the index of the first result among the leaves.

    `reason` says why there is no rule, if so.
    """

    factors: tuple[Factor, ...]
    dim_factors: tuple[tuple[DimFactors, ...], ...]
    factor_dims: tuple[tuple[FactorDim, ...], ...]
    propagates: tuple[bool, ...]
    results: int
    reason: str = ""

    @property
    def is_cheap(self) -> bool:
        """Whether results can be recomputed for each use: nothing is summed, searched or moved."""
        return bool(self.factors) and all(factor.kind is FactorKind.PARALLEL for factor in self.factors)

    def free_dims(self, slot: int, known: Sequence[frozenset[int]]) -> frozenset[int]:
        """The dimensions of a result that only free dimensions of operands feed, or none at all."""
        return frozenset(
            dimension
            for dimension, side in enumerate(self.dim_factors[slot])
            if all(
                factor_dim.dimension in known[factor_dim.slot]
                for factor, _ in side.factors
                for factor_dim in self.factor_dims[factor]
                if factor_dim.slot < self.results
            )
        )

    def factor_at(self, slot: int, dimension: int, major: int) -> tuple[int, int] | None:
        """The factor that a part of a dimension belongs to, and its part of the factor; None if it belongs to none."""
        for factor, front in self.dim_factors[slot][dimension].factors:
            if front <= major < front * self.factors[factor].size and major % front == 0:
                return factor, major // front
        return None

    def propagates_from(self, slot: int, dimension: int, factor: int, within: int, size: int) -> bool:
        """Whether an axis of this size propagates from here: the factor propagates, and is split evenly or is the
        dimension.
        """
        if not self.propagates[factor]:
            return False
        return self.factors[factor].size % (within * size) == 0 or self.dim_factors[slot][dimension].is_single

    def leaves_partial_sums(self, factor: int) -> bool:
        """Whether a split of this factor leaves partial results: it sums, and no result has it."""
        is_kept = any(factor_dim.slot >= self.results for factor_dim in self.factor_dims[factor])
        return self.factors[factor].kind in SUMMING and not is_kept


def sharding_rule_of(axis_map: AxisMap, dims: Sequence[Dims]) -> ShardingRule:
    """The relation of an axis map between leaves of these dimensions, operands first."""
    leaves = (*axis_map.operands, *axis_map.results)
    dim_factors = tuple(
        tuple(_dim_factors(axis_map, factors, size) for factors, size in zip(leaf, sizes, strict=True))
        for leaf, sizes in zip(leaves, dims, strict=True)
    )
    factor_dims: list[list[FactorDim]] = [[] for _ in axis_map.factors]
    propagates = [factor.kind in PROPAGATING for factor in axis_map.factors]
    for slot, leaf in enumerate(dim_factors):
        for dimension, side in enumerate(leaf):
            product = math.prod(axis_map.factors[factor].size for factor, _ in side.factors)
            for factor, front in side.factors:
                factor_dims[factor].append(FactorDim(slot, dimension, front, side.is_single))
                if product != dims[slot][dimension]:  # the sizes differ where a window slides
                    propagates[factor] = False
    return ShardingRule(
        axis_map.factors, dim_factors, tuple(map(tuple, factor_dims)), tuple(propagates), len(axis_map.operands)
    )


def _dim_factors(axis_map: AxisMap, factors: Dims, size: int) -> DimFactors:
    front, placed = 1, []
    for factor in factors:
        placed.append((factor, front))
        front *= axis_map.factors[factor].size
    return DimFactors(tuple(placed), len(placed) == 1 and axis_map.factors[factors[0]].size == size)


@lru_cache(maxsize=1 << 14)
def identity_rule(dims: Dims) -> ShardingRule:
    """Two leaves that are one value."""
    dimension = tuple((number,) for number in range(len(dims)))
    return sharding_rule_of(AxisMap(tuple(map(Factor, dims)), (dimension,), (dimension,)), (dims, dims))


def unknown_rule(operands: Sequence[Dims], results: Sequence[Dims], reason: str) -> ShardingRule:
    """Leaves of which nothing is known."""
    dim_factors = tuple(tuple(DimFactors((), False) for _ in leaf) for leaf in (*operands, *results))
    return ShardingRule((), dim_factors, (), (), len(operands), reason)


def batch_rule(operands: Sequence[Dims], results: Sequence[Dims], inner: int, reason: str) -> ShardingRule:
    """Leaves that share the first operand's leading dimensions; all others are replicated."""
    batch = operands[0][: max(len(operands[0]) - inner, 0)]
    factors = list(map(Factor, batch))
    leaves: list[tuple[Dims, ...]] = []
    for dims in (*operands, *results):
        has_batch = bool(batch) and dims[: len(batch)] == batch
        leaf: list[Dims] = [(number,) for number in range(len(batch))] if has_batch else []
        for size in dims[len(leaf) :]:
            leaf.append((len(factors),))
            factors.append(Factor(size, FactorKind.NEED_REPLICATION))
        leaves.append(tuple(leaf))
    axis_map = AxisMap(tuple(factors), tuple(leaves[: len(operands)]), tuple(leaves[len(operands) :]))
    made = sharding_rule_of(axis_map, (*operands, *results))
    return ShardingRule(made.factors, made.dim_factors, made.factor_dims, made.propagates, made.results, reason)
