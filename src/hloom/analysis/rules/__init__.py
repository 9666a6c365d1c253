"""Cost rules: XLA's count for each opcode and, where it differs, the mathematical one.

To cost an opcode, add a rule to the family's file; to cost the target of a custom call, a row in `custom_calls`.
"""

from typing import TYPE_CHECKING

from hloom.text import imports_names_lazily

if TYPE_CHECKING or not imports_names_lazily(__name__):
    from hloom.analysis.rules.custom_calls import CustomCall as CustomCall
    from hloom.analysis.rules.custom_calls import computation_of as computation_of
    from hloom.analysis.rules.custom_calls import custom_call as custom_call
    from hloom.analysis.rules.custom_calls import kind_of as kind_of
    from hloom.analysis.rules.families import cost_rule as cost_rule
    from hloom.analysis.rules.fusion import fused_gather_or_scatter as fused_gather_or_scatter
    from hloom.analysis.rules.table import CostRule as CostRule
    from hloom.analysis.rules.table import Instruction as Instruction
