"""The page of two modules: both graphs, coloured by what changed, and the changes as tables."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import hloom
from hloom.cli import main
from hloom.formats.hlo import parse
from hloom.inspection.page import COLOURS, page_text
from hloom.text import HloomError
from tests.inspection.page.chromium import Chromium, open_tab, wait_for_graph
from tests.inspection.page.test_document import STEP, Blocks, hostile_module

AFTER = STEP.replace("maximum(dot, zeros)", "minimum(dot, zeros)").replace(
    "  ROOT out", "  more = f32[64,16] tanh(all)\n  ROOT out"
).replace("tuple(all, relu)", "tuple(more, relu)")  # fmt: skip


def compared() -> Blocks:
    return Blocks(page_text(parse(AFTER), before=parse(STEP)))


def test_the_graphs_of_both_modules():
    graphs = {graph["id"]: graph["nodes"] for graph in compared().packed("graphs")}
    assert list(graphs) == ["main", "main (before)"]
    names = {node["id"] for node in graphs["main (before)"]}
    assert "(before) main/dot" in names
    assert not names & {node["id"] for node in graphs["main"]}
    for nodes in graphs.values():
        own = {node["id"] for node in nodes}
        assert {edge["sourceNodeId"] for node in nodes for edge in node.get("incomingEdges", ())} <= own


def test_what_changed_has_colours():
    overlays = compared().packed("overlays")
    assert next(iter(overlays)) == "changes"
    values = {
        graph: {node: result["value"] for node, result in data["results"].items()}
        for graph, data in overlays["changes"].items()
    }
    assert values["main"] == {"main/relu": "changed", "main/more": "added", "main/out": "changed"}
    assert values["main (before)"] == {"(before) main/relu": "changed", "(before) main/out": "changed"}
    assert overlays["changes"]["main"]["results"]["main/more"]["bgColor"] == COLOURS["added"]


def test_the_changes_as_tables():
    changes = compared().summary["changes"]
    tables = {table["title"]: table for table in changes["tables"]}
    assert tables["added"]["rows"] == [["more", "main", "tanh", "f32[64,16]"]]
    assert ["relu", "relu", "main", "opcode", "maximum", "minimum"] in tables["changed"]["rows"]
    assert tables["removed"]["count"] == 0
    assert [row[0] for row in changes["totals"]][:2] == ["flops", "bytes_accessed"]
    assert "1 added" in changes["summary"]


def test_a_module_with_itself():
    page = Blocks(page_text(parse(STEP), before=parse(STEP)))
    assert page.packed("overlays").get("changes") == {}
    assert page.summary["changes"]["summary"].startswith("no differences")


def test_hostile_names_stay_text():
    clean = Blocks(page_text(parse(STEP), before=parse(STEP)))
    hostile = Blocks(page_text(hostile_module(), before=parse(STEP)))
    other = Blocks(page_text(parse(STEP), before=hostile_module()))
    assert [tag for tag, _ in hostile.tags] == [tag for tag, _ in clean.tags] == [tag for tag, _ in other.tags]


def test_a_fragment_cannot_be_compared():
    with pytest.raises(HloomError, match="no entry"):
        page_text(parse(STEP), before=hloom.Module("nothing"))


def test_the_command(tmp_path: Path):
    def call(*arguments: object) -> Result:
        return CliRunner().invoke(main, [str(argument) for argument in arguments])

    (tmp_path / "a.hlo").write_text(STEP)
    (tmp_path / "b.hlo").write_text(AFTER)
    assert call("page", tmp_path / "a.hlo", tmp_path / "b.hlo", "-o", tmp_path / "x.html").exit_code == 0
    assert (tmp_path / "x.html").read_text() == page_text(
        hloom.load(tmp_path / "b.hlo"), before=hloom.load(tmp_path / "a.hlo")
    )
    result = call("page", tmp_path / "a.hlo", tmp_path / "none.hlo", "-o", tmp_path / "y.html")
    assert (result.exit_code, (tmp_path / "y.html").exists()) == (2, False)


def test_both_graphs_in_a_browser(browser: Chromium, tmp_path: Path):
    target = tmp_path / "page.html"
    hloom.page(parse(AFTER), target, before=hostile_module())
    browser.open(target)
    wait_for_graph(browser)
    assert "changes" in browser.evaluate("document.querySelector('app-root').innerText")
    shown = open_tab(browser, "Changes")
    assert "minimum" in shown and "removed: 11" in shown
    assert "30 of 30 instructions" in open_tab(browser, "Instructions")
    assert browser.evaluate("window.broken === undefined")
    assert (browser.problems(), len(browser.requests())) == ([], 1)
