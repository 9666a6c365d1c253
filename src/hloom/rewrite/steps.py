"""A pattern as steps: each looks at one thing of a match and says what is wrong with it, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hloom.ir import Node, Op
from hloom.ops import OPS
from hloom.rewrite.attributes import attribute_check
from hloom.rewrite.pattern import Computes, OperationTerm, Pattern, Reference, ValueTerm
from hloom.rewrite.rule import RuleError
from hloom.rewrite.single_checks import (
    Check,
    arity_check,
    condition_check,
    effect_check,
    graph_check,
    operand_of,
    operation_check,
    output_of,
    rest_check,
    same_check,
    use_check,
    users_like,
    value_check,
)
from hloom.rewrite.ways import Way, settle

if TYPE_CHECKING:
    from hloom.rewrite.match import Match


@dataclass(frozen=True, slots=True)
class Step:
    """A check; or, where `choices` is given, candidates for a term, to be tried one after the other."""

    take: Check
    choices: Callable[[Match], Iterator[Node]] | None = None
    term: int = -1
    reason: str = ""


def steps_of(pattern: Pattern, way: Way, rows: Mapping[str, Op]) -> list[Step]:
    """The steps of one way: down from the anchor, then from what is known to the other roots, then the conditions."""
    return _Steps(pattern, way, rows).all()


class _Steps:
    """The steps so far, and the terms that they bind."""

    def __init__(self, pattern: Pattern, way: Way, rows: Mapping[str, Op]) -> None:
        self.pattern = pattern
        self.way = way
        self.rows = rows
        self.steps: list[Step] = []
        self.bound: set[int] = {way.anchor}

    def all(self) -> list[Step]:
        self.down(self.way.anchor)
        for term in self.unreached():
            self.across(term)
        for place in sorted(self.way.missing):
            self.stand_in(place)
        self.add(use_check(self.pattern, self.way))
        for condition in self.pattern.conditions:
            self.add(condition_check(condition))
        return self.steps

    def add(self, check: Check) -> None:
        self.steps.append(Step(check))

    def unreached(self) -> Iterator[int]:
        """The other operations, one after the other, each sharing an operand with what is bound by then."""
        inner = self.pattern.inner
        while True:
            left = [
                place
                for place, _ in self.pattern.operations()
                if place not in self.bound and place not in self.way.missing and place not in inner
            ]
            if not left:
                return
            near = [place for place in reversed(left) if self.shared_operand(place) is not None]
            if not near:
                raise RuleError(f"nothing connects '{self.pattern.name_of(left[0])}' with the rest of the pattern")
            yield near[0]

    def shared_operand(self, place: int) -> tuple[int, Reference] | None:
        for position, reference in enumerate(self.way.operands[place]):
            settled, _ = settle(self.pattern, self.way, reference)
            if settled.term in self.bound:
                return position, settled
        return None

    def across(self, place: int) -> None:
        """From a bound operand to an operation that uses it."""
        found = self.shared_operand(place)
        assert found is not None
        position, reference = found
        term = self.pattern.terms[place]
        assert isinstance(term, OperationTerm)
        missing = f"no {'/'.join(term.opcodes)} uses {self.pattern.name_of(reference.term)} too"
        self.steps.append(Step(lambda match: "", users_like(term, reference, position), place, missing))
        self.bound.add(place)
        self.down(place)

    def down(self, place: int) -> None:
        """An operation's arity and attributes, and then its operands."""
        pending = [place]
        while pending:
            current = pending.pop()
            term = self.pattern.terms[current]
            assert isinstance(term, OperationTerm)
            operands = self.way.operands[current]
            variadic = any(self.is_variadic(each) for each in operands)
            self.add(arity_check(current, len(operands) - variadic, variadic, self.name(current)))
            if not (term.effects or self.is_pure(term)):
                self.add(effect_check(current, self.name(current)))
            self.add(attribute_check(current, term, self.name(current)))
            for name, attribute in term.attributes:
                if isinstance(attribute, Computes):
                    self.computes(current, name, attribute)
            for position, reference in enumerate(operands):
                below = self.operand(current, position, reference)
                if below is not None:
                    pending.append(below)

    def operand(self, user: int, position: int, reference: Reference) -> int | None:
        """The steps for one operand; the operation below that is still to be looked at."""
        if self.is_variadic(reference):
            self.add(rest_check(user, position, reference.term, self.name(reference.term)))
            self.bound.add(reference.term)
            return None
        settled, _ = settle(self.pattern, self.way, reference)
        term, name = self.pattern.terms[settled.term], self.name(settled.term)
        fetch = operand_of(user, position)
        if settled.term in self.bound:
            self.add(same_check(fetch, settled, name))
            return None
        self.bound.add(settled.term)
        if isinstance(term, ValueTerm):
            self.add(value_check(fetch, settled.term, term, name))
            return None
        self.add(operation_check(fetch, settled, term, name))
        return settled.term

    def computes(self, user: int, name: str, attribute: Computes) -> None:
        """A graph that an operation calls: its parameters by number, and its output by the same steps."""
        self.add(graph_check(user, name, attribute, self.name(user)))
        self.bound.update(attribute.parameters)
        output, _ = settle(self.pattern, self.way, attribute.output)
        term = self.pattern.terms[output.term]
        fetch = output_of(user, name)
        if output.term in self.bound:
            self.add(same_check(fetch, output, self.name(output.term)))
            return
        self.bound.add(output.term)
        if isinstance(term, ValueTerm):
            self.add(value_check(fetch, output.term, term, self.name(output.term)))
            return
        self.add(operation_check(fetch, output, term, self.name(output.term)))
        self.down(output.term)

    def stand_in(self, place: int) -> None:
        """An optional operation that is missing: nothing stands for it, so that what is asked of it is None."""
        self.bound.add(place)

    def is_variadic(self, reference: Reference) -> bool:
        term = self.pattern.terms[reference.term]
        return isinstance(term, ValueTerm) and term.variadic

    def name(self, place: int) -> str:
        return self.pattern.name_of(place)

    def is_pure(self, term: OperationTerm) -> bool:
        """Whether no node of these opcodes has an effect."""
        rows = [self.rows.get(opcode) or OPS.get(opcode) for opcode in term.opcodes]
        return all(row is not None and row.is_known and row.effect is None for row in rows)
