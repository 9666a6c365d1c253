"""Differences between two modules: which instructions correspond, what changed about them, and what that costs.

The properties compared of a single instruction are in `labels.py`, which calls are looked through in `value_graph.py`;
to add a step of matching, edit `instruction_map.py`; to report more changes, edit `changes.py`.
"""

from hloom.inspection.diff.alignment import align as align
from hloom.inspection.diff.changes import ChangedInstruction as ChangedInstruction
from hloom.inspection.diff.changes import InstructionDifference as InstructionDifference
from hloom.inspection.diff.changes import MovedInstruction as MovedInstruction
from hloom.inspection.diff.costs import BY as BY
from hloom.inspection.diff.costs import CostDifference as CostDifference
from hloom.inspection.diff.module_diff import ModuleDiff as ModuleDiff
from hloom.inspection.diff.module_diff import diff as diff
