"""Compiles rules into attempts: functions of a node that return its replacement.

Each match variant of a pattern is a sequence of steps without choices, except for roots reached from shared operands:
there the steps backtrack over users.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from hloom.ir import Apply, Node, Op
from hloom.rewrite.builder import Builder
from hloom.rewrite.match import Match
from hloom.rewrite.match_steps import MatchStep, match_steps_of
from hloom.rewrite.match_variants import MatchVariant, variants_of
from hloom.rewrite.pattern import OperationTerm, Pattern
from hloom.rewrite.questions import Answers
from hloom.rewrite.replacement import compile_replacement
from hloom.rewrite.rule import Rule

Attempt = Callable[[Builder, Apply], Mapping[Node, Node] | Node | None]
"""Given a node, returns the replacements of several nodes, or of that node; None if the rule does not match."""


def compile_rule(rule: Rule) -> Iterator[tuple[str, Attempt, Answers]]:
    """The ways in which a rule may match: the root's opcode, the attempt, and its necessary conditions."""
    if rule.native:
        for root in rule.roots:
            yield root, rule.function if rule.text is None else rule.text.attempt(root), {}
        return
    assert rule.pattern is not None, f"rule {rule} has no pattern"
    for variant in variants_of(rule.pattern):
        attempt = _declared(rule, variant)
        anchor = rule.pattern.terms[variant.anchor]
        assert isinstance(anchor, OperationTerm)
        for opcode in anchor.opcodes:
            yield opcode, attempt, variant.answers


def attempt_at(attempt: Attempt, build: Builder, node: Apply) -> Mapping[Node, Node] | None:
    """The replacements that an attempt at a node returns; None if the rule does not match."""
    result = attempt(build, node)
    return None if result is None else replacement_of(result, node)


def replacement_of(result: Mapping[Node, Node] | Node, node: Apply) -> Mapping[Node, Node]:
    """The replacements that a successful attempt at a node returns."""
    return result if isinstance(result, Mapping) else {node: result}


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """One variant of a pattern, compiled: the steps of its match, and what makes the replacement.

    If all it asks of a node is how many operands it has, `bound` are the terms with their operands.
    """

    size: int
    anchor: int
    steps: list[MatchStep]
    make: Callable[[Builder, Match], Mapping[Node, Node] | None]
    operands: int = -1
    bound: tuple[tuple[int, int], ...] = ()

    def match_at(self, node: Apply) -> Match:
        """The match at a node; `furthest` is the number of the step that failed, -1 if none did."""
        match = Match(self.size)
        match.slots[self.anchor] = node
        if len(node.operands) == self.operands:
            for term, position in self.bound:
                match.slots[term] = node.operands[position]
        elif _run(self.steps, match):
            match.furthest = -1
        return match


def form_of(pattern: Pattern, variant: MatchVariant, rows: Mapping[str, Op]) -> Form:
    """A variant of a pattern, compiled."""
    steps, make = match_steps_of(pattern, variant, rows), compile_replacement(pattern)
    counts = [step.operands for step in steps if step.operands is not None]
    bound = [(step.term, step.position) for step in steps if step.position is not None]
    if len(counts) + len(bound) < len(steps):
        return Form(len(pattern.terms), variant.anchor, steps, make)
    return Form(len(pattern.terms), variant.anchor, steps, make, counts[0], tuple(bound))


def _declared(rule: Rule, variant: MatchVariant) -> Attempt:
    assert rule.pattern is not None
    form = form_of(rule.pattern, variant, rule.rows)

    def attempt(build: Builder, node: Apply) -> Mapping[Node, Node] | None:
        match = form.match_at(node)
        if match.furthest >= 0:
            build.reason, build.culprit = match.reason, match.reported
            return None
        return form.make(build, match)

    return attempt


def _run(steps: list[MatchStep], match: Match) -> bool:
    """Run all steps; backtrack over the choices of steps that have several."""
    for index, step in enumerate(steps):
        if step.choices is not None:
            return _choose(steps, index, step.choices, match)
        reason = step.take(match)
        if reason:
            if index > match.furthest:
                match.furthest, match.reason, match.reported = index, reason, match.culprit
            match.culprit = None
            return False
    return True


def _choose(steps: list[MatchStep], index: int, choices: Callable[[Match], Iterator[Node]], match: Match) -> bool:
    kept, variables = list(match.slots), dict(match.variables)
    for choice in choices(match):
        match.slots[:] = kept
        match.variables = dict(variables)
        match.slots[steps[index].term] = choice
        if _run(steps[index + 1 :], match):
            return True
    if index >= match.furthest:
        match.furthest, match.reason = index, match.reason or steps[index].reason
    return False
