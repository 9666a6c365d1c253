"""The passes `simplify`, which keeps every number, and `simplify-xla`, which allows what XLA's defaults allow.

To add a rule, put it in the file of its subject: its family is listed below.
"""

from __future__ import annotations

from typing import Any

from hloom.passes.constants import canonicalize_constants
from hloom.passes.dce import dce
from hloom.passes.dead_updates import eliminate_dead_updates
from hloom.passes.pipeline import Pass, fixpoint, register_pass, rules_pass
from hloom.passes.reshape_mover import move_reshapes
from hloom.passes.rules.add import ADD
from hloom.passes.rules.add_multiply_inexact import ADD_MULTIPLY_INEXACT
from hloom.passes.rules.add_update_inexact import ADD_UPDATE_INEXACT
from hloom.passes.rules.argmax import ARGMAX, ARGMAX_INEXACT
from hloom.passes.rules.bitwise import BITWISE
from hloom.passes.rules.broadcast import BROADCAST, BROADCAST_AS_XLA
from hloom.passes.rules.canonical_broadcast import CANONICAL_BROADCAST
from hloom.passes.rules.canonical_dot import CANONICAL_DOT
from hloom.passes.rules.canonical_gather import CANONICAL_GATHER
from hloom.passes.rules.collectives import COLLECTIVES, COLLECTIVES_INEXACT
from hloom.passes.rules.compare import COMPARE
from hloom.passes.rules.conditional import CONDITIONAL, CONDITIONAL_TO_SELECT
from hloom.passes.rules.constant_folding import CONSTANT_FOLDING, limited_folding
from hloom.passes.rules.convert import CONVERT, CONVERT_CHAINS
from hloom.passes.rules.convolution import CONVOLUTION, CONVOLUTION_INEXACT
from hloom.passes.rules.divide import DIVIDE
from hloom.passes.rules.divide_inexact import DIVIDE_INEXACT
from hloom.passes.rules.dot import DOT, dot_of_transpose
from hloom.passes.rules.dot_inexact import DOT_INEXACT
from hloom.passes.rules.dynamic_slice import DYNAMIC_SLICE, DYNAMIC_SLICE_AS_XLA
from hloom.passes.rules.dynamic_update_slice import DYNAMIC_UPDATE_SLICE, DYNAMIC_UPDATE_SLICE_AS_XLA
from hloom.passes.rules.explore_algebra import EXPLORE_ALGEBRA
from hloom.passes.rules.explore_concatenate import EXPLORE_CONCATENATE
from hloom.passes.rules.explore_convolution import EXPLORE_CONVOLUTION
from hloom.passes.rules.explore_dot import EXPLORE_DOT
from hloom.passes.rules.explore_elementwise import EXPLORE_ELEMENTWISE
from hloom.passes.rules.fast_math import FAST_MATH
from hloom.passes.rules.gather import GATHER, GATHER_AS_XLA
from hloom.passes.rules.min_max import MIN_MAX
from hloom.passes.rules.multiply import MULTIPLY
from hloom.passes.rules.pad import PAD
from hloom.passes.rules.reduce import REDUCE
from hloom.passes.rules.reduce_inexact import REDUCE_INEXACT
from hloom.passes.rules.reduce_window import REDUCE_WINDOW, REDUCE_WINDOW_INEXACT
from hloom.passes.rules.reshape import RESHAPE, RESHAPE_AS_XLA
from hloom.passes.rules.scatter import SCATTER
from hloom.passes.rules.select import SELECT
from hloom.passes.rules.slice import SLICE
from hloom.passes.rules.slice_hoister import SLICE_HOISTING, UNARY_SLICE_HOISTING
from hloom.passes.rules.sort import SORT
from hloom.passes.rules.transcendental_inexact import TRANSCENDENTAL_INEXACT
from hloom.passes.rules.transpose import TRANSPOSE, TRANSPOSE_AS_XLA
from hloom.passes.rules.transpose_folding import TRANSPOSE_FOLDING, convolution_of_transpose
from hloom.passes.rules.tuple import TUPLE, element_of_tuple
from hloom.passes.rules.while_loop import WHILE_LOOP
from hloom.rewrite import Family, Rule
from hloom.text import HloomError

ELEMENTWISE: tuple[Family, ...] = (
    ADD,
    MULTIPLY,
    DIVIDE,
    BITWISE,
    COMPARE,
    SELECT,
    MIN_MAX,
    CONVERT,
)
"""Rules by which every number stays as it was but for the rounding of one operation."""

