"""The rule index: which rules may match at a node, by opcode and then by a decision tree of questions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hloom.ir import Node
from hloom.rewrite.questions import Answers, Question, answer_to
from hloom.rewrite.rule import Rule
from hloom.rewrite.rule_compiler import Attempt, compile_rule

_LEAF_SIZE = 3
"""So many rules are tried one after the other rather than told apart further."""
_MAX_DEPTH = 6
"""How many questions lead to a leaf of the decision tree: with two answers each they tell 64 groups of rules apart."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A way for a rule to match: `answers` are facts about a node without which it cannot."""

    rule: Rule
    attempt: Attempt
    answers: Answers


class RuleIndex:
    """Rules, found by what a node and its operands are."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = tuple(dict.fromkeys(rules))
        self.depth = max((rule.depth for rule in self.rules), default=1)
        ordered = sorted(self.rules, key=lambda rule: -rule.benefit)  # sorted is stable: then by definition
        by_root: dict[str, list[Candidate]] = {}
        for rule in ordered:
            for root, attempt, answers in compile_rule(rule):
                by_root.setdefault(root, []).append(Candidate(rule, attempt, answers))
        self._all = {root: tuple(candidates) for root, candidates in by_root.items()}
        self._tree = {root: _build_decision_tree(candidates, 0) for root, candidates in by_root.items()}
        self.roots = frozenset(by_root)

    def at(self, node: Node) -> tuple[Candidate, ...]:
        """The candidates that may match at a node, the most beneficial first."""
        branch = self._tree.get(node.opcode, ())
        while isinstance(branch, _Decision):
            branch = branch.answers.get(answer_to(branch.answer_to, node), branch.otherwise)
        return branch

    def all_at(self, node: Node) -> tuple[Candidate, ...]:
        """All candidates whose root has the node's opcode."""
        return self._all.get(node.opcode, ())


@dataclass(frozen=True, slots=True)
class _Decision:
    """A probe whose answer leaves fewer candidates."""

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
    answers = {answer: None for candidate in candidates for answer in candidate.answers.get(best, ())}
    split = {
        answer: _build_decision_tree(
            _without_question(best, [c for c in candidates if answer in c.answers.get(best, (answer,))]), asked + 1
        )
        for answer in answers
    }
    rest = _without_question(best, [candidate for candidate in candidates if best not in candidate.answers])
    return _Decision(best, split, _build_decision_tree(rest, asked + 1))


def _without_question(question: Question, candidates: list[Candidate]) -> list[Candidate]:
    """The candidates, without the probe whose answer is known by now."""
    return [
        Candidate(
            candidate.rule,
            candidate.attempt,
            {other: candidate.answers[other] for other in candidate.answers if other != question},
        )
        for candidate in candidates
    ]
