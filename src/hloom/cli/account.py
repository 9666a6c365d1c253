"""What passes did, as tables: per pass, and per rule what was tried, what matched and what stood in the way."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

import hloom
from hloom.passes import Pass
from hloom.passes.pipeline import leaves
from hloom.rewrite import Origin, Report, Rule, RuleReport
from hloom.rewrite.report import merged

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


def account_tables(pipeline: Pass, report: Report) -> Iterator[RenderableType]:
    """The tables of a pipeline: its passes, and their rules that were tried."""
    ran = [(each.name, inner) for each, inner in leaves(pipeline, report)]
    yield _pass_table(_rows(ran))
    rules = _merged(each for _, inner in ran for each in inner.all_rules() if each.tried)
    if rules:
        yield _rule_table(rules[:MOST_RULES])
    if len(rules) > MOST_RULES:
        yield Text(f"and {len(rules) - MOST_RULES:,} more rules that were tried; --json has all")
    untried = len({each.rule for _, inner in ran for each in inner.all_rules()}) - len(rules)
    if untried:
        yield Text(f"{untried:,} rules found nothing to look at")


def pass_list(passes: Iterable[Pass]) -> Table:
    """Passes and what they do."""
    table = _table("pass", "what it does", "options")
    for each in passes:
        table.add_row(each.name, Text(each.summary), ", ".join(each.options))
    return table


def rule_list(rules: Iterable[Rule]) -> Table:
    """Rules, the first lines of what they say, and where they stand."""
    table = _table("rule", "family", "what it does", "where")
    for rule in rules:
        table.add_row(Text(rule.name), rule.family, Text(first_line(rule)), Text(short_place(rule.origin)))
    return table


def first_line(rule: Rule) -> str:
    """The first line of a rule's statement."""
    return rule.statement.strip().split("\n")[0].strip()


def short_place(origin: Origin | None) -> str:
    """Where a rule stands: from the package, or from the working directory, where it is below one of them."""
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
    table = _table("pass", "runs", "changed", "rules fired", "nodes erased", "ms", "notes")
    for row in rows:
        numbers = (row.runs, row.changed, row.matched, row.erased)
        table.add_row(row.name, *(f"{each:,}" for each in numbers), _milliseconds(row.seconds), "; ".join(row.notes))
    return table


def _merged(accounts: Iterable[RuleReport]) -> list[RuleReport]:
    """One account per rule: those that fired most first, then those that took longest."""
    by_rule: dict[Rule, list[RuleReport]] = {}
    for each in accounts:
        by_rule.setdefault(each.rule, []).append(each)
    return sorted(map(merged, by_rule.values()), key=lambda each: (-each.matched, -each.seconds))


def _rule_table(accounts: Iterable[RuleReport]) -> Table:
    table = _table("rule", "tried", "matched", "ms", "rejected")
    for each in accounts:
        numbers = (f"{each.tried:,}", f"{each.matched:,}", _milliseconds(each.seconds))
        table.add_row(Text(each.rule.name), *numbers, Text(_clauses(each)))
    return table


def _clauses(account: RuleReport) -> str:
    lines = [f"{count:,} x {reason}" for reason, count in account.rejected.most_common(MOST_CLAUSES)]
    if len(account.rejected) > MOST_CLAUSES:
        lines.append(f"and for {len(account.rejected) - MOST_CLAUSES:,} more reasons")
    return "\n".join(lines)


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.1f}"


_NUMBERS = frozenset(("runs", "changed", "rules fired", "nodes erased", "ms", "tried", "matched"))


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        table.add_column(name, justify="right" if name in _NUMBERS else "left", overflow="fold")
    table.columns[0].style = "cyan"
    return table
