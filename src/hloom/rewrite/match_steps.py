"""Match programs: a match variant as a sequence of steps that each check one property or bind one term."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from hloom.ir import Node, Op
from hloom.ops import OPS
from hloom.rewrite.match import Match
from hloom.rewrite.match_checks import (
    Check,
    arity_check,
    asked_check,
    attribute_check,
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
from hloom.rewrite.match_variants import MatchVariant, settle
from hloom.rewrite.pattern import Anything, Computes, Condition, OperationTerm, Pattern, Reference, ValueTerm
from hloom.rewrite.registry import RuleError


@dataclass(frozen=True, slots=True)
class MatchStep:
    """A check; or, if `choices` is given, candidates for a term to try in order.

    `operands` is the number of operands if it only counts those of the anchor; `position` is that of the anchor's
    operand if it only binds a `term` to that.
    """

    take: Check
    choices: Callable[[Match], Iterator[Node]] | None = None
    term: int = -1
    reason: str = ""
    operands: int | None = None
    position: int | None = None


def match_steps_of(pattern: Pattern, variant: MatchVariant, rows: Mapping[str, Op]) -> list[MatchStep]:
    """The steps of one variant: down from the anchor, from bound values to the other roots, then the conditions."""
    return _StepBuilder(pattern, variant, rows).all()


class _StepBuilder:
    """The steps so far, and the terms they bind."""

    def __init__(self, pattern: Pattern, variant: MatchVariant, rows: Mapping[str, Op]) -> None:
        self.pattern = pattern
        self.variant = variant
        self.rows = rows
        self.steps: list[MatchStep] = []
        self.conditions = list(pattern.conditions)
        self.bound: set[int] = {variant.anchor}
        self.paths: dict[int, str] = {variant.anchor: ""}

    def all(self) -> list[MatchStep]:
        self.ask()
        self.down(self.variant.anchor)
        for term in self.unreached():
            self.across(term)
        for term_index in sorted(self.variant.missing):
            self.stand_in(term_index)
        if not self.uses_are_free():
            self.add(use_check(self.pattern, self.variant))
        for condition in self.conditions:
            self.add(asked_check(condition) if _is_asked(condition) else condition_check(condition))
        return self.steps

    def ask(self) -> None:
        """Check the conditions of a text as soon as what they are about is bound."""
        left: list[Condition] = []
        for condition in self.conditions:
            operators = {leaf.operator for leaf in condition.test.walk()}
            subjects = [leaf.arguments[0] for leaf in condition.test.walk() if leaf.operator == "node"]
            if _is_asked(condition) and "variable" not in operators and self.bound.issuperset(subjects):
                self.add(asked_check(condition))
            else:
                left.append(condition)
        self.conditions = left

    def uses_are_free(self) -> bool:
        """Whether one root with one result is all that goes: whoever else uses the others, and where, is no matter."""
        roots = self.pattern.roots
        return len(roots) == 1 and all(
            (term.shared or number == roots[0]) and term.results == 1 for number, term in self.pattern.operations()
        )

    def add(self, check: Check) -> None:
        self.steps.append(MatchStep(check))

    def unreached(self) -> Iterator[int]:
        """The remaining operations in an order in which each shares an operand with those bound before."""
        inner = self.pattern.inner
        while True:
            left = [
                term_index
                for term_index, _ in self.pattern.operations()
                if term_index not in self.bound and term_index not in self.variant.missing and term_index not in inner
            ]
            if not left:
                return
            near = [term_index for term_index in reversed(left) if self.shared_operand(term_index) is not None]
            if not near:
                raise RuleError(f"nothing connects '{self.pattern.name_of(left[0])}' with the rest of the pattern")
            yield near[0]

    def shared_operand(self, term_index: int) -> tuple[int, Reference] | None:
        for position, reference in self.positions(term_index):
            settled, _ = settle(self.pattern, self.variant, reference)
            if settled.term in self.bound:
                return position, settled
        return None

    def across(self, term_index: int) -> None:
        """Step from a bound operand to an operation that uses it."""
        shared = self.shared_operand(term_index)
        assert shared is not None
        position, reference = shared
        term = self.pattern.terms[term_index]
        assert isinstance(term, OperationTerm)
        missing = f"no {'/'.join(term.opcodes)} uses {self.pattern.name_of(reference.term)} too"
        self.steps.append(MatchStep(lambda match: "", users_like(term, reference, position), term_index, missing))
        self.bound.add(term_index)
        self.paths[term_index] = (
            f" of the {'/'.join(term.opcodes)} that uses {self.pattern.name_of(reference.term)} too"
        )
        self.down(term_index)

    def down(self, term_index: int) -> None:
        """Check an operation's arity and attributes, and then its operands."""
        pending = [term_index]
        while pending:
            current = pending.pop()
            term = self.pattern.terms[current]
            assert isinstance(term, OperationTerm)
            operands = self.variant.operands[current]
            variadic = any(self.is_variadic(operand) for operand in operands)
            count = len(operands) - variadic
            check = arity_check(current, count, variadic, self.name(current))
            is_count = current == self.variant.anchor and not variadic
            self.steps.append(MatchStep(check, operands=count if is_count else None))
            if not (term.effects or self.is_pure(term)):
                self.add(effect_check(current, self.name(current)))
            all_are_named = self.are_all_named(term)
            if not all_are_named or any(not isinstance(attribute, Anything) for _, attribute in term.attributes):
                self.add(attribute_check(current, term, self.name(current), all_are_named=all_are_named))
            for name, attribute in term.attributes:
                if isinstance(attribute, Computes):
                    self.computes(current, name, attribute)
            for position, reference in self.positions(current):
                below = self.operand(current, position, reference)
                if below is not None:
                    pending.append(below)
            self.ask()

    def operand(self, user: int, position: int, reference: Reference) -> int | None:
        """Add the steps for one operand; returns the operation below that remains to be visited."""
        if self.is_variadic(reference):
            after = len(self.variant.operands[user]) - 1 - position
            self.add(rest_check(user, position, after, reference.term, self.name(reference.term)))
            self.bound.add(reference.term)
            return None
        settled, _ = settle(self.pattern, self.variant, reference)
        term, name = self.pattern.terms[settled.term], self.name(settled.term)
        fetch = operand_of(user, position)
        path = f"operand {position}{self.paths[user]}"
        if settled.term in self.bound:
            self.add(same_check(fetch, settled, name, path))
            return None
        self.bound.add(settled.term)
        self.paths[settled.term] = f" of {path}"
        if isinstance(term, ValueTerm):
            check, is_plain = (
                value_check(fetch, settled.term, term, name),
                term.is_plain and user == self.variant.anchor,
            )
            self.steps.append(MatchStep(check, term=settled.term, position=position if is_plain else None))
            return None
        self.add(operation_check(fetch, settled, term, path))
        return settled.term

    def computes(self, user: int, name: str, attribute: Computes) -> None:
        """Match a graph that an operation calls: its parameters by number, and its output by the same steps."""
        self.add(graph_check(user, name, attribute, self.name(user)))
        self.bound.update(attribute.parameters)
        output, _ = settle(self.pattern, self.variant, attribute.output)
        term = self.pattern.terms[output.term]
        fetch = output_of(user, name)
        path = f"the output of {name}{self.paths[user]}"
        if output.term in self.bound:
            self.add(same_check(fetch, output, self.name(output.term), path))
            return
        self.bound.add(output.term)
        self.paths[output.term] = f" of {path}"
        if isinstance(term, ValueTerm):
            self.add(value_check(fetch, output.term, term, self.name(output.term)))
            return
        self.add(operation_check(fetch, output, term, path))
        self.down(output.term)

    def stand_in(self, term_index: int) -> None:
        """Bind a missing optional operation to nothing, so that expressions about it are None."""
        self.bound.add(term_index)

    def positions(self, term_index: int) -> Iterator[tuple[int, Reference]]:
        """The operands of an operation with their positions; those after a variadic one are counted from the end."""
        operands = self.variant.operands[term_index]
        rest = next((number for number, operand in enumerate(operands) if self.is_variadic(operand)), len(operands))
        for number, operand in enumerate(operands):
            yield number - len(operands) if number > rest else number, operand

    def is_variadic(self, reference: Reference) -> bool:
        term = self.pattern.terms[reference.term]
        return isinstance(term, ValueTerm) and term.variadic

    def name(self, term_index: int) -> str:
        return self.pattern.name_of(term_index)

    def are_all_named(self, term: OperationTerm) -> bool:
        """Whether a term says something of every attribute of its ops that means something."""
        named = {name for name, _ in term.attributes}
        rows = [self.rows.get(opcode) or OPS.get(opcode) for opcode in term.opcodes]
        return all(
            row is not None and all(own.carried or name in named for name, own in row.attributes.items())
            for row in rows
        )

    def is_pure(self, term: OperationTerm) -> bool:
        """Whether nodes with these opcodes never have an effect."""
        rows = [self.rows.get(opcode) or OPS.get(opcode) for opcode in term.opcodes]
        return all(row is not None and row.is_known and row.effect is None for row in rows)


def _is_asked(condition: Condition) -> bool:
    """Whether it is a condition of a text."""
    return any(leaf.operator == "holds" for leaf in condition.test.walk())
