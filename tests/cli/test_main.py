"""The program as a whole: help, exit statuses, pipes, time.

Covers `input.py`, `options.py`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import click
import pytest

from hloom.cli import input as cli_input
from hloom.cli.main import COMMANDS, main
from hloom.text import tracked
from tests.cli.conftest import ROOT, STEP, Call, spawn

WITHOUT_FILE = {"calibrate", "diff", "doctor", "passes"}
"""Subcommands that read no module."""


def test_help_lists_the_subcommands(call: Call):
    result = call("--help")
    assert result.exit_code == 0
    for name, line in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(line)}$", result.stdout, re.MULTILINE)


IS_HTML = "a page is HTML; `inspect`, `cost`, `memory` and `roofline` have its numbers as JSON"
READS_NONE = "reads no module"
GAPS = {
    ("page", "--json"): IS_HTML,
    ("view", "--json"): IS_HTML,
    ("view", "--output"): "opens the page; `page` writes one",
    ("calibrate", "--strict"): READS_NONE,
    ("doctor", "--strict"): READS_NONE,
    ("passes", "--strict"): "a state that does not read has a row that says why",
}
"""The subcommands without an option that all others have, and why."""
REQUIRED = {
    "compile": ("--for", "cpu"),
    "fit": ("--devices", 2),
    "grep": ("negate",),
    "minimize": ("--failing", "true {}"),
    "pipeline": ("--devices", 2),
    "plan": ("--mesh", "x=2"),
    "propagate": ("--mesh", "x=2"),
}
"""The options that a subcommand cannot do without."""


@pytest.mark.parametrize("name", COMMANDS)
def test_every_subcommand_has_help_with_examples(call: Call, name: str):
    result = call(name, "--help")
    assert result.exit_code == 0
    assert re.search(rf"\n  Examples:\n    hloom {name} ", result.stdout)


@pytest.mark.parametrize("option", ["--json", "--output", "--strict"])
def test_every_subcommand_has_the_options_that_mean_something_to_it(option: str):
    context = click.Context(main)
    commands = {name: main.get_command(context, name) for name in COMMANDS}
    without = {
        name
        for name, command in commands.items()
        if not any(option in one.opts for one in (command.params if command else ()))
    }
    assert without == {name for name, missing in GAPS if missing == option}


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("inspekt", "there is no command 'inspekt'; did you mean inspect?"),
        ("optimize", "there is no command 'optimize'; did you mean opt?"),
        ("flops", "there is no command 'flops'; did you mean cost?"),
        ("sharding", "there is no command 'sharding'; did you mean propagate or plan or fit?"),
        ("qqq", "there is no command 'qqq'"),
        ("step.hlo", "there is no command 'step.hlo'; to see what is in a file: hloom inspect step.hlo"),
    ],
)
def test_what_is_mistyped_gets_a_suggestion(
    call: Call, step: Path, monkeypatch: pytest.MonkeyPatch, typed: str, message: str
):
    monkeypatch.chdir(step.parent)
    result = call(typed)
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (2, f"Error: {message}")


@pytest.mark.parametrize(
    ("typed", "example"),
    [("plan x", "hloom plan step.hlo --mesh data=8 -o plan.json"), ("inspect", "hloom inspect step.hlo")],
)
def test_what_is_missing_is_shown_by_an_example(call: Call, typed: str, example: str):
    result = call(*typed.split())
    assert result.exit_code == 2
    assert f". For example: {example}" in result.stderr


def test_an_option_that_is_mistyped_gets_a_suggestion(call: Call, step: Path):
    result = call("cost", step, "--dept", 2)
    assert result.exit_code == 2
    assert re.search(r"'?--dept'?.*[dD]id you mean.* '?--depth\b", result.stderr), "in click's words"


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - WITHOUT_FILE))
def test_every_subcommand_says_one_error(call: Call, name: str, broken: Path, tmp_path: Path):
    for path, message in (
        (broken, f"error: {broken}:4:1: expected an operand, found '}}'\n  }}\n  ^\n"),
        (tmp_path / "x.hlo", f"error: cannot read {tmp_path / 'x.hlo'}: no such file or directory\n"),
    ):
        result = call(name, path, *REQUIRED.get(name, ()))
        assert (result.exit_code, result.stdout, result.stderr) == (2, "", message)


def test_a_process_says_one_error(broken: Path):
    result = spawn("inspect", broken)
    message = f"error: {broken}:4:1: expected an operand, found '}}'\n  }}\n  ^\n"
    assert (result.returncode, result.stdout, result.stderr) == (2, "", message)


@pytest.mark.parametrize(
    "arguments",
    [(), ("frob",), ("inspect",), ("inspect", "a", "b"), ("draw", "x", "--hops", "z"), ("run", "x", "--frob")]
    + [(name, "x", "--seed", "-1") for name in ("evaluate", "grad", "minimize", "opt", "prune", "quantize", "run")],
)
def test_bad_usage(call: Call, arguments: tuple[str, ...]):
    result = call(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Usage: " in result.stderr


def test_a_dump_directory(call: Call, tmp_path: Path):
    for name in ("f", "g"):
        text = STEP + "// the largest\n" * (name == "g")
        (tmp_path / f"module_0000.jit_{name}.before_optimizations.txt").write_text(text)
    result = call("inspect", tmp_path, "--all")
    assert (result.exit_code, result.stdout) == (2, "")
    assert re.search(r"module_0000\.jit_g +before_optimizations +\d+ +10 +\d+\n", result.stderr), result.stderr
    largest = f"{tmp_path}/module_0000.jit_g"
    assert f"holds 2 modules: name one, as in '{largest}', the largest\n" in result.stderr
    assert result.stderr.endswith(f"\n  hloom inspect {largest} --all\n"), "the same command, to be pasted"
    assert call("inspect", tmp_path / "jit_g").exit_code == 0
    assert call("inspect", tmp_path, "--module", "jit_g", "--stage", "before_optimizations").exit_code == 0


def test_a_file_with_an_odd_name(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert call("inspect", "ENTRY e { ROOT x = f32[] parameter(0) }").stderr.startswith("error: cannot read ENTRY e {")
    Path("ENTRY").write_text(STEP)
    assert call("inspect", "ENTRY").exit_code == 0


def test_a_reader_that_goes_away():
    lines = "".join(f"  x{n} = f32[] constant(0)\n" for n in range(50_000))
    code = f"{sys.executable} -m hloom print - | head -1"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {code}"],
        input=f"HloModule m\nENTRY e {{\n{lines}}}\n",
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        check=False,
    )
    assert done.stdout == "HloModule m\n"
    assert "Traceback" not in done.stderr and "BrokenPipe" not in done.stderr


def test_a_bar_appears_where_work_takes_long(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(cli_input, "PATIENCE", 0.01)
    with cli_input.progress("waiting"):
        time.sleep(0.1)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    with cli_input.progress("waiting"):
        time.sleep(0.3)
    assert "waiting" in capsys.readouterr().err
    monkeypatch.setattr(cli_input, "PATIENCE", 60)
    with cli_input.progress("waiting"):
        pass
    assert "waiting" not in capsys.readouterr().err


def test_the_bar_says_how_long_it_will_be(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(cli_input, "PATIENCE", 0.01)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    with cli_input.progress("waiting"):
        for _ in tracked(range(100)):
            time.sleep(0.005)
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", capsys.readouterr().err)
    assert re.search(r"waiting .* 0:00:0\d 0:00:0\d left", shown)


@pytest.mark.parametrize(
    ("arguments", "bars"),
    [
        (("opt", "-p", "cse"), ("reading", "rewriting")),
        (("inspect",), ("reading", "counting")),
        (("print",), ("reading", "printing")),
        (("memory",), ("reading", "placing buffers")),
        (("plan", "--mesh", "m=2"), ("reading", "planning")),
        (("run",), ("reading", "running")),
        (("evaluate",), ("reading", "evaluating")),
        (("grad", "--vjp"), ("reading", "differentiating")),
    ],
    ids=lambda value: value[0],
)
def test_subcommands_show_what_takes_long(
    call: Call, step: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], bars: tuple[str, ...]
):
    shown: list[str] = []

    @contextmanager
    def progress(what: str) -> Iterator[None]:
        shown.append(what)
        yield

    for name in (arguments[0], "input"):
        monkeypatch.setattr(import_module(f"hloom.cli.{name}"), "progress", progress)
    name, *options = arguments
    assert call(name, step, *options).exit_code == 0
    for bar in bars:
        assert any(what.startswith(bar) for what in shown), shown


def test_a_warning_is_a_note(tmp_path: Path):
    (tmp_path / "step.hlo").write_text(STEP.replace("HloModule step,", "HloModule step, num_partitions=2,"))
    result = spawn("opt", tmp_path / "step.hlo", "-p", "dce", "-o", tmp_path / "step.pb")
    assert (result.returncode, result.stderr) == (0, "note: step: the proto cannot hold header attribute num_partitions\n")
