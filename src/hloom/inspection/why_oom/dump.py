"""Dump directories: finds the module that needs most memory, by XLA's buffer assignment if the dump has it.

    module_0007.jit_step.cpu_after_optimizations-buffer-assignment.txt
      allocation 19: size 13107200, preallocated-temp:
       value: <168 fusion.14 @0> (size=2097152,offset=2097152): f32[2048,256]{1,0}

Source: xla/service/buffer_assignment.cc, BufferAllocation::ToString.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hloom.analysis import XlaAccount, XlaAllocation
from hloom.distribute.microbatch import Batch
from hloom.formats.hlo import DumpedModule, dump_modules, load
from hloom.inspection.why_oom.module_report import module_report
from hloom.inspection.why_oom.report import OomReport
from hloom.ir import Module
from hloom.targets.memory import peak_of
from hloom.text import HloomError, parse_capacity, read_limited

BEFORE, AFTER = "before_optimizations", "after_optimizations"
ASSIGNMENT = "-buffer-assignment.txt"
ASSIGNMENT_BYTES = 1 << 30
"""The largest file that is read as a buffer assignment."""
MOST_SIMULATED = 8
"""The maximum number of modules without one to read and simulate, largest files first."""
LARGEST = 20
"""The maximum number of allocations to keep."""
_ALLOCATION = re.compile(r"^allocation ([0-9]{1,9}): size ([0-9]{1,18}), ?(.*):\s*$")
_VALUE = re.compile(r"^ value: <[0-9]+ (\S+?)(?:\{[0-9,]*\})? @[0-9]+> \(size=([0-9]{1,18}),offset=([0-9]{1,18})\)")


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A dumped module: at which stages, and XLA's account."""

    label: str
    before: DumpedModule | None
    after: DumpedModule | None
    account: XlaAccount | None

    @property
    def size(self) -> int:
        """The bytes of its text, by which modules without an account are ordered."""
        return max(stage.size for stage in (self.before, self.after) if stage is not None)


def why_dump_oom(
    directory: str | os.PathLike[str],
    *,
    memory: int | str | None = None,
    module: str | None = None,
    quick: bool = False,
    batch: Batch | str | None = None,
) -> OomReport:
    """As `hloom.why_oom`, of the module of a dump directory that takes most, or the one that is named.

    What is live at the peak is read from the optimised module, in its own order, and XLA's sums from its buffer
    assignment; remedies are tried on the module before optimisation. Raises HloomError where there is no module.
    """
    limit = None if memory is None else parse_capacity(memory)
    candidates = _candidates(Path(directory), module)
    chosen, notes = _largest(candidates)
    before = _loaded(chosen.before)
    shown = _loaded(chosen.after) or before
    if shown is None:
        raise HloomError(f"{os.fspath(directory)}: no module is in a form that can be followed")
    file = os.fspath(chosen.before.path) if chosen.before is not None else os.fspath(directory)
    report = module_report(shown, limit, tried=before, account=chosen.account, quick=quick, batch=batch, file=file)
    return replace(report, origin="dump", name=chosen.label, notes=(*report.notes, *notes))


def read_buffer_assignment(text: str) -> XlaAccount:
    """XLA's account from the text of a buffer assignment; raises HloomError where it lists no allocation."""
    sums: dict[str, int] = dict.fromkeys(("argument", "output", "alias", "temporary", "constant", "thread"), 0)
    allocations: list[XlaAllocation] = []
    values: list[tuple[int, str]] = []

    def close() -> None:
        if allocations:
            named = tuple(name for _, name in sorted(values, key=lambda value: -value[0]))
            allocations[-1] = replace(allocations[-1], values=named)
        values.clear()

    for line in text.splitlines():
        if match := _ALLOCATION.match(line):
            close()
            size, roles = int(match[2]), _roles(match[3])
            for role in roles:
                sums[role] += size
            allocations.append(XlaAllocation(int(match[1]), size, roles[0], ()))
        elif allocations and (match := _VALUE.match(line)):
            values.append((int(match[2]), match[1]))
    close()
    if not allocations:
        raise HloomError("the buffer assignment lists no allocation")
    largest = sorted(allocations, key=lambda allocation: -allocation.bytes)[:LARGEST]
    return XlaAccount(
        sums["argument"], sums["output"], sums["alias"], sums["temporary"], sums["constant"], tuple(largest)
    )


def _roles(text: str) -> tuple[str, ...]:
    """What an allocation is for: several where an argument's memory is a result's."""
    if "thread-local" in text:
        return ("thread",)
    if text.startswith("constant"):
        return ("constant",)
    is_output = "maybe-live-out" in text
    if "parameter " in text:
        return ("argument", "output", "alias") if is_output else ("argument",)
    return ("output",) if is_output else ("temporary",)


def _candidates(directory: Path, wanted: str | None) -> list[_Candidate]:
    entries = dump_modules(directory)
    if not entries:
        raise HloomError(f"{directory} holds no HLO", hint="XLA writes it with XLA_FLAGS=--xla_dump_to=DIR")
    meant = [entry for entry in entries if wanted is None or entry.is_module(wanted)]
    if not meant:
        raise HloomError(f"{directory} holds no module '{wanted}'", hint=f"there is {entries[0].label}")
    by_label: dict[str, list[DumpedModule]] = {}
    for entry in meant:
        by_label.setdefault(entry.label, []).append(entry)
    return [_candidate(label, stages) for label, stages in by_label.items()]


def _candidate(label: str, stages: Sequence[DumpedModule]) -> _Candidate:
    before = next((stage for stage in stages if stage.stage in (BEFORE, "")), None)
    after = next((stage for stage in stages if stage.is_stage(AFTER)), None)
    if before is None and after is None:
        after = stages[-1]
    return _Candidate(label, before, after, _account(after))


def _account(after: DumpedModule | None) -> XlaAccount | None:
    """XLA's account of an optimised module, from the file beside it."""
    if after is None:
        return None
    stem = after.path.name.partition(f"{AFTER}.")[0]
    path = after.path.with_name(f"{stem}{AFTER}{ASSIGNMENT}")
    if not path.is_file() or not path.resolve().is_relative_to(path.parent.resolve()):
        return None
    return read_buffer_assignment(read_limited(path, ASSIGNMENT_BYTES).decode("utf-8", "replace"))


def _largest(candidates: Sequence[_Candidate]) -> tuple[_Candidate, list[str]]:
    """The module that takes most, and what is to be said of the choice."""
    known = [candidate for candidate in candidates if candidate.account is not None]
    others = sorted((candidate for candidate in candidates if candidate.account is None), key=lambda c: -c.size)
    peaks = {candidate.label: candidate.account.peak for candidate in known if candidate.account is not None}
    if len(candidates) == 1:
        return candidates[0], []
    for candidate in [] if known else others[:MOST_SIMULATED]:
        module = _loaded(candidate.after) or _loaded(candidate.before)
        if module is not None:
            peaks[candidate.label] = peak_of(module)
    if not peaks:
        raise HloomError("no module of the directory can be followed")
    chosen = max((candidate for candidate in candidates if candidate.label in peaks), key=lambda c: peaks[c.label])
    by = "by XLA's buffer assignments" if known else f"of the {len(peaks)} largest files"
    return chosen, [f"{chosen.label} takes most of the {len(candidates)} modules, {by}"]


def _loaded(stage: DumpedModule | None) -> Module | None:
    """A module of the directory; None where it is not dumped, or a link leads out of the directory."""
    if stage is None or not stage.path.resolve().is_relative_to(stage.path.parent.resolve()):
        return None
    return load(stage.path)
