"""The pass `simplify-loops`: what loops carry becomes less, and loops that run once or never go.

Follows XLA's xla/service/while_loop_simplifier.cc (WhileLoopSimplifier). All of it but the rules that change what a
loop carries without making it less are part of `simplify` too.
"""

from __future__ import annotations

from hloom.passes.dce import dce
from hloom.passes.pipeline import Pass, fixpoint, register_pass, rules_pass
from hloom.passes.rules.tuple import element_of_tuple
from hloom.passes.rules.while_loop import WHILE_LOOP
from hloom.passes.rules.while_state import WHILE_STATE

SIMPLIFY_LOOPS = fixpoint(
    "simplify-loops",
    [
        rules_pass("simplify-loops rules", WHILE_LOOP),
        rules_pass("while-state", (*WHILE_STATE, element_of_tuple)),
        Pass("dce", dce),
    ],
)
register_pass("simplify-loops", "loops carry less, and those that run once or never go", SIMPLIFY_LOOPS.run)
