"""The states of a module between XLA's passes: their files, and what the file names say.

    module_0012.jit_f.0031.simplification.after_algsimp.before_simplify-sorts.txt
                      number pipeline     last pass      next pass

XLA writes a state when a pipeline starts and after each pass that says that it changed the module, so the passes that a
file's name leaves out between two states have changed nothing. Source: xla/hlo/pass/hlo_pass_pipeline.cc,
MaybeDumpHloAndSaveFilenames; xla/service/dump.cc (jaxlib 0.10.2).
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from hloom.formats.hlo import PARTITIONED, DumpedModule, decompress, dump_modules, load, read_bytes, stage_rank
from hloom.ir import Module
from hloom.text import HloomError

FLAGS = "XLA_FLAGS='--xla_dump_to=DIR --xla_dump_hlo_as_text --xla_dump_hlo_pass_re=.*'"
"""What makes XLA write such a directory."""
STAGES = {"before": "before_optimizations", "after": "after_optimizations"}
"""Short names of the first and the last state."""
START = "pipeline-start"
"""The pass that a name gives where a pipeline has run none yet."""
MOST_LISTED = 20
"""The maximum number of modules to list in an error."""

_STATE = re.compile(r"(?P<number>\d{4,})\.(?P<pipeline>.+?)\.after_(?P<last>.+?)(?:\.before_(?P<next>.+))?")


@dataclass(frozen=True)
class PassState:
    """A module between two passes.

    `number` is XLA's, None before the first and after the last pass. `last_pass` has run, `next_pass` follows in the
    pipeline; both are empty where the file's name does not say.
    """

    stage: str
    number: int | None
    pipeline: str
    last_pass: str
    next_pass: str
    path: Path

    @property
    def label(self) -> str:
        """How a user names it: XLA's number, or the stage."""
        return self.stage if self.number is None else f"{self.number:04}"

    @property
    def file(self) -> str:
        """The name of the file."""
        return self.path.name

    @cached_property
    def digest(self) -> bytes:
        """A hash of the unpacked text: states of equal text are equal. Raises HloomError where it cannot be read."""
        _check_inside(self.path)
        return sha256(decompress(read_bytes(self.path), str(self.path))).digest()

    def module(self) -> Module:
        """The module, read anew each time; raises HloomError where it cannot be read."""
        _check_inside(self.path)
        return load(self.path)


def pass_states(directory: str | os.PathLike[str], module: str | None = None) -> tuple[str, list[PassState]]:
    """The name of the one module that is meant, and its states, in the order in which XLA went through them.

    Raises HloomError where the directory cannot be read, holds no states between passes, or several modules and none
    is named.
    """
    labels: dict[str, list[DumpedModule]] = {}
    for entry in dump_modules(directory):
        if entry.stage and entry.stage != PARTITIONED:  # equal to one of the states between passes
            labels.setdefault(entry.label, []).append(entry)
    passed = {label: entries for label, entries in labels.items() if any(map(_is_between, entries))}
    if not passed:
        what = "no states between passes" if labels else "no modules that XLA dumped"
        raise HloomError(f"{os.fspath(directory)} holds {what}", hint=f"XLA writes them with {FLAGS}")
    meant = [label for label, entries in passed.items() if module is None or entries[0].is_module(module)]
    if not meant:
        near = get_close_matches(module or "", [name for label in passed for name in (label, passed[label][0].name)], 3)
        hint = f"near: {', '.join(near)}" if near else _listing(_by_size(passed))
        raise HloomError(f"{os.fspath(directory)} holds no states of a module '{module}'", hint=hint)
    if len(meant) > 1:
        named = f" called {module}" if module else ""
        largest = _by_size({label: passed[label] for label in meant})
        raise HloomError(
            f"{os.fspath(directory)} holds {len(meant)} modules{named}: name one, as in --module {next(iter(largest))}",
            hint=_listing(largest),
        )
    return meant[0], sorted((_state(entry) for entry in passed[meant[0]]), key=_order)


def _is_between(entry: DumpedModule) -> bool:
    return _STATE.fullmatch(entry.stage) is not None


def _state(entry: DumpedModule) -> PassState:
    match = _STATE.fullmatch(entry.stage)
    if match is None:
        return PassState(entry.stage, None, "", "", "", entry.path)
    last = "" if match["last"] == START else match["last"]
    return PassState(entry.stage, int(match["number"]), match["pipeline"], last, match["next"] or "", entry.path)


def _order(state: PassState) -> tuple[int, int, str]:
    return stage_rank(state.stage), state.number or 0, state.stage


def _by_size(labels: dict[str, list[DumpedModule]]) -> dict[str, list[DumpedModule]]:
    """The modules, those of the largest files first."""
    sizes = {label: max(map(_size, entries)) for label, entries in labels.items()}
    return {label: labels[label] for label in sorted(labels, key=lambda label: (-sizes[label], label))}


def _listing(labels: dict[str, list[DumpedModule]]) -> str:
    """A line for each module: how many states it has."""
    lines = [
        f"{label}: {len(entries)} states, up to {max(map(_size, entries)):,} bytes"
        for label, entries in list(labels.items())[:MOST_LISTED]
    ]
    more = [f"and {len(labels) - MOST_LISTED} more"] if len(labels) > MOST_LISTED else []
    return "\n  ".join(lines + more)


def _size(entry: DumpedModule) -> int:
    try:
        return entry.size
    except OSError:
        return 0


def _check_inside(path: Path) -> None:
    """Raise HloomError for a link that leads out of the directory: a dump of somebody else's may hold any."""
    target = Path(os.path.realpath(path))
    if not target.is_relative_to(os.path.realpath(path.parent)):
        raise HloomError(f"{path} is a symbolic link out of the directory, to {target}")


def find_state(states: Sequence[PassState], wanted: str) -> PassState:
    """The state of a number (`31`, `0031`) or a stage (`before`, `after_optimizations`).

    Raises HloomError where there is none.
    """
    if wanted.isdecimal() and wanted.isascii() and len(wanted) < 10:
        meant = [state for state in states if state.number == int(wanted)]
    else:
        stage = STAGES.get(wanted, wanted)
        meant = [state for state in states if state.stage == stage or state.stage.endswith(f"_{stage}")]
    if len(meant) == 1:
        return meant[0]
    numbers = [state.label for state in states]
    shown = ", ".join(numbers if len(numbers) <= MOST_LISTED else [*numbers[:3], "...", *numbers[-3:]])
    count = f"{len(meant)} states are" if meant else "no state is"
    raise HloomError(f"{count} called '{wanted}'", hint=f"states: {shown}")
