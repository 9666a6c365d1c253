"""The result of the search for the best combination, and how it is written."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hloom.analysis import Device
from hloom.distribute.fit.combination import Combination, Omission
from hloom.distribute.fit.files import fit_json, write_fit
from hloom.distribute.fit.sharding_search import Counts
from hloom.ir import Module
from hloom.targets.compiler import Target
from hloom.text import Display, Displayed, DisplayTable, HloomError, Record


@dataclass(repr=False)
class FitResult(Displayed, Record):
    """Combinations, the best that fits first, then those that do not fit; what was left out; what was searched.

    `missing_bytes` is above 0 where nothing fits: the first then holds least. `bound_seconds` is what no combination
    takes less than: all the work of the step, divided among the devices, nothing sent and nobody waiting. `target` is
    the one whose compiler measured the best combinations, None if XLA's CPU compiler did.
    """

    module: Module = field(repr=False)
    device: str
    devices: int
    memory: float | None
    combinations: list[Combination]
    omissions: list[Omission]
    counts: Counts
    donated_bytes: int = 0
    seconds: float = 0.0
    measured: int = 0
    rates: Device | None = field(default=None, repr=False)
    bound_seconds: float = 0.0
    target: Target | None = None
    json_keys = (
        "module=module.name device devices memory missing_bytes bound_seconds gap donated_bytes combinations "
        "omitted=omissions **counts seconds target?=target.name"
    )

    @property
    def gap(self) -> float:
        """An upper bound on how much shorter the optimum may be, as a share of its time: down to `bound_seconds`."""
        return max(0.0, 1 - self.bound_seconds / self.best.cost.step_seconds)

    def display(self) -> Display:
        rows = (
            (made.name, made.baseline, made.cost.step_seconds, made.peak_bytes, str(made.fits(self.memory)).lower())
            for made in self.combinations
        )
        columns = ("combination", "by hand", "step seconds", "bytes at the peak", "fits")
        omissions = [(omission.name, omission.reason) for omission in self.omissions]
        tables = (
            DisplayTable("combinations, best first", columns, rows, len(self.combinations)),
            DisplayTable("left out", ("combination", "why"), omissions, len(omissions)),
        )
        best = f": {self.best.name}" if self.combinations else ""
        return Display(f"<{self.module.name} on {self.devices} x {self.device}{best}>", tables)

    @property
    def best(self) -> Combination:
        """The combination to take: the fastest that fits, or the one that holds least where none does."""
        return self.combinations[0]

    @property
    def missing_bytes(self) -> float:
        """The number of bytes by which the best does not fit."""
        return 0.0 if self.memory is None else max(0.0, self.best.peak_bytes - self.memory)

    @property
    def runner_up(self) -> Combination | None:
        """The next best that fits."""
        return next((made for made in self.combinations[1:] if made.fits(self.memory)), None)

    @property
    def baselines(self) -> list[Combination]:
        """The plans that people write by hand."""
        return [made for made in self.combinations if made.baseline]

    def rank(self) -> None:
        """Put the fastest that fit first; of those that do not, the ones that hold least."""
        self.combinations.sort(key=self._rank)

    def _rank(self, made: Combination) -> tuple[Any, ...]:
        is_guessed = self.measured > 0 and made.measured_bytes is None
        if made.fits(self.memory):
            return False, is_guessed, made.cost.step_seconds, made.peak_bytes, made.name
        return True, False, made.peak_bytes, made.cost.step_seconds, made.name

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write the best into a new folder: its modules, `plan.json`, `run.py`.

        Raises HloomError where nothing fits, jax cannot take the step, or the folder holds something.
        """
        self._check_fits()
        return write_fit(self.module, self.best, self.to_json(), folder, self.rates or self.device)

    def plan_json(self) -> dict[str, Any]:
        """What `save` writes as `plan.json`; raises HloomError where nothing fits."""
        self._check_fits()
        return fit_json(self.best, self.to_json())

    def _check_fits(self) -> None:
        if self.missing_bytes > 0:
            raise HloomError(
                f"nothing fits into {self.memory:,.0f} bytes: the smallest found takes {self.best.peak_bytes:,}",
                hint="use more devices, or a larger memory",
            )