ELEMENTWISE_INEXACT: tuple[Family, ...] = (
    ADD_MULTIPLY_INEXACT,
    DIVIDE_INEXACT,
    TRANSCENDENTAL_INEXACT,
    ADD_UPDATE_INEXACT,
)
"""Further rules that XLA's defaults allow."""

SHAPE_RULES: tuple[Family, ...] = (
    RESHAPE,
    TRANSPOSE,
    BROADCAST,
    SLICE,
    PAD,
    DYNAMIC_SLICE,
    DYNAMIC_UPDATE_SLICE,
    SCATTER,
    GATHER,
    TUPLE,
)
"""Rules that make programs smaller or move less."""

SHAPE_RULES_AS_XLA: tuple[Family, ...] = (
    RESHAPE_AS_XLA,
    TRANSPOSE_AS_XLA,
    BROADCAST_AS_XLA,
    DYNAMIC_SLICE_AS_XLA,
    DYNAMIC_UPDATE_SLICE_AS_XLA,
    GATHER_AS_XLA,
)
"""Rules for the forms that XLA prefers; they too keep every bit."""

STRICT: tuple[Family, ...] = (
    CONSTANT_FOLDING,
    *ELEMENTWISE,
    *SHAPE_RULES,
    DOT,
    REDUCE,
    REDUCE_WINDOW,
    CONVOLUTION,
    SORT,
    ARGMAX,
    COLLECTIVES,
    CONDITIONAL,
    WHILE_LOOP,
)
"""Rules by which every number stays as it was but for rounding, NaN and infinity included."""

INEXACT: tuple[Family, ...] = (
    *ELEMENTWISE_INEXACT,
    *SHAPE_RULES_AS_XLA,
    DOT_INEXACT,
    REDUCE_INEXACT,
    REDUCE_WINDOW_INEXACT,
    CONVOLUTION_INEXACT,
    ARGMAX_INEXACT,
    COLLECTIVES_INEXACT,
)
"""Further rules that XLA's defaults allow: numbers may change where XLA's do."""


EXPLORATION: tuple[Family, ...] = (
    EXPLORE_DOT,
    EXPLORE_CONVOLUTION,
    EXPLORE_ELEMENTWISE,
    EXPLORE_ALGEBRA,
    EXPLORE_CONCATENATE,
)
"""Rules to other forms, which are cheaper or not: for equality saturation, which chooses."""


NOT_AS_XLA = frozenset(("dot-of-transpose", "slice-of-update"))
"""Strict rules that give other forms than XLA's simplifier, which leaves a lone transpose to where a dot is lowered,
and updates to a pass that its CPU compiler does not run."""
LAYOUT_SENSITIVE = frozenset(("convolution-of-points",))
"""Rules that add reshapes, which move no bytes once layouts are assigned: only there XLA's simplifier has them
(xla/hlo/transforms/simplifiers/algebraic_simplifier.cc, SimplifyConvToDot), so they are a pass of their own."""
AFTER_CANONICAL_DOTS = frozenset(("transpose-of-dot",))
"""Rules that XLA's CPU compiler applies only to products of matrices, which it makes of all dots before it simplifies
(xla/hlo/transforms/expanders/dot_decomposer.cc)."""
NOT_COMPILED = frozenset(
    ("branch-by-predicate", "constants-of-two-factors", "float-constants-of-two-factors", "slice-of-update")
)
"""Rules that make programs smaller and that XLA's CPU compiler does not have: it chooses among two branches by number,
and leaves constants with their factors, and slices with updates."""
STRENGTH_REDUCTION = frozenset(("dot-as-reduce",))
"""Rules that move more bytes until multiply and reduce are fused: XLA's CPU compiler leaves them out too
(xla/service/cpu/cpu_compiler.cc, set_enable_dot_strength_reduction), so they are a pass of their own."""


def _rules(*families: Family) -> list[Rule]:
    return [rule for family in families for rule in family]


def _simplifier(name: str, rules: list[Rule], *others: Pass) -> Pass:
    return fixpoint(name, [rules_pass(f"{name} rules", rules), *others, Pass("dce", dce)])


def _offer_fixpoint(name: str, rules: list[Rule], summary: str, *others: Pass) -> None:
    register_pass(name, summary, _simplifier(name, rules, *others).run)


