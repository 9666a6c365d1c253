"""The report of a pipeline as tables: per pass, and per rule how often it was tried, matched, and was rejected why."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import RenderableType
from rich.table import Table

import hloom
from hloom.cli.tables import new_table
from hloom.passes import Pass, leaf_passes
from hloom.rewrite import Origin, Report, Rule, RuleReport, merged

MOST_RULES = 40
"""How many rules the table shows; JSON has all."""
MOST_CLAUSES = 3
"""How many reasons a rule's line shows."""
PACKAGE = Path(hloom.__file__).parent


@dataclass(slots=True)
class _Row:
    """What all runs of one pass did."""

    name: str
    runs: int = 0
    matched: int = 0
    erased: int = 0
    changed: int = 0
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)


def report_tables(pipeline: Pass, report: Report) -> Iterator[RenderableType]:
    """The tables of a pipeline: its passes, and their rules that were tried."""
    ran = [(leaf.name, inner) for leaf, inner in leaf_passes(pipeline, report)]
    yield _pass_table(_rows(ran))
    rules = _merged(rule_report for _, inner in ran for rule_report in inner.all_rules() if rule_report.tried)
    if rules:
        yield _rule_table(rules[:MOST_RULES])
    if len(rules) > MOST_RULES:
        yield f"and {len(rules) - MOST_RULES:,} more rules tried; --json lists all"
    untried = len({rule_report.rule for _, inner in ran for rule_report in inner.all_rules()}) - len(rules)
    if untried:
        yield f"{untried:,} rules found no candidate instruction"


def pass_list(passes: Iterable[Pass]) -> Table:
    """Passes and what they do."""
    table = new_table(None, "pass", "what it does", "options")
    for listed in passes:
        table.add_row(listed.name, listed.summary, ", ".join(listed.options))
    return table


def rule_list(rules: Iterable[Rule]) -> Table:
    """Rules, the first lines of their statements, why they are native, and their locations in source files."""
    table = new_table(None, "rule", "family", "what it does", "where")
    for rule in rules:
        because = f"\nnative: it {rule.because}" if rule.because else ""
        table.add_row(rule.name, rule.family, f"{first_line(rule)}{because}", short_location(rule.origin))
    return table


def first_line(rule: Rule) -> str:
    """The first line of a rule's statement."""
    return rule.statement.strip().split("\n")[0].strip()


def short_location(origin: Origin | None) -> str:
    """A rule's file and line, relative to the package or to the working directory where it is below one of them."""
    if origin is None:
        return ""
    path = Path(origin.file)
    if path.is_relative_to(PACKAGE):
        path = path.relative_to(PACKAGE.parent)
    elif path.is_relative_to(os.getcwd()):
        path = path.relative_to(os.getcwd())
    return f"{path}:{origin.line}"


def _rows(ran: Iterable[tuple[str, Report]]) -> list[_Row]:
    rows: dict[str, _Row] = {}
    for name, report in ran:
        row = rows.setdefault(name, _Row(name))
        row.runs += 1
        row.matched += report.matched
        row.erased += report.erased
        row.changed += report.changed
        row.seconds += report.seconds
        row.notes += report.notes
    return list(rows.values())


def _pass_table(rows: Iterable[_Row]) -> Table:
    table = new_table(None, "pass", ">runs", ">changed", ">rules fired", ">erased", ">ms", "notes")
    for row in rows:
        numbers = (row.runs, row.changed, row.matched, row.erased)
        counts = (f"{number:,}" for number in numbers)
        table.add_row(row.name, *counts, _milliseconds(row.seconds), "; ".join(row.notes))
    return table


def _merged(reports: Iterable[RuleReport]) -> list[RuleReport]:
    """One report per rule: those that fired most first, then those that took longest."""
    by_rule: dict[Rule, list[RuleReport]] = {}
    for rule_report in reports:
        by_rule.setdefault(rule_report.rule, []).append(rule_report)
    return sorted(map(merged, by_rule.values()), key=lambda rule_report: (-rule_report.matched, -rule_report.seconds))


def _rule_table(reports: Iterable[RuleReport]) -> Table:
    table = new_table(None, "rule", ">tried", ">matched", ">ms", "rejected")
    for rule_report in reports:
        numbers = (f"{rule_report.tried:,}", f"{rule_report.matched:,}", _milliseconds(rule_report.seconds))
        table.add_row(rule_report.rule.name, *numbers, _clauses(rule_report))
    return table


def _clauses(report: RuleReport) -> str:
    lines = [f"{count:,} x {reason}" for reason, count in report.rejected.most_common(MOST_CLAUSES)]
    if len(report.rejected) > MOST_CLAUSES:
        lines.append(f"{len(report.rejected) - MOST_CLAUSES:,} more reasons")
    return "\n".join(lines)


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.1f}"
