"""A module's history through XLA's passes: the figures after each, what each changed, and differences between any two.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from hloom.analysis import DEFAULT_DEVICE
from hloom.inspection.diff import ModuleDiff, diff
from hloom.inspection.profile.pass_states import PassState, find_state, pass_states
from hloom.inspection.profile.state_figures import StateFigures, figures_of
from hloom.text import Display, Displayed, DisplayTable, HloomError, HloomWarning, Record, tracked


@dataclass(frozen=True, slots=True)
class StateRow(Record):
    """One state with its figures, and what is new since the state before.

    `changes` are opcodes with how many more there are; empty where only something else than their numbers changed.
    `figures` is None, with the reason in `problem`, where the file cannot be read.
    """

    state: PassState
    figures: StateFigures | None
    is_changed: bool
    changes: Counter[str]
    problem: str = ""
    json_keys = (
        "state=state.label state.pipeline state.last_pass state.next_pass state.file changed=is_changed "
        "figures.instructions figures.flops flops_qualifier=figures.flops_qualifier.strip figures.peak_bytes "
        "figures.schedule figures.collectives changes problem"
    )


@dataclass(slots=True, repr=False)
class PassTimeline(Displayed, Record):
    """The states of one module, in order. Files are read when they are asked for, each distinct text parsed once."""

    name: str
    states: list[PassState]
    _figures: dict[bytes, StateFigures | HloomError] = field(default_factory=dict)
    json_keys = "module=name states=rows"

    def display(self) -> Display:
        rows = ((state.label, state.pipeline, state.last_pass, state.path.name) for state in self.states)
        table = DisplayTable("states", ("state", "pipeline", "after pass", "file"), rows, len(self.states))
        return Display(f"<timeline of {self.name}: {len(self.states):,} states>", [table], "timeline.rows()")

    def __len__(self) -> int:
        return len(self.states)

    def __getitem__(self, wanted: str | int) -> PassState:
        """The state of a number of XLA's or a stage; raises HloomError where there is none."""
        return find_state(self.states, str(wanted))

    def rows(self) -> Iterator[StateRow]:
        """Every state with its figures; a file that cannot be read has none, and the next is compared with the last
        that could.
        """
        before: bytes | None = None
        known: StateFigures | None = None
        for state in tracked(self.states):
            figures = self._figures_of(state)
            if isinstance(figures, HloomError):
                yield StateRow(state, None, True, Counter(), str(figures))
                continue
            is_changed = before is not None and state.digest != before
            yield StateRow(state, figures, is_changed, _changes(known, figures), figures.problem)
            before, known = state.digest, figures

    def diff(
        self, before: str | int, after: str | int, *, costs: bool = True, device: str = DEFAULT_DEVICE
    ) -> ModuleDiff:
        """What differs between two states, as `hloom.diff` says it."""
        first, second = self[before], self[after]
        return diff(first.module(), second.module(), costs=costs, device=device)

    def _figures_of(self, state: PassState) -> StateFigures | HloomError:
        try:
            digest = state.digest
        except HloomError as problem:
            return problem
        if digest not in self._figures:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", HloomWarning)  # thousands of states would say the same
                    self._figures[digest] = figures_of(state.module())
            except HloomError as problem:
                self._figures[digest] = problem
        return self._figures[digest]


def _changes(before: StateFigures | None, after: StateFigures) -> Counter[str]:
    """By how many each opcode is more or less, the largest changes first."""
    if before is None or before is after:
        return Counter()
    names = {**before.opcodes, **after.opcodes}
    changes = {name: after.opcodes[name] - before.opcodes[name] for name in names}
    return Counter(dict(sorted(((n, c) for n, c in changes.items() if c), key=lambda pair: (-abs(pair[1]), pair[0]))))


def pass_timeline(directory: str | os.PathLike[str], module: str | None = None) -> PassTimeline:
    """The timeline of XLA's passes over a module in a directory that XLA dumped into.

    `module` names it (`jit_f`, `module_0004`) where there are several. Raises HloomError where there is none, or no
    states between passes.
    """
    return PassTimeline(*pass_states(directory, module))
