"""`hloom fusions` as a program: tables, JSON, orders, and what it refuses (`cli/fusions.py`)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Call

TWO = """
first { a = f32[256,256] parameter(0)  ROOT y = f32[256,256] tanh(a), metadata={op_name="jit(f)/head/tanh"} }
second { a = f32[256,256] parameter(0)  ROOT z = f32[256,256] negate(a), metadata={op_name="jit(f)/tail/neg"} }
ENTRY main {
  x = f32[256,256] parameter(0)
  f = f32[256,256] fusion(x), kind=kLoop, calls=first
  ROOT g = f32[256,256] fusion(f), kind=kLoop, calls=second
}
"""


@pytest.fixture
def two(tmp_path: Path) -> Path:
    path = tmp_path / "two.hlo"
    path.write_text(TWO)
    return path


def test_the_page(call: Call, two: Path):
    output = call("fusions", two).output
    for words in ("fusions", "tanh", "head", "256.0 KiB", "worth fusing", "An estimate"):
        assert words in output


def test_json(call: Call, two: Path, tmp_path: Path):
    path = tmp_path / "fusions.json"
    assert call("fusions", two, "--device", "h100", "--json", "-o", path).exit_code == 0
    record = json.loads(path.read_text())
    assert record["device"] == "h100" and record["is_estimate"] is True
    assert {row["name"]: row["sources"] for row in record["fusions"]} == {"f": {"head": 1}, "g": {"tail": 1}}
    assert [(pair["first"], pair["second"], pair["obstacle"]) for pair in record["missed"]] == [("f", "g", "")]


@pytest.mark.parametrize("sort", ["time", "bytes", "instructions", "name"])
def test_orders_and_limits(call: Call, two: Path, sort: str):
    output = call("fusions", two, "--sort", sort, "--top", "1").output
    assert "1 more" in output


def test_by_name(call: Call, two: Path):
    lines = [line.split()[0] for line in call("fusions", two, "--sort", "name").stdout.splitlines() if "1x" in line]
    assert lines == ["f", "g"]


def test_a_module_without_fusions_says_so(call: Call, step: Path):
    result = call("fusions", step)
    assert result.exit_code == 0
    assert "no fusions: compile the module first" in result.output


def test_what_is_refused(call: Call, two: Path, tmp_path: Path):
    bad = tmp_path / "bad.hlo"
    bad.write_text("ENTRY e { ROOT x = f32[2] frobnicate(")
    assert call("fusions", bad).exit_code == 2
    assert call("fusions", two, "--device", "h1000").exit_code == 2
    assert call("fusions", two, "--sort", "color").exit_code == 2
    assert call("fusions", two, "--top", "0").exit_code == 2
    assert call("fusions").exit_code == 2
