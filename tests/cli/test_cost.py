"""`hloom cost` as a program: tables, JSON, trip counts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hloom.cli import main
from tests.corpus import lowered


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "loop.hlo"
    path.write_text(lowered("after")["control.fori_loop"])
    return str(path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["cost", *arguments])


def test_tables_hold_totals_groups_and_loops(file: str):
    output = run(file).output
    for words in ("loops per iteration", "loops once, as in XLA", "known_trip_count", "1?", "compare"):
        assert words in output


def test_json_holds_the_groups(file: str):
    record = json.loads(run(file, "--by", "scope", "--depth", "2", "--json").stdout)
    assert record["by"] == "scope"
    assert sum(row["flops"] for row in record["groups"]) == record["total"]["flops"]


def test_trip_counts_are_taken(file: str):
    loops = json.loads(run(file, "--trips", "while.7=9", "--json").stdout)["loops"]
    assert {loop["name"]: (loop["trips"], loop["source"]) for loop in loops}["while.7"] == (9, "given")


def test_top_cuts_the_tables(file: str):
    assert "more; --top shows them" in run(file, "--top", "2").output


@pytest.mark.parametrize(
    ("argument", "message"), [("while.99=3", "the program has no loop 'while.99'"), ("while.7", "is not NAME=N")]
)
def test_wrong_trip_counts_are_refused(file: str, argument: str, message: str):
    result = run(file, "--trips", argument)
    assert result.exit_code
    assert message in result.output


def test_traffic_is_shown(tmp_path: Path):
    path = tmp_path / "collective.hlo"
    path.write_text(lowered("after")["sharding.all_reduce"])
    assert "traffic per device" in run(str(path)).output


def test_branches_of_conditionals_are_shown(tmp_path: Path):
    path = tmp_path / "branches.hlo"
    path.write_text("""
cheap { x = f32[8] parameter(0) ROOT y = f32[8] negate(x) }
expensive { x = f32[8] parameter(0) y = f32[8] negate(x) ROOT z = f32[8] add(x, y) }
ENTRY e {
  p = pred[] parameter(0)
  x = f32[8] parameter(1)
  ROOT c = f32[8] conditional(p, x, x), true_computation=expensive, false_computation=cheap
}
""")
    lines = run(str(path)).output.partition("branches of conditionals")[2].splitlines()
    assert [line.split()[:4] for line in lines if line.startswith(" c ")] == [
        ["c", "e", "expensive", "16"],
        ["c", "e", "cheap", "8"],
    ]
    assert "cheapest branches" in run(str(path)).output


@pytest.mark.parametrize("command", ["cost", "memory", "roofline"])
@pytest.mark.parametrize(("stage", "is_noted"), [("before", True), ("after", False)])
def test_what_is_not_partitioned_yet_is_noted(tmp_path: Path, command: str, stage: str, is_noted: bool):
    path = tmp_path / "sharded.hlo"
    path.write_text(lowered(stage)["sharding.all_reduce"])
    result = CliRunner().invoke(main, [command, str(path)])
    assert result.exit_code == 0
    assert ("not partitioned yet" in result.stderr) == is_noted
