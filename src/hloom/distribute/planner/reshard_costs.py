"""The seconds of reshards: one table per type, filled on demand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from hloom.distribute.partitioner import reshard_collectives
from hloom.distribute.planner.cost_model import Rates
from hloom.sharding import Mesh, Spec


@dataclass(slots=True)
class _Table:
    """Seconds by the numbers of the source's and the target's spec; NaN where nobody has asked yet."""

    sources: dict[Spec, int] = field(default_factory=dict)
    targets: dict[Spec, int] = field(default_factory=dict)
    seconds: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))

    def grow(self) -> None:
        """Enlarge the table for the specs that have a number."""
        needed = np.array((len(self.sources), len(self.targets)))
        held = np.array(self.seconds.shape)
        if (needed > held).any():
            grown = np.full(np.where(needed > held, np.maximum(needed, 2 * held), held), np.nan)
            grown[: held[0], : held[1]] = self.seconds
            self.seconds = grown


class ReshardCosts:
    """The seconds of changes of spec on a mesh, by the dimensions and the width of what is changed."""

    def __init__(self, mesh: Mesh, rates: Rates) -> None:
        self._mesh = mesh
        self._rates = rates
        self._tables: dict[tuple[tuple[int, ...], float], _Table] = {}

    def seconds(self, dims: tuple[int, ...], width: float, have: Sequence[Spec], want: Sequence[Spec]) -> np.ndarray:
        """The seconds from each of some specs to each of others."""
        table = self._tables.setdefault((dims, width), _Table())
        rows = np.array([table.sources.setdefault(spec, len(table.sources)) for spec in have])
        columns = np.array([table.targets.setdefault(spec, len(table.targets)) for spec in want])
        table.grow()
        seconds, collectives = table.seconds[np.ix_(rows, columns)], self._rates.collectives(self._mesh)
        for row, column in zip(*np.nonzero(np.isnan(seconds)), strict=True):
            steps = reshard_collectives(dims, have[row], want[column], self._mesh)
            seconds[row, column] = self._rates.comm_share * sum(collectives.seconds(step, width) for step in steps)
        table.seconds[np.ix_(rows, columns)] = seconds
        return seconds
