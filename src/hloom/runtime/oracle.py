"""What XLA itself says of a text: whether it reads it, how it prints it, what it takes, costs and needs.

Every function asks the worker, so that a text that makes XLA crash costs an error and not the process. All raise
XlaError with XLA's words; timeouts are in seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from hloom.runtime import process, xla
from hloom.runtime.process import XlaError
from hloom.text import HloomError

TIMEOUT = 120.0
"""How long XLA may take over one text, unless told otherwise."""


@dataclass(frozen=True, slots=True)
class Signature:
    """The types of a text's flattened parameters and results, as HLO writes them, without layouts."""

    parameters: tuple[str, ...]
    results: tuple[str, ...]


def accepts(text: str, timeout: float | None = TIMEOUT) -> str | None:
    """None where XLA's parser reads a text, else its message; what crashes the parser is not accepted either."""
    return _refusal("parse", text, None, timeout)


def compiles(text: str, placement: xla.Placement | None = None, timeout: float | None = TIMEOUT) -> str | None:
    """None where XLA compiles a text for the CPU, else its message."""
    return _refusal("compile", text, placement, timeout)


def canonical(text: str, timeout: float | None = TIMEOUT) -> str:
    """A text as XLA prints it with canonical names and whole constants: equal for modules that differ in names only."""
    return process.ask("canonical", text, timeout=timeout)[0]["text"]


def printed(text: str, timeout: float | None = TIMEOUT) -> str:
    """A text as XLA prints it with nothing left out."""
    return process.ask("printed", text, timeout=timeout)[0]["text"]


def signature(text: str, timeout: float | None = TIMEOUT) -> Signature:
    """What a text's entry takes and yields, as XLA reads it."""
    reply, _ = process.ask("signature", text, timeout=timeout)
    return Signature(tuple(reply["parameters"]), tuple(reply["results"]))


def cost(text: str, timeout: float | None = TIMEOUT) -> dict[str, float]:
    """XLA's cost analysis: `flops`, `bytes accessed`, `transcendentals` and more; a while body counts once."""
    return process.ask("cost", text, timeout=timeout)[0]["cost"]


def memory(text: str, placement: xla.Placement | None = None, timeout: float | None = TIMEOUT) -> dict[str, int]:
    """Bytes per device once compiled for the CPU: `arguments`, `outputs`, `temporaries`, `aliases` and `peak`."""
    return process.ask("compile", text, placement=placement, timeout=timeout)[0]["memory"]


def for_each(question: Callable[[str], object], texts: Iterable[str]) -> list[object]:
    """The answers to one question about many texts, an answer that could not be given being its HloomError."""
    return [_answer(question, text) for text in texts]


def _answer(question: Callable[[str], object], text: str) -> object:
    try:
        return question(text)
    except HloomError as error:
        return error


def _refusal(request: str, text: str, placement: xla.Placement | None, timeout: float | None) -> str | None:
    try:
        process.ask(request, text, placement=placement, timeout=timeout)
    except XlaError as error:
        return error.message
    return None
