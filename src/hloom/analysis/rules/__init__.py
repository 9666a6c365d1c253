"""Cost rules: XLA's count for each opcode and, where it differs, the mathematical one.

To cost an opcode, add a rule to the family's file.
"""

from hloom.analysis.rules import collective, contraction, control_flow, data_movement, elementwise, reduction
from hloom.analysis.rules.control_flow import cost_rule as cost_rule
from hloom.analysis.rules.fusion import fused_gather_or_scatter as fused_gather_or_scatter
from hloom.analysis.rules.table import CostRule as CostRule
from hloom.analysis.rules.table import Instruction as Instruction

__all__ = ["collective", "contraction", "control_flow", "data_movement", "elementwise", "reduction"]
