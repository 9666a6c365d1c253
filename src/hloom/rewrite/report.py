"""Reports of a run of rules: per rule the attempts, matches and reasons for failure; and every step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from hloom.ir import Node
from hloom.rewrite.rule import Rule
from hloom.text import Display, Displayed, DisplayTable, Record


@dataclass(slots=True)
class RuleReport(Record):
    """The statistics of one rule: attempts, matches, reasons for failure, and seconds."""

    rule: Rule
    tried: int = 0
    matched: int = 0
    seconds: float = 0.0
    rejected: Counter[str] = field(default_factory=Counter[str])
    json_keys = "rule=rule.name family=rule.family tried matched seconds rejected"


class Step(NamedTuple):
    """One rewrite: the rule, the graph, and the name of the node at which it fired."""

    rule: str
    graph: str
    node: str
    json_keys = "rule computation=graph name=node"

    def __str__(self) -> str:
        return f"{self.rule} at {self.graph}.{self.node}"


@dataclass(slots=True, repr=False)
class Report(Displayed, Record):
    """What one pass did to a module; `name` is the pass's name.

    `touched`, if recorded, are the nodes that it made, changed, or left with one user: rules that found nothing to
    change before are then only tried at these and their users. A pipeline drops them after using them.
    """

    name: str = "rules"
    rules: list[RuleReport] = field(default_factory=list[RuleReport])
    steps: list[Step] = field(default_factory=list[Step])
    erased: int = 0
    notes: list[str] = field(default_factory=list[str])
    passes: list[Report] = field(default_factory=list["Report"])
    changes: int = 0
    seconds: float = 0.0
    touched: set[Node] | None = field(default=None, repr=False, compare=False)
    json_keys = "pass=name changed matched erased seconds notes rules=tried_rules steps passes"

    @property
    def changed(self) -> bool:
        """Whether anything in the module changed."""
        return bool(self.steps or self.erased or self.changes) or any(part.changed for part in self.passes)

    @property
    def matched(self) -> int:
        """The number of times that rules fired, including the parts of a pipeline."""
        return len(self.steps) + sum(part.matched for part in self.passes)

    def add(self, later: Report) -> None:
        """Add the results of a later run of the same pass."""
        self.rules += later.rules
        self.steps += later.steps
        self.notes += later.notes
        self.passes += later.passes
        self.erased += later.erased
        self.changes += later.changes
        self.seconds += later.seconds
        self.touched = None if self.touched is None or later.touched is None else self.touched | later.touched

    def display(self) -> Display:
        """The passes, and the rules that fired."""
        counts: Counter[str] = Counter()
        for account in self.all_rules():
            counts[account.rule.name] += account.matched
        fired = [(name, count) for name, count in counts.most_common() if count]
        parts = [(part.name, part.matched, part.erased, part.seconds) for part in self.passes]
        tables = (
            DisplayTable("passes", ("pass", "rewrites", "erased", "seconds"), parts, len(parts)),
            DisplayTable("rules that fired", ("rule", "times"), fired, len(fired)),
            DisplayTable("notes", ("note",), [(note,) for note in self.notes], len(self.notes)),
        )
        return Display(f"<{self.name}: {self.matched:,} rewrites>", tables)

    def __getitem__(self, rule: str) -> RuleReport:
        """The statistics of a rule by name, summed over the parts; raises KeyError if there are none."""
        accounts = [account for account in self.all_rules() if account.rule.name == rule]
        if not accounts:
            raise KeyError(rule)
        return merged(accounts)

    def all_rules(self) -> Iterable[RuleReport]:
        """The statistics of all rules, including the parts of a pipeline."""
        yield from self.rules
        for part in self.passes:
            yield from part.all_rules()

    @property
    def tried_rules(self) -> list[RuleReport]:
        """The statistics of the rules that were tried."""
        return [account for account in self.rules if account.tried]


def merged(accounts: Iterable[RuleReport]) -> RuleReport:
    """Merge several statistics of the same rule."""
    first, *others = accounts
    total = RuleReport(first.rule, first.tried, first.matched, first.seconds, Counter(first.rejected))
    for other in others:
        total.tried += other.tried
        total.matched += other.matched
        total.seconds += other.seconds
        total.rejected.update(other.rejected)
    return total
