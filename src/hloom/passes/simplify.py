"""The passes `simplify`, which keeps every number, and `simplify-xla`, which allows what XLA's defaults allow.

To add a rule, put it in the file of its subject: its family is listed here, or in the list of its room's part
(`elementwise.py`, `shaping.py`).
"""

from __future__ import annotations

from hloom.passes.constants import spread_constants
from hloom.passes.dce import dce
from hloom.passes.pipeline import Pass, fixpoint, offer, rules_pass
from hloom.passes.rules.branching import BRANCHING
from hloom.passes.rules.contracting import CONTRACTING
from hloom.passes.rules.contracting_relaxed import CONTRACTING_RELAXED
from hloom.passes.rules.convolving import CONVOLVING, CONVOLVING_RELAXED
from hloom.passes.rules.elementwise import ELEMENTWISE, ELEMENTWISE_RELAXED, FAST_MATH
from hloom.passes.rules.exchanging import EXCHANGING, EXCHANGING_RELAXED
from hloom.passes.rules.folding import FOLDING
from hloom.passes.rules.looping import LOOPING
from hloom.passes.rules.reducing import REDUCING
from hloom.passes.rules.reducing_relaxed import REDUCING_RELAXED
from hloom.passes.rules.searching import SEARCHING, SEARCHING_RELAXED
from hloom.passes.rules.shaping import SHAPING_AS_XLA, STRICT_SHAPING
from hloom.passes.rules.sorting import SORTING
from hloom.passes.rules.tuples import element_of_tuple
from hloom.passes.rules.windowing import WINDOWING, WINDOWING_RELAXED
from hloom.rewrite import Family, Rule

STRICT: tuple[Family, ...] = (
    FOLDING,
    *ELEMENTWISE,
    *STRICT_SHAPING,
    CONTRACTING,
    REDUCING,
    WINDOWING,
    CONVOLVING,
    SORTING,
    SEARCHING,
    EXCHANGING,
    BRANCHING,
    LOOPING,
)
"""Rules by which every number stays as it was but for rounding, NaN and infinity included."""

RELAXED: tuple[Family, ...] = (
    *ELEMENTWISE_RELAXED,
    *SHAPING_AS_XLA,
    CONTRACTING_RELAXED,
    REDUCING_RELAXED,
    WINDOWING_RELAXED,
    CONVOLVING_RELAXED,
    SEARCHING_RELAXED,
    EXCHANGING_RELAXED,
)
"""Further rules that XLA's defaults allow: numbers may change where XLA's do."""


NOT_AS_XLA = frozenset(("dot-of-transpose",))
"""Strict rules that give other forms than XLA's simplifier, which leaves a lone transpose to where a dot is lowered."""


def _rules(*families: Family) -> list[Rule]:
    return [rule for family in families for rule in family]


def _offer_fixpoint(name: str, rules: list[Rule], summary: str, *others: Pass) -> None:
    parts = [rules_pass(f"{name} rules", rules), *others, Pass("dce", dce)]
    offer(name, summary, fixpoint(name, parts).run)


_offer_fixpoint("simplify", _rules(*STRICT), "make programs smaller by rules that keep every number but for rounding")
_offer_fixpoint(
    "simplify-xla",
    [rule for rule in _rules(*STRICT, *RELAXED) if rule.name not in NOT_AS_XLA],
    "simplify, and what XLA's defaults allow beside",
    Pass("constants", spread_constants),
)
offer("fast-math", "what holds but for NaN and infinities, as XLA allows", rules_pass("fast-math", FAST_MATH).run)
offer("fold", "compute at once what depends on constants only", rules_pass("fold", (*FOLDING, element_of_tuple)).run)
