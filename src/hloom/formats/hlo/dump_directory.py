"""Directories that XLA writes with `--xla_dump_to`: their modules and stages."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from hloom.text import Display, Displayed, HloomError, unreadable

BEFORE = "before_optimizations"
AFTER = "after_optimizations"
PARTITIONED = "after_spmd_partitioner"
SHORT = {"before": BEFORE, "after": AFTER}
"""Short names of stages."""
MOST_LISTED = 20
"""The maximum number of modules to list in an error."""
MOST_DIGITS = 200
"""The digits of a number in a file's name that are read; XLA writes at most 20, Python refuses 4301."""

_DEVICE = r"(?:sm_\d+(?:\.\d+)?[a-z]?|[A-Za-z][\w:+-]*?)_(?:gpu_)?"
"""What XLA's compilers put before the last stage: `cpu_`, `gpu_`, `sm_9.0a_gpu_`, `gfx942_gpu_`; TPUs put nothing."""
_FILE = re.compile(
    r"(?:(?P<time>\d+)\.)?module_(?P<number>\d+)(?:\.(?P<name>.+?))??(?:\.cl_\d+)?\."
    rf"(?P<stage>{BEFORE}|(?:{_DEVICE})?{AFTER}(?:_(?:before|after)_buffer_assignment)?|after_codegen|"
    rf"{PARTITIONED}|\d{{4,}}\..+)"
    r"\.(?P<format>txt|hlo|hlo\.pb)(?:\.gz|\.zst)?"
)
"""The name of a dumped module. `--xla_dump_include_timestamp` puts the time in front; a TPU's compiler adds the change
list of its build (`cl_933746096`); a module's name is missing where the file's would have over 255 characters
(xla/service/dump.cc, FilenameFor)."""
_OTHER = re.compile(r"(?P<name>.+?)\.(?P<format>hlo|txt|hlo\.txt|hlo\.pb|pb)(?:\.gz|\.zst)?")
_PREFERENCE = {"hlo.pb": 0, "pb": 0, "hlo": 1, "hlo.txt": 1, "txt": 1}
"""If a stage exists in two formats, the proto is preferred: XLA's text elides large constants."""


class SeveralModules(HloomError):
    """Raised if one module is wanted and a directory holds several; `modules` are the candidates, each at one stage."""

    def __init__(self, message: str, modules: Sequence[DumpedModule], hint: str) -> None:
        super().__init__(message, hint=hint)
        self.modules = modules


@dataclass(frozen=True, slots=True, repr=False)
class DumpedModule(Displayed):
    """One module at one stage of compilation, in a file.

    `stage` is `before_optimizations`, `cpu_after_optimizations`, or the number and names of passes; empty if the file's
    name does not say. `number` distinguishes modules of the same name: it counts compilations in the process. `name` is
    empty if the file's name gives only the number.
    """

    name: str
    stage: str
    number: int | None
    path: Path

    def display(self) -> Display:
        return Display(f"<{self.label} at {self.stage or 'an unknown stage'}: {self.path}>")

    @property
    def label(self) -> str:
        """The module's name with its number, as XLA writes them."""
        if self.number is None:
            return self.name
        return f"module_{self.number:04}.{self.name}" if self.name else f"module_{self.number:04}"

    @property
    def size(self) -> int:
        """The size of its file in bytes."""
        return self.path.stat().st_size

    def is_module(self, wanted: str) -> bool:
        """Whether a name refers to this module: `jit_f`, `module_0004` or `module_0004.jit_f`."""
        return wanted in (self.name, self.label, self.label.partition(".")[0])

    def is_stage(self, wanted: str) -> bool:
        """Whether a name refers to this stage: its full name, the name without the device, `before`, `after`, or a pass
        number.
        """
        wanted = SHORT.get(wanted, wanted)
        if wanted.isdecimal() and wanted.isascii():
            return self.stage.partition(".")[0].lstrip("0") == wanted.lstrip("0") and self.stage[:1].isdecimal()
        return self.stage == wanted or self.stage.endswith(f"_{wanted}") or self.stage.startswith(f"{wanted}.")


def dump_modules(directory: str | os.PathLike[str]) -> list[DumpedModule]:
    """The modules of a directory in order, each with its stages in order; raises HloomError if it is unreadable.

    Lists files named like XLA's dumps; if there are none, all `.hlo`, `.txt` and `.pb` files. Of files that differ in
    their timestamps alone, the latest counts.
    """
    root = Path(directory)
    try:
        names = sorted(os.listdir(root))
    except OSError as problem:
        raise unreadable(root, problem) from None
    matches = [(match, root / name) for name in names if (match := _FILE.fullmatch(name))]
    matches = matches or [(match, root / name) for name in names if (match := _OTHER.fullmatch(name))]
    chosen: dict[tuple[str, str, str | None], tuple[tuple[int, int], DumpedModule]] = {}
    for match, path in matches:
        groups = match.groupdict()
        key = (groups["name"] or "", groups.get("stage") or "", groups.get("number"))
        rank = (-int((groups.get("time") or "0")[:MOST_DIGITS]), _PREFERENCE[groups["format"]])
        if path.is_file() and (key not in chosen or rank < chosen[key][0]):
            number = None if key[2] is None else int(key[2][:MOST_DIGITS])
            chosen[key] = rank, DumpedModule(key[0], key[1], number, path)
    return sorted((entry for _, entry in chosen.values()), key=_order)


