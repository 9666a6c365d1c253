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
    for words in ("loops as often as they run", "loops once, as XLA does", "known_trip_count", "1?", "compare"):
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
    ("argument", "message"), [("while.99=3", "no loop is called 'while.99'"), ("while.7", "is not NAME=N")]
)
def test_wrong_trip_counts_are_refused(file: str, argument: str, message: str):
    result = run(file, "--trips", argument)
    assert result.exit_code
    assert message in result.output


def test_traffic_is_shown(tmp_path: Path):
    path = tmp_path / "collective.hlo"
    path.write_text(lowered("after")["sharding.all_reduce"])
    assert "traffic per device" in run(str(path)).output
