"""XLA's own parser and printer, in a child process, of which a text may kill a fork."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

WORKER = Path(__file__).with_name("xla_worker.py")
FOREIGN = ("tensorflow_2020/", "year_2026/", "fragments/")
"""Folders of handwritten texts that this XLA need not accept."""

_ELIDED = re.compile(r"\{[^{}()]*\.\.\.[^{}()]*\}")


@dataclass(frozen=True, slots=True)
class Answer:
    """What XLA made of a text: "accepted" with its prints, "refused" with its message, or "aborted"."""

    verdict: str
    message: str = ""
    canonical: str = ""
    full: str = ""


@cache
def xla(text: str) -> Answer:
    """XLA's answer about one text."""
    worker = _worker()
    worker.stdin.write(json.dumps(text) + "\n")  # pyright: ignore[reportOptionalMemberAccess]
    worker.stdin.flush()  # pyright: ignore[reportOptionalMemberAccess]
    return Answer(**json.loads(worker.stdout.readline()))  # pyright: ignore[reportOptionalMemberAccess]


@cache
def _worker() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(WORKER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def canonical(text: str) -> str:
    """XLA's canonical print of a text that it must accept."""
    return _accepted(text).canonical


def full(text: str) -> str:
    """XLA's print with metadata and whole constants of a text that it must accept."""
    return _accepted(text).full


def _accepted(text: str) -> Answer:
    answer = xla(text)
    assert answer.verdict == "accepted", f"{answer.message}\n{text}"
    return answer


def without_elisions(text: str) -> str:
    """Zeros for the constants that are left out: XLA would fill them with whatever it likes, differently each time.

    A bare number stands for an array's first element, and the others are 0; complex numbers must all be written.
    """
    return "\n".join(_with_zeros(line) if "..." in line else line for line in text.split("\n"))


def _with_zeros(line: str) -> str:
    pairs = re.search(r"= c(?:64|128)\[(\d+)\]", line)
    return _ELIDED.sub("{" + ", ".join(["(0, 0)"] * int(pairs[1])) + "}" if pairs else "0", line)
