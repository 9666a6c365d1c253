"""Ctrl-C: status 130, one line, no traceback and no half file; SIGTERM: no temporary files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import ROOT
from tests.distribute.fit.programs import perceptron_text
from tests.targets.compiler.fake_compiler import fake_compiler

ENDLESS = """HloModule endless

body {
  s = s64[] parameter(0)
  one = s64[] constant(1)
  ROOT next = s64[] add(s, one)
}

condition {
  s = s64[] parameter(0)
  most = s64[] constant(9000000000000000000)
  ROOT less = pred[] compare(s, most), direction=LT
}

ENTRY main {
  start = s64[] parameter(0)
  ROOT end = s64[] while(start), condition=condition, body=body
}
"""
PADDING = "// a comment that fills the pipe until the program reads it\n" * 3000


LISTENS = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
"""Lets Ctrl-C interrupt, which a shell ignores for what it starts in the background, and all that that starts."""
SUBCOMMAND = "import runpy; runpy.run_module('hloom', run_name='__main__', alter_sys=True)"


def start(code: str, *arguments: object) -> subprocess.Popen[bytes]:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", LISTENS + code, *map(str, arguments)]
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment)


def test_sigterm_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    compiler = fake_compiler(tmp_path, monkeypatch)
    compiler.plays("hangs")
    (tmp_path / "step.hlo").write_text(ENDLESS)
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    child = start(SUBCOMMAND, "compile", tmp_path / "step.hlo", "--for", "v5e")
    while not compiler.requests and child.poll() is None:
        time.sleep(0.02)
    child.send_signal(signal.SIGTERM)
    stdout, _ = child.communicate(timeout=60)
    assert (child.returncode, stdout, os.listdir(folder)) == (143, b"", [])


def test_ctrl_c_leaves_no_half_file(tmp_path: Path):
    output = tmp_path / "out.npz"
    output.write_text("before")
    child = start(SUBCOMMAND, "evaluate", "-", "--steps", 10**18, "-o", output)
    assert child.stdin is not None
    child.stdin.write((PADDING + ENDLESS).encode())  # returns when the subcommand reads
    child.stdin.close()
    child.stdin = None
    child.send_signal(signal.SIGINT)
    stdout, stderr = child.communicate(timeout=60)
    assert (child.returncode, stdout, stderr) == (130, b"", b"interrupted\n")
    assert os.listdir(tmp_path) == ["out.npz"]
    assert output.read_text() == "before"


def test_ctrl_c_leaves_no_half_folder(tmp_path: Path):
    child = start(SUBCOMMAND, "fit", "-", "--devices", 8, "--measure", 4, "-o", tmp_path / "best")
    assert child.stdin is not None
    child.stdin.write((PADDING + perceptron_text(layers=6)).encode())
    child.stdin.close()
    child.stdin = None
    child.send_signal(signal.SIGINT)
    stdout, stderr = child.communicate(timeout=60)
    assert (child.returncode, stdout, stderr) == (130, b"", b"interrupted\n")
    assert os.listdir(tmp_path) == []


IMPORTS_INTERRUPTED = """
import sys
class Interrupts:
    def find_spec(self, name, *_):
        if name == {module}:
            raise {error}
sys.meta_path.insert(0, Interrupts())
"""


@pytest.mark.parametrize(
    ("module", "error"),
    [
        ("click", "KeyboardInterrupt"),
        ("hloom.cli.doctor", "KeyboardInterrupt"),
        ("hloom.cli.doctor", "RuntimeError('Error calling __set_name__') from KeyboardInterrupt()"),
    ],
)
def test_ctrl_c_while_imports_run(module: str, error: str):
    child = start(IMPORTS_INTERRUPTED.replace("{error}", error).replace("{module}", repr(module)) + SUBCOMMAND, "doctor")
    _, stderr = child.communicate(timeout=60)
    assert (child.returncode, stderr) == (130, b"interrupted\n")


SOLVES = """
import hashlib
import threading
from hloom.cli.interrupt import end_after_interrupt
end_after_interrupt()
threading.Timer(0.5, print, ["solving"], {"flush": True}).start()
hashlib.pbkdf2_hmac("sha256", b"", b"", (1 << 31) - 1)
"""


def test_ctrl_c_ends_c_code_that_does_not_listen():
    child = start(SOLVES)
    assert child.stdout is not None
    assert child.stdout.readline() == b"solving\n"
    child.send_signal(signal.SIGINT)
    _, stderr = child.communicate(timeout=60)
    assert (child.returncode, stderr) == (130, b"interrupted\n")
