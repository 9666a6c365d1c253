"""The families' files, which fill the table of rules: importing this one fills it."""

from __future__ import annotations

from hloom.analysis.rules import (
    collective,
    contraction,
    control_flow,
    custom_calls,
    data_movement,
    elementwise,
    reduction,
)
from hloom.analysis.rules.table import COST_RULES, CostRule
from hloom.ir import Op

FAMILIES = (collective, contraction, control_flow, custom_calls, data_movement, elementwise, reduction)


def cost_rule(op: Op) -> CostRule | None:
    """The rule of an op: its own, or the one implied by its flow and traits; None for an unknown op."""
    rule = COST_RULES.get(op.name)
    if rule is not None:
        return rule
    if op.flow is not None and op.flow.is_control_flow:
        return control_flow.CONTROL_FLOW
    return elementwise.elementwise_rule(op)
