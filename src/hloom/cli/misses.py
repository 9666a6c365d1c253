"""Why rules did not fire at a node."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from hloom.cli.stepping import steps_of
from hloom.cli.stopping import stopped_at
from hloom.ir import Module, Node
from hloom.rewrite import Report, Rule, explain
from hloom.text import HloomError

UNSAID = "it does not match"
"""What the driver says of a native rule that gave up without a word."""


@dataclass(frozen=True, slots=True)
class Misses:
    """What each rule says to a node; an empty reason is a rule that would fire. `others` have other root opcodes."""

    node: str
    opcode: str
    when: str
    reasons: tuple[tuple[Rule, str], ...]
    others: int

    def lines(self) -> list[str]:
        found = [f"{self.node} ({self.opcode}), {self.when}:"]
        width = max((len(rule.name) for rule, _ in self.reasons), default=0)
        found += [f"  {rule.name:<{width}}  {reason or 'fires here'}" for rule, reason in self.reasons]
        if self.others:
            found.append(f"  rules that look at other opcodes: {self.others:,}")
        return found if len(found) > 1 else [*found, "  the passes have no rules"]

    def to_json(self) -> dict[str, Any]:
        return {
            "node": self.node,
            "opcode": self.opcode,
            "when": self.when,
            "rules": [{"rule": rule.name, "origin": _origin(rule), "reason": reason} for rule, reason in self.reasons],
            "others": self.others,
        }


def misses_at(name: str, before: Module, after: Module, report: Report) -> Misses:
    """Ask all rules that ran about a node: in the module as the passes left it, or as it was read if the node is gone.

    A name is a node's own, or `graph.node`. Raises HloomError where it is no node's, or that of several.
    """
    rules = [each.rule for each in report.all_rules()]
    nodes = _nodes(after, name)
    if nodes:
        return _asked(_only(nodes, name), "as the passes left it", rules)
    nodes = _nodes(before, name)
    if not nodes:
        known = {node.name for module in (before, after) for node in module.nodes()}
        near = get_close_matches(name.rpartition(".")[2] or name, known, 3) or get_close_matches(name, known, 3)
        raise HloomError(f"no node is called '{name}'", hint=f"near: {', '.join(near)}" if near else None)
    node = _only(nodes, name)
    fired = [step.rule for step in steps_of(report) if (step.graph, step.node) == (node.graph.name, node.name)]
    return _asked(node, f"as it was read; {fired[0]} replaced it" if fired else "as it was read; it is gone", rules)


def _asked(node: Node, when: str, rules: Iterable[Rule]) -> Misses:
    listed = list(dict.fromkeys(rules))
    near = [rule for rule in listed if node.opcode in rule.roots]
    node.graph.module.index_users()
    title = f"{node.graph.name}.{node.name}"
    reasons = tuple((rule, _with_line(reason, rule, node)) for rule, reason in explain(near, node))
    return Misses(title, node.opcode, when, reasons, len(listed) - len(near))


def _with_line(reason: str, rule: Rule, node: Node) -> str:
    """A reason; of native rules that give none, with the line that decided."""
    line = stopped_at(rule, node) if reason == UNSAID else ""
    return f"{reason}: {line}" if line else reason


def _nodes(module: Module, name: str) -> list[Node]:
    found = [graph[name] for graph in module.graphs if name in graph]
    for graph in module.graphs:
        inner = name.removeprefix(f"{graph.name}.")
        if inner != name and inner in graph:
            found.append(graph[inner])
    return found


def _only(nodes: list[Node], name: str) -> Node:
    if len(nodes) > 1:
        listed = ", ".join(f"{node.graph.name}.{node.name}" for node in nodes[:5])
        raise HloomError(f"several nodes are called '{name}': {listed}", hint="write graph.node")
    return nodes[0]


def _origin(rule: Rule) -> str | None:
    return None if rule.origin is None else str(rule.origin)
