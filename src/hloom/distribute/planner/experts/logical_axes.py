"""Logical axes: one dimension that appears in many arrays, such as the batch or the heads.

Two dimensions are in one logical axis if an instruction implies that splitting one splits the other. Generated
dimensions (of a broadcast, an iota) are in none: every use makes its own part of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate

from hloom.analysis import DisjointSets, cost
from hloom.distribute.planner.strategies import UNEVEN_SHARE
from hloom.distribute.propagation import DataflowGraph, Equation, runs_by_graph
from hloom.ir import FactorKind, TensorType, Trait
from hloom.ops import with_trait

CONTRACTIONS = with_trait(Trait.CONTRACTS)
MOVING = frozenset({"dynamic-slice", "dynamic-update-slice"})
"""Opcodes that access one part of a dimension at a time, as a loop does with its stacked layers."""


@dataclass
class LogicalAxis:
    """A logical axis: where it occurs (value, dimension), the work that splitting it divides, and the bytes sent then.

    `work` are the FLOPs of contractions that have it, `sent` the bytes needed to combine partial results and replicate
    what cannot propagate, `weight` the bytes of the entry's parameters that have it, `carried` those of other values.
    """

    number: int
    places: list[tuple[int, int]] = field(default_factory=list)
    sizes: set[int] = field(default_factory=set)
    work: float = 0.0
    sent: float = 0.0
    weight: float = 0.0
    carried: float = 0.0
    is_moved: bool = False

    @cached_property
    def leaves(self) -> frozenset[int]:
        """The values that have it."""
        return frozenset(leaf for leaf, _ in self.places)

    @property
    def is_single(self) -> bool:
        """Whether no value has it twice, as scores of attention have the sequence."""
        return len(self.leaves) == len(self.places)

    def fits(self, count: int) -> bool:
        """Whether this many parts are even, or large compared with the padding."""
        return all(size and size % count == 0 for size in self.sizes) or min(self.sizes) >= UNEVEN_SHARE * count

    @cached_property
    def dimensions(self) -> dict[int, int]:
        """By value the dimension, where it has it once."""
        seen: dict[int, int] = {}
        twice = {leaf for leaf, dimension in self.places if seen.setdefault(leaf, dimension) != dimension}
        return {leaf: dimension for leaf, dimension in seen.items() if leaf not in twice}


class LogicalAxes:
    """The logical axes of a module when split into this many parts: uneven parts propagate less far than even ones."""

    def __init__(self, dataflow: DataflowGraph, count: int) -> None:
        self.dataflow = dataflow
        self.count = count
        self._joined = DisjointSets[int]()
        self._starts = [0, *accumulate(len(leaf.dims) for leaf in dataflow.leaves)]
        for equation in dataflow.equations:
            self._join(equation)

    def of(self, leaf: int, dimension: int) -> int:
        """The number of the logical axis that a dimension of a value is in."""
        return self._joined.root(self._starts[leaf] + dimension)

    def along(self, leaf: int) -> tuple[int, ...]:
        """The logical axes of a value's dimensions."""
        return tuple(self.of(leaf, dimension) for dimension in range(len(self.dataflow.leaves[leaf].dims)))

    def within(self, equation: Equation) -> dict[int, int]:
        """By factor of an instruction the logical axis that it is in."""
        stream_of: dict[int, int] = {}
        for factor, places in enumerate(equation.rule.factor_dims):
            for use in places:
                if use.front == 1 and not self.dataflow.is_free(equation.leaves[use.slot], use.dimension):
                    stream_of.setdefault(factor, self.of(equation.leaves[use.slot], use.dimension))
        return stream_of

    @cached_property
    def parameters(self) -> frozenset[int]:
        """The values that are parameters of the entry."""
        entry = self.dataflow.module.entry
        return frozenset(leaf for node in entry.parameters for leaf in self.dataflow.given(node))

    @cached_property
    def moved(self) -> frozenset[tuple[int, int]]:
        """The dimensions of which loops take one part at a time."""
        return frozenset(
            position
            for logical_axis in self._counted.values()
            if logical_axis.is_moved
            for position in logical_axis.places
        )

    @cached_property
    def all(self) -> dict[int, LogicalAxis]:
        """The logical axes that can be split into this many parts, by number."""
        return {number: axis for number, axis in self._counted.items() if axis.fits(self.count)}

    @cached_property
    def _counted(self) -> dict[int, LogicalAxis]:
        logical_axes: dict[int, LogicalAxis] = {}
        for leaf, value in enumerate(self.dataflow.leaves):
            for dimension in range(len(value.dims)):
                if self.dataflow.is_free(leaf, dimension):
                    continue
                number = self.of(leaf, dimension)
                logical_axis = logical_axes.setdefault(number, LogicalAxis(number))
                logical_axis.places.append((leaf, dimension))
                logical_axis.sizes.add(value.dims[dimension])
                if leaf in self.parameters:
                    logical_axis.weight += bytes_of(value.type)
                else:
                    logical_axis.carried += bytes_of(value.type)
        runs = runs_by_graph(cost(self.dataflow.module))
        for equation in self.dataflow.equations:
            self._count(equation, logical_axes, runs.get(equation.node.graph, 1))
        return logical_axes

    def _join(self, equation: Equation) -> None:
        """Put what an instruction splits together into one logical axis."""
        rule = equation.rule
        for factor, places in enumerate(rule.factor_dims):
            if not rule.propagates[factor]:
                continue
            is_even = rule.factors[factor].size % self.count == 0
            first: int | None = None
            for use in places:
                leaf = equation.leaves[use.slot]
                passes = use.front == 1 and (is_even or use.is_single)
                if not passes or use.dimension in self.dataflow.free[leaf]:
                    continue
                number = self._starts[leaf] + use.dimension
                if first is None:
                    first = number
                else:
                    self._joined.join(first, number)

    def _count(self, equation: Equation, logical_axes: dict[int, LogicalAxis], times: int) -> None:
        """Add what an instruction works and sends to its logical axes."""
        rule, known = equation.rule, self.within(equation)
        carried = {factor: logical_axes[number] for factor, number in known.items() if rule.propagates[factor]}
        if equation.node.opcode in CONTRACTIONS:
            work = 2.0 * times * math.prod(factor.size for factor in rule.factors)
            for number in {logical_axis.number for logical_axis in carried.values()}:
                logical_axes[number].work += work
        made = sum(bytes_of(self.dataflow.leaves[leaf].type) for leaf in equation.leaves[rule.results :])
        passed: set[tuple[int, int]] = set()
        for factor, logical_axis in carried.items():
            passed |= {(use.slot, use.dimension) for use in rule.factor_dims[factor] if use.front == 1}
            logical_axis.is_moved |= equation.node.opcode in MOVING and rule.factors[factor].kind is FactorKind.INDEXED
            if rule.leaves_partial_sums(factor):
                logical_axis.sent += 2.0 * times * made
        for leaf, dimension in self._stopped(equation, passed):
            logical_axis = logical_axes.get(self.of(leaf, dimension))
            if logical_axis is not None:
                logical_axis.sent += times * bytes_of(self.dataflow.leaves[leaf].type)
                logical_axis.is_moved |= equation.node.opcode in MOVING

    def _stopped(self, equation: Equation, passed: set[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        """The dimensions of operands that an instruction does not pass on."""
        for slot, leaf in enumerate(equation.leaves[: equation.rule.results]):
            for dimension in range(len(equation.rule.dim_factors[slot])):
                if (slot, dimension) not in passed and not self.dataflow.is_free(leaf, dimension):
                    yield leaf, dimension


def bytes_of(array_type: object) -> float:
    """The bytes of an array."""
    return float(array_type.byte_count) if isinstance(array_type, TensorType) else 0.0
