"""Ask XLA's own parser about texts: `python -m tests.corpus.check [FILE...]`, or hold the corpus to its claims.

Some texts abort the parser's process, so a child reads them; where it dies, a new one goes on with the rest.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from . import aborts, handwritten, refused
from .cache import HERE

WORKER = HERE / "worker.py"
NOT_ACCEPTED = ("tensorflow_2020/", "year_2026/", "fragments/")


@dataclass(frozen=True, slots=True)
class Answer:
    """What XLA made of a text: "accepted" with its opcodes, "refused" or "aborted" with its message."""

    verdict: str
    message: str = ""
    opcodes: tuple[str, ...] = ()


def ask(texts: dict[str, str]) -> dict[str, Answer]:
    answers: dict[str, Answer] = {}
    waiting = list(texts)
    while waiting:
        run = subprocess.run(
            [sys.executable, str(WORKER)],
            input="".join(json.dumps([name, texts[name]]) + "\n" for name in waiting),
            capture_output=True,
            text=True,
        )
        for name, verdict, message, opcodes in map(json.loads, run.stdout.splitlines()):
            answers[name] = Answer(verdict, message, tuple(opcodes))
        waiting = [name for name in waiting if name not in answers]
        if waiting:
            answers[waiting.pop(0)] = Answer("aborted", reason_of_death(run))
    return answers


def reason_of_death(run: subprocess.CompletedProcess[str]) -> str:
    """The failed check that absl logged, or the signal's number where there was none."""
    if run.returncode > 0:
        raise RuntimeError(f"the worker could not start:\n{run.stderr}")
    fatal = [line for line in run.stderr.splitlines() if line.startswith("F")]
    return fatal[0].partition("] ")[2] if fatal else f"signal {-run.returncode}"


def broken_claims() -> Iterator[str]:
    """One line for each text of which XLA does not think what its folder says."""
    written = handwritten()
    foreign = {name: text for name, text in written.items() if name.startswith(NOT_ACCEPTED)}
    modules = {name: text for name, text in written.items() if name not in foreign}
    for claim, texts in (("accepted", modules), ("refused", foreign | refused()), ("aborted", aborts())):
        for name, answer in ask(texts).items():
            if answer.verdict != claim:
                yield f"{name}: should be {claim}, is {answer.verdict} {answer.message}"


def main(paths: list[str]) -> int:
    if paths:
        for name, answer in ask({path: Path(path).read_bytes().decode() for path in paths}).items():
            sys.stdout.write(f"{name} {answer.verdict} {answer.message}\n")
        return 0
    broken = list(broken_claims())
    sys.stdout.write("\n".join(broken or ["every claim holds"]) + "\n")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
