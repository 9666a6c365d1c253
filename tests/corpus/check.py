"""Ask XLA's own parser about texts: `python -m tests.corpus.check [FILE...]`, or hold the corpus to its claims.

Some texts abort the parser's process, so a child reads them: `worker`.
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
    """XLA's answer about each text, from one child for all of them."""
    lines = "".join(json.dumps([name, text]) + "\n" for name, text in texts.items())
    run = subprocess.run([sys.executable, str(WORKER)], input=lines, capture_output=True, text=True)
    if run.returncode:
        raise RuntimeError(f"the worker could not start:\n{run.stderr}")
    answers = map(json.loads, run.stdout.splitlines())
    return {name: Answer(verdict, message, tuple(opcodes)) for name, verdict, message, opcodes in answers}


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
