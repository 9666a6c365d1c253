"""The propagation solver: computes the unique maximal shardings that follow from those of some dimensions.

1. Each axis reaches every dimension that instructions connect with a seed. A part of a dimension cannot be split unless
the parts before it are: otherwise it is removed, with everything reached only through it, until none is left.
2. Contradictions are found in everything reached at once: the same axis twice in one value (or in one instruction's
iteration space), or two axes on the same part of a dimension. All dimensions of a contradiction stay unsplit.
3. Each axis propagates again, now not through those dimensions, and again parts without the parts before them are
removed.

Free dimensions (`DataflowGraph.free`) accept shardings but do not propagate them to other uses.

Every step is a function of sets, so the result does not depend on order. Seeds are fixed: they stay in the answer, but
propagate nothing where they contradict other shardings.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from hloom.distribute.propagation.dimension_equations import DataflowGraph

ShardedDim = tuple[int, int, int]
"""A value (or an equation), a dimension (or a factor), and the number of parts before it."""
Step = tuple[int, tuple[int, int, int]] | None
"""From where a dimension was reached: the equation and the dimension before; None for a seed."""

VALUE, LINK = "value", "instruction"


@dataclass(slots=True)
class AxisSharding:
    """One axis: its size, its seeds, what it reaches, and what it must avoid."""

    axis: str
    size: int
    seeds: tuple[ShardedDim, ...]
    reached: dict[ShardedDim, Step] = field(default_factory=dict)
    factors_reached: dict[ShardedDim, ShardedDim] = field(default_factory=dict)
    blocked: set[ShardedDim] = field(default_factory=set)
    blocked_factors: set[ShardedDim] = field(default_factory=set)
    alone: dict[ShardedDim, Step] = field(default_factory=dict)
    """Dimensions that were taken out because nothing splits the parts before them."""

    def route(self, dim: ShardedDim) -> list[tuple[int | None, ShardedDim]]:
        """The steps that lead to a dimension, from its seed on: the equation, None for the seed, and the dimension."""
        steps: list[tuple[int | None, ShardedDim]] = []
        step = self.reached[dim]
        while step is not None:
            steps.append((step[0], dim))
            dim = step[1]
            step = self.reached[dim]
        steps.append((None, dim))
        return steps[::-1]


class Contradiction(NamedTuple):
    """Two dimensions that contradict each other, of two axis shardings by number; in a value, or in an instruction."""

    where: str
    first: int
    first_place: ShardedDim
    second: int
    second_place: ShardedDim


def solve(dataflow: DataflowGraph, shardings: Sequence[AxisSharding]) -> list[Contradiction]:
    """Compute what the axis shardings reach; returns the contradictions between everything they would reach."""
    _reach_supported(dataflow, shardings)
    contradictions = find_contradictions(shardings)
    if not contradictions:
        return []
    for contradiction in contradictions:
        for number, dim in (
            (contradiction.first, contradiction.first_place),
            (contradiction.second, contradiction.second_place),
        ):
            sharding = shardings[number]
            (sharding.blocked if contradiction.where == VALUE else sharding.blocked_factors).add(dim)
    return contradictions


def is_idle(dataflow: DataflowGraph, contradiction: Contradiction) -> bool:
    """Whether a contradiction costs nothing because one of the shardings is of a free dimension."""
    if contradiction.where == VALUE:
        return any(dataflow.is_free(*dim[:2]) for dim in (contradiction.first_place, contradiction.second_place))
    equation = dataflow.equations[contradiction.first_place[0]]
    return any(
        all(
            dataflow.is_free(equation.leaves[factor_dim.slot], factor_dim.dimension)
            for factor_dim in equation.rule.factor_dims[dim[1]]
        )
        for dim in (contradiction.first_place, contradiction.second_place)
    )


def settle(dataflow: DataflowGraph, shardings: Sequence[AxisSharding]) -> None:
    """Propagate once more, now that dimensions are blocked where shardings contradict each other."""
    _reach_supported(dataflow, shardings)


def reach(dataflow: DataflowGraph, sharding: AxisSharding) -> None:
    """Reach every dimension that is connected with a seed, breadth first, not through blocked ones."""
    size, blocked, blocked_factors = sharding.size, sharding.blocked, sharding.blocked_factors
    equations, equations_of, free = dataflow.equations, dataflow.equations_of, dataflow.free
    reached: dict[ShardedDim, Step] = dict.fromkeys(sharding.seeds)
    factors_reached: dict[ShardedDim, ShardedDim] = {}
    queue = [seed for seed in sharding.seeds if seed not in blocked]
    for dim in queue:
        leaf, dimension, major = dim
        is_taken = dimension in free[leaf] and reached[dim] is not None
        for number, slot in equations_of[leaf]:
            rule = equations[number].rule
            if is_taken and slot < rule.results:
                continue
            factor_and_part = rule.factor_at(slot, dimension, major)
            if factor_and_part is None:
                continue
            factor, within = factor_and_part
            point = (number, factor, within)
            if (
                point in factors_reached
                or point in blocked_factors
                or not rule.propagates_from(slot, dimension, factor, within, size)
            ):
                continue
            factors_reached[point] = dim
            is_even = rule.factors[factor].size % (within * size) == 0
            leaves = equations[number].leaves
            for other, there, front, is_single in rule.factor_dims[factor]:
                target = (leaves[other], there, front * within)
                if target not in reached and target not in blocked and (is_even or is_single):
                    reached[target] = (number, dim)
                    queue.append(target)
    sharding.reached, sharding.factors_reached = reached, factors_reached


def _reach_supported(dataflow: DataflowGraph, shardings: Sequence[AxisSharding]) -> None:
    waiting: Iterable[AxisSharding] = shardings
    while waiting:
        for sharding in waiting:
            reach(dataflow, sharding)
        changed = []
        for sharding, dim in _unsupported(shardings):
            sharding.blocked.add(dim)
            sharding.alone[dim] = sharding.reached[dim]
            changed.append(sharding)
        waiting = [sharding for sharding in shardings if sharding in changed]


def _unsupported(shardings: Sequence[AxisSharding]) -> list[tuple[AxisSharding, ShardedDim]]:
    """The dimensions whose major parts are not split by axes that add up to them."""
    inner = {dim[:2] for sharding in shardings for dim in sharding.reached if dim[2] > 1}
    if not inner:
        return []
    cuts: dict[tuple[int, int], list[tuple[int, AxisSharding, ShardedDim]]] = {}
    for sharding in shardings:
        for dim in sharding.reached:
            if dim[:2] in inner:
                cuts.setdefault(dim[:2], []).append((dim[2], sharding, dim))
    unsupported = []
    for splits in cuts.values():
        supported = {1}
        for major, sharding, dim in sorted(splits, key=lambda cut: cut[0]):
            if major in supported:
                supported.add(major * sharding.size)
            elif dim not in sharding.seeds:
                unsupported.append((sharding, dim))
    return unsupported


def find_contradictions(shardings: Sequence[AxisSharding]) -> list[Contradiction]:
    """All pairs of dimensions that cannot both be split, in values and in instructions' iteration spaces."""
    values = _contradictions(VALUE, shardings, [sharding.reached for sharding in shardings])
    return values + _contradictions(LINK, shardings, [sharding.factors_reached for sharding in shardings])