_AS_XLA = [
    rule for rule in _rules(*STRICT, *INEXACT) if rule.name not in NOT_AS_XLA | STRENGTH_REDUCTION | LAYOUT_SENSITIVE
]
_MOVERS = (Pass("constants", canonicalize_constants), Pass("reshape-mover", move_reshapes))
SIMPLIFY_BEFORE_DOTS = _simplifier(
    "simplify-xla", [rule for rule in _AS_XLA if rule.name not in AFTER_CANONICAL_DOTS | NOT_COMPILED], *_MOVERS
)
"""The pass `simplify-xla` as XLA's CPU compiler begins: without what waits until dots are products of matrices."""
ADD_UPDATES = rules_pass("add-updates", list(ADD_UPDATE_INEXACT))
"""Of the pass `simplify-xla` what changes most which values are stored: an update goes into what it is added to."""
SIMPLIFY_STRICTLY_BEFORE_DOTS = _simplifier(
    "simplify", [rule for rule in _rules(*STRICT) if rule.name not in AFTER_CANONICAL_DOTS | NOT_COMPILED]
)
"""The pass `simplify` likewise."""
_offer_fixpoint(
    "simplify",
    _rules(*STRICT),
    "make programs smaller by rules that keep every number but for rounding",
    Pass("dead-updates", eliminate_dead_updates),
)
_offer_fixpoint("simplify-xla", _AS_XLA, "simplify, and what XLA's defaults allow beside", *_MOVERS)
register_pass(
    "fast-math", "what holds but for NaN and infinities, as XLA allows", rules_pass("fast-math", FAST_MATH).run
)


def _folding(**options: Any) -> list[Rule]:
    return [*limited_folding(**options), element_of_tuple]


register_pass(
    "fold",
    "compute at once what depends on constants only",
    rules_pass("fold", _folding, options=("floats", "elements")).run,
    ("floats", "elements"),
)
register_pass(
    "convolution-to-dot",
    "write convolutions whose window is one element as products of matrices",
    rules_pass("convolution-to-dot", [rule for rule in CONVOLUTION_INEXACT if rule.name in LAYOUT_SENSITIVE]).run,
)
register_pass(
    "dot-strength-reduction",
    "write products of matrices and vectors as multiply and reduce, as XLA does for GPUs",
    rules_pass("dot-strength-reduction", [rule for rule in DOT_INEXACT if rule.name in STRENGTH_REDUCTION]).run,
)
register_pass(
    "conditional-to-select",
    "both branches of conditionals are computed where they are cheap, and their results selected",
    rules_pass("conditional-to-select", [*CONDITIONAL_TO_SELECT, element_of_tuple]).run,
)


def _transpose_folding(batches: int | str = 0) -> list[Rule]:
    if batches not in (0, 1):
        raise HloomError(f"fold-transposes: batches is 0 or 1, not '{batches}'")
    return [dot_of_transpose, convolution_of_transpose] if batches else list(TRANSPOSE_FOLDING)


register_pass(
    "fold-transposes",
    "products and convolutions read what transposes read",
    rules_pass("fold-transposes", _transpose_folding, options=("batches",)).run,
    ("batches",),
)
register_pass(
    "drop-roundings",
    "floats that are converted several times are converted once",
    rules_pass("drop-roundings", CONVERT_CHAINS).run,
)
register_pass(
    "canonical-dots",
    "dots become products of matrices, one by one or in batches",
    rules_pass("canonical-dots", CANONICAL_DOT).run,
)
register_pass(
    "canonical-gathers",
    "gathers and scatters take one row of indices after another",
    rules_pass("canonical-gathers", CANONICAL_GATHER).run,
)
register_pass(
    "canonical-broadcasts",
    "broadcasts keep the order of the dimensions that they spread",
    rules_pass("canonical-broadcasts", CANONICAL_BROADCAST).run,
)


def _slice_hoisting(unary: int | str = 0) -> list[Rule]:
    if unary not in (0, 1):
        raise HloomError(f"hoist-slices: unary is 0 or 1, not '{unary}'")
    return [*SLICE_HOISTING, *(UNARY_SLICE_HOISTING if unary else ())]


register_pass(
    "hoist-slices",
    "what is computed elementwise and then sliced is sliced before",
    rules_pass("hoist-slices", _slice_hoisting, options=("unary",)).run,
    ("unary",),
)
