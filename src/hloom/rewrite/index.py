"""The rule index: finds the rules that may match at a node, by opcode, then by signature, then by a decision tree.

The signature (`requirements.py`) is read once for all rules of an opcode. The rules it leaves are computed when it
first occurs, and cached.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hloom.ir import Node
from hloom.rewrite.questions import Answers, Question, answer_to
from hloom.rewrite.requirements import Requirement, Signature, requirements_of, signature_of
from hloom.rewrite.rule import Rule
from hloom.rewrite.rule_compiler import Attempt, compile_rule

_LEAF_SIZE = 3
"""Up to this many rules are tried one after the other instead of being split further."""
MOST_SIGNATURES = 4096
"""The maximum number of cached signatures per opcode: programs have a few hundred."""
_MAX_DEPTH = 6
"""The maximum depth of the decision tree: with binary answers, it distinguishes 64 groups of rules."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """One way for a rule to match; `answers` and `requires` are necessary conditions on a node."""

    rule: Rule
    attempt: Attempt
    answers: Answers
    requires: tuple[Requirement, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class PassedOver:
    """The declared rules that a signature rules out, with reasons."""

    reasons: tuple[tuple[Rule, str], ...]


class RuleIndex:
    """Looks up rules by the properties of a node and its operands."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = tuple(dict.fromkeys(rules))
        self.depth = max((rule.depth for rule in self.rules), default=1)
        ordered = sorted(self.rules, key=lambda rule: -rule.benefit)  # stable: ties by definition
        by_root: dict[str, list[Candidate]] = {}
        for rule in ordered:
            for root, attempt, answers in compile_rule(rule):
                requires = (*rule.requires, *requirements_of(answers))
                by_root.setdefault(root, []).append(Candidate(rule, attempt, answers, requires))
        self._all = {root: tuple(candidates) for root, candidates in by_root.items()}
        self._roots = {root: _Root(candidates) for root, candidates in by_root.items()}
        self.roots = frozenset(by_root)

    def at(self, node: Node, passed_over: dict[PassedOver, int] | None = None) -> tuple[Candidate, ...]:
        """The candidates that may match at a node, by decreasing benefit; counts those that the signature rules out."""
        root = self._roots.get(node.opcode)
        if root is None:
            return ()
        branch = root.whole
        if root.is_told_apart:
            signature = signature_of(node)
            known = root.known.get(signature) or root.learn(signature)
            branch, missed = known.tree, known.missed
            if missed is not None and passed_over is not None:
                passed_over[missed] = passed_over.get(missed, 0) + 1
        while isinstance(branch, _Decision):
            branch = branch.answers.get(answer_to(branch.answer_to, node), branch.otherwise)
        return branch

    def all_at(self, node: Node) -> tuple[Candidate, ...]:
        """All candidates whose root has the node's opcode."""
        return self._all.get(node.opcode, ())


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """The candidates that a signature leaves, as a decision tree, and those it rules out."""

    tree: _Decision | tuple[Candidate, ...]
    missed: PassedOver | None


class _Root:
    """The candidates of one opcode, and what each signature leaves of them."""

    __slots__ = ("candidates", "is_told_apart", "known", "whole")

    def __init__(self, candidates: list[Candidate]) -> None:
        self.candidates = candidates
        self.is_told_apart = len(candidates) > _LEAF_SIZE or any(candidate.requires for candidate in candidates)
        self.whole = _build_decision_tree(candidates, 0)
        self.known: dict[Signature, _Known] = {}

    def learn(self, signature: Signature) -> _Known:
        """Compute what a signature leaves of the candidates."""
        if len(self.known) >= MOST_SIGNATURES:
            self.known.clear()
        left: list[Candidate] = []
        reasons: list[tuple[Rule, str]] = []
        for candidate in self.candidates:
            unmet = next((part for part in candidate.requires if not part.admits(signature)), None)
            if unmet is None:
                left.append(candidate)
            elif not candidate.rule.native:
                reasons.append((candidate.rule, unmet.reason(signature)))
        missed = PassedOver(tuple(reasons)) if reasons else None
        known = self.known[signature] = _Known(_build_decision_tree(left, 0), missed)
        return known


@dataclass(frozen=True, slots=True)
class _Decision:
    """A question whose answer leaves fewer candidates."""

    answer_to: Question
    answers: Mapping[Any, Any]
    otherwise: Any


def _build_decision_tree(candidates: list[Candidate], asked: int) -> _Decision | tuple[Candidate, ...]:
    if len(candidates) <= _LEAF_SIZE or asked == _MAX_DEPTH:
        return tuple(candidates)
    counts: dict[Question, int] = {}
    for candidate in candidates:
        for question in candidate.answers:
            counts[question] = counts.get(question, 0) + 1
    best = max(counts, key=lambda question: counts[question], default=None)
    if best is None or counts[best] < _LEAF_SIZE:
        return tuple(candidates)
    left: dict[Any, list[Candidate]] = {
        answer: [] for candidate in candidates for answer in candidate.answers.get(best, ())
    }
    for candidate in candidates:
        for answer in dict.fromkeys(candidate.answers.get(best, left)):
            left[answer].append(candidate)
    split = {answer: _build_decision_tree(_without_question(best, some), asked + 1) for answer, some in left.items()}
    rest = _without_question(best, [candidate for candidate in candidates if best not in candidate.answers])
    return _Decision(best, split, _build_decision_tree(rest, asked + 1))


def _without_question(question: Question, candidates: list[Candidate]) -> list[Candidate]:
    """The candidates without the question that has been answered."""
    return [
        Candidate(
            candidate.rule,
            candidate.attempt,
            {other: candidate.answers[other] for other in candidate.answers if other != question},
            candidate.requires,
        )
        for candidate in candidates
    ]
