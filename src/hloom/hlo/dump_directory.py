"""The directories that XLA writes with `--xla_dump_to`: which modules they hold, at which stages."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from hloom.hlo.file_io import unreadable
from hloom.text import HloomError

BEFORE = "before_optimizations"
AFTER = "after_optimizations"
MOST_LISTED = 20
"""How many modules an error lists."""

_FILE = re.compile(
    r"(?:\d+\.)?module_(?P<number>\d+)\.(?P<name>.+?)\."
    rf"(?P<stage>{BEFORE}|(?:\w+_|sm_[\d.]+_\w+_)?{AFTER}|\d{{4}}\..+)"
    r"\.(?P<format>txt|hlo|hlo\.pb)(?:\.gz|\.zst)?"
)
_OTHER = re.compile(r"(?P<name>.+?)\.(?P<format>hlo|txt|hlo\.txt|hlo\.pb|pb)(?:\.gz|\.zst)?")
_PREFERENCE = {"hlo.pb": 0, "pb": 0, "hlo": 1, "hlo.txt": 1, "txt": 1}
"""Of one stage in two formats, the proto is read: XLA's text leaves large constants out."""


@dataclass(frozen=True, slots=True)
class DumpedModule:
    """One module at one stage of compilation, in a file.

    `stage` is `before_optimizations`, `cpu_after_optimizations`, or the number and names of passes; empty where the
    file's name does not say. `number` tells modules of one name apart: it counts what the process compiled.
    """

    name: str
    stage: str
    number: int | None
    path: Path

    @property
    def label(self) -> str:
        """The module's name with its number, as XLA writes them."""
        return self.name if self.number is None else f"module_{self.number:04}.{self.name}"

    def is_module(self, wanted: str) -> bool:
        """Whether a name means this module: `jit_f`, `module_0004` or `module_0004.jit_f`."""
        return wanted in (self.name, self.label, self.label.partition(".")[0])

    def is_stage(self, wanted: str) -> bool:
        """Whether a name means this stage: all of it, without the device's name, or a pass's number."""
        return self.stage == wanted or self.stage.endswith(f"_{wanted}") or self.stage.startswith(f"{wanted}.")


def dump_modules(directory: str | os.PathLike[str]) -> list[DumpedModule]:
    """What a directory holds, modules in order, each by stages in order; raises HloomError where it is unreadable.

    Files with names of XLA's dumps are listed; where there are none, all that are called `.hlo`, `.txt` or `.pb`.
    """
    root = Path(directory)
    try:
        names = sorted(os.listdir(root))
    except OSError as problem:
        raise unreadable(root, problem) from None
    matches = [(match, root / name) for name in names if (match := _FILE.fullmatch(name))]
    matches = matches or [(match, root / name) for name in names if (match := _OTHER.fullmatch(name))]
    chosen: dict[tuple[str, str, str | None], tuple[int, DumpedModule]] = {}
    for match, path in matches:
        groups = match.groupdict()
        key = (groups["name"], groups.get("stage") or "", groups.get("number"))
        rank = _PREFERENCE[groups["format"]]
        if path.is_file() and (key not in chosen or rank < chosen[key][0]):
            chosen[key] = rank, DumpedModule(key[0], key[1], None if key[2] is None else int(key[2]), path)
    return sorted((entry for _, entry in chosen.values()), key=_order)


def choose(directory: str | os.PathLike[str], module: str | None, stage: str | None) -> DumpedModule:
    """The one module and stage that are meant; without a stage, before optimisation, or else the first.

    Raises HloomError, listing what is there, where none or several are meant.
    """
    entries = dump_modules(directory)
    if not entries:
        raise HloomError(f"{os.fspath(directory)} holds no HLO", hint="XLA writes it with XLA_FLAGS=--xla_dump_to=DIR")
    meant = [entry for entry in entries if module is None or entry.is_module(module)]
    if not meant:
        near = get_close_matches(module or "", {entry.name: None for entry in entries}, 3)
        raise HloomError(
            f"{os.fspath(directory)} holds no module '{module}'",
            hint=f"near: {', '.join(near)}" if near else listing(entries),
        )
    if len({entry.label for entry in meant}) > 1:
        count = len({entry.label for entry in meant})
        raise HloomError(
            f"{os.fspath(directory)} holds {count} modules{f' called {module}' if module else ''}: "
            f"say which one, module='{meant[0].label}'",
            hint=listing(meant),
        )
    return _at_stage(meant, stage)


def listing(entries: Sequence[DumpedModule]) -> str:
    """The modules, a line for each, with their stages."""
    stages: dict[str, list[str]] = {}
    for entry in entries:
        stages.setdefault(entry.label, []).append(entry.stage)
    lines = [
        f"{label}{': ' if any(stages_of_label) else ''}{_stages(stages_of_label)}"
        for label, stages_of_label in stages.items()
    ]
    further = [f"and {len(lines) - MOST_LISTED} more"] if len(lines) > MOST_LISTED else []
    return "\n  ".join(lines[:MOST_LISTED] + further)


def _at_stage(entries: Sequence[DumpedModule], stage: str | None) -> DumpedModule:
    if stage is None:
        return next((entry for entry in entries if entry.stage == BEFORE), entries[0])
    meant = [entry for entry in entries if entry.is_stage(stage)]
    if len(meant) == 1:
        return meant[0]
    known = ", ".join(entry.stage for entry in meant or entries)
    count = f"{len(meant)} stages" if meant else "no stage"
    raise HloomError(f"{entries[0].label} has {count} '{stage}'", hint=f"stages: {known}")


def _stages(stages: Sequence[str]) -> str:
    named = [stage for stage in stages if not stage[:4].isdigit()]
    passes = len(stages) - len(named)
    return ", ".join(named + ([f"{passes} passes between"] if passes else []))


def _order(entry: DumpedModule) -> tuple[int, str, int, str]:
    rank = 0 if entry.stage == BEFORE else 2 if entry.stage.endswith(AFTER) else 1
    return (-1 if entry.number is None else entry.number, entry.name, rank, entry.stage)
