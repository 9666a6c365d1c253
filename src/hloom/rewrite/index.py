"""Which rules may match at a node: by the root's opcode, and then by what is told apart soonest beneath it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hloom.ir import Apply, Node
from hloom.rewrite.builder import Builder
from hloom.rewrite.matching import attempts_of
from hloom.rewrite.probes import Probe, Probes, probe
from hloom.rewrite.rule import Rule

_FEW = 3
"""So many rules are tried one after the other rather than told apart further."""
_MOST_QUESTIONS = 6


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A way for a rule to match: `probes` are facts about a node without which it cannot."""

    rule: Rule
    attempt: Callable[[Builder, Apply], Mapping[Node, Node] | None]
    probes: Probes


class RuleIndex:
    """Rules, found by what a node and its operands are."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = tuple(dict.fromkeys(rules))
        self.depth = max((rule.depth for rule in self.rules), default=1)
        ordered = sorted(self.rules, key=lambda rule: -rule.benefit)  # sorted is stable: then by definition
        by_root: dict[str, list[Candidate]] = {}
        for rule in ordered:
            for root, attempt, probes in attempts_of(rule):
                by_root.setdefault(root, []).append(Candidate(rule, attempt, probes))
        self._all = {root: tuple(candidates) for root, candidates in by_root.items()}
        self._tree = {root: _tell_apart(candidates, 0) for root, candidates in by_root.items()}
        self.roots = frozenset(by_root)

    def at(self, node: Node) -> tuple[Candidate, ...]:
        """The candidates that may match at a node, the most beneficial first."""
        found = self._tree.get(node.opcode, ())
        while isinstance(found, _Question):
            found = found.answers.get(probe(found.probe, node), found.otherwise)
        return found

    def all_at(self, node: Node) -> tuple[Candidate, ...]:
        """All candidates whose root has the node's opcode."""
        return self._all.get(node.opcode, ())


@dataclass(frozen=True, slots=True)
class _Question:
    """A probe whose answer leaves fewer candidates."""

    probe: Probe
    answers: Mapping[Any, Any]
    otherwise: Any


def _tell_apart(candidates: list[Candidate], asked: int) -> _Question | tuple[Candidate, ...]:
    if len(candidates) <= _FEW or asked == _MOST_QUESTIONS:
        return tuple(candidates)
    counts: dict[Probe, int] = {}
    for candidate in candidates:
        for each in candidate.probes:
            counts[each] = counts.get(each, 0) + 1
    best = max(counts, key=lambda each: counts[each], default=None)
    if best is None or counts[best] < _FEW:
        return tuple(candidates)
    answers = {answer: None for candidate in candidates for answer in candidate.probes.get(best, ())}
    split = {
        answer: _tell_apart(_asked(best, [c for c in candidates if answer in c.probes.get(best, (answer,))]), asked + 1)
        for answer in answers
    }
    rest = _asked(best, [candidate for candidate in candidates if best not in candidate.probes])
    return _Question(best, split, _tell_apart(rest, asked + 1))


def _asked(question: Probe, candidates: list[Candidate]) -> list[Candidate]:
    """The candidates, without the probe whose answer is known by now."""
    return [
        Candidate(each.rule, each.attempt, {other: each.probes[other] for other in each.probes if other != question})
        for each in candidates
    ]
