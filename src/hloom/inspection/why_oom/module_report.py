"""The report of a module, or of an error's text: what fills the memory, and what would help."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hloom.analysis import ALL_KNOWN, MemoryReport, XlaAccount
from hloom.distribute.microbatch import Batch, check_batch_names
from hloom.inspection.why_oom.error_text import read_error_text
from hloom.inspection.why_oom.held_buffers import HeldBuffer, held_buffers
from hloom.inspection.why_oom.remedies import DEVICES, MOST_TRIED, try_remedies
from hloom.inspection.why_oom.report import OomReport, ordered
from hloom.ir import Module
from hloom.targets.memory import memory as memory_of
from hloom.targets.memory import peak_of
from hloom.text import HloomError

NO_PROGRAM = "the text holds no program, so nothing was tried: give the module, or the directory that XLA dumped into"
SCHEDULED = "the module is optimised and scheduled: what helps is tried on the program before optimisation"


def module_report(
    module: Module,
    limit: int | None,
    *,
    tried: Module | None = None,
    account: XlaAccount | None = None,
    quick: bool = False,
    batch: Batch | str | None = None,
    file: str = "FILE",
) -> OomReport:
    """The report of a module; remedies are tried on the module `tried`, as one that is optimised cannot be changed.

    `account` is what XLA says of the module, where it is not attached to it.
    """
    if not module.graphs or not module.entry.nodes:
        raise HloomError(f"{module.name} has no instructions: it takes no memory")
    if batch is not None:
        check_batch_names(tried or module, batch)
    taken = memory_of(module)
    report = _of_memory(module, taken, limit, account or taken.xla)
    if quick or report.fits:
        return report
    program = tried or module
    return with_remedies(report, program, peak=taken.peak if program is module else None, batch=batch, file=file)


def with_remedies(
    report: OomReport,
    program: Module,
    *,
    peak: int | None = None,
    batch: Batch | str | None = None,
    file: str = "FILE",
) -> OomReport:
    """The report with what helps, tried on a program: the one that the report is of, or the same before optimisation.

    `peak` is the program's, where it is known.
    """
    if program.is_scheduled:
        donatable = memory_of(program).donatable_bytes
        saved = f"; donating these inputs would save {donatable:,} bytes" if donatable else ""
        return replace(report, notes=(*report.notes, SCHEDULED + saved))
    before = peak_of(program) if peak is None else peak
    remedies = ordered(list(try_remedies(program, before, report.memory, file, batch)), report.memory)
    notes = report.notes
    if program.node_count > MOST_TRIED:
        notes = (*notes, f"not tried, as there are more than {MOST_TRIED:,} instructions: {_untried(batch)}")
    return replace(report, remedies=remedies, notes=notes)


def _untried(batch: Batch | str | None) -> str:
    """What is left out for a large program."""
    splits = f"recomputation within less, splits over {' and '.join(map(str, DEVICES[:-1]))} devices"
    return splits if batch is not None else f"{splits}, and microbatches, whose batch is not looked for: say it"


def _of_memory(module: Module, taken: MemoryReport, limit: int | None, account: XlaAccount | None) -> OomReport:
    buffers = held_buffers(module, taken)
    names = ("arguments", "outputs", "aliases", "temporaries")
    return OomReport(
        origin="module",
        name=module.name,
        peak=taken.peak if account is None else account.peak,
        memory=limit,
        sums={name: getattr(taken, name) for name in names},
        buffers=tuple(buffers),
        schedule=taken.schedule,
        steps=taken.length,
        peak_step=taken.peak_time,
        peak_instruction=taken.peak_instruction,
        xla_sums={} if account is None else {name: getattr(account, name) for name in (*names, "constants", "peak")},
        notes=tuple(_notes(taken, buffers)),
        sizes=taken.sizes if account is None else ALL_KNOWN,
    )


def _notes(taken: MemoryReport, buffers: Iterable[HeldBuffer]) -> Iterable[str]:
    rows = list(buffers)
    padding = sum(row.padding for row in rows)
    if padding:
        yield f"{padding:,} bytes at the peak are padding of tiled layouts"
    for other in taken.other_spaces:
        yield f"{other.peak:,} bytes are in {other.name}, S({other.space}), and are not counted here"
    if taken.note:
        yield taken.note
    if taken.opaque_calls:
        yield f"{taken.opaque_calls:,} calls were not followed: what they need inside is not counted"


def message_report(text: str, limit: int | None) -> OomReport:
    """The report of an error's text, with which nothing can be tried."""
    message = read_error_text(text)
    capacity = limit if limit is not None else message.capacity
    listed = sum(buffer.bytes for buffer in message.buffers)
    notes = [NO_PROGRAM]
    if message.requested is not None:
        free = "" if message.free is None else f", {message.free:,} were free"
        only = "; the text has no sum, so this counts as the peak" if message.peak == message.requested else ""
        notes.append(f"{message.requested:,} bytes were asked for at once{free}{only}")
    if message.buffers:
        count = len(message.buffers)
        notes.append(f"the {count} largest allocations that the text lists have {listed:,} bytes, not all at one time")
    return OomReport(
        origin="error text",
        name=f"XLA's message about {message.space or 'memory'}",
        peak=message.peak if message.peak is not None else listed,
        memory=capacity,
        sums=dict(message.sums),
        buffers=tuple(message.buffers),
        notes=tuple(notes),
    )
