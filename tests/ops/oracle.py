"""XLA's parser and StableHLO's verifier as oracles for types; they live in a child, for some texts abort the process."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import IO

from hloom.formats.hlo import parse
from hloom.ir import Inference, Type, without_layout
from hloom.text import HloomError

WORKER = Path(__file__).with_name("oracle_worker.py")


class Child:
    """The child; a new one is started when it has died of a text."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None

    def ask(self, language: str, text: str) -> tuple[str, str]:
        """ "accepted" and the printed module, "refused" and the reason, or "aborted"."""
        process = self.started()
        write(process.stdin, json.dumps([language, text]))
        answer = process.stdout.readline() if process.stdout else ""
        if answer:
            verdict, message = json.loads(answer)
            return verdict, message
        process.communicate()
        self.process = None
        return "aborted", ""

    def started(self) -> subprocess.Popen[str]:
        if self.process is None:
            pipe = subprocess.PIPE
            command = [sys.executable, str(WORKER)]
            self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
            ready = self.process.stdout.readline() if self.process.stdout else ""
            assert ready == "ready\n", "the oracle's child does not start: run it by hand to see why"
        return self.process


def write(stream: IO[str] | None, line: str) -> None:
    assert stream is not None
    stream.write(line + "\n")
    stream.flush()


@cache
def child() -> Child:
    return Child()


def module_text(instruction: str, operands: list[str], computations: str = "") -> str:
    """A module whose root is this instruction on operands p0, p1, ... of these types."""
    parameters = "".join(f"  p{n} = {operand_type} parameter({n})\n" for n, operand_type in enumerate(operands))
    return f"HloModule m\n\n{computations}ENTRY e {{\n{parameters}  ROOT r = {instruction}\n}}\n"


def ours(text: str) -> Type | str:
    """The type that we infer of the root, or why we refuse."""
    try:
        root = parse(text).entry.output
        assert root is not None
        inferred = Inference().type_of(root)
    except HloomError as problem:
        return str(problem)
    assert inferred is not None, "no rule"
    return inferred


def xla(text: str) -> Type | str:
    """The type that XLA infers of the root, or why it refuses."""
    verdict, message = child().ask("hlo", text)
    if verdict != "accepted":
        return f"{verdict} {message}"
    root = parse(message).entry.output
    assert root is not None and root.type is not None
    return without_layout(root.type)


def stablehlo(text: str) -> str:
    """Nothing where StableHLO's verifier accepts a module, or why it refuses."""
    verdict, message = child().ask("stablehlo", text)
    return "" if verdict == "accepted" else f"{verdict} {message}"
