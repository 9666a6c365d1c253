"""Cycle detection: finds rules that undo each other or never terminate, from the chain of rewrites behind a node.

Every rewrite is a record that links to the rewrite whose result it changed. Along such a chain the same rule must not
meet the same expression twice. Each record is compared with one ancestor only, which advances whenever the chain's
length is a power of two (Brent, An improved Monte Carlo factorization algorithm, BIT 20, 1980), so the check takes
constant time for any chain length.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from hloom.ir import Apply, Constant, Node
from hloom.rewrite.registry import RuleError
from hloom.rewrite.rule import Rule

_MAX_NAMED_RULES = 12
"""The maximum number of rules of a cycle to name in an error."""


@dataclass(slots=True, eq=False)
class RewriteRecord:
    """One rewrite in a chain: the rule, the expression that it met, and the rewrite before it.

    The expression is only recorded if a rule rewrites another rule's result: most chains end earlier, and a cycle will
    come around again. If a rule reaches an older node from below (as each transpose of a long chain meets the broadcast
    that it has become), an equal expression may occur without a cycle.
    """

    rule: Rule
    expression: Hashable = None
    before: RewriteRecord | None = None
    length: int = 1
    landmark: RewriteRecord | None = None


class CycleDetector:
    """The chains of rewrites behind the nodes of a module."""

    def __init__(self, node_count: int) -> None:
        self.longest = node_count + 1_000
        self._behind: dict[Node, RewriteRecord] = {}

    def enter(self, rule: Rule, root: Node, made: list[Node]) -> None:
        """Record that a rule made these nodes from what it matched at the root, which must be unchanged still.

        Raises RuleError if the rule met the same expression before in this chain, or if the chain exceeds the maximum
        length.
        """
        before = self._last_behind(root)
        entry = RewriteRecord(rule) if before is None else self._after(before, rule, root)
        for node in made:
            self._behind[node] = entry

    def _after(self, before: RewriteRecord, rule: Rule, root: Node) -> RewriteRecord:
        length, landmark = before.length + 1, before.landmark or before
        if length > self.longest:
            raise _never_ends(RewriteRecord(rule, None, before, length), root)
        if root not in self._behind:  # the rule reached this node from below: an equal expression does not mean a cycle
            return RewriteRecord(rule, None, before, length)
        entry = RewriteRecord(rule, _expression(root, rule.depth), before, length)
        if landmark.rule is rule and landmark.expression == entry.expression:
            raise _goes_round(_rules_between(entry, landmark), root)
        entry.landmark = landmark if length & (length - 1) else entry
        return entry

    def forget(self, node: Node) -> None:
        """Remove an erased node."""
        self._behind.pop(node, None)

    def _last_behind(self, root: Node) -> RewriteRecord | None:
        behind = self._behind
        latest = behind.get(root)
        if latest is None and behind:
            for operand in root.operands:
                entry = behind.get(operand)
                if entry and (latest is None or entry.length > latest.length):
                    latest = entry
        return latest


def _expression(node: Node, depth: int) -> Hashable:
    """The expression at a node down to some depth; below that, the nodes themselves."""
    if isinstance(node, Constant):
        return node.type, node.value
    if depth < 0 or not isinstance(node, Apply):
        return node
    inside = tuple([_expression(operand, depth - 1) for operand in node.operands])
    return node.function, node.type, node.attributes, inside


def _rules_between(entry: RewriteRecord, start: RewriteRecord) -> list[Rule]:
    rules: list[Rule] = []
    step: RewriteRecord | None = entry.before
    while step is not None:
        rules.append(step.rule)
        if step is start:
            break
        step = step.before
    return rules[::-1]


def _goes_round(rules: list[Rule], root: Node) -> RuleError:
    cycle = " -> ".join(str(rule) for rule in [*rules, rules[0]][: _MAX_NAMED_RULES + 1])
    return RuleError(
        f"rules undo each other at {root.name} of graph {root.graph.name}: {cycle}",
        hint="make the forms that they prefer agree, or give them to different passes",
    )


def _never_ends(entry: RewriteRecord, root: Node) -> RuleError:
    rules: dict[Rule, None] = {}
    step: RewriteRecord | None = entry
    for _ in range(2 * _MAX_NAMED_RULES):
        if step is not None:
            rules[step.rule] = None
            step = step.before
    names = " -> ".join(str(rule) for rule in reversed(rules))
    return RuleError(
        f"no end of rewriting at {root.name} of graph {root.graph.name}: {entry.length:,} rewrites one upon another, "
        f"the last by {names}",
        hint="each rule must make something smaller: operations, bytes, or distance to the form it prefers",
    )
