"""The pass `simplify-loops`: reduce what loops carry, and remove loops that run once or never.

Follows XLA's xla/service/while_loop_simplifier.cc (WhileLoopSimplifier). Everything except the rules that change a
loop's state without making it smaller is part of `simplify` too.
"""

from __future__ import annotations

from hloom.ir import Module
from hloom.passes.dce import dce
from hloom.passes.pipeline import Pass, fixpoint, register_pass, rules_pass
from hloom.passes.rules.tuple import element_of_tuple
from hloom.passes.rules.while_loop import WHILE_LOOP, WHILE_SCALARS, constant_elements
from hloom.passes.rules.while_state import WHILE_STATE
from hloom.rewrite import Report
from hloom.text import HloomError

_STATE = (rules_pass("while-state", (*WHILE_STATE, element_of_tuple)), Pass("dce", dce))
_SCALARS = [rule for rule in WHILE_LOOP if rule is not constant_elements]
SIMPLIFY_LOOPS = fixpoint("simplify-loops", [rules_pass("simplify-loops rules", WHILE_LOOP), *_STATE])
SIMPLIFY_LOOPS_OF_ARRAYS = fixpoint(
    "simplify-loops", [rules_pass("simplify-loops rules", (*_SCALARS, *WHILE_SCALARS)), *_STATE]
)


def simplify_loops(module: Module, arrays: int | str = 1) -> Report:
    """Reduce what loops carry; with `arrays=0`, constant arrays that the body does not change stay in the state.

    Raises HloomError for a value other than 0 and 1.
    """
    if arrays not in (0, 1):
        raise HloomError(f"arrays is 0 or 1, not '{arrays}'", hint="as in -p 'simplify-loops(arrays=0)'")
    return (SIMPLIFY_LOOPS if arrays else SIMPLIFY_LOOPS_OF_ARRAYS).run(module)


register_pass("simplify-loops", "loops carry less, and those that run once or never go", simplify_loops, ("arrays",))
