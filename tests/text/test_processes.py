"""Child processes: how they end, waiting for what they print, ending them with what they started."""

from __future__ import annotations

import os
import subprocess
import sys
import types

import pytest

from hloom.text import end_group, ending, processes, wait_readable


@pytest.mark.parametrize(
    ("status", "words"),
    [(0, "exit status 0"), (3, "exit status 3"), (-6, "signal SIGABRT"), (-9, "signal SIGKILL"), (-200, "signal 200")],
)
def test_how_a_process_ended_in_words(status: int, words: str):
    assert ending(status) == words


def test_a_pipe_is_readable_once_it_has_bytes_or_is_closed():
    reader, writer = os.pipe()
    assert not wait_readable(reader, 0.0)
    os.write(writer, b"a")
    assert wait_readable(reader, 0.0)
    os.read(reader, 1)
    os.close(writer)
    assert wait_readable(reader, None)
    os.close(reader)


def test_windows_looks_into_the_pipe_until_there_is_something(monkeypatch: pytest.MonkeyPatch):
    """The modules that Windows has stand in here: nothing, nothing, a byte; then a pipe that is closed."""
    looks = iter([0, 0, 1])

    def peek(handle: int, size: int) -> tuple[int, int]:
        assert (handle, size) == (107, 0)
        try:
            return next(looks), 0
        except StopIteration:
            raise BrokenPipeError from None

    monkeypatch.setattr(sys, "platform", "win32")
    modules = {"_winapi": {"PeekNamedPipe": peek}, "msvcrt": {"get_osfhandle": lambda descriptor: 100 + descriptor}}
    for name, members in modules.items():
        monkeypatch.setattr(processes, name, types.SimpleNamespace(**members), raising=False)
    assert not wait_readable(7, 0.0)
    assert wait_readable(7, None)
    assert wait_readable(7, 10.0)


def test_a_child_is_ended_with_what_it_started():
    code = (
        "import subprocess, sys; subprocess.Popen(['sleep', '60']); print('.', flush=True); import time; time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.read(1) == b"."
    end_group(process)
    assert process.returncode == -9
    process.stdout.read()  # its end is reached once the grandchild has closed it too
    process.stdout.close()
