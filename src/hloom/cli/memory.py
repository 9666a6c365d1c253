"""`hloom memory`: the course of memory over a run, what is alive at the peak, and whether it fits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from hloom.analysis import SCHEDULES, LiveBuffer, MemoryReport, bytes_of, memory
from hloom.cli.options import Origin, as_json, from_file, to_output
from hloom.cli.reading import note_whole_program, read, working
from hloom.cli.timeline import characters, png, svg
from hloom.cli.writing import byte_text, cut, write_json, write_tables
from hloom.hlo import write_whole

MOST_LINES = 15
"""How many buffers and inputs are shown, unless told otherwise."""
WRITERS = {".svg": svg, ".png": png}


@click.command("memory")
@from_file
@click.option("--budget", metavar="SIZE", help="End with exit status 1 unless it fits: 80GiB, 500MB, bytes.")
@click.option("--schedule", type=click.Choice(SCHEDULES), help="Not the module's own order: ours, the text's.")
@click.option("--top", type=click.IntRange(min=1), default=MOST_LINES, show_default=True, help="Show so many lines.")
@as_json("Write JSON: sizes, the buffers alive at the peak, the timeline.")
@to_output(f"Write the timeline into this file; its suffix is the format: {' '.join(WRITERS)}. With --json, the JSON.")
@click.pass_context
def command(
    context: click.Context,
    file: str,
    strict: bool,
    module: str | None,
    stage: str | None,
    budget: str | None,
    schedule: str | None,
    top: int,
    json_output: bool,
    output: Path | None,
) -> None:
    """Say how much memory a run of a module takes.

    Peak = arguments + outputs - aliased + temporaries. A module that XLA has scheduled (after optimisation) runs in its
    own order; of any other the figure is an estimate, elementwise work being taken as fused. Where an .hlo.pb holds
    XLA's own buffer assignment, that is shown beside ours.

    \b
    Examples:
      hloom memory step.hlo
      hloom memory step.hlo --budget 80GiB
      hloom memory step.hlo --schedule text -o timeline.svg
      hloom memory step.hlo --json | jq '.at_peak[0]'
    """
    limit = _limit(budget)
    writer = WRITERS.get(output.suffix.lower()) if output is not None else None
    if output is not None and writer is None and not json_output:
        raise click.BadParameter(f"'{output}' has none of the suffixes {' '.join(WRITERS)}", param_hint="-o")
    program = read(Origin(file, strict, module, stage))
    note_whole_program(program)
    with working("placing buffers"):
        found = memory(program, schedule=schedule)
    if json_output:
        verdict = {} if limit is None else {"budget": limit, "fits": found.fits(limit)}
        write_json({**found.to_json(), **verdict}, output)
    else:
        if output is not None and writer is not None:
            write_whole(output, writer(found, limit))
        write_tables(tables(found, limit, top), None)
    if limit is not None and not found.fits(limit):
        context.exit(1)


def _limit(budget: str | None) -> int | None:
    if budget is None:
        return None
    try:
        return bytes_of(budget)
    except ValueError as problem:
        raise click.BadParameter(str(problem), param_hint="--budget") from None


def tables(found: MemoryReport, budget: int | None = None, top: int = MOST_LINES) -> Iterator[RenderableType]:
    """The report as tables and lines."""
    yield _sizes(found)
    for line in characters(found):
        yield Text(line, no_wrap=True, overflow="ellipsis")
    yield _buffers("alive at the peak", found.at_peak, found.peak, top)
    if found.donatable:
        yield _donatable(found, top)
    if found.opaque_calls:
        yield Text(f"calls that were not followed: {found.opaque_calls:,}; what they need inside is not counted")
    if budget is not None:
        yield from _verdict(found, budget, top)


def _table(title: str, *columns: str, names: int) -> Table:
    """A table whose first columns name something; the others hold numbers."""
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for place, name in enumerate(columns):
        table.add_column(name, justify="left" if place < names else "right", overflow="fold")
    table.columns[0].style = "cyan"
    return table


def _sizes(found: MemoryReport) -> Table:
    xla = found.xla
    table = _table(f"memory, schedule: {found.schedule}", "what", "bytes", "", *(["XLA's own"] if xla else []), names=1)
    for name in ("arguments", "outputs", "aliases", "temporaries", "peak"):
        size = getattr(found, name)
        table.add_row(name, f"{size:,}", byte_text(size), *([f"{getattr(xla, name):,}"] if xla else []))
    return table


def _buffers(title: str, buffers: Sequence[LiveBuffer], peak: int, top: int) -> Table:
    table = _table(title, "value", "kind", "type", "scope", "source", "bytes", "%", names=5)
    for each in buffers[:top]:
        element = "".join(f"{{{place}}}" for place in each.index)
        texts = (
            cut(each.name + element, 30),
            each.kind,
            cut(each.type, 24),
            cut(each.scope, 36),
            cut(Path(each.source).name, 24),
        )
        share = f"{100 * each.bytes / peak:.1f}" if peak else ""
        table.add_row(*(Text(text) for text in texts), byte_text(each.bytes), share)
    if len(buffers) > top:
        table.add_row(Text(f"{len(buffers) - top:,} more; --top shows them"), style="dim")
    return table


def _donatable(found: MemoryReport, top: int) -> Table:
    table = _table("inputs that could be donated", "input", "type", "output", "without a copy", "bytes", names=4)
    for each in found.donatable[:top]:
        name = each.name + "".join(f"{{{place}}}" for place in each.index)
        output = "{" + ",".join(map(str, each.output_index)) + "}"
        table.add_row(
            Text(cut(name, 40)),
            Text(cut(each.type, 30)),
            output,
            "yes" if each.is_free else "no",
            byte_text(each.bytes),
        )
    if len(found.donatable) > top:
        table.add_row(Text(f"{len(found.donatable) - top:,} more; --top shows them"), style="dim")
    return table


def _verdict(found: MemoryReport, budget: int, top: int) -> Iterator[RenderableType]:
    if found.fits(budget):
        yield Text(f"fits into {byte_text(budget)}: {byte_text(budget - found.peak)} are left")
        return
    missing = found.peak - budget
    yield Text(f"does not fit into {byte_text(budget)}: {byte_text(missing)} are too many")
    if found.donatable_bytes:
        yield Text(f"donating inputs would save {byte_text(found.donatable_bytes)}")
    title = "what would have to shrink: together they hold what is too many"
    yield _buffers(title, found.to_shrink(budget), found.peak, top)
