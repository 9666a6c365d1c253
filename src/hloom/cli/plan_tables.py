"""What `hloom plan` shows: as tables for people, and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import PurePath
from typing import Any

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from hloom.api.plan import PlanResult
from hloom.cli.writing import byte_text, cut
from hloom.planner.candidates import Candidate, compare
from hloom.planner.cost_model import Rates
from hloom.planner.explanation import Alternative, Cause, Explanation
from hloom.planner.partitioned import PartitionedProgram
from hloom.runtime.side_by_side import SideBySide

BRIEF = 8
"""How many families, and how many causes, are shown unless all are asked for."""
WIDEST, NARROW = 44, 24
"""The widths at which names, and scopes and values, are cut."""
COUNTS = frozenset({"FLOPs"})
"""What is no number of bytes."""


def tables(planned: PlanResult, beside: SideBySide | None, *, is_full: bool) -> list[RenderableType]:
    """The candidates, what the best splits and sends and why, what was measured, and how it runs."""
    found: list[RenderableType] = [_candidates(planned), *_explained(planned, is_full=is_full)]
    found += _compared(planned.best)
    found += [Text(line) for line in _lines(planned, beside)]
    return found


def record(planned: PlanResult, beside: SideBySide | None, *, is_full: bool) -> dict[str, Any]:
    """All of it as JSON."""
    chosen = planned.chosen
    measured = planned.best.measured
    found: dict[str, Any] = {
        "plan": planned.to_json(),
        "name": planned.plan.name,
        "step_seconds": planned.step_seconds,
        "binding": planned.explanation.binding,
        "candidates": [_record_of(each, chosen.rates) for each in chosen.candidates],
        "planning_seconds": chosen.planning_seconds,
        "measuring_seconds": chosen.measuring_seconds,
        "missing_bytes": chosen.missing_bytes,
        "notes": chosen.notes,
    }
    if isinstance(measured, PartitionedProgram):
        rows = compare(measured, planned.best)
        found["compared"] = {each.name: {"expected": each.expected, "measured": each.measured} for each in rows}
    if is_full:
        found["explanation"] = planned.explanation.to_json()
        found["alternatives"] = [asdict(each) for each in planned.alternatives]
    if beside is not None:
        found["run"] = {
            "agrees": not beside.differences,
            "outputs": beside.outputs,
            "worst": beside.worst,
            "not_finite": beside.not_finite,
            "differences": [str(each) for each in beside.differences],
        }
    return found


def _record_of(each: Candidate, rates: Rates) -> dict[str, Any]:
    expected, measured = each.expected, each.measured
    return {
        "name": each.plan.name,
        "step_seconds": each.step(rates) if each.price() is not None else None,
        "expected": None
        if expected is None
        else {"comm_bytes": dict(expected.comm_bytes), "flops": expected.flops, "memory": each.memory},
        "bound_seconds": each.bound,
        "gap": each.gap,
        "measured": None
        if measured is None
        else {"comm_bytes": dict(measured.comm_bytes_by_kind), "flops": measured.flops, "memory": measured.memory},
    }


def _candidates(planned: PlanResult) -> Table:
    """The candidates, best first; what was not measured is expected."""
    rates = planned.chosen.rates
    table = _table("plans, best first", "plan", "step ms", "sends", "holds", "gap %", "")
    for each in planned.chosen.candidates:
        price, held = each.price(), each.held()
        table.add_row(
            each.plan.name,
            "" if price is None else _ms(price.seconds(rates)),
            "" if price is None else byte_text(round(price.sent)),
            "" if held is None else byte_text(round(held)),
            "" if each.gap is None else f"{100 * max(0.0, each.gap):.2f}" + (" tied" if each.is_tied else ""),
            "expected" if each.measured is None else "measured",
        )
    return table


def _explained(planned: PlanResult, *, is_full: bool) -> Iterator[RenderableType]:
    found, limit = planned.explanation, None if is_full else BRIEF
    yield Text(found.does)
    yield Text()
    yield _families(found, limit)
    yield _causes(found.causes, limit)
    if is_full:
        yield _limits(found)
        yield _alternatives(planned.alternatives)
    elif found.limits:
        parts = ", ".join(f"{each.name} {100 * each.share:.0f} %" for each in found.limits[:3])
        yield Text(f"what binds: {found.binding} ({parts})")


def _families(found: Explanation, limit: int | None) -> Table:
    table = _table("what is split", "tensors", "count", "type", "split", "saves", "sends", "by")
    shown = list(found.table)
    for each in shown[:limit]:
        table.add_row(
            Text(cut(each.name, WIDEST)),
            str(each.count),
            each.type,
            Text(str(each.spec)),
            byte_text(round(each.saved_bytes)),
            byte_text(round(each.sent_bytes)),
            ", ".join(sorted(each.sent)),
        )
    _rest(table, len(shown), limit)
    return table


def _causes(causes: Sequence[Cause], limit: int | None) -> Table:
    """The collectives, those that are alike as one, which send most first."""
    groups: dict[tuple, list[Cause]] = {}
    for each in causes:
        groups.setdefault(each.likeness, []).append(each)
    ordered = sorted(groups.values(), key=lambda group: -sum(each.sent for each in group))
    table = _table("collectives", "caused by", "count", "from", "kind", "over", "times", "sends", "why")
    for group in ordered[:limit]:
        first = group[0]
        table.add_row(
            Text(cut(first.instruction, NARROW)),
            str(len(group)),
            Text(cut(PurePath(first.source).name or first.scope, NARROW)),
            first.kind,
            ",".join(first.axes),
            f"{sum(each.times for each in group):,.0f}",
            byte_text(round(sum(each.sent for each in group))),
            Text(first.why if first.value == first.instruction else f"{cut(first.value, NARROW)} {first.why}"),
        )
    _rest(table, len(ordered), limit)
    return table


def _limits(found: Explanation) -> Table:
    table = _table(f"what binds: {found.binding}", "", "ms", "% of a step", "bytes")
    for each in found.limits:
        sent = byte_text(round(each.bytes)) if each.bytes else ""
        table.add_row(each.name, _ms(each.seconds), f"{100 * each.share:.1f}", sent)
    return table


def _alternatives(found: Sequence[Alternative]) -> Table:
    table = _table("the best other plans", "plan", "step ms", "sends", "holds", "differs")
    for each in found:
        table.add_row(
            Text(each.name),
            _ms(each.seconds),
            byte_text(round(each.sent)),
            "" if each.memory is None else byte_text(round(each.memory)),
            Text("\n".join(each.differences)),
        )
    return table


def _compared(best: Candidate) -> Iterator[Table]:
    """What was expected beside what was measured."""
    rows = compare(best.measured, best) if isinstance(best.measured, PartitionedProgram) else ()
    if not rows:
        return
    table = _table("what a device does", "", "expected", "XLA's partitioner", "off by %")
    for each in rows:
        numbers = (each.expected, each.measured)
        texts = [f"{number:,.0f}" if each.name in COUNTS else byte_text(round(number)) for number in numbers]
        table.add_row(each.name, *texts, f"{100 * each.error:+.1f}")
    yield table


def _lines(planned: PlanResult, beside: SideBySide | None) -> Iterator[str]:
    chosen = planned.chosen
    measured = f", measured in {chosen.measuring_seconds:.1f} s" if chosen.measuring_seconds else ""
    yield f"planned in {chosen.planning_seconds:.1f} s{measured}"
    yield from (*chosen.notes, *planned.best.notes)
    if chosen.missing_bytes > 0:
        yield f"does not fit: the smallest plan found needs {byte_text(round(chosen.missing_bytes))} more"
    if beside is None:
        return
    yield f"results differ from one device's by {beside.worst:.1e} of the largest value"
    if beside.not_finite:
        yield f"{beside.not_finite} of the {beside.outputs} results hold no finite number on random inputs"
    yield from (str(each) for each in beside.differences)


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:,.3f}" if seconds >= 1e-4 else f"{1e3 * seconds:.2g}"


def _rest(table: Table, count: int, limit: int | None) -> None:
    if limit is not None and count > limit:
        table.add_row(f"and {count - limit} more: --explain")


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    numbers: Iterable[str] = ("step ms", "sends", "holds", "gap %", "count", "saves", "times", "ms", "expected")
    for name in columns:
        is_number = name in numbers or "%" in name or name.endswith("partitioner")
        table.add_column(name, justify="right" if is_number else "left", overflow="fold")
    return table
