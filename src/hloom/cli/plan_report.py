"""The report of `hloom plan`: as tables for people, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from rich.console import RenderableType
from rich.table import Table

from hloom.analysis import SizeNote, size_note
from hloom.api.plan import PlanResult
from hloom.cli.tables import add_rest, cut, new_table
from hloom.cli.target import ForTarget
from hloom.distribute.planner import (
    RUNS,
    Alternative,
    CandidatePlan,
    Cause,
    Comparison,
    Explanation,
    PartitionedProgram,
    compare,
)
from hloom.runtime import DeviceComparison
from hloom.text import Bytes, Record, byte_text

BRIEF = 8
"""How many families, and how many causes, are shown unless all are asked for."""
REST = "; --explain shows them"
WIDEST, NARROW = 44, 24
"""The widths at which names, and scopes and values, are cut."""


def tables(planned: PlanResult, device_run: DeviceComparison | None, *, is_full: bool) -> list[RenderableType]:
    """The candidates, what the best splits and sends and why, what was measured, and how it runs."""
    explained = _explained(planned, is_full=is_full)
    return [_candidates(planned), *explained, *_compared(planned), *_lines(planned, device_run)]


@dataclass(frozen=True, slots=True)
class Work(Record):
    """What a device does in a step: bytes sent by collective, FLOPs of products, bytes held at the peak."""

    comm_bytes: Mapping[str, float]
    flops: float
    memory: Bytes | None


@dataclass(frozen=True, slots=True)
class CandidateRecord(Record):
    """A plan that was considered: its time, as expected and as measured; `gap` is a share of its time."""

    candidate: CandidatePlan
    step_seconds: float | None
    json_keys = "name=candidate.plan.name step_seconds expected bound_seconds=candidate.bound candidate.gap measured"

    @property
    def expected(self) -> Work | None:
        """What is predicted; null for a plan that propagation completes."""
        cost = self.candidate.expected
        return None if cost is None else Work(cost.comm_bytes, cost.flops, self.candidate.memory)

    @property
    def measured(self) -> Work | None:
        """What XLA's partitioner made of it, with --measure."""
        cost = self.candidate.measured
        return None if cost is None else Work(cost.comm_bytes_by_opcode, cost.flops, cost.memory)


@dataclass(frozen=True, slots=True)
class PlanRecord(Record):
    """The chosen plan, all candidates best first, and with --explain why."""

    planned: PlanResult
    device_run: DeviceComparison | None
    made: ForTarget
    is_full: bool
    json_keys = (
        "planned.plan name=planned.plan.name planned.step_seconds binding=planned.explanation.binding candidates "
        "planned.chosen.planning_seconds planned.chosen.measuring_seconds planned.chosen.missing_bytes "
        "planned.chosen.least_bytes planned.chosen.notes sizes planned.chosen.values_in_two_layouts compared? "
        "explanation? alternatives? run?=device_run **made"
    )

    @property
    def candidates(self) -> list[CandidateRecord]:
        """The plans that were considered, best first."""
        rates = self.planned.chosen.rates
        return [CandidateRecord(one, one.step(rates)) for one in self.planned.chosen.candidates]

    @property
    def sizes(self) -> SizeNote:
        """Which sizes are not known."""
        return size_note(self.planned.chosen.module)

    @property
    def compared(self) -> dict[str, Comparison] | None:
        """Bytes sent, FLOPs and bytes held of the best plan, as expected and as measured."""
        measured = self.planned.best.measured
        if not isinstance(measured, PartitionedProgram):
            return None
        return {row.name: row for row in compare(measured, self.planned.best)}

    @property
    def explanation(self) -> Explanation | None:
        """Why this plan."""
        return self.planned.explanation if self.is_full else None

    @property
    def alternatives(self) -> list[Alternative]:
        """Other plans, and how they differ."""
        return self.planned.alternatives if self.is_full else []


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
            _how(candidate),
        )
    return table


def _how(candidate: CandidatePlan) -> str:
    """Where a candidate's figures come from."""
    if not isinstance(candidate.measured, PartitionedProgram):
        return "predicted" if candidate.measured is None else "measured"
    return "measured" if candidate.measured.compiled is None else f"for {candidate.measured.compiled.target.name}"


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
    add_rest(table, len(shown), limit or len(shown), REST)
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
    add_rest(table, len(ordered), limit or len(ordered), REST)
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


def _compared(planned: PlanResult) -> Iterator[RenderableType]:
    """What was expected beside what was measured."""
    best = planned.best
    if not isinstance(best.measured, PartitionedProgram):
        return
    compiled = best.measured.compiled
    table = new_table("per device", "quantity", ">predicted", ">by XLA", ">error %")
    if compiled is not None:
        table = new_table("per device", "quantity", ">predicted", f">for {compiled.target.name}", ">error %")
    for row in compare(best.measured, best):
        numbers = (row.expected, row.measured)
        is_count = row.name == "FLOPs" or row.name.endswith(RUNS)
        texts = [f"{number:,.0f}" if is_count else byte_text(number) for number in numbers]
        table.add_row(row.name, *texts, f"{100 * row.error:+.1f}" if row.measured else "")
    rates = planned.chosen.rates
    if compiled is not None and best.expected is not None:
        times = (1e3 * best.expected.seconds(rates), 1e3 * planned.step_seconds)
        table.add_row("step ms", *(f"{time:,.3f}" for time in times), f"{100 * (times[0] / times[1] - 1):+.1f}")
    yield table


def _lines(planned: PlanResult, device_run: DeviceComparison | None) -> Iterator[str]:
    chosen = planned.chosen
    compiled = planned.compiled
    verb = "measured" if compiled is None else f"compiled for {compiled.target.name}"
    measured = f", {verb} in {chosen.measuring_seconds:.1f} s" if chosen.measuring_seconds else ""
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
