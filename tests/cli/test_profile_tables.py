"""`--profile` of `hloom cost` and `hloom roofline`: tables, JSON, and traces that are refused.

Covers `profile_tables.py`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Call
from tests.inspection.profile.traces import MODULE, RUNS, written


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    module = tmp_path / "step.hlo"
    module.write_text(MODULE)
    return module, written(tmp_path)


def test_roofline_shows_the_model_beside(call: Call, files: tuple[Path, Path]):
    module, trace = files
    text = call("roofline", module, "--profile", trace).stdout
    assert "measured: jit_step, 2 runs on 1 device" in text
    for title in ("longest instructions", "largest errors of the model", "longest gaps", "collectives"):
        assert title in text
    assert "8 us" in text, "of the all-reduce nothing overlaps so much"
    assert call("roofline", module, "--profile", trace, "-o", "-").stdout == text
    grouped = call("roofline", module, "--profile", trace, "--by", "source").stdout
    assert "measured time by source" in grouped and "m.py:3" in grouped


def test_cost_shows_rates(call: Call, files: tuple[Path, Path]):
    module, trace = files
    text = call("cost", module, "--by", "scope", "--profile", trace).stdout
    assert "measured time by scope" in text and "G " in text
    assert "the model" not in text


@pytest.mark.parametrize("name", ["cost", "roofline"])
def test_json(call: Call, files: tuple[Path, Path], name: str):
    module, trace = files
    profile = json.loads(call(name, module, "--profile", trace, "--by", "opcode", "--json").stdout)["profile"]
    assert profile["runs"] == 2 and {group["opcode"] for group in profile["groups"]} == {"dot", "all-reduce", "tanh"}
    assert profile["collectives"][0]["exposed_seconds"] == pytest.approx(8e-6)


@pytest.mark.parametrize("name", ["cost", "roofline"])
def test_what_is_refused(call: Call, files: tuple[Path, Path], step: Path, tmp_path: Path, name: str):
    module, trace = files
    other = call(name, step, "--profile", trace)
    assert (other.exit_code, other.stdout) == (2, "")
    assert other.stderr.startswith(f"error: {trace} is a trace of other programs than step\n  jit_step: ")
    missing = call(name, module, "--profile", tmp_path / "none")
    assert missing.exit_code == 2 and missing.stderr.startswith("error: cannot read ")
    output = tmp_path / "out.json"
    assert call(name, step, "--profile", trace, "--json", "-o", output).exit_code == 2 and not output.exists()


def test_diff_compares_what_was_measured(call: Call, files: tuple[Path, Path], tmp_path: Path):
    module, trace = files
    slower = [(name, run, 2 * start, 2 * end) for name, run, start, end in RUNS]
    other = written(tmp_path / "slower", slower)
    result = call("diff", module, module, "--profile", trace, other)
    assert result.exit_code == 0 and "no differences" in result.stdout
    assert "change in measured time by scope" in result.stdout and "+25 us" in result.stdout
    profile = json.loads(call("diff", module, module, "--profile", trace, other, "--json").stdout)["profile"]
    assert profile["groups"][0] == {
        "scope": "layer_0",
        "before": pytest.approx(25e-6),
        "after": pytest.approx(50e-6),
        "change": pytest.approx(25e-6),
        "noise": pytest.approx(4.9210514e-05),
    }
    refused = call("diff", module, module, "--profile", trace, tmp_path / "none")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert call("diff", module, module, "--profile", trace).exit_code == 2
