"""How each opcode is counted: XLA's count and, where it differs, the mathematical one.

To count an opcode, give it a rule in the family's file.
"""

from hloom.analysis.rules import (
    calls,
    communication,
    contractions,
    movement,
    pointwise,
    reductions,
)
from hloom.analysis.rules.calls import branches_of as branches_of
from hloom.analysis.rules.fusions import fused_gather_or_scatter as fused_gather_or_scatter
from hloom.analysis.rules.table import RULES as RULES
from hloom.analysis.rules.table import Application as Application
from hloom.analysis.rules.table import Rule as Rule

__all__ = ["calls", "communication", "contractions", "movement", "pointwise", "reductions"]
