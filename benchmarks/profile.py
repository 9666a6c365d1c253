"""Figures of profilers' traces: seconds to read one and to add its times up, and how they grow with its events."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.clock import Job, take_turns
from benchmarks.figures import AtMost, Figure, milliseconds
from benchmarks.programs import Plan
from hloom.formats.hlo import parse
from hloom.inspection.profile import Measurement, measurement
from tests.inspection.profile.traces import MODULE, RUNS, Event, written

LIMIT = 50e-6
"""Seconds of processor time for an event."""
TIMES = 10
LINEAR = AtMost(2)


def traces(plan: Plan) -> Iterator[Figure]:
    """Traces of few and of ten times as many runs, three events each."""
    with tempfile.TemporaryDirectory() as folder:
        runs = max(plan.rows // 10, 1)
        paths = [written(Path(folder, str(count)), _events(count)) for count in (runs, TIMES * runs)]
        jobs = [Job(_measured, lambda path=path: path) for path in paths]
        less, more = take_turns(jobs, plan.seconds)
    count = len(RUNS) // 2 * TIMES * runs
    ratio = more.best / count / LIMIT
    yield Figure(
        f"profile: a trace of {count:,} events", milliseconds(more.best), "limit", f"{1e6 * LIMIT:.0f} us an event",
        ratio, None, AtMost(1), count / more.best,
    )  # fmt: skip
    grown = more.best / less.best / TIMES
    yield Figure(
        f"profile: an event among {count:,} against {count // TIMES:,}", milliseconds(more.best), "few",
        milliseconds(less.best), grown, None, LINEAR,
    )  # fmt: skip


def _events(runs: int) -> list[Event]:
    one = [event for event in RUNS if event[1] == 1]
    return [(name, run, 100 * run + start, 100 * run + end) for run in range(runs) for name, _, start, end in one]


def _measured(path: Path) -> Measurement:
    return measurement(parse(MODULE), path)
