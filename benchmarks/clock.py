"""Times of jobs that take turns, so that a busy machine slows all of them alike."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from time import thread_time
from typing import Any

FEWEST, MOST = 5, 25
"""How many samples a job gets at least and at most."""


@dataclass(frozen=True, slots=True)
class Job:
    """What is timed, and what makes its argument anew before each sample, outside the time."""

    run: Callable[[Any], Any]
    prepare: Callable[[], Any] = lambda: None


@dataclass(frozen=True, slots=True)
class Times:
    """The best and the median of a job's samples, in seconds of processor time: other programs do not count."""

    best: float
    median: float


def take_turns(jobs: Sequence[Job], seconds: float, fewest: int | None = None) -> list[Times]:
    """Sample each job in turn, every other round backwards, until all samples together have taken so many seconds.

    The garbage of earlier samples is collected before each one, and the collector stays on during it, as it is for
    a user.
    """
    samples: list[list[float]] = [[] for _ in jobs]
    turns = list(zip(jobs, samples, strict=True))
    taken = 0.0
    fewest = fewest or FEWEST
    gc.freeze()  # what is here already is not a garbage: looking through jax's objects takes longer than the samples
    while len(samples[0]) < MOST and (taken < seconds or len(samples[0]) < fewest):
        for job, times in turns:
            times.append(_sample(job))
            taken += times[-1]
        turns.reverse()
    gc.unfreeze()
    return [Times(min(times), median(times)) for times in samples]


def _sample(job: Job) -> float:
    argument = job.prepare()
    gc.collect()
    start = thread_time()
    result = job.run(argument)
    elapsed = thread_time() - start
    del result
    return elapsed
