"""From a rule to attempts: functions that look at a node and say what replaces it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from hloom.ir import Apply, Node
from hloom.rewrite.builder import Builder
from hloom.rewrite.probes import Probes
from hloom.rewrite.rule import Rule

Attempt = Callable[[Builder, Apply], Mapping[Node, Node] | None]


def attempts_of(rule: Rule) -> Iterator[tuple[str, Attempt, Probes]]:
    """The ways in which a rule may match: the root's opcode, what to try there, and what must be so before."""
    if rule.native:
        attempt = _native(rule)
        for root in rule.roots:
            yield root, attempt, {}


def _native(rule: Rule) -> Attempt:
    function = rule.function

    def attempt(build: Builder, node: Apply) -> Mapping[Node, Node] | None:
        replacement = function(build, node)
        return None if replacement is None else {node: replacement}

    return attempt
