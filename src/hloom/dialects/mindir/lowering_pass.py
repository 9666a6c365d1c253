"""The pass `lower-mindir`: MindSpore's graphs become HLO, in place."""

from __future__ import annotations

from hloom.dialects.mindir.lowering import lower
from hloom.ir import Module
from hloom.passes import register_pass
from hloom.rewrite import Report


def lower_in_place(module: Module) -> Report:
    """Put the lowered program in place of the module's own."""
    before = module.node_count
    lowered = lower(module)
    for slot in Module.__slots__:
        if not slot.startswith("__"):
            setattr(module, slot, getattr(lowered, slot))
    for graph in module.graphs:
        graph.module = module
    report = Report("lower-mindir")
    report.changes = before
    return report


LOWER = register_pass("lower-mindir", "MindSpore's graphs become HLO", lower_in_place)