def choose(
    directory: str | os.PathLike[str], module: str | None, stage: str | None, preferred: str = BEFORE
) -> DumpedModule:
    """The requested module and stage; without a stage, the preferred one if present, else the first.

    Raises SeveralModules, listing them, if several match; HloomError if none matches, or if its file is a symbolic link
    that leaves the directory.
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
    labels = _by_label(meant)
    if len(labels) > 1:
        called = f" called {module}" if module else ""
        chosen = (_at_stage(stages, None, preferred) for stages in labels.values())
        largest_first = sorted(chosen, key=lambda entry: -entry.size)
        example = f"'{os.path.join(directory, largest_first[0].label)}', the largest"
        raise SeveralModules(
            f"{os.fspath(directory)} holds {len(labels)} modules{called}: name one, as in {example}",
            largest_first,
            f"{listing(meant)}\n  hloom inspect {os.fspath(directory)} counts instructions and FLOPs of the largest",
        )
    return _inside(_at_stage(meant, stage, preferred))


def choose_by_path(path: str | os.PathLike[str], stage: str | None, preferred: str = BEFORE) -> DumpedModule | None:
    """The module that a path such as `DIR/jit_f` names; None if it names none, or an existing file or directory.

    Raises HloomError as `choose` does.
    """
    directory, name = os.path.split(os.fspath(path))
    is_there = bool(dump_modules(path)) if os.path.isdir(path) else os.path.lexists(path)
    if is_there or not os.path.isdir(directory or "."):
        return None
    if not any(entry.is_module(name) for entry in dump_modules(directory or ".")):
        return None
    return choose(directory or ".", name, stage, preferred)


def dumped_module(
    path: str | os.PathLike[str], module: str | None, stage: str | None, preferred: str = BEFORE
) -> tuple[DumpedModule, list[str]] | None:
    """The file that a dump directory or `DIR/NAME` refers to, with the module's other stages; None for other paths.

    Raises HloomError as `choose` does.
    """
    if module is None and (named := choose_by_path(path, stage, preferred)):
        chosen = named
    elif os.path.isdir(path):
        chosen = choose(path, module, stage, preferred)
    else:
        return None
    entries = dump_modules(chosen.path.parent)
    return chosen, [entry.stage for entry in entries if entry.label == chosen.label and entry.stage != chosen.stage]


def listing(entries: Sequence[DumpedModule]) -> str:
    """The modules, one per line, with sizes and stages, largest first."""
    rows = [
        (max(entry.size for entry in stages), label, [entry.stage for entry in stages])
        for label, stages in _by_label(entries).items()
    ]
    width = max((len(f"{size:,}") for size, _, _ in rows), default=0)
    lines = [
        f"{size:{width},} bytes  {label}{': ' if any(stages) else ''}{_stages(stages)}"
        for size, label, stages in sorted(rows, key=lambda row: -row[0])
    ]
    further = [f"and {len(lines) - MOST_LISTED} more"] if len(lines) > MOST_LISTED else []
    return "\n  ".join(lines[:MOST_LISTED] + further)


def _by_label(entries: Sequence[DumpedModule]) -> dict[str, list[DumpedModule]]:
    """Modules grouped by name and number, each with its stages."""
    labels: dict[str, list[DumpedModule]] = {}
    for entry in entries:
        labels.setdefault(entry.label, []).append(entry)
    return labels


def _inside(entry: DumpedModule) -> DumpedModule:
    """The module after checking that its file is inside the directory: an untrusted dump may contain any link."""
    target = entry.path.resolve()
    if not target.is_relative_to(entry.path.parent.resolve()):
        raise HloomError(
            f"{entry.path} is a symbolic link out of the directory, to {target}",
            hint="name that file itself to read it",
        )
    return entry


def _at_stage(entries: Sequence[DumpedModule], stage: str | None, preferred: str) -> DumpedModule:
    if stage is None:
        return next((entry for entry in entries if entry.is_stage(preferred)), entries[0])
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


def stage_rank(stage: str) -> int:
    """When XLA writes a stage: before optimisation, after partitioning, between passes, and after the last one."""
    if stage == BEFORE:
        return 0
    if stage == PARTITIONED:
        return 1
    if stage.endswith(AFTER):
        return 4
    return _AFTER_PASSES.get(stage.removeprefix(AFTER), 2)


_AFTER_PASSES = {"_before_buffer_assignment": 3, "_after_buffer_assignment": 5, "after_codegen": 6}
"""Stages of a TPU's compiler around the one that all compilers write last, observed with libtpu 0.0.42."""


def _order(entry: DumpedModule) -> tuple[int, str, int, str]:
    return (-1 if entry.number is None else entry.number, entry.name, stage_rank(entry.stage), entry.stage)