def _contradictions(
    where: str, shardings: Sequence[AxisSharding], reached: Sequence[Iterable[ShardedDim]]
) -> list[Contradiction]:
    first: dict[int, tuple[int, ShardedDim]] = {}
    several: dict[int, list[tuple[int, ShardedDim]]] = {}
    for number, places in enumerate(reached):
        for dim in places:
            owner = dim[0]
            if owner in several:
                several[owner].append((number, dim))
            elif owner in first:
                several[owner] = [first[owner], (number, dim)]
            else:
                first[owner] = (number, dim)
    return [
        Contradiction(where, one, dim, other, there)
        for owner in sorted(several)
        for one, dim, other, there in _pairs(sorted(several[owner]))
        if _contradict(shardings, one, dim, other, there)
    ]


def _pairs(entries: list[tuple[int, ShardedDim]]) -> Iterable[tuple[int, ShardedDim, int, ShardedDim]]:
    return ((*a, *b) for number, a in enumerate(entries) for b in entries[number + 1 :])


def _contradict(shardings: Sequence[AxisSharding], one: int, dim: ShardedDim, other: int, there: ShardedDim) -> bool:
    """The same axis twice; or two axes on parts of one dimension that overlap."""
    if one == other:
        return True
    if dim[1] != there[1]:
        return False
    (major, size), (minor, _) = sorted(((dim[2], shardings[one].size), (there[2], shardings[other].size)))
    return minor < major * size
