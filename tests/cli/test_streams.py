"""Closed and full standard streams: an error in words, or nothing, and never a traceback, in every subcommand.

Covers `streams.py`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hloom.cli.main import COMMANDS
from tests.cli.conftest import ROOT
from tests.cli.test_hostile_strings import OPTIONS, READERS

FORKS = """
import json, os, sys
from importlib import import_module
from hloom.cli.main import COMMANDS, main
for name in COMMANDS:
    import_module("hloom.cli." + name.replace("-", "_"))
results = []
for number, (closed, arguments) in enumerate(json.loads(sys.argv[1])):
    child = os.fork()
    if child == 0:
        os.dup2(os.open(f"out{number}", os.O_WRONLY | os.O_CREAT), 1)
        os.dup2(os.open(f"err{number}", os.O_WRONLY | os.O_CREAT), 2)
        sys.stdin, sys.stdout, sys.stderr = open(0, closefd=False), open(1, "w", closefd=False), open(2, "w", closefd=False)
        for descriptor in closed:
            os.close(descriptor)
            setattr(sys, ("stdin", "stdout", "stderr")[descriptor], None)
        sys.argv = ["hloom", *arguments]
        code = 99
        try:
            main(prog_name="hloom")
        except SystemExit as end:
            code = end.code or 0
        except BaseException:
            import traceback
            traceback.print_exc()
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:
                code = 120
        os._exit(code)
    results.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(json.dumps([[code, *(open(f"{kind}{n}").read() for kind in ("out", "err"))] for n, code in enumerate(results)]))
"""
"""Each case in a process of its own, which has everything imported already."""
QUICK = [name for name in READERS if name not in ("run", "quantize", "fit", "pipeline", "page", "view", "plan", "minimize")]
CLOSED_STDIN = "error: cannot read the standard input: it is closed\n  give a file, or pipe something into it\n"
CLOSED_STDOUT = "error: cannot write the standard output: bad file descriptor\n"


def ended(folder: Path, cases: list[tuple[list[int], list[str]]]) -> list[tuple[int, str, str]]:
    """Exit status, standard output and error of calls with these descriptors closed."""
    command = [sys.executable, "-c", FORKS, json.dumps(cases)]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL
    )
    return [tuple(result) for result in json.loads(done.stdout)]


def test_closed_standard_input(tmp_path: Path):
    names = [name for name in COMMANDS if name not in ("calibrate", "doctor")]
    second = {"diff": ["-"]}
    cases = [([0], [name, "-", *second.get(name, []), *OPTIONS.get(name, ())]) for name in names if name != "passes"]
    for name, (code, out, error) in zip(names, ended(tmp_path, cases), strict=False):
        assert (code != 0, out) == (True, ""), name
        assert error.startswith("error: ") and "Traceback" not in error, (name, error)
        assert error == CLOSED_STDIN or name in ("diff", "why-oom"), (name, error)


def test_closed_standard_output_and_error(step: Path):
    cases = [(closed, [name, str(step), *([str(step)] if name == "diff" else []), *options(name)]) for name in QUICK for closed in ([1], [2])]
    results = ended(step.parent, cases)
    for (closed, (name, *_)), (code, out, error) in zip(cases, results, strict=True):
        if closed == [1]:
            assert (code != 0, error.endswith(CLOSED_STDOUT)) == (True, True), (name, error)
        else:
            assert error == "" and (code, bool(out)) != (99, False), name


def options(name: str) -> tuple[str, ...]:
    return ("dot",) if name == "grep" else OPTIONS.get(name, ())


def test_all_three_closed_and_what_click_writes(step: Path):
    cases = [([0, 1, 2], ["print", str(step)]), ([1], ["--help"]), ([1], ["print", "--help"]), ([1], ["--version"])]
    cases += [([1], ["print", str(step), "-o", str(step.parent / "copy.hlo")])]
    everything, *click_alone, file_alone = ended(step.parent, cases)
    assert everything == (2, "", "")
    assert all(code == 2 and "bad file descriptor" in error for code, _, error in click_alone)
    assert file_alone == (0, "", "") and (step.parent / "copy.hlo").read_text().startswith("HloModule step")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("name", ["print", "inspect"])
def test_a_full_disk(step: Path, name: str):
    with open("/dev/full", "w") as full:
        environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
        command = [sys.executable, "-m", "hloom", name, str(step)]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=environment)
    assert (done.returncode, done.stderr) == (2, "error: cannot write the standard output: no space left on device\n")
