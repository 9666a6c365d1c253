"""The ways in which a pattern may match: each settles the order of operands and what is missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from hloom.rewrite.pattern import OperationTerm, Pattern, Reference, Same, ValueTerm
from hloom.rewrite.rule import RuleError

MOST_WAYS = 256
"""In how many ways commutative and optional operations of one pattern may be combined."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way to match a pattern: the order of operands and the missing parts of each operation settled."""

    anchor: int
    operands: Mapping[int, tuple[Reference, ...]]
    missing: frozenset[int]
    probes: dict = field(default_factory=dict)


def ways_of(pattern: Pattern) -> list[Way]:
    """All ways to match a pattern; raises RuleError where there are too many."""
    options: list[list[tuple[int, tuple[Reference, ...] | None]]] = []
    for place, term in enumerate(pattern.terms):
        if isinstance(term, OperationTerm):
            options.append([(place, operands) for operands in _orders(pattern, term)])
    count = 1
    for each in options:
        count *= len(each)
    if count > MOST_WAYS:
        hint = "make fewer operations commutative or optional"
        raise RuleError(f"the pattern can match in {count} ways, more than {MOST_WAYS}", hint=hint)
    found = []
    for combination in product(*options):
        operands = {place: order for place, order in combination if order is not None}
        missing = frozenset(place for place, order in combination if order is None)
        way = Way(pattern.roots[0], operands, missing)
        way.probes.update(_probes(pattern, way))
        found.append(way)
    return found


def _orders(pattern: Pattern, term: OperationTerm) -> Iterator[tuple[Reference, ...] | None]:
    """The operands in each order that may match; None stands for an optional operation that is missing."""
    whole = term.operands
    yield whole
    last = pattern.terms[whole[-1].term] if whole else None
    if isinstance(last, ValueTerm) and last.optional:
        yield whole[:-1]
    if term.commutative and len(whole) == 2 and not _alike(pattern, whole):
        yield whole[::-1]
    if term.optional:
        yield None


def _alike(pattern: Pattern, operands: tuple[Reference, ...]) -> bool:
    """Whether two operands may change places unseen: they are the same, or unconstrained and used here alone."""
    if operands[0] == operands[1]:
        return True
    for each in operands:
        term = pattern.terms[each.term]
        uses = sum(other.operands.count(each) for other in pattern.terms if isinstance(other, OperationTerm))
        named = any(
            leaf.operator in ("node", "feature") and leaf.arguments[0] == each.term
            for condition in pattern.conditions
            for leaf in condition.test.walk()
        )
        given = each.term in pattern.inner  # a parameter of a called graph: which one it is, is known already
        if not isinstance(term, ValueTerm) or not term.is_plain or uses > 1 or named or given:
            return False
    return True


def _probes(pattern: Pattern, way: Way) -> dict:
    """What must be so of the anchor and of its operands, two levels down."""
    found: dict = {}
    anchor = pattern.terms[way.anchor]
    assert isinstance(anchor, OperationTerm)
    for name, term in anchor.attributes:
        if isinstance(term, Same) and _is_plain(term.value):
            found["attribute", (), name] = (term.value,)
    level = [((), way.anchor)]
    for _ in range(2):
        level = [below for path, term in level for below in _probe_operands(pattern, way, path, term, found)]
    return found


def _probe_operands(pattern: Pattern, way: Way, path: tuple[int, ...], term: int, found: dict) -> Iterator[tuple]:
    for place, reference in enumerate(way.operands.get(term, ())):
        here = (*path, place)
        below, through = settle(pattern, way, reference)
        operand = pattern.terms[below.term]
        if isinstance(operand, OperationTerm):
            found["opcode", here, ""] = ("get-tuple-element",) if below.result >= 0 else operand.opcodes
            if below.result < 0 and not through:
                yield here, below.term
        elif operand.variadic:
            return
        elif operand.is_splat and isinstance(operand.number, (bool, int, float)):
            found["splat", here, ""] = (operand.number,)
        elif operand.dtypes:
            found["element", here, ""] = operand.dtypes
        elif operand.rank is not None:
            found["rank", here, ""] = (operand.rank,)


def _is_plain(value: Any) -> bool:
    return isinstance(value, (bool, int, str, tuple)) and getattr(value, "__hash__", None) is not None


def settle(pattern: Pattern, way: Way, reference: Reference) -> tuple[Reference, bool]:
    """What a reference means where missing operations are left out, and whether any was."""
    through = False
    while reference.term in way.missing:
        term = pattern.terms[reference.term]
        assert isinstance(term, OperationTerm)
        reference, through = term.operands[0], True
    return reference, through
