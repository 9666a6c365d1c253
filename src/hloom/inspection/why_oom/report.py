"""The out-of-memory report: sums, buffers at the peak, and remedies."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from hloom.analysis import ALL_KNOWN, SizeNote
from hloom.inspection.why_oom.held_buffers import BufferGroup, HeldBuffer, general_reason, grouped, repeated_scope
from hloom.inspection.why_oom.remedies import Remedy
from hloom.text import Bytes, Display, Displayed, DisplayTable, Record


class TriedRemedy(NamedTuple):
    """A remedy, and whether the changed program fits; true where nobody said how much memory there is."""

    remedy: Remedy
    fits: bool
    json_keys = "**remedy fits"


@dataclass(frozen=True, slots=True, repr=False)
class OomReport(Displayed, Record):
    """Why a program does or does not fit.

    `origin` says what it was read from: "module", "error text" or "dump". `peak` are the bytes that the program needs,
    `memory` those that there are, None where nobody said. `sums` are parts of the peak by name, `xla_sums` the same as
    XLA has them. `steps` counts the instructions of a run, of which `peak_step` is `peak_instruction`. `remedies` are
    what was tried: what helps first, the cheapest that fits before what saves more.
    """

    origin: str
    name: str
    peak: Bytes
    memory: Bytes | None
    sums: dict[str, int]
    buffers: tuple[HeldBuffer, ...]
    remedies: tuple[Remedy, ...] = ()
    schedule: str = ""
    steps: int = 0
    peak_step: int = 0
    peak_instruction: str = ""
    xla_sums: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    sizes: SizeNote = ALL_KNOWN
    json_keys = "* fits missing padding remedies=tried by_scope by_source by_reason"

    def display(self) -> Display:
        sums = [(name, count, self.xla_sums.get(name)) for name, count in self.sums.items()]
        buffers = ((one.name, one.type, one.role, one.bytes, one.scope, one.reason) for one in self.buffers)
        tried = [(one.what, one.peak, one.saved, one.problem, one.command) for one in self.remedies]
        columns = ("buffer", "type", "whose", "bytes", "scope", "why")
        tables = (
            DisplayTable("bytes", ("memory", "bytes", "by XLA"), sums, len(sums)),
            DisplayTable("live at the peak", columns, buffers, len(self.buffers)),
            DisplayTable("tried", ("change", "peak", "saved", "problem", "command"), tried, len(tried)),
        )
        return Display(f"<{self}>", tables)

    @property
    def fits(self) -> bool | None:
        """Whether the program fits; None where it is not known how much there is."""
        return None if self.memory is None else self.peak <= self.memory

    @property
    def missing(self) -> int:
        """The bytes that are too many."""
        return max(self.peak - self.memory, 0) if self.memory is not None else 0

    @property
    def padding(self) -> int:
        """The bytes at the peak that hold nothing."""
        return sum(buffer.padding for buffer in self.buffers)

    @property
    def tried(self) -> tuple[TriedRemedy, ...]:
        """The remedies, and whether the program fits with each."""
        return tuple(TriedRemedy(remedy, remedy.fits(self.memory)) for remedy in self.remedies)

    @property
    def helpful(self) -> tuple[Remedy, ...]:
        """The remedies that lower the peak, in order."""
        return tuple(remedy for remedy in self.remedies if remedy.helps)

    @property
    def useless(self) -> tuple[Remedy, ...]:
        """The remedies that do not lower the peak, or could not be tried."""
        return tuple(remedy for remedy in self.remedies if not remedy.helps)

    def by_scope(self, repeated: bool = True) -> list[BufferGroup]:
        """The buffers by scope; with `repeated`, layers that differ in their numbers are one."""
        return grouped(self.buffers, _repeated if repeated else _scope)

    def by_source(self) -> list[BufferGroup]:
        """The buffers by source line."""
        return grouped(self.buffers, lambda buffer: buffer.source)

    def by_reason(self) -> list[BufferGroup]:
        """The buffers by why they are there."""
        return grouped(self.buffers, lambda buffer: general_reason(buffer) or buffer.role)

    def __str__(self) -> str:
        limit = "" if self.memory is None else f" of {self.memory:,}"
        helpful = "; ".join(f"{remedy.what}: {remedy.peak:,}" for remedy in self.helpful[:3])
        peak = f"{self.sizes.qualifier}{self.peak:,}{limit} bytes at the peak"
        return "; ".join(filter(None, (f"{self.name}: {peak}", str(self.sizes), helpful)))


def _repeated(buffer: HeldBuffer) -> str:
    return repeated_scope(buffer.scope)


def _scope(buffer: HeldBuffer) -> str:
    return buffer.scope


def ordered(remedies: list[Remedy], limit: int | None) -> tuple[Remedy, ...]:
    """What fits first, the fewest devices and the least further work before others; then by what is saved."""

    def rank(remedy: Remedy) -> tuple[bool, bool, tuple[float, ...], int]:
        is_enough = limit is not None and remedy.fits(limit)
        price = (remedy.devices, round(remedy.flops_factor, 3), remedy.comm_bytes) if is_enough else ()
        return (not remedy.helps, not is_enough, price, -remedy.saved)

    return tuple(sorted(remedies, key=rank))
