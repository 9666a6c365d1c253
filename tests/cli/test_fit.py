"""`hloom fit`: the table, what it writes, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import hloom
from tests.cli.conftest import Call
from tests.distribute.fit.programs import perceptron_text


@pytest.fixture
def step(tmp_path: Path) -> Path:
    path = tmp_path / "step.hlo"
    path.write_text(perceptron_text(layers=2))
    return path


def test_table_and_files(call: Call, step: Path, tmp_path: Path):
    out = tmp_path / "best"
    result = call("fit", step, "--devices", "2", "--batch", "x:0", "--microbatches", "1,2", "--explain", "-o", out)
    assert result.exit_code == 0, result.stderr
    for text in (
        "data parallel",
        "GPipe",
        "best: ",
        "where the time of a step goes",
        "runner-up: ",
        "combinations considered",
    ):
        assert text in result.stdout
    assert hloom.load_fit(out).cost.step_seconds > 0
    assert {"plan.json", "program.hlo", "run.py", "run.json", "step.mlir"} <= {path.name for path in out.iterdir()}
    again = call("fit", step, "--devices", "2", "--batch", "x:0", "-o", out)
    assert (again.exit_code, again.stderr.splitlines()[0]) == (2, f"error: {out} is not empty")


def test_measured_beside_expected(call: Call, step: Path):
    options = "--devices", "2", "--batch", "x:0", "--microbatches", "1,2", "--measure", "2"
    result = call("fit", step, *options, "--json")
    made = [entry for entry in json.loads(result.stdout)["combinations"] if entry["measured_bytes"] is not None]
    assert len(made) == 2 and all(entry["measured_comm_bytes"] is not None for entry in made)
    tables = call("fit", step, *options).stdout
    assert "compiled by XLA: predicted and measured" in tables
    assert all(entry["name"].split()[0] in tables.partition("compiled by XLA")[2] for entry in made)


def test_nothing_fits_and_nothing_is_written(call: Call, step: Path, tmp_path: Path):
    out = tmp_path / "best"
    result = call("fit", step, "--devices", "2", "--batch", "x:0", "--memory", "1KB", "--json", "-o", out)
    assert result.exit_code == 1
    assert json.loads(result.stdout)["missing_bytes"] > 0
    assert "nothing fits; nothing was written" in result.stderr
    assert not out.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--devices", "0"], "0 devices"),
        (["--devices", "1000000"], "1000000 devices"),
        (["--devices", "2", "--memory", "0"], "a device cannot hold 0 bytes"),
        (["--devices", "2", "--memory", "-1GiB"], "is not a number of bytes"),
        (["--devices", "2", "--device", "h10"], "no device is called 'h10'"),
        (["--devices", "2", "-o", "no/where"], "cannot write no/where: no such file or directory"),
        (["--devices", "2", "--batch", "x:0", "--microbatches", "7"], "cannot be split into 7 microbatches"),
    ],
)
def test_refused(call: Call, step: Path, options: list[str], message: str) -> None:
    result = call("fit", step, *options)
    assert result.exit_code == 2
    assert message in result.stderr


def test_the_standard_output_takes_the_plan_alone(call: Call, step: Path):
    options = "--devices", "2", "--batch", "x:0", "--microbatches", "1", "-o", "-"
    result = call("fit", step, *options)
    assert result.exit_code == 0 and "best: " in result.stderr
    assert json.loads(result.stdout)["version"] == 2
    assert call("fit", step, *options, "--json").exit_code == 2


@pytest.mark.parametrize("devices", ["1", "7"])
def test_devices_that_divide_nothing(call: Call, step: Path, devices: str):
    result = call("fit", step, "--devices", devices, "--batch", "x:0")
    assert result.exit_code == 0, result.stderr
    assert "best: " in result.stdout


def test_an_empty_file(call: Call, tmp_path: Path):
    empty = tmp_path / "empty.hlo"
    empty.write_text("")
    result = call("fit", empty, "--devices", "2")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
