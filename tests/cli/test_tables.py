"""Tables on a terminal, and how numbers stand in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hloom.cli.streams import STDOUT
from hloom.cli.tables import add_rest, command_line, cut, new_table, note_tables, write_report_beside, write_tables


def test_a_table_is_plain_text_outside_of_a_terminal(tmp_path: Path):
    table = new_table("Sizes", "name", ">bytes")
    table.add_row("x", "12")
    table.add_row("weights", "4,096")
    add_rest(table, total=5, limit=2, hint=" more")
    write_tables([table, "a line"], tmp_path / "table.txt")
    lines = (tmp_path / "table.txt").read_text().splitlines()
    assert lines[0] == "Sizes"
    assert [line.split() for line in lines if line.strip() and "─" not in line] == [
        ["Sizes"],
        ["name", "bytes"],
        ["x", "12"],
        ["weights", "4,096"],
        ["3", "more", "more"],
        ["a", "line"],
    ]
    (x,) = (line for line in lines if line.startswith(" x "))
    assert x.endswith("   12"), "numbers are aligned to the right"


def test_nothing_is_said_where_all_are_shown(tmp_path: Path):
    table = new_table(None, "name")
    table.add_row("x")
    add_rest(table, total=1, limit=1)
    write_tables([table], tmp_path / "table.txt")
    assert "more" not in (tmp_path / "table.txt").read_text()


def test_names_are_cut_and_never_folded_and_paths_are_folded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "60")
    name, scope = "loop_multiply_subtract_select_add_fusion.12", "train/encoder/layer_0/attention/query_projection"
    table = new_table(None, "name", ">bytes", ">time", "last")
    table.add_row(name, "1,000,000", "1.00 ms", name)
    table.add_row(scope, "2", "", scope)
    write_tables([table], tmp_path / "table.txt")
    text = (tmp_path / "table.txt").read_text()
    assert cut(name, 36) in text
    assert "\n train/encoder/layer_0/attention/ " in text and "\n query_projection\n" in text, "between names"


def test_tables_beside_other_output_go_to_the_standard_error(capsys: pytest.CaptureFixture[str]):
    note_tables(["a line"])
    assert capsys.readouterr() == ("", "a line\n")


def test_a_line_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]):
    note_tables(["a[bold]b[/bold] :smile:"])
    assert capsys.readouterr().err == "a[bold]b[/bold] :smile:\n"


@pytest.mark.parametrize(
    ("is_json", "output", "stdout", "stderr"),
    [
        (False, None, "a line\n", ""),
        (True, None, '{\n  "schema_version": 1,\n  "a": 1\n}\n', ""),
        (False, STDOUT, "", "a line\n"),
    ],
)
def test_a_report_beside_what_is_written(
    is_json: bool, output: Path | None, stdout: str, stderr: str, capfd: pytest.CaptureFixture[str]
):
    def fail() -> None:
        raise AssertionError("not asked for")

    parts = (fail() for _ in "a") if is_json else ["a line"]
    write_report_beside((lambda: {"a": 1}) if is_json else fail, parts, is_json, output)  # pyright: ignore[reportArgumentType]
    assert capfd.readouterr() == (stdout, stderr)


def test_a_command_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "40")
    command = f"hloom opt step.hlo -p 'remat(budget={10**40})'"
    write_tables([command_line(command)], tmp_path / "table.txt")
    assert (tmp_path / "table.txt").read_text() == f"{command}\n"


def test_long_names_lose_their_middle():
    assert (cut("name", 4), cut("a_long_name", 7)) == ("name", "a_l…ame")


def test_a_title_is_as_wide_as_the_line(tmp_path: Path):
    table = new_table("a title of many words that is much longer than the table below it", "a", ">b")
    table.add_row("x", "1")
    write_tables([table], tmp_path / "out.txt")
    first, *_ = (tmp_path / "out.txt").read_text().splitlines()
    assert first == "a title of many words that is much longer than the table below it"
