"""Match variants: a pattern with commutative and optional operations, expanded into patterns without choices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from hloom.rewrite.pattern import OperationTerm, Pattern, Reference, Same, ValueTerm
from hloom.rewrite.questions import Answers, Question
from hloom.rewrite.registry import RuleError
from hloom.rewrite.type_guards import is_tuple

MAX_VARIANTS = 256
"""The maximum number of combinations of commutative and optional operations in one pattern."""


@dataclass(frozen=True, slots=True)
class MatchVariant:
    """One variant of a pattern: operand orders and missing parts are fixed."""

    anchor: int
    operands: Mapping[int, tuple[Reference, ...]]
    missing: frozenset[int]
    answers: dict[Question, tuple[Any, ...]] = field(default_factory=dict[Question, tuple[Any, ...]])


def variants_of(pattern: Pattern) -> list[MatchVariant]:
    """All variants of a pattern; raises RuleError if there are too many."""
    options: list[list[tuple[int, tuple[Reference, ...] | None]]] = []
    for term_index in _outermost_first(pattern):
        term = pattern.terms[term_index]
        if isinstance(term, OperationTerm):
            options.append([(term_index, operands) for operands in _orders(pattern, term)])
    count = 1
    for orders in options:
        count *= len(orders)
    if count > MAX_VARIANTS:
        hint = "make fewer operations commutative or optional"
        raise RuleError(f"the pattern can match in {count} ways, more than {MAX_VARIANTS}", hint=hint)
    variants: list[MatchVariant] = []
    for combination in product(*options):
        operands = {term_index: order for term_index, order in combination if order is not None}
        missing = frozenset(term_index for term_index, order in combination if order is None)
        variant = MatchVariant(pattern.roots[0], operands, missing)
        variant.answers.update(_answers_of_anchor(pattern, variant))
        variants.append(variant)
    return variants


def _outermost_first(pattern: Pattern) -> list[int]:
    """The terms, each before its operands: the orders of the innermost change first, as in nested loops."""
    ordered: dict[int, None] = {}
    pending = [*reversed(range(len(pattern.terms))), *reversed(pattern.roots)]
    while pending:
        number = pending.pop()
        if number not in ordered:
            ordered[number] = None
            pending.extend(operand.term for operand in reversed(getattr(pattern.terms[number], "operands", ())))
    return list(ordered)


def _orders(pattern: Pattern, term: OperationTerm) -> Iterator[tuple[Reference, ...] | None]:
    """The operands in each order that may match; None means that an optional operation is missing."""
    whole = term.operands
    yield whole
    last = pattern.terms[whole[-1].term] if whole else None
    if isinstance(last, ValueTerm) and last.optional:
        yield whole[:-1]
    if term.commutative and len(whole) == 2 and not _are_interchangeable(pattern, whole):
        yield whole[::-1]
    if term.optional:
        yield None


def _are_interchangeable(pattern: Pattern, operands: tuple[Reference, ...]) -> bool:
    """Whether swapping two operands makes no difference: they are equal, or unconstrained and only used here."""
    if operands[0] == operands[1]:
        return True
    for operand in operands:
        term = pattern.terms[operand.term]
        uses = sum(other.operands.count(operand) for other in pattern.terms if isinstance(other, OperationTerm))
        named = any(
            leaf.operator in ("node", "feature") and leaf.arguments[0] == operand.term
            for condition in pattern.conditions
            for leaf in condition.test.walk()
        )
        given = operand.term in pattern.inner  # the parameters of a called graph are already identified
        if not isinstance(term, ValueTerm) or not term.is_plain or uses > 1 or named or given:
            return False
    return True


def _answers_of_anchor(pattern: Pattern, variant: MatchVariant) -> Answers:
    """Necessary conditions on the anchor and its operands, two levels down."""
    answers: dict[Question, tuple[Any, ...]] = {}
    anchor = pattern.terms[variant.anchor]
    assert isinstance(anchor, OperationTerm)
    for name, term in anchor.attributes:
        if isinstance(term, Same) and _is_plain(term.value):
            answers["attribute", (), name] = (term.value,)
    level: list[tuple[tuple[int, ...], int]] = [((), variant.anchor)]
    for _ in range(2):
        level = [below for path, term in level for below in _answers_of_operands(pattern, variant, path, term, answers)]
    return answers


def _answers_of_operands(
    pattern: Pattern,
    variant: MatchVariant,
    path: tuple[int, ...],
    term: int,
    answers: dict[Question, tuple[Any, ...]],
) -> Iterator[tuple[tuple[int, ...], int]]:
    for index, reference in enumerate(variant.operands.get(term, ())):
        here = (*path, index)
        below, through = settle(pattern, variant, reference)
        operand = pattern.terms[below.term]
        if isinstance(operand, OperationTerm):
            answers["opcode", here, ""] = ("get-tuple-element",) if below.result >= 0 else operand.opcodes
            if below.result < 0 and not through:
                yield here, below.term
        elif operand.variadic:
            return
        elif operand.is_splat and isinstance(operand.number, (bool, int, float)):
            answers["splat", here, ""] = (operand.number,)
        elif operand.dtypes:
            answers["element", here, ""] = operand.dtypes
        elif operand.rank is not None:
            answers["rank", here, ""] = (operand.rank,)


def _is_plain(value: object) -> bool:
    return isinstance(value, (bool, int, str)) or is_tuple(value)


def settle(pattern: Pattern, variant: MatchVariant, reference: Reference) -> tuple[Reference, bool]:
    """The reference after omitting missing operations, and whether any was omitted."""
    through = False
    while reference.term in variant.missing:
        term = pattern.terms[reference.term]
        assert isinstance(term, OperationTerm)
        reference, through = term.operands[0], True
    return reference, through
