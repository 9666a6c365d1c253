"""The parent's side of the worker: started once, kept warm, killed at a timeout, restarted after a crash."""

from __future__ import annotations

import atexit
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

import numpy as np

from hloom.runtime import messages, xla
from hloom.runtime.library_names import jaxlib_version
from hloom.text import HloomError, ending, wait_readable

SPARE_DEVICES = 8
"""The minimum number of virtual devices of a worker; they cost nothing until a program uses them."""
START_SECONDS = 120.0
"""How long importing jax may take before the first answer, on top of a request's own time."""
LONGEST_SECONDS = 1e6
"""The maximum timeout in seconds, 12 days: system calls accept no more than 2**31 milliseconds."""
MOST_DEVICES = 4096
"""The maximum number of virtual devices of a worker: a thousand take 10 s to start, and XLA runs no program on 8192."""
MOST_WORKERS = 4
"""The maximum number of workers, one per set of flags; another one replaces the least recently used."""
TAIL_LINES = 12
"""The maximum number of lines of XLA's output before a crash to show in an error."""

_FATAL = re.compile(r"^F\d{4} [\d:.]+ +\d+ (?P<location>[\w./-]+:\d+)\] (?P<words>.*)", re.MULTILINE)
_HEADER = re.compile(r"\s*HloModule\s+(?P<name>[^\s,]+)")
_STACK_LINE = re.compile(r"^ +@ |^\*\*\* |^ *0x[0-9a-f]+ ")


MAX_MESSAGE = 1_000  # characters of an XLA message to show in an error; the longest useful one seen has 700


class XlaError(HloomError):
    """XLA's own error about a program: it rejects it, or it crashed."""


class XlaCrash(XlaError):
    """The program made XLA abort or fault; the worker is restarted for the next one."""


class Worker:
    """One child process with XLA in it; `flags` are appended to XLA_FLAGS."""

    def __init__(self, devices: int, flags: str = "") -> None:
        self.devices = devices
        self.owner = os.getpid()
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the worker
        self._is_warm = False
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "hloom.runtime.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            bufsize=0,
            env={**os.environ, **xla.environment(devices, flags), "PYTHONPATH": _search_path()},
            start_new_session=True,
        )

    @property
    def is_usable(self) -> bool:
        """Whether it still runs and belongs to this process, not to one that this was forked from."""
        return self.owner == os.getpid() and self._process.poll() is None

    def ask(
        self, request: dict[str, Any], text: str, inputs: Sequence[np.ndarray], seconds: float | None
    ) -> tuple[dict[str, Any], list[np.ndarray]]:
        """Send one request and wait for its answer.

        Raises HloomError if the worker refuses, XlaError if XLA rejects the program, XlaCrash if XLA crashes; after a
        crash or a timeout the worker cannot be used any more.
        """
        request = {**request, "inputs": [messages.describe(array) for array in inputs]}
        data = text.encode("utf-8", "surrogateescape")
        if seconds is not None:
            seconds = min(seconds, LONGEST_SECONDS)
        deadline = None if seconds is None else time.monotonic() + seconds + (0.0 if self._is_warm else START_SECONDS)
        os.lseek(self._errors.fileno(), 0, os.SEEK_SET)  # the child shares the file's position
        os.ftruncate(self._errors.fileno(), 0)
        try:
            self._send(messages.pack(request, [data, *map(messages.blob, inputs)]))
            reply, blobs = messages.unpack(lambda count: self._read(count, deadline))
        except (BrokenPipeError, EOFError):
            raise self._crash(_subject(text)) from None
        except TimeoutError:
            self.close()
            raise HloomError(f"XLA was stopped after {seconds:g} s", hint="give a longer timeout") from None
        except BaseException:
            self.close()
            raise
        self._is_warm = True
        if "error" in reply:
            error_type = HloomError if reply["is_ours"] else XlaError
            raise error_type(_shortened(reply["error"]), hint=reply["hint"])
        return reply, [messages.restore(entry, blob) for entry, blob in zip(reply["arrays"], blobs, strict=True)]

    def close(self) -> None:
        """Kill the child."""
        if self.owner == os.getpid():
            self._process.kill()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._errors):
            if pipe is not None:
                pipe.close()

    def _send(self, pieces: list[bytes | memoryview]) -> None:
        assert self._process.stdin is not None
        descriptor = self._process.stdin.fileno()
        for piece in pieces:
            rest = memoryview(piece)
            while rest:
                rest = rest[os.write(descriptor, rest) :]

    def _read(self, count: int, deadline: float | None) -> bytes:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        data = bytearray()
        while len(data) < count:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not wait_readable(descriptor, left):
                raise TimeoutError
            piece = os.read(descriptor, min(count - len(data), 1 << 20))
            if not piece:
                raise EOFError
            data += piece
        return bytes(data)

    def _crash(self, subject: str) -> XlaCrash:
        how = ending(self._process.wait())
        self._errors.seek(0)
        printed = self._errors.read().decode("utf-8", "replace")
        self.close()
        fatal = _FATAL.search(printed)
        if fatal:
            return XlaCrash(f"XLA crashed ({how}){subject}: {fatal['words']} ({fatal['location']})")
        lines = [line for line in printed.splitlines() if line.strip() and not _STACK_LINE.match(line)]
        return XlaCrash(f"XLA crashed ({how}){subject}", hint="\n  ".join(lines[-TAIL_LINES:]) or None)


