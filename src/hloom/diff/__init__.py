"""Differences between two modules: which instructions correspond, what changed about them, and what that costs.

The properties compared of a single instruction are in `labels.py`, which calls are looked through in `value_graph.py`;
to add a step of matching, edit `instruction_map.py`; to report more changes, edit `changes.py`.
"""

import sys
from types import ModuleType

from hloom.analysis import DEFAULT_DEVICE, Device
from hloom.diff.alignment import align as align
from hloom.diff.changes import ChangedInstruction as ChangedInstruction
from hloom.diff.changes import InstructionDifference as InstructionDifference
from hloom.diff.changes import MovedInstruction as MovedInstruction
from hloom.diff.costs import BY as BY
from hloom.diff.costs import CostDifference as CostDifference
from hloom.diff.module_diff import ModuleDiff as ModuleDiff
from hloom.diff.module_diff import diff as diff
from hloom.ir import ModuleLike


class _CallablePackage(ModuleType):
    """The package as a function: the package and what users call, `hloom.diff(a, b)`, have one name."""

    def __call__(
        self,
        before: ModuleLike,
        after: ModuleLike,
        *,
        costs: bool = True,
        device: Device | str = DEFAULT_DEVICE,
        by: str = "scope",
        depth: int | None = 2,
        strict: bool = False,
    ) -> ModuleDiff:
        return diff(before, after, costs=costs, device=device, by=by, depth=depth, strict=strict)


sys.modules[__name__].__class__ = _CallablePackage
