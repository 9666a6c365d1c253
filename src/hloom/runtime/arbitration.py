"""Arbitrates with hloom's own evaluator when XLA computes different numbers for two programs.

XLA may compute a program differently from how it is written, so a difference alone does not show that a rewrite is
wrong. The evaluator (`hloom.evaluate`) computes with numpy, one instruction at a time, and shares no code with XLA.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hloom.evaluator import evaluate
from hloom.ir import Module
from hloom.runtime.comparison import compare
from hloom.text import HloomError, Record

MAX_STEPS = 1_000_000
"""The maximum number of instructions evaluated per program: about ten seconds."""


@dataclass(frozen=True, slots=True)
class Arbitration(Record):
    """The evaluator's verdict on two programs whose results differ under XLA.

    `same` says whether the evaluator gets equal results for both; `xla_agrees` whether XLA's results of the first and
    of the second program equal the evaluator's. `obstacle` is why the evaluator could not tell, else empty.
    """

    names: tuple[str, str]
    same: bool = False
    xla_agrees: tuple[bool, bool] = (False, False)
    obstacle: str = ""
    json_keys = "obstacle? evaluator_finds_same? xla_agrees?=agreement"

    def __str__(self) -> str:
        if self.obstacle:
            return f"hloom's evaluator cannot tell which is right: {self.obstacle}"
        one, other = self.names
        agreement = {
            (True, True): f"on {one} and on {other}",
            (True, False): f"on {one}, but not on {other}",
            (False, True): f"on {other}, but not on {one}",
            (False, False): f"neither on {one} nor on {other}",
        }[self.xla_agrees]
        if not self.same:
            return f"hloom's evaluator, too, finds that the programs differ; XLA agrees with it {agreement}"
        blamed = [name for name, agrees in zip(self.names, self.xla_agrees, strict=True) if not agrees]
        wrong = f": XLA does not compute {' and '.join(blamed)} as written" if blamed else ""
        return f"hloom's evaluator finds the same results for both; XLA agrees with it {agreement}{wrong}"

    @property
    def evaluator_finds_same(self) -> bool | None:
        """Whether hloom's evaluator finds the same results for both programs; None where it finds none."""
        return None if self.obstacle else self.same

    @property
    def agreement(self) -> dict[str, bool]:
        """Whether XLA agrees with the evaluator, by program; empty where the evaluator finds nothing."""
        return {} if self.obstacle else dict(zip(self.names, self.xla_agrees, strict=True))


@dataclass(frozen=True, slots=True)
class ProgramRun:
    """A program that XLA ran: its name in messages, its inputs, and XLA's outputs."""

    name: str
    program: Module
    inputs: Sequence[np.ndarray]
    outputs: Sequence[np.ndarray]


def arbitrate(
    first: ProgramRun, second: ProgramRun, rtol: float | None = None, atol: float | None = None
) -> Arbitration:
    """Evaluate two programs for which XLA gives different results."""
    names = first.name, second.name
    try:
        evaluated = [evaluate(run.program, run.inputs, steps=MAX_STEPS) for run in (first, second)]
    except HloomError as error:
        return Arbitration(names, obstacle=error.message.partition("\n")[0])

    def agree(left: Sequence[np.ndarray], right: Sequence[np.ndarray]) -> bool:
        return not compare(left, right, rtol, atol)

    return Arbitration(
        names,
        agree(evaluated[0], evaluated[1]),
        (agree(first.outputs, evaluated[0]), agree(second.outputs, evaluated[1])),
    )
