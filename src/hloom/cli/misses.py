"""Missed rewrites: the reason of each rule why it does not fire at a node."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from types import CodeType, FrameType
from typing import Any, NamedTuple

from hloom.cli.pass_report import short_location
from hloom.cli.steps import steps_of
from hloom.ir import Apply, Module, Node
from hloom.rewrite import Builder, Origin, Report, Rule, explain
from hloom.text import HloomError, Record, names_meant

NO_REASON = "it does not match"
"""The driver's reason for a native rule that gave up without one."""
_RETURNS = ("return", "return None")


class RuleReason(NamedTuple):
    """A rule, and why it does not fire; an empty reason is that of a rule that would."""

    rule: Rule
    reason: str
    json_keys = "rule=rule.name origin reason"

    @property
    def origin(self) -> str | None:
        """Where the rule is written: file and line."""
        return None if self.rule.origin is None else str(self.rule.origin)


@dataclass(frozen=True, slots=True)
class Misses(Record):
    """What each rule says to a node; an empty reason is a rule that would fire. `others` have other root opcodes."""

    node: str
    opcode: str
    when: str
    reasons: tuple[RuleReason, ...]
    others: int
    json_keys = "node opcode when rules=reasons others"

    def lines(self) -> list[str]:
        lines = [f"{self.node} ({self.opcode}), {self.when}:"]
        width = max((len(rule.name) for rule, _ in self.reasons), default=0)
        lines += [f"  {rule.name:<{width}}  {reason or 'fires here'}" for rule, reason in self.reasons]
        if self.others:
            lines.append(f"  rules for other opcodes: {self.others:,}")
        return lines if len(lines) > 1 else [*lines, "  the passes have no rules"]


def misses_at(name: str, before: Module, after: Module, report: Report) -> Misses:
    """Ask all rules that ran about a node: in the module as the passes left it, or as it was read if the node is gone.

    A name is a node's own, or `graph.node`. Raises HloomError where it is not a node's, or that of several.
    """
    rules = [rule_report.rule for rule_report in report.all_rules()]
    nodes = _nodes(after, name)
    if nodes:
        return _asked(_only(nodes, name), "as the passes left it", rules)
    nodes = _nodes(before, name)
    if not nodes:
        known = {node.name for module in (before, after) for node in module.nodes()}
        near = get_close_matches(name.rpartition(".")[2] or name, known, 3) or get_close_matches(name, known, 3)
        raise HloomError(f"no instruction is called '{name}'", hint=f"near: {', '.join(near)}" if near else None)
    node = _only(nodes, name)
    fired = [step.rule for step in steps_of(report) if (step.graph, step.node) == (node.graph.name, node.name)]
    return _asked(
        node, f"as it was read; {fired[0]} replaced it" if fired else "as it was read; it has been removed", rules
    )


def _asked(node: Node, when: str, rules: Iterable[Rule]) -> Misses:
    listed = list(dict.fromkeys(rules))
    near = [rule for rule in listed if node.opcode in rule.roots]
    node.graph.module.index_users()
    title = f"{node.graph.name}.{node.name}"
    reasons = tuple(RuleReason(rule, _with_line(reason, rule, node)) for rule, reason in explain(near, node))
    return Misses(title, node.opcode, when, reasons, len(listed) - len(near))


def _with_line(reason: str, rule: Rule, node: Node) -> str:
    """A reason; of native rules that give none, with the line that decided."""
    line = _last_line(rule, node) if reason == NO_REASON else ""
    return f"{reason}: {line}" if line else reason


def _nodes(module: Module, name: str) -> list[Node]:
    """The nodes that a name may mean: by their whole names, else without numbers."""
    exact = [graph[name] for graph in module.graphs if name in graph]
    for graph in module.graphs:
        inner = name.removeprefix(f"{graph.name}.")
        if inner != name and inner in graph:
            exact.append(graph[inner])
    if exact:
        return exact
    meant = list[Node]()
    for graph in module.graphs:
        prefixes = ["", f"{graph.name}.", f"{graph.name.partition('.')[0]}."]
        for own in dict.fromkeys(name.removeprefix(prefix) for prefix in prefixes):
            meant += [graph[whole] for whole in names_meant(own, (node.name for node in graph.nodes))]
    return list(dict.fromkeys(meant))


def _only(nodes: list[Node], name: str) -> Node:
    if len(nodes) > 1:
        listed = ", ".join(f"{node.graph.name}.{node.name}" for node in nodes[:5])
        raise HloomError(f"several instructions are called '{name}': {listed}", hint="write COMPUTATION.INSTRUCTION")
    return nodes[0]


def _last_line(rule: Rule, node: Node) -> str:
    """The location and text of the line after which a native rule gave up at a node; empty where that is unknown."""
    if not rule.native or not isinstance(node, Apply):
        return ""
    code = getattr(rule.function, "__code__", None)
    if not isinstance(code, CodeType):
        return ""
    lines = _lines_run(rule, node, code)
    while lines and _source(code, lines[-1]) in _RETURNS:
        lines.pop()
    if not lines:
        return ""
    return f"{short_location(Origin(code.co_filename, lines[-1]))}: {_source(code, lines[-1])}"


def _lines_run(rule: Rule, node: Apply, code: CodeType) -> list[int]:
    """The lines of the rule's own function that ran, in order."""
    lines: list[int] = []

    def watch(frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code is not code:
            return None
        if event == "line":
            lines.append(frame.f_lineno)
        return watch

    build, before = Builder(node, rule.rows), sys.gettrace()
    sys.settrace(watch)
    try:
        rule.function(build, node)
    except HloomError:
        return lines
    finally:
        sys.settrace(before)
        build.discard()
    return lines


def _source(code: CodeType, line: int) -> str:
    return linecache.getline(code.co_filename, line).strip()