def _subject(text: str) -> str:
    """How a message names the program of which XLA died; empty where the caller names it."""
    header = _HEADER.match(text)
    return f" on the module {header['name']}" if header else ""


_LOCK = threading.RLock()
_KEPT: dict[str, Worker] = {}
"""The worker for each set of further flags, those used last at the end."""
_FLAGS: ContextVar[str] = ContextVar("flags", default="")


@contextmanager
def xla_flags(flags: str) -> Iterator[None]:
    """Append these flags to XLA_FLAGS for everything the block asks of XLA, in a separate worker.

    Blocks in blocks add theirs in front, so that those of the outer ones count last. The first request raises XlaCrash
    where XLA does not know a flag.
    """
    token = _FLAGS.set(" ".join(filter(None, (flags, _FLAGS.get()))))
    try:
        yield
    finally:
        _FLAGS.reset(token)


def ask(
    request: str,
    text: str,
    inputs: Sequence[np.ndarray] = (),
    *,
    placement: xla.Placement | None = None,
    is_per_device: bool = False,
    timeout: float | None = None,
    further: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Send one request to the warm worker, starting it if needed; see `Worker.ask` for the errors raised.

    `further` are header fields specific to this request.
    """
    where = placement or xla.Placement()
    if where.devices > MOST_DEVICES:
        raise HloomError(
            f"the program is for {where.devices:,} devices, and {MOST_DEVICES:,} are the most that are simulated here",
            hint="look at replica_count and num_partitions",
        )
    header = {
        **further,
        "request": request,
        "replicas": where.replicas,
        "partitions": where.partitions,
        "uses_shardy": where.uses_shardy,
        "is_per_device": is_per_device,
    }
    with _LOCK:
        return _worker(where.devices).ask(header, text, inputs, timeout)


def close() -> None:
    """Stop all workers; the next request starts a new one."""
    with _LOCK:
        while _KEPT:
            _KEPT.popitem()[1].close()


def _worker(devices: int) -> Worker:
    flags = _FLAGS.get()
    kept = _KEPT.get(flags)
    if kept is not None and kept.is_usable and kept.devices >= devices:
        _KEPT[flags] = _KEPT.pop(flags)  # the latest is the last one
        return kept
    if kept is not None:
        _KEPT.pop(flags).close()
    while len(_KEPT) >= MOST_WORKERS:
        _KEPT.pop(next(iter(_KEPT))).close()
    jaxlib_version()
    _KEPT[flags] = Worker(max(devices, SPARE_DEVICES), flags)
    return _KEPT[flags]


def _search_path() -> str:
    """Where the child finds the running package, installed or not."""
    own = str(Path(__file__).resolve().parents[2])
    inherited = os.environ.get("PYTHONPATH")
    return os.pathsep.join([own, inherited] if inherited else [own])


atexit.register(close)


def _shortened(message: str) -> str:
    """The first lines of XLA's message, which may include the whole program."""
    if len(message) <= MAX_MESSAGE:
        return message
    end = max(message.rfind("\n", 0, MAX_MESSAGE), MAX_MESSAGE // 2)
    return f"{message[:end].rstrip()}\n... and {len(message) - end:,} characters more"
