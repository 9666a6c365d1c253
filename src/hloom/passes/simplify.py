"""The passes `simplify`, which keeps every number, and `simplify-xla`, which allows what XLA's defaults allow.

To add a rule, put it in the file of its subject: its family is listed here.
"""

from __future__ import annotations

from hloom.passes.pipeline import fixpoint, offer, rules_pass
from hloom.rewrite import Family

STRICT: tuple[Family, ...] = ()
"""Rules by which every number stays as it was but for rounding, NaN and infinity included."""

RELAXED: tuple[Family, ...] = ()
"""Further rules that XLA's defaults allow: numbers may change where XLA's do."""
