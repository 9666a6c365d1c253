"""Predicates: whether a module shows a fault, according to a command, XLA, or a Python function.

A predicate has a name for messages and a method `check(module, text)`, which gives a `Verdict`. To add one, write a
class here (in `numeric_predicates.py` if it compares numbers) and, for the command line, an option in
`hloom.cli.minimize`.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from hloom.ir import Module
from hloom.runtime import (
    LONGEST_SECONDS,
    XlaCrash,
    accepts,
    compiles,
    legalize,
    placement_of,
    printed,
    run,
    text_for_xla,
)
from hloom.text import HloomError, end_group, ending, time_text, wait_readable

TIMEOUT = 60.0
"""Seconds that one candidate may take, unless told otherwise."""
FILE = "{}"
"""The placeholder for the file's name in a command."""
ZERO, NONZERO = "zero", "nonzero"
STATUSES = (ZERO, NONZERO)
"""Which exit status of a command says that the fault shows."""
TAIL_BYTES = 2048
"""How much of what a command printed an error shows."""
REPETITIONS = 3
"""The number of runs of a timed program; the minimum counts."""
ALIKE = 0.5
"""Which part of the words of two messages must be the same for them to tell of one fault."""

_LOCATION = re.compile(r"\(([\w./-]+\.(?:cc|h)):\d+\)")
_WORD = re.compile(r"(?<![\w.%-])[A-Za-z][A-Za-z_]{2,}(?![\w.-])")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the fault shows, and what was seen; `is_checked` is false where that could not be seen."""

    shows: bool
    reason: str
    is_checked: bool = True


class FaultPredicate(ABC):
    """Whether a fault shows in a module; `name` is how messages call it.

    A module that cannot be checked shows no fault; `check` raises HloomError only for problems that affect every
    module.
    """

    name: str

    @abstractmethod
    def check(self, module: Module, text: str) -> Verdict:
        """Whether the fault shows in a module, of which this is the text."""

    def adopt(self, module: Module) -> None:  # noqa: B027 - most predicates need not know
        """Be told that a module, the one that was checked last, is the one that others are made of from now on."""


def as_predicate(
    predicate: FaultPredicate | Callable[[Module], object], *, isolated: bool, timeout: float
) -> FaultPredicate:
    """The predicate itself, or a function of a module as one."""
    if isinstance(predicate, FaultPredicate):
        if isolated:
            raise HloomError("isolated= is for functions: this predicate runs in a process of its own anyway")
        return predicate
    if not callable(predicate):
        raise HloomError(f"expected a function of a module as the predicate, not {type(predicate).__name__}")
    return FunctionPredicate(predicate, isolated=isolated, timeout=timeout)


class FunctionPredicate(FaultPredicate):
    """A function of Python's that is given a module of its own and says whether the fault shows.

    What it raises passes on. `isolated` calls it in a forked process each time, for functions that may crash or hang:
    there, what ends in any other way than by returning shows no fault.
    """

    def __init__(
        self, function: Callable[[Module], object], *, isolated: bool = False, timeout: float = TIMEOUT
    ) -> None:
        self.name = getattr(function, "__qualname__", None) or type(function).__qualname__
        self._function, self._isolated, self._timeout = function, isolated, min(timeout, LONGEST_SECONDS)
        if isolated and not hasattr(os, "fork"):
            raise HloomError("this system cannot fork: a function cannot be isolated")
        if isolated and "jax" in sys.modules:
            raise HloomError(
                "jax is imported in this process, whose threads a fork does not have: a function cannot be isolated",
                hint="leave isolated= out; hloom.run keeps XLA in a process of its own",
            )

    def check(self, module: Module, text: str) -> Verdict:
        if self._isolated:
            return self._check_in_fork(module)
        shows = bool(self._function(module.clone()))
        return Verdict(shows, f"it returned {shows}")

    def _check_in_fork(self, module: Module) -> Verdict:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            _answer_and_exit(self._function, module, writer)
        os.close(writer)
        try:
            return self._answer_of(child, reader)
        finally:
            os.close(reader)

    def _answer_of(self, child: int, reader: int) -> Verdict:
        try:
            ready = wait_readable(reader, self._timeout)
            answer = os.read(reader, 1) if ready else b""
        finally:
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
        if not ready:
            return Verdict(False, f"it was stopped after {self._timeout:g} s", False)
        if not answer:
            return Verdict(False, f"its process ended with {ending(os.waitstatus_to_exitcode(status))}")
        return Verdict(answer == b"1", f"it returned {answer == b'1'}")


def _answer_and_exit(function: Callable[[Module], object], module: Module, writer: int) -> None:
    """In the forked process: one byte for the answer, none where the function raises."""
    try:
        os.write(writer, b"1" if function(module) else b"0")
        os._exit(0)
    except BaseException:
        os._exit(1)


class CommandPredicate(FaultPredicate):
    """A command, run without a shell on a file with the module's text in place of `{}`.

    The fault shows where its exit status is 0 (or, with `status="nonzero"`, anything else); it does not where the
    command is stopped after `timeout` seconds.
    """

    def __init__(self, command: str, *, status: str = ZERO, timeout: float = TIMEOUT) -> None:
        self.name = command
        self._nonzero, self._timeout = status == NONZERO, min(timeout, LONGEST_SECONDS)
        if status not in STATUSES:
            raise HloomError(f"a status is {' or '.join(STATUSES)}, not '{status}'")
        try:
            self._words = shlex.split(command)
        except ValueError as problem:
            raise HloomError(f"the command {command!r} does not read: {problem}") from None
        if not any(FILE in word for word in self._words):
            raise HloomError(
                f"the command {command!r} says nowhere where the file's name goes", hint="write it as './check.sh {}'"
            )

    def check(self, module: Module, text: str) -> Verdict:
        with tempfile.TemporaryDirectory(prefix="hloom-") as folder:
            path = Path(folder) / "candidate.hlo"
            path.write_text(text, encoding="utf-8", errors="surrogateescape")
            return self._run([word.replace(FILE, str(path)) for word in self._words], Path(folder) / "output")

    def _run(self, words: list[str], printed: Path) -> Verdict:
        with printed.open("wb") as output:
            try:
                process = subprocess.Popen(
                    words, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
                )
            except OSError as problem:
                raise HloomError(f"cannot run {words[0]}: {problem.strerror}") from None
            try:
                status = process.wait(self._timeout)
            except subprocess.TimeoutExpired:
                return Verdict(False, f"it was stopped after {self._timeout:g} s", False)
            finally:
                end_group(process)
        return Verdict((status != 0) == self._nonzero, f"it ended with {ending(status)}{_tail(printed)}")


def _tail(printed: Path) -> str:
    with printed.open("rb") as file:
        file.seek(max(printed.stat().st_size - TAIL_BYTES, 0))
        lines = file.read().decode("utf-8", "replace").strip().splitlines()
    return ":\n  " + "\n  ".join(lines) if lines else ""


@dataclass(slots=True)
class FaultMessage:
    """The message of the first module that showed a fault: further ones must tell of the same.

    Two messages tell of one fault where they name the same file of XLA's sources, or, naming none, have at least half
    of their words in common; names with digits, and the first line alone, count.
    """

    first: str | None = None

    def is_same(self, message: str) -> bool:
        """Whether a message tells of the same fault as the first one."""
        if self.first is None:
            self.first = message
            return True
        locations = _LOCATION.findall(self.first), _LOCATION.findall(message)
        if locations[0] or locations[1]:
            return locations[0] == locations[1]
        words, others = _words_of(self.first), _words_of(message)
        return len(words & others) >= ALIKE * len(words | others)


def _words_of(message: str) -> set[str]:
    return set(_WORD.findall(message.partition("\n")[0]))


@dataclass(slots=True)
class XlaRefuses(FaultPredicate):
    """XLA's parser refuses the text, or its CPU client refuses to compile it, with the message of the first time.

    With `any_message` any message will do. What `hloom.run` cannot legalize for the client is not XLA's refusal.
    """

    any_message: bool = False
    timeout: float = TIMEOUT
    name: str = field(default="XLA refuses it", init=False)
    _message: FaultMessage = field(default_factory=FaultMessage, init=False)

    def check(self, module: Module, text: str) -> Verdict:
        try:
            refusal = accepts(text, self.timeout)
            if refusal is None:
                legal = text_for_xla(legalize(module, placement_of(text).partitions))
                refusal = compiles(legal, placement_of(legal), self.timeout)
        except HloomError as error:
            return Verdict(False, str(error), False)
        if refusal is None:
            return Verdict(False, "XLA compiles it")
        return _verdict(refusal, self._message, self.any_message)


@dataclass(slots=True)
class XlaCrashes(FaultPredicate):
    """XLA dies while it reads, compiles or runs the module on random inputs, at the same place as the first time."""

    seed: int = 0
    any_message: bool = False
    timeout: float = TIMEOUT
    name: str = field(default="XLA crashes", init=False)
    _message: FaultMessage = field(default_factory=FaultMessage, init=False)

    def check(self, module: Module, text: str) -> Verdict:
        try:
            printed(text, self.timeout)  # what makes the parser die, and not only refuse, raises XlaCrash
            run(module, seed=self.seed, timeout=self.timeout)
        except XlaCrash as crash:
            return _verdict(str(crash), self._message, self.any_message)
        except HloomError as error:
            return Verdict(False, str(error), False)
        return Verdict(False, "XLA runs it")


def _verdict(message: str, first: FaultMessage, any_message: bool) -> Verdict:
    if any_message or first.is_same(message):
        return Verdict(True, message)
    return Verdict(False, f"another message: {message}")


@dataclass(slots=True)
class SlowerThan(FaultPredicate):
    """XLA takes more seconds than this to run the module (the shortest of three runs), or to compile it."""

    seconds: float
    compiling: bool = False
    seed: int = 0
    timeout: float = TIMEOUT
    name: str = field(default="", init=False)

    def __post_init__(self) -> None:
        what = "compiles" if self.compiling else "runs"
        self.name = f"XLA {what} it for more than {self.seconds:g} s"

    def check(self, module: Module, text: str) -> Verdict:
        try:
            result = run(module, seed=self.seed, timeout=self.timeout)
            times = [result.compile_seconds] if self.compiling else [result.seconds]
            while not self.compiling and len(times) < REPETITIONS and min(times) > self.seconds:
                times.append(run(module, result.inputs, timeout=self.timeout).seconds)
        except HloomError as error:
            return Verdict(False, str(error), False)
        return Verdict(min(times) > self.seconds, f"it took {time_text(min(times))}")
