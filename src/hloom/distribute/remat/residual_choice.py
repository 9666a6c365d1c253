"""Chooses which residuals of loops are stacked and which are recomputed: an integer program over the loops' bodies.

For each instruction that the stacks depend on, `kept` says that its slices are stacked (or that the loops pass it on),
`computed` that the backward loop computes it, which needs its operands there. What the backward loop reads is one of
both; what is kept takes at most so many bytes in all. Partitioners of forward and backward graphs choose so by a
minimum cut (torch/_functorch/partitioners.py), with a price for memory where this has a bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hloom.distribute.remat.loop_residuals import LoopResiduals
from hloom.solver import Constraint, minimize


@dataclass(frozen=True, slots=True)
class ResidualChoice:
    """By the names of backward loops, the names of the instructions that are kept and that are computed again.

    `loops` names all the loops. `bytes` are kept; computing takes `cost`, and no choice that keeps as little costs less
    than `bound`.
    """

    loops: frozenset[str]
    kept: dict[str, frozenset[str]]
    computed: dict[str, frozenset[str]]
    bytes: int
    cost: float
    bound: float

    @property
    def count(self) -> int:
        """The number of instructions to recompute."""
        return sum(map(len, self.computed.values()))


def choose_residuals(residuals: Sequence[LoopResiduals], limit: float) -> ResidualChoice | None:
    """The cheapest choice found that keeps at most `limit` bytes; None where every choice keeps more."""
    values = [value for pair in residuals for value in pair.values]
    columns = {value: column for column, value in enumerate(values)}
    count = len(values)
    sizes = np.array([float(value.size or 0) for value in values])
    costs = np.array([value.flops or 0.0 for value in values])
    lower, upper = np.zeros(2 * count), np.ones(2 * count)
    rows: list[Constraint] = []
    for column, value in enumerate(values):
        if value.size is None:
            upper[column] = 0
        if value.flops is None:
            upper[count + column] = 0
        if value.is_read:
            rows.append(Constraint(np.array([column, count + column]), np.array([-1.0, -1.0]), -1.0))
        for operand in value.operands:
            there = columns[operand]
            indices = np.array([count + column, there, count + there])
            rows.append(Constraint(indices, np.array([1.0, -1.0, -1.0]), 0.0))
    unit = max(float(sizes.max(initial=1)), 1.0)
    used = np.flatnonzero(sizes)
    rows.append(Constraint(used, sizes[used] / unit, limit / unit))
    scale = 1e4 / max(float(costs.sum()), 1.0)
    taste = np.where(sizes > 0, 1.0 + sizes / unit, 0.0) * 1e-6  # of choices that cost the same, the smaller
    solved = minimize(np.concatenate([taste, costs * scale + 1e-7]), lower, upper, rows)
    if solved is None:
        return None
    solution, bound = solved
    kept: dict[str, frozenset[str]] = {}
    computed: dict[str, frozenset[str]] = {}
    total, spent = 0, 0.0
    for pair in residuals:
        is_kept = [value for value in pair.values if solution[columns[value]] > 0.5]
        is_computed = [value for value in pair.values if solution[count + columns[value]] > 0.5]
        kept[pair.backward.name] = frozenset(value.name for value in is_kept)
        computed[pair.backward.name] = frozenset(value.name for value in is_computed)
        total += sum(value.size or 0 for value in is_kept)
        spent += sum(value.flops or 0.0 for value in is_computed)
    loops = frozenset(loop.name for pair in residuals for loop in (pair.forward, pair.backward))
    return ResidualChoice(loops, kept, computed, total, spent, max(bound, 0.0) / scale)
