"""What may come of a damaged input: an answer or an error of ours, soon, and within a multiple of the input's size."""

from __future__ import annotations

import faulthandler
import os
import resource
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from time import process_time
from types import FrameType
from typing import NamedTuple

from click.testing import CliRunner

import hloom
from hloom.cli import main
from hloom.text import HloomError
from tests.damage.inputs import Damaged, damaged

SECONDS = 5.0
"""How long one input of a campaign may take, in seconds of a processor."""
STUCK_SECONDS = 120
"""After how many seconds a process ends that cannot be interrupted; others may be using the processor."""
FREE_BYTES = 256 << 20
"""How much memory any input may take: imports, tables, what a packed text may grow to."""
BYTES_FOR_A_BYTE = 5000
"""How much more it may take for each of its bytes."""
PAGE = os.sysconf("SC_PAGE_SIZE")


class Problem(NamedTuple):
    """What went wrong with an input."""

    number: int
    maker: str
    command: str
    what: str

    def __str__(self) -> str:
        return f"{self.number} ({self.maker}) hloom {self.command}: {self.what}"


class TooLong(BaseException):
    """It took more seconds than it may."""


def limited() -> None:
    """Set up this process: one that takes too long is interrupted."""
    signal.signal(signal.SIGPROF, _interrupt)
    warnings.simplefilter("ignore")


def problems_of(numbers: Iterable[int], seconds: float) -> Iterator[Problem]:
    """What goes wrong with the inputs of these numbers; `seconds` as for `attempt`."""
    for number in numbers:
        print(number, file=sys.stderr, flush=True)  # noqa: T201 (the last one is what the process died of)
        faulthandler.dump_traceback_later(STUCK_SECONDS, exit=True)
        given = damaged(number)
        if what := attempt(given, seconds):
            yield Problem(number, given.maker, " ".join(given.arguments), what)
    faulthandler.cancel_dump_traceback_later()


def attempt(given: Damaged, seconds: float) -> str:
    """What goes wrong with an input; empty where nothing does. It may take so many seconds of a processor, 0: any."""
    with tempfile.TemporaryDirectory(dir=_memory_folder()) as folder:
        here = Path.cwd()
        os.chdir(folder)
        try:
            for name, data in given.files.items():
                Path(name).write_bytes(data)
            return _outcome(given, seconds)
        finally:
            os.chdir(here)


def _outcome(given: Damaged, seconds: float) -> str:
    before, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_address_space() + FREE_BYTES + BYTES_FOR_A_BYTE * given.size, hard))
    started = process_time()
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        result = CliRunner().invoke(main, given.arguments, input=given.piped)
        text, error = result.stdout, result.stderr
        exception = result.exception
    except (TooLong, MemoryError) as problem:
        return f"{type(problem).__name__}\n{''.join(traceback.format_tb(problem.__traceback__)[-6:])}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, (before, hard))
    if exception is not None and not isinstance(exception, SystemExit):
        return "".join(traceback.format_exception(exception)[-5:])
    if 0 < seconds < process_time() - started:
        return f"{process_time() - started:.1f} s"
    if result.exit_code not in (0, 1, 2):
        return f"exit status {result.exit_code}"
    if "a pass failed: " in error or error.startswith("error: out of memory"):
        return error
    if result.exit_code == 0 and given.arguments[0] in ("opt", "print") and not set(given.arguments) & OTHER_FORMS:
        return _unreadable(given, text)
    return ""


OTHER_FORMS = {"--ir", "--json", "--canonical", "-o", "m.mlir"}
"""What makes another text than HLO, or none."""


def _unreadable(given: Damaged, text: str) -> str:
    """Why what was written cannot be read back, where what was given can be printed and read back."""
    try:
        hloom.parse(text)
    except HloomError as error:
        if given.arguments[0] == "opt" and _prints_readably(given):
            return f"what was written cannot be read: {error}"
    return ""


def _prints_readably(given: Damaged) -> bool:
    try:
        hloom.parse(hloom.print(hloom.load(given.piped or next(iter(given.files.values())))))
    except HloomError:
        return False
    return True


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise TooLong


def _address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * PAGE


def _memory_folder() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
