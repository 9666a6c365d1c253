"""The report of `hloom plan`: as tables for people, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import PurePath
from typing import Any

from rich.console import RenderableType
from rich.table import Table

from hloom.analysis import size_note
from hloom.api.plan import PlanResult
from hloom.cli.tables import cut, new_table
from hloom.distribute.planner import Alternative, CandidatePlan, Cause, Explanation, PartitionedProgram, Rates, compare
from hloom.runtime import DeviceComparison
from hloom.text import byte_text

BRIEF = 8
"""How many families, and how many causes, are shown unless all are asked for."""
WIDEST, NARROW = 44, 24
"""The widths at which names, and scopes and values, are cut."""
COUNTS = frozenset({"FLOPs"})
"""What is not a number of bytes."""


def tables(planned: PlanResult, device_run: DeviceComparison | None, *, is_full: bool) -> list[RenderableType]:
    """The candidates, what the best splits and sends and why, what was measured, and how it runs."""
    explained = _explained(planned, is_full=is_full)
    return [_candidates(planned), *explained, *_compared(planned.best), *_lines(planned, device_run)]


def record(planned: PlanResult, device_run: DeviceComparison | None, *, is_full: bool) -> dict[str, Any]:
    """All of it as JSON."""
    chosen = planned.chosen
    measured = planned.best.measured
    record: dict[str, Any] = {
        "plan": planned.to_json(),
        "name": planned.plan.name,
        "step_seconds": planned.step_seconds,
        "binding": planned.explanation.binding,
        "candidates": [_record_of(candidate, chosen.rates) for candidate in chosen.candidates],
        "planning_seconds": chosen.planning_seconds,
        "measuring_seconds": chosen.measuring_seconds,
        "missing_bytes": chosen.missing_bytes,
        "least_bytes": chosen.least_bytes,
        "notes": chosen.notes,
        "sizes": asdict(size_note(chosen.module)),
        "values_in_two_layouts": chosen.values_in_two_layouts,
    }
    if isinstance(measured, PartitionedProgram):
        rows = compare(measured, planned.best)
        record["compared"] = {row.name: {"expected": row.expected, "measured": row.measured} for row in rows}
    if is_full:
        record["explanation"] = planned.explanation.to_json()
        record["alternatives"] = [asdict(alternative) for alternative in planned.alternatives]
    if device_run is not None:
        record["run"] = {
            "agrees": not device_run.differences,
            "outputs": device_run.outputs,
            "worst": device_run.worst,
            "not_finite": device_run.not_finite,
            "differences": [str(difference) for difference in device_run.differences],
        }
        if device_run.arbitration is not None:
            record["run"]["arbitration"] = device_run.arbitration.to_json()
    return record


def _record_of(candidate: CandidatePlan, rates: Rates) -> dict[str, Any]:
    expected, measured = candidate.expected, candidate.measured
    return {
        "name": candidate.plan.name,
        "step_seconds": candidate.step(rates) if candidate.price(rates) is not None else None,
        "expected": None
        if expected is None
        else {"comm_bytes": dict(expected.comm_bytes), "flops": expected.flops, "memory": candidate.memory},
        "bound_seconds": candidate.bound,
        "gap": candidate.gap,
        "measured": None
        if measured is None
        else {"comm_bytes": dict(measured.comm_bytes_by_opcode), "flops": measured.flops, "memory": measured.memory},
    }


def _candidates(planned: PlanResult) -> Table:
    """The candidates, best first; what was not measured is expected."""
    rates = planned.chosen.rates
    headings = ("plan", ">step ms", ">sent", ">memory", ">gap %", ">bound ms", "lower bound assumes", "")
    sizes = size_note(planned.chosen.module)
    table = new_table(f"plans, best first; {sizes}" if sizes else "plans, best first", *headings)
    for candidate in planned.chosen.candidates:
        price, held = candidate.price(rates), candidate.held()
        table.add_row(
            candidate.plan.name,
            "" if price is None else _ms(price.seconds(rates)),
            "" if price is None else byte_text(price.sent),
            "" if held is None else byte_text(held),
            _gap_text(candidate),
            "" if candidate.bound is None else _ms(candidate.bound),
            "" if candidate.bound is None else _space(planned),
            "predicted" if candidate.measured is None else "measured",
        )
    return table


def _gap_text(candidate: CandidatePlan) -> str:
    if candidate.gap is None:
        return ""
    return f"{100 * max(0.0, candidate.gap):.2f}" + (" shared" if candidate.is_shared else "")


def _space(planned: PlanResult) -> str:
    """The plans among which the bound holds."""
    twice = planned.chosen.values_in_two_layouts
    return f"2 layouts of {len(twice)} value{'s' * (len(twice) > 1)}" if twice else "1 layout per value"


def _explained(planned: PlanResult, *, is_full: bool) -> Iterator[RenderableType]:
    explanation, limit = planned.explanation, None if is_full else BRIEF
    yield explanation.does
    yield ""
    yield _families(explanation, limit)
    yield _causes(explanation.causes, limit)
    if is_full:
        yield _limits(explanation)
        yield _alternatives(planned.alternatives)
    elif explanation.limits:
        parts = ", ".join(f"{limit_row.name} {100 * limit_row.share:.0f} %" for limit_row in explanation.limits[:3])
        yield f"limited by: {explanation.binding} ({parts})"


def _families(explanation: Explanation, limit: int | None) -> Table:
    table = new_table("shardings", "tensors", ">count", "type", "!sharding", ">memory saved", ">sent", "by")
    shown = list(explanation.table)
    for family in shown[:limit]:
        table.add_row(
            family.name,
            str(family.count),
            family.type,
            str(family.spec),
            byte_text(family.saved_bytes),
            byte_text(family.sent_bytes),
            ", ".join(sorted(family.sent)),
        )
    _add_rest(table, len(shown), limit)
    return table


def _causes(causes: Sequence[Cause], limit: int | None) -> Table:
    """The collectives, isomorphic ones as one, those that send most first."""
    groups: dict[tuple, list[Cause]] = {}
    for cause in causes:
        groups.setdefault(cause.likeness, []).append(cause)
    ordered = sorted(groups.values(), key=lambda group: -sum(cause.sent for cause in group))
    table = new_table("collectives", "instruction", ">count", "source", "kind", "axes", ">runs", ">sent", "!why")
    for group in ordered[:limit]:
        first = group[0]
        table.add_row(
            first.instruction,
            str(len(group)),
            cut(PurePath(first.source).name or first.scope, NARROW),
            first.collective,
            ",".join(first.axes),
            f"{sum(cause.times for cause in group):,.0f}",
            byte_text(sum(cause.sent for cause in group)),
            first.why if first.value == first.instruction else f"{cut(first.value, NARROW)} {first.why}",
        )
    _add_rest(table, len(ordered), limit)
    return table


def _limits(explanation: Explanation) -> Table:
    table = new_table(f"limited by: {explanation.binding}", "part", ">ms", ">% of step", ">bytes")
    for limit in explanation.limits:
        sent = byte_text(limit.bytes) if limit.bytes else ""
        table.add_row(limit.name, _ms(limit.seconds), f"{100 * limit.share:.1f}", sent)
    return table


def _alternatives(alternatives: Sequence[Alternative]) -> Table:
    table = new_table("runner-up plans", "plan", ">step ms", ">sent", ">memory", "differences")
    for alternative in alternatives:
        table.add_row(
            alternative.name,
            _ms(alternative.seconds),
            byte_text(alternative.sent),
            "" if alternative.memory is None else byte_text(alternative.memory),
            "\n".join(alternative.differences),
        )
    return table


def _compared(best: CandidatePlan) -> Iterator[Table]:
    """What was expected beside what was measured."""
    rows = compare(best.measured, best) if isinstance(best.measured, PartitionedProgram) else ()
    if not rows:
        return
    table = new_table("per device", "quantity", ">predicted", ">by XLA", ">error %")
    for row in rows:
        numbers = (row.expected, row.measured)
        texts = [f"{number:,.0f}" if row.name in COUNTS else byte_text(number) for number in numbers]
        table.add_row(row.name, *texts, f"{100 * row.error:+.1f}")
    yield table


def _lines(planned: PlanResult, device_run: DeviceComparison | None) -> Iterator[str]:
    chosen = planned.chosen
    measured = f", measured in {chosen.measuring_seconds:.1f} s" if chosen.measuring_seconds else ""
    yield f"planned in {chosen.planning_seconds:.1f} s{measured}"
    yield from _bounds(planned)
    yield from (*chosen.notes, *planned.best.notes)
    if chosen.missing_bytes > 0:
        yield f"does not fit: the smallest plan found exceeds the memory by {byte_text(chosen.missing_bytes)}"
        if chosen.least_bytes > 0:
            yield f"proven: every plan needs at least {byte_text(chosen.least_bytes)} per device"
    if device_run is None:
        return
    yield f"results differ from one device's by {device_run.worst:.1e} of the largest value"
    if device_run.not_finite:
        yield f"{device_run.not_finite} of the {device_run.outputs} results contain no finite number on random inputs"
    yield from (str(difference) for difference in device_run.differences)
    if device_run.arbitration is not None:
        yield str(device_run.arbitration)


def _bounds(planned: PlanResult) -> Iterator[str]:
    """What the gap is relative to."""
    best, budget = planned.best, planned.chosen.task.budget
    if best.bound is None or best.bound <= 0:
        return
    which = "no plan that shards repeated layers alike" if best.is_shared else "no plan"
    keeps = " within the memory budget" if budget is not None else ""
    yield f"lower bound: by the cost tables, {which}{keeps} takes less than {_ms(best.bound)} ms"
    yield from _layouts(planned)
    step = best.step(planned.chosen.rates)
    if budget is not None and best.bound_with_memory > 0:
        gap = max(0.0, 1 - best.bound_with_memory / step)
        least = _ms(best.bound_with_memory)
        bound = f"no combination of simulated changes takes less than {least} ms"
        yield f"gap within the memory budget: {100 * gap:.1f} % ({bound})"


def _layouts(planned: PlanResult) -> Iterator[str]:
    """How many layouts values have in the plans that the bound is of, and what more of them could save."""
    chosen = planned.chosen
    twice = chosen.values_in_two_layouts
    if twice:
        yield f"these plans may hold two layouts of {', '.join(twice[:BRIEF])}{', ...' * (len(twice) > BRIEF)}"
    space = chosen.space
    if space is not None and space.most_saved is not None:
        values, saved = f"{space.candidates:,} cheap values", 100 * space.most_saved
        yield f"extra layouts of {values} would save at most {saved:.2f} % by the cost tables"


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:,.3f}" if seconds >= 1e-4 else f"{1e3 * seconds:.2g}"


def _add_rest(table: Table, count: int, limit: int | None) -> None:
    if limit is not None and count > limit:
        table.add_row(f"{count - limit} more; --explain shows them")
