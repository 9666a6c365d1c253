"""`hloom fit`: the table, what it writes, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import hloom
from tests.cli.conftest import Call
from tests.fit.programs import perceptron_text


@pytest.fixture
def step(tmp_path: Path) -> Path:
    path = tmp_path / "step.hlo"
    path.write_text(perceptron_text(layers=2))
    return path


def test_table_and_files(call: Call, step: Path, tmp_path: Path):
    out = tmp_path / "best"
    result = call("fit", step, "--devices", "2", "--batch", "x:0", "--microbatches", "1,2", "--explain", "-o", out)
    assert result.exit_code == 0, result.stderr
    for text in ("data parallel", "GPipe", "best: ", "a step's time", "runner-up: ", "combinations of mesh"):
        assert text in result.stdout
    assert hloom.load_fit(out).cost.step_seconds > 0
    assert {"plan.json", "program.hlo"} <= {path.name for path in out.iterdir()}


def test_nothing_fits_and_nothing_is_written(call: Call, step: Path, tmp_path: Path):
    out = tmp_path / "best"
    result = call("fit", step, "--devices", "2", "--batch", "x:0", "--memory", "1KB", "--json", "-o", out)
    assert result.exit_code == 1
    assert json.loads(result.stdout)["missing_bytes"] > 0
    assert "nothing fits, and nothing is written" in result.stderr
    assert not out.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--devices", "0"], "0 devices"),
        (["--devices", "2", "--device", "h10"], "no device is called 'h10'"),
        (["--devices", "2", "--batch", "x:0", "--microbatches", "7"], "cannot be split into 7 microbatches"),
    ],
)
def test_refused(call: Call, step: Path, options: list[str], message: str) -> None:
    result = call("fit", step, *options)
    assert result.exit_code == 1
    assert message in result.stderr


def test_an_empty_file(call: Call, tmp_path: Path):
    empty = tmp_path / "empty.hlo"
    empty.write_text("")
    result = call("fit", empty, "--devices", "2")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")
