"""Cost rules of custom calls: one table from targets and configurations to FLOPs, bytes and names for people.

To count a new target, add a row to its family's file. `kinds.py` has the table's form, `backend_config.py` reads
configurations.
"""

from __future__ import annotations

from hloom.analysis.cost_properties import Cost
from hloom.analysis.rules.custom_calls import (
    attention,
    convolutions,
    factorizations,
    kernels,
    markers,
    normalization,
    products,
)
from hloom.analysis.rules.custom_calls.kinds import KINDS as KINDS
from hloom.analysis.rules.custom_calls.kinds import CallKind as CallKind
from hloom.analysis.rules.custom_calls.kinds import CallWork as CallWork
from hloom.analysis.rules.custom_calls.kinds import CustomCall as CustomCall
from hloom.analysis.rules.custom_calls.kinds import computation_of as computation_of
from hloom.analysis.rules.custom_calls.kinds import custom_call as custom_call
from hloom.analysis.rules.custom_calls.kinds import kind_of as kind_of
from hloom.analysis.rules.table import CalleeCosts, Instruction, rules

__all__ = ["attention", "convolutions", "factorizations", "kernels", "markers", "normalization", "products"]


def _unknown(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    return Cost(flops=-1, bytes_accessed=-1)


def _counted(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    return custom_call(instruction, callee_cost).cost


rules(
    "custom-call",
    _unknown,
    _counted,
    because="XLA counts minus one, for unknown; the targets of libraries are counted, of others operands and result",
)
