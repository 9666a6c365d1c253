"""Axis maps: which dimensions of an instruction's operands and results correspond.

The notation is Shardy's: `([b,i,k], [b,k,j]) -> [b,i,j]`, where every letter is a factor with a size and a kind, and a
dimension is the product of its factors, major to minor: `[(xy),z] -> [x,(yz)]` is a reshape.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

Dimension = tuple[int, ...]
"""The factors of one dimension, by number, major to minor; empty if it corresponds to no other dimension."""


class FactorKind(Enum):
    """What partitioning a factor over devices costs.

    PARALLEL: nothing (Shardy: pass-through). CONTRACTED and REDUCED: partial results, combined by the factor's reducer
    (Shardy: reduction). WINDOWED: a halo exchange; the size counts window positions, and the dimension that the window
    slides over has another size. INDEXED: a mask, and a sum where the factor is absent from the result. SHIFTED: a
    halo exchange with neighbours; the size is the result's, and an operand's dimension may differ. NEED_REPLICATION:
    it cannot be partitioned without an all-gather (Shardy: need_replication). A factor that is in no dimension counts
    the elements inside a window. A size of -1 is unbounded.

    Source: shardy/dialect/sdy/ir/attrs.td, Sdy_OpShardingRule, for the factor types that Shardy has.
    """

    PARALLEL = "parallel"
    CONTRACTED = "contracted"
    REDUCED = "reduced"
    WINDOWED = "windowed"
    INDEXED = "indexed"
    SHIFTED = "shifted"
    NEED_REPLICATION = "need_replication"


@dataclass(frozen=True, slots=True)
class Factor:
    """A part of the iteration space: its size, its kind, and the opcode that combines partial results."""

    size: int
    kind: FactorKind = FactorKind.PARALLEL
    reducer: str = ""


@dataclass(frozen=True, slots=True)
class AxisMap:
    """The factors of one instruction, and the dimensions that they make up.

    `operands[o][d]` and `results[r][d]` are the factors of dimension `d` of operand leaf `o` or result leaf `r`; a leaf
    is an array, or one array inside a tuple, counted through. Tokens and opaque values are leaves without dimensions.

    >>> i, k, j = Factor(2), Factor(3, FactorKind.CONTRACTED, "add"), Factor(4)
    >>> dot = AxisMap((i, k, j), (((0,), (1,)), ((1,), (2,))), (((0,), (2,)),))
    >>> str(dot), dot.points, dot.result_dims()
    ('([a,b], [b,c]) -> [a,c]  a=2 b=3 contracted by add c=4', 24, (2, 4))
    """

    factors: tuple[Factor, ...]
    operands: tuple[tuple[Dimension, ...], ...]
    results: tuple[tuple[Dimension, ...], ...]

    @property
    def points(self) -> int:
        """The size of the iteration space: the product of all factors."""
        return math.prod(factor.size for factor in self.factors)

    def result_dims(self, result: int = 0) -> tuple[int, ...]:
        """The dimensions of a result, from its factors."""
        return tuple(math.prod(self.factors[f].size for f in dimension) for dimension in self.results[result])

    def source_dims(self, operand: int = 0, result: int = 0) -> tuple[int | None, ...]:
        """For each dimension of a result, the whole dimension of an operand that it is; None where it is none.

        A dimension of size 1 is none of those that a reshape moves.

        >>> rows, columns = Factor(2), Factor(3)
        >>> moved = AxisMap((rows, columns), (((0,), (1,)),), (((1,), (), (0,)),))
        >>> moved.source_dims(), moved.target_dims()
        ((1, None, 0), (2, 0))
        """
        return _numbers(self.results[result], self.operands[operand])

    def target_dims(self, operand: int = 0, result: int = 0) -> tuple[int | None, ...]:
        """For each dimension of an operand, the whole dimension of a result that it is; None where it is none."""
        return _numbers(self.operands[operand], self.results[result])

    def __str__(self) -> str:
        operands = ", ".join(_value_text(value) for value in self.operands)
        results = ", ".join(_value_text(value) for value in self.results)
        arrow = f"({operands}) -> {results if len(self.results) == 1 else f'({results})'}"
        return arrow + "  " + " ".join(f"{letter(n)}={_factor_text(f)}" for n, f in enumerate(self.factors))


class AxisMapBuilder:
    """Builds an axis map: factors first, then the dimensions of operands and results.

    >>> build = AxisMapBuilder()
    >>> row, column = build.factor(2), build.factor(3, FactorKind.REDUCED, "add")
    >>> _ = build.operand([row], [column]).operand().result([row])
    >>> str(build.finish())
    '([a,b], []) -> [a]  a=2 b=3 reduced by add'
    """

    def __init__(self) -> None:
        self._factors: list[Factor] = []
        self._operands: list[tuple[Dimension, ...]] = []
        self._results: list[tuple[Dimension, ...]] = []

    def factor(self, size: int, kind: FactorKind = FactorKind.PARALLEL, reducer: str = "") -> int:
        """Add a factor and return its number."""
        self._factors.append(Factor(size, kind, reducer))
        return len(self._factors) - 1

    def operand(self, *dimensions: Sequence[int]) -> AxisMapBuilder:
        """Add the next operand, given the factors of each of its dimensions."""
        self._operands.append(tuple(map(tuple, dimensions)))
        return self

    def result(self, *dimensions: Sequence[int]) -> AxisMapBuilder:
        """Add the next leaf of the result, given the factors of each of its dimensions."""
        self._results.append(tuple(map(tuple, dimensions)))
        return self

    def finish(self) -> AxisMap:
        """Build the map from everything added so far."""
        return AxisMap(tuple(self._factors), tuple(self._operands), tuple(self._results))


def _numbers(dimensions: tuple[Dimension, ...], others: tuple[Dimension, ...]) -> tuple[int | None, ...]:
    """For each dimension the number of the one among others that has the same factors."""
    numbers = {factors: number for number, factors in enumerate(others) if factors}
    return tuple(numbers.get(factors) for factors in dimensions)


def letter(number: int) -> str:
    """The name of a factor in the notation: a, b, ..., z, a1, b1, ..."""
    return chr(97 + number % 26) + (str(number // 26) if number > 25 else "")


def _value_text(dimensions: tuple[Dimension, ...]) -> str:
    texts = ("".join(map(letter, dimension)) for dimension in dimensions)
    return "[" + ",".join(f"({t})" if len(d) > 1 else t or "1" for t, d in zip(texts, dimensions, strict=True)) + "]"


def _factor_text(factor: Factor) -> str:
    if factor.kind is FactorKind.PARALLEL:
        return str(factor.size)
    return f"{factor.size} {factor.kind.value}" + (f" by {factor.reducer}" if factor.reducer else "")
