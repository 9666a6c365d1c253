"""`hloom passes`: the timeline as a table and JSON, differences, bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import STEP, Call

WITHOUT_DOT = STEP.replace("%dot = f32[4,2]{1,0} dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "%dot = f32[4,2]{1,0} slice(%x), slice={[0:4], [0:2]}")  # fmt: skip


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """A dump directory with three states, of which the last differs."""
    folder = tmp_path / "dump"
    folder.mkdir()
    states = {
        "0000.p.after_pipeline-start.before_a": STEP,
        "0001.p.after_a.before_b": STEP,
        "0002.p.after_b.before_pipeline-end": WITHOUT_DOT,
    }
    for stage, text in states.items():
        (folder / f"module_0001.jit_f.{stage}.txt").write_text(text)
    return folder


def test_a_timeline(call: Call, dump: Path, tmp_path: Path):
    result = call("passes", dump)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert (
        lines[0].strip() == "module_0001.jit_f: 3 states" and lines[-1] == "states that differ from the previous one: 1"
    )
    assert any("0002" in line and "-1 dot, +1 slice" in line for line in lines)
    assert call("passes", dump, "-o", "-").stdout == result.stdout
    output = tmp_path / "timeline.txt"
    assert call("passes", dump, "-o", output).stdout == "" and output.read_text() == result.stdout
    assert "0000" not in call("passes", dump, "--changed").stdout


def test_json(call: Call, dump: Path):
    record = json.loads(call("passes", dump, "--json").stdout)
    assert record["module"] == "module_0001.jit_f"
    assert [state["changed"] for state in record["states"]] == [False, False, True]
    assert record["states"][2]["changes"] == {"dot": -1, "slice": 1} and record["states"][0]["flops"] > 0
    record = json.loads(call("passes", dump, "--changed", "--json").stdout)
    assert [state["state"] for state in record["states"]] == ["0002"]


def test_differences(call: Call, dump: Path):
    result = call("passes", dump, "--diff", 0, 2)
    assert result.exit_code == 1 and "slice" in result.stdout
    same = call("passes", dump, "--diff", 0, 1)
    assert same.exit_code == 0 and same.stdout.startswith("no differences")
    assert call("passes", dump, "--diff", 1, 2, "--json").exit_code == 1
    assert json.loads(call("passes", dump, "--diff", 0, 2, "--json").stdout)["counts"]["changed"] == 1


def test_bad_input(call: Call, dump: Path, tmp_path: Path, step: Path):
    empty = tmp_path / "empty"
    empty.mkdir()
    for arguments, message in (
        ((empty,), "--xla_dump_hlo_pass_re"),
        ((step,), "not a directory"),
        ((tmp_path / "absent",), "no such file"),
        ((dump, "--module", "jit_x"), "no states of a module 'jit_x'"),
        ((dump, "-o", tmp_path / "none" / "x"), "no such file or directory"),
        (("/dev/zero",), "/dev/zero"),
    ):
        result = call("passes", *arguments)
        assert (result.exit_code, result.stdout) == (2, "") and result.stderr.startswith("error: ")
        assert message in result.stderr
    for arguments, message in (  # 1 says here that the states differ
        ((dump, "--diff", 0, 9), "no state is called '9'"),
        ((dump, "--diff", 0, 2, "-o", tmp_path / "none" / "x"), "no such file or directory"),
        ((empty, "--diff", 0, 1), "--xla_dump_hlo_pass_re"),
    ):
        result = call("passes", *arguments)
        assert (result.exit_code, result.stdout) == (2, "") and result.stderr.startswith("error: ")
        assert message in result.stderr
    assert call("passes").exit_code == 2
    assert call("passes", dump, "--diff", 0).exit_code == 2


def test_a_truncated_file_has_a_row(call: Call, dump: Path):
    (dump / "module_0001.jit_f.0001.p.after_a.before_b.txt").write_text(STEP[:300])
    result = call("passes", dump)
    assert result.exit_code == 0 and "cannot be" in result.stdout.replace("\n", " ")
