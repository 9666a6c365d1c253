"""One line of the table: what was measured, ours and the peer's, their ratio, and the bar it is held to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.clock import Times
from benchmarks.programs import Program


@dataclass(frozen=True, slots=True)
class AtLeast:
    """A bar that a ratio must reach."""

    limit: float

    def holds(self, ratio: float) -> bool:
        return ratio >= self.limit

    def __str__(self) -> str:
        return f">= {self.limit:g}"


@dataclass(frozen=True, slots=True)
class AtMost:
    """A bar that a ratio must not pass."""

    limit: float

    def holds(self, ratio: float) -> bool:
        return ratio <= self.limit

    def __str__(self) -> str:
        return f"<= {self.limit:g}"


Bar = AtLeast | AtMost


@dataclass(frozen=True, slots=True)
class Figure:
    """A line: `ours` and `theirs` as texts with units, the ratios of the best and of the median samples.

    The bar is held against the ratio of the best samples: they are what the code costs, the rest is the machine.
    """

    subject: str
    ours: str
    peer: str
    theirs: str
    ratio: float | None = None
    median_ratio: float | None = None
    bar: Bar | None = None
    instructions_per_second: float | None = None
    our_seconds: float = 0
    peer_seconds: float = 0

    @property
    def passes(self) -> bool | None:
        """Whether the bar holds; None where there is none."""
        return None if self.bar is None or self.ratio is None else self.bar.holds(self.ratio)


def times_as_fast(subject: str, program: Program, ours: Times, peer: str, theirs: Times, bar: Bar | None) -> Figure:
    """How many times as fast as the peer: higher is better."""
    return Figure(
        f"{subject}: {program.name}",
        milliseconds(ours.best),
        peer,
        milliseconds(theirs.best),
        theirs.best / ours.best,
        theirs.median / ours.median,
        bar,
        program.instructions / ours.best,
        ours.best,
        theirs.best,
    )


def times_the_time(subject: str, program: Program, ours: Times, peer: str, theirs: Times, bar: Bar | None) -> Figure:
    """How many times the peer's time: lower is better."""
    return Figure(
        f"{subject}: {program.name}",
        milliseconds(ours.best),
        peer,
        milliseconds(theirs.best),
        ours.best / theirs.best,
        ours.median / theirs.median,
        bar,
        program.instructions / ours.best,
        ours.best,
        theirs.best,
    )


def together(subject: str, figures: Sequence[Figure], bar: Bar | None) -> Figure:
    """The sums of the best samples of several lines, which are held to the bar as a whole."""
    ours, theirs = (sum(getattr(figure, side) for figure in figures) for side in ("our_seconds", "peer_seconds"))
    ratio = theirs / ours if isinstance(bar, AtLeast) else ours / theirs
    return Figure(
        f"{subject}: the {len(figures)} above together",
        milliseconds(ours),
        figures[0].peer,
        milliseconds(theirs),
        ratio,
        None,
        bar,
    )


def growth(subject: str, small: Program, large: Program, less: Times, more: Times, bar: Bar | None) -> Figure:
    """How many times as long an instruction takes in a large program as in a small one: 1 is linear."""
    counts = large.instructions / small.instructions
    return Figure(
        f"{subject}: an instruction among {large.instructions:,} against {small.instructions:,}",
        microseconds(more.best / large.instructions),
        "itself",
        microseconds(less.best / small.instructions),
        more.best / less.best / counts,
        more.median / less.median / counts,
        bar,
        large.instructions / more.best,
    )


def milliseconds(seconds: float) -> str:
    """`12.3 ms`."""
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds * 1e3:.0f} ms"


def microseconds(seconds: float) -> str:
    """`2.34 us`."""
    return f"{seconds * 1e6:.3g} us"
