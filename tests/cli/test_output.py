"""`-o -` is the standard output in every subcommand, and never a file."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from hloom.cli import main
from hloom.cli.main import COMMANDS
from hloom.runtime.calibration import calibrate
from tests.cli.conftest import Call

SAME_AS_WITHOUT = {
    "inspect": (),
    "print": (),
    "draw": (),
    "cost": (),
    "roofline": (),
    "fusions": (),
    "memory": (),
    "propagate": ("--mesh", "m=2", "--set", "x:1=m"),
    "opt": ("-p", "cse"),
    "grad": ("--vjp",),
}
"""Subcommands whose standard output is what -o takes, with the options that they need."""


@pytest.mark.parametrize(("name", "options"), SAME_AS_WITHOUT.items(), ids=SAME_AS_WITHOUT)
def test_a_dash_changes_nothing(
    call: Call, step: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, options: tuple[str, ...]
):
    monkeypatch.chdir(tmp_path)
    plain, dashed = call(name, step, *options), call(name, step, *options, "-o", "-")
    assert (dashed.exit_code, dashed.stdout) == (0, plain.stdout) and dashed.stdout
    assert not (tmp_path / "-").exists()


@pytest.mark.parametrize("name", ["run", "evaluate"])
def test_outputs_are_an_archive(name: str, step: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, [name, str(step), "-o", "-"])
    assert result.exit_code == 0
    assert sorted(np.load(io.BytesIO(result.stdout_bytes))) == ["output_0", "output_1"]
    assert "non-finite" in result.stderr
    assert not (tmp_path / "-").exists()


def test_a_plan_is_annotated_text(call: Call, step: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    result = call("plan", step, "--mesh", "m=2", "-o", "-")
    assert result.exit_code == 0
    assert result.stdout.startswith("HloModule") and "planned in" in result.stderr
    assert not (tmp_path / "-").exists()


@pytest.mark.parametrize(("name", "options"), [("run", ()), ("evaluate", ()), ("plan", ("--mesh", "m=2"))])
def test_only_one_thing_is_written_to_the_standard_output(call: Call, step: Path, name: str, options: tuple[str, ...]):
    result = call(name, step, *options, "--json", "-o", "-")
    assert result.exit_code == 2
    assert "--json and -o - both write to standard output" in result.stderr


def test_measurements(call: Call, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("hloom.cli.calibrate.calibrate", lambda on_step: calibrate(lambda text: len(text) * 1e-6))
    assert json.loads(call("calibrate", "--json", "-o", "-").stdout)["devices"] == 2


def test_every_subcommand_is_tested_here_or_in_a_file_of_its_own():
    missing = set(COMMANDS) - {*SAME_AS_WITHOUT, "run", "evaluate", "plan", "calibrate", "view"}
    assert all((Path(__file__).parent / f"test_{name.replace('-', '_')}.py").exists() for name in missing), missing
