"""The command line on MindSpore's files; `lowering_pass.py`."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

import hloom
from hloom.cli import main
from hloom.dialects import mindir
from hloom.dialects.mindir.lowering_pass import LOWER
from tests.dialects.mindir.samples import FOLDER, text

LOOP = FOLDER / "loop.optimize.ir"


def run(*arguments: object, input: str | None = None):
    return CliRunner().invoke(main, [*map(str, arguments)], input=input)


def test_print_gives_the_text_back_and_models_as_text():
    assert run("print", LOOP).stdout == LOOP.read_text()
    printed = run("print", FOLDER / "loop.mindir").stdout
    assert "subgraph @" in printed
    assert mindir.to_text(mindir.parse(printed)) == printed
    assert run("print", "-", input=text("loop.optimize.ir")).stdout == LOOP.read_text()
    assert run("print", LOOP, "--canonical").exit_code == 2
    assert "subgraph @" in run("print", LOOP, "--ir").stdout


def test_inspect_and_draw_take_functional_graphs():
    result = run("inspect", LOOP)
    assert result.exit_code == 0, result.output
    assert "mindir.Switch" in result.stdout
    drawn = run("draw", LOOP)
    assert drawn.exit_code == 0, drawn.output
    assert "mindir.Switch" in drawn.stdout


def test_opt_lowers(tmp_path: Path):
    target = tmp_path / "loop.hlo"
    result = run("opt", LOOP, "-p", "lower-mindir,dce", "-o", target)
    assert result.exit_code == 0, result.output
    assert [node.opcode for node in hloom.load(target).nodes()].count("while") == 1
    assert run("opt", LOOP, "-p", "dce").stdout.startswith("# IR entry")


def test_what_wants_hlo_lowers_by_itself():
    result = run("cost", LOOP)
    assert result.exit_code == 0, result.output


def test_the_pass_changes_a_module_in_place():
    module = hloom.load(LOOP)
    report = LOWER.run(module)
    assert report.changed
    assert hloom.verify(module).level is hloom.Level.HLO
