"""From a rule to attempts: functions that look at a node and say what replaces it.

A pattern with commutative or optional operations is matched in several ways; each way is a list of steps without
choices, but for roots that are found from the operands they share (then the steps backtrack over users).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from hloom.ir import Apply, Node
from hloom.rewrite.builder import Builder
from hloom.rewrite.making import maker_of
from hloom.rewrite.match import Match
from hloom.rewrite.pattern import OperationTerm
from hloom.rewrite.probes import Probes
from hloom.rewrite.rule import Rule
from hloom.rewrite.steps import steps_of
from hloom.rewrite.ways import Way, ways_of

Attempt = Callable[[Builder, Apply], Mapping[Node, Node] | None]


def attempts_of(rule: Rule) -> Iterator[tuple[str, Attempt, Probes]]:
    """The ways in which a rule may match: the root's opcode, what to try there, and what must be so before."""
    if rule.native:
        attempt = _native(rule)
        for root in rule.roots:
            yield root, attempt, {}
        return
    assert rule.pattern is not None, f"rule {rule} has no pattern"
    for way in ways_of(rule.pattern):
        attempt = _declared(rule, way)
        anchor = rule.pattern.terms[way.anchor]
        assert isinstance(anchor, OperationTerm)
        for opcode in anchor.opcodes:
            yield opcode, attempt, way.probes


def _native(rule: Rule) -> Attempt:
    function = rule.function

    def attempt(build: Builder, node: Apply) -> Mapping[Node, Node] | None:
        replacement = function(build, node)
        return None if replacement is None else {node: replacement}

    return attempt


def _declared(rule: Rule, way: Way) -> Attempt:
    pattern = rule.pattern
    assert pattern is not None
    steps = steps_of(pattern, way, rule.rows)
    make = maker_of(pattern)
    size, anchor = len(pattern.terms), way.anchor

    def attempt(build: Builder, node: Apply) -> Mapping[Node, Node] | None:
        match = Match(size)
        match.slots[anchor] = node
        if not _run(steps, match):
            build.reason = match.reason
            return None
        return make(build, match)

    return attempt


def _run(steps: list, match: Match) -> bool:
    """Take all steps; where a step gives choices, try them one after the other."""
    for place, step in enumerate(steps):
        if step.choices is None:
            reason = step.take(match)
            if reason:
                if place > match.furthest:
                    match.furthest, match.reason = place, reason
                return False
            continue
        return _choose(steps, place, match)
    return True


def _choose(steps: list, place: int, match: Match) -> bool:
    kept, variables = list(match.slots), dict(match.variables)
    for choice in steps[place].choices(match):
        match.slots[:] = kept
        match.variables = dict(variables)
        match.slots[steps[place].term] = choice
        if _run(steps[place + 1 :], match):
            return True
    if place >= match.furthest:
        match.furthest, match.reason = place, match.reason or steps[place].reason
    return False
