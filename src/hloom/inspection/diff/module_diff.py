"""The differences between two modules: instructions added, removed, changed and moved, and the change in cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hloom.analysis import DEFAULT_DEVICE, Device, as_device
from hloom.inspection.diff.changes import (
    ChangedInstruction,
    HeaderDifference,
    MovedInstruction,
    changed,
    moved,
    renamed_graphs,
    reordered,
)
from hloom.inspection.diff.costs import CostDifference, cost_difference
from hloom.inspection.diff.instruction_map import UNMATCHED, InstructionMap, match
from hloom.inspection.diff.value_graph import ValueGraph
from hloom.ir import Module, ModuleLike, Node, as_module, paused_collection
from hloom.text import Display, Displayed, DisplayTable, Record

UNRELATED = 0.1
"""Modules are unrelated of which less than this share of the smaller one is matched with equal opcode and type."""


@dataclass(frozen=True, slots=True, repr=False)
class ModuleDiff(Displayed, Record):
    """The differences of two modules; names of instructions, computations and modules are none unless it is exact.

    `matches` are all pairs of instructions that stand for each other, `added` and `removed` what has no counterpart.
    `header` are attributes of the modules that differ: name, before, after. `costs` is a sentence where they could not
    be worked out, and None where they were not asked for.
    """

    before: Module
    after: Module
    matches: dict[Node, Node]
    added: Sequence[Node]
    removed: Sequence[Node]
    changed: Sequence[ChangedInstruction]
    moved: Sequence[MovedInstruction]
    header: Sequence[HeaderDifference]
    costs: CostDifference | str | None
    json_keys = (
        "before=before.name after=after.name is_equal is_unrelated matched=matches.__len__ counts added removed "
        "changed moved header costs"
    )

    @property
    def is_equal(self) -> bool:
        """Whether there is no difference."""
        return not (self.added or self.removed or self.changed or self.moved or self.header)

    @property
    def is_unrelated(self) -> bool:
        """Whether the modules have nearly nothing in common."""
        smaller = min(self.before.node_count, self.after.node_count)
        return len(self.matches) - len(self.changed) < UNRELATED * smaller

    @property
    def counts(self) -> dict[str, int]:
        """The number of differences of each kind."""
        return {name: len(getattr(self, name)) for name in ("added", "removed", "changed", "moved", "header")}

    def by_opcode(self) -> list[tuple[str, int, int, int, int]]:
        """Added, removed, changed and moved instructions by opcode, the most first."""
        counts = [
            Counter(node.opcode for node in nodes)
            for nodes in (
                self.added,
                self.removed,
                [change.after for change in self.changed],
                [move.after for move in self.moved],
            )
        ]
        rows = [
            (opcode, *(count[opcode] for count in counts)) for opcode in dict.fromkeys(o for c in counts for o in c)
        ]
        return sorted(rows, key=lambda row: (-sum(row[1:]), row[0]))  # type: ignore[arg-type, return-value]

    def display(self) -> Display:
        opcodes = self.by_opcode()
        changes = (
            (change.before.name, change.after.name, part.what, part.before, part.after)
            for change in self.changed
            for part in change.differences
        )
        differences = sum(len(change.differences) for change in self.changed)
        moves = ((move.before.name, move.what, move.origin, move.destination) for move in self.moved)
        tables = [
            DisplayTable("by opcode", ("opcode", "added", "removed", "changed", "moved"), opcodes, len(opcodes)),
            _node_table("added", self.added),
            _node_table("removed", self.removed),
            DisplayTable("changed", ("before", "after", "what", "from", "to"), changes, differences),
            DisplayTable("moved", ("instruction", "to another", "from", "to"), moves, len(self.moved)),
        ]
        if isinstance(self.costs, CostDifference):
            tables.append(self.costs.totals().as_display("costs"))
        return Display(f"<diff of {self.before.name} and {self.after.name}: {self}>", tables)

    def __str__(self) -> str:
        if self.is_equal:
            return f"no differences: {len(self.matches):,} instructions match"
        counts = ((self.added, "added"), (self.removed, "removed"), (self.changed, "changed"), (self.moved, "moved"))
        parts = ", ".join(f"{len(items):,} {what}" for items, what in counts)
        return f"{len(self.matches):,} instructions match; {parts}"


def _node_table(heading: str, nodes: Sequence[Node]) -> DisplayTable:
    rows = ((node.name, node.graph.name, node.opcode, str(node.type)) for node in nodes)
    return DisplayTable(heading, ("instruction", "computation", "opcode", "type"), rows, len(nodes))


def diff(
    before: ModuleLike,
    after: ModuleLike,
    *,
    costs: bool = True,
    device: Device | str = DEFAULT_DEVICE,
    by: str = "scope",
    depth: int | None = 2,
    exact: bool = False,
) -> ModuleDiff:
    """Compare two modules, whatever their names, order and layouts; looks into calls and fusions.

    Costs are by scope (or opcode, computation, source), `depth` levels deep, times those of a device. Raises HloomError
    where a module has no entry, and for a device that is not known.

    With `exact`, names of modules, computations and instructions count, and the order of instructions: pairs of other
    names are changed, and the fewest pairs without which the order is the same are moved.
    """
    before = as_module(before)
    after = as_module(after)
    on = as_device(device)
    with paused_collection():
        matched = _matched(before, after, exact)
        return replace(matched, costs=cost_difference(before, after, on, by, depth)) if costs else matched


def _matched(before: Module, after: Module, exact: bool) -> ModuleDiff:
    graphs = ValueGraph(before), ValueGraph(after)
    matching = match(*graphs)
    left, right = graphs[0].nodes, graphs[1].nodes
    return ModuleDiff(
        before,
        after,
        {left[one]: right[other] for one, other in matching.pairs()},
        _unmatched(right, matching.backward),
        _unmatched(left, matching.forward),
        changed(matching, exact),
        moved(matching) + (reordered(matching) if exact else []),
        _header(before, after) + (_names(matching) if exact else []),
        None,
    )


def _unmatched(nodes: Sequence[Node], partners: Sequence[int]) -> list[Node]:
    return [node for node, partner in zip(nodes, partners, strict=True) if partner == UNMATCHED]


def _header(before: Module, after: Module) -> list[HeaderDifference]:
    ours, others = before.attributes, after.attributes
    return [
        HeaderDifference(name, *(_text(attributes.get(name)) for attributes in (ours, others)))
        for name in {**ours, **others}
        if ours.get(name) != others.get(name)
    ]


def _names(matching: InstructionMap) -> list[HeaderDifference]:
    before, after = (graph.module.name for graph in matching.graphs)
    own = [HeaderDifference("name", before, after)] if before != after else []
    return own + [HeaderDifference("computation", *names) for names in renamed_graphs(matching)]


def _text(value: object) -> str:
    text = "(none)" if value is None else str(value)
    return text if len(text) <= 200 else f"{text[:197]}..."
