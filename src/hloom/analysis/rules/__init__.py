"""How each opcode is counted: XLA's count and, where it differs, the mathematical one.

To count an opcode, give it a rule in the family's file.
"""

from hloom.analysis.rules import communication, contractions, movement, pointwise, reductions
from hloom.analysis.rules import control_flow as calls
from hloom.analysis.rules.control_flow import branches_of as branches_of
from hloom.analysis.rules.fusion import fused_gather_or_scatter as fused_gather_or_scatter
from hloom.analysis.rules.table import COST_RULES as COST_RULES
from hloom.analysis.rules.table import CostRule as CostRule
from hloom.analysis.rules.table import Instruction as Instruction

__all__ = ["calls", "communication", "contractions", "movement", "pointwise", "reductions"]
