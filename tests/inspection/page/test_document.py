"""The page as text and in a browser: what it holds, what it loads, and that names run nothing.

Covers `document.py`, `figures.py`, `panels.py`, `overlays.py`.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import hloom
from hloom.formats.hlo import parse
from hloom.inspection.page import page_text
from hloom.ir import Module
from hloom.text import HloomError
from tests.inspection.page.chromium import PANEL, Chromium, open_tab, program, wait_for_graph
from tests.inspection.profile.traces import BEFORE as COMPILED_FROM
from tests.inspection.profile.traces import MODULE as TRACED
from tests.inspection.profile.traces import written

STEP = """
HloModule step, num_partitions=4

sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT add = f32[] add(a, b)
}

ENTRY main {
  x = f32[64,32] parameter(0), metadata={op_name="batch['x']"}
  w = f32[32,16] parameter(1), metadata={op_name="params['layer_0']['w']"}, sharding={devices=[1,4]<=[4]}
  zero = f32[] constant(0)
  zeros = f32[64,16] broadcast(zero), dimensions={}
  dot = f32[64,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0},
    metadata={op_name="jit(f)/jvp(layer_0)/dot_general" source_file="/src/model.py" source_line=7}
  relu = f32[64,16] maximum(dot, zeros), metadata={op_name="jit(f)/jvp(layer_0)/max"}
  grad = f32[64,16] select-and-scatter(relu, zeros, zero), select=sum, scatter=sum,
    metadata={op_name="jit(f)/transpose(jvp(layer_0))/add"}
  all = f32[64,16] all-reduce(relu), replica_groups={{0,1,2,3}}, to_apply=sum, metadata={op_name="jit(f)/psum"}
  ROOT out = (f32[64,16], f32[64,16]) tuple(all, relu)
}
""".replace("select-and-scatter(relu, zeros, zero), select=sum, scatter=sum", "add(relu, zeros)")
HOSTILE = (
    "</script><script>window.broken = 1</script>",
    "<img src=x onerror='window.broken = 1'>",
    "<!--<script>",
    '"><svg onload=window.broken=1>',
    "javascript:window.broken=1",
    "__proto__",
    "constructor",
    "___group___",
    "{{constructor.constructor('window.broken=1')()}}",
    "\u2028</title><script>window.broken=1</script>",
    "[click](javascript:window.broken=1)",
)


class Blocks(HTMLParser):
    """The elements of a page, and the text of those that have an id."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, str] = {}
        self._open: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open = dict(attrs).get("id")

    def handle_data(self, data: str) -> None:
        if self._open is not None:
            self.texts[self._open] = self.texts.get(self._open, "") + data

    def handle_endtag(self, tag: str) -> None:
        self._open = None

    def packed(self, name: str) -> Any:
        return json.loads(gzip.decompress(base64.b64decode(self.texts[name])))

    @property
    def summary(self) -> dict[str, Any]:
        return json.loads(self.texts["summary"])


def blocks(module: Module, **options: Any) -> Blocks:
    return Blocks(page_text(module, **options))


def hostile_module() -> Module:
    """Names of everything that a page shows are what a page must not run."""
    module = parse(STEP)
    for number, name in enumerate(HOSTILE):
        escaped = name.replace("\\", "\\\\").replace('"', '\\"')
        metadata = f'op_name="jit(f)/{escaped}/{escaped}" source_file="{escaped}" source_line={number}'
        module.entry.add_parameter(module.entry.parameters[0].type, name, metadata=metadata)
    module.name = HOSTILE[0]
    return module


def test_what_a_page_holds():
    page = blocks(parse(STEP), source_url="https://example.com{path}#L{line}")
    summary = page.summary
    assert (summary["module"], summary["instructions"], summary["computations"]) == ("step", 12, 2)
    assert summary["totals"]["FLOPs"] > 64 * 32 * 16 * 2
    assert summary["memory"]["peak"] > 64 * 32 * 4
    assert {row[4] for row in summary["memory"]["buffers"]} >= {"inputs/batch", "inputs/params/layer_0"}
    assert [row[:4] for row in summary["collectives"]] == [["all", "main", "all-reduce", "forward/layer_0"]]
    rows = {tuple(levels): numbers for levels, *numbers in summary["scopes"]}
    assert rows["forward", "layer_0"][0] == 3
    assert rows["forward", "layer_0"][1] == 64 * 32 * 16 * 2 + 2 * 64 * 16
    assert summary["roofline"]["points"][0][6]
    overlays = page.packed("overlays")
    assert set(overlays) == {
        "FLOPs",
        "bytes accessed",
        "time (roofline), µs",
        "held at the peak, bytes",
        "sent by collectives, bytes",
        "sharding",
        "collective",
    }
    assert overlays["FLOPs"]["main"]["results"]["main/dot"] == {"value": 64 * 32 * 16 * 2}
    assert overlays["sharding"]["main"]["results"]["main/w"]["value"].startswith("{devices=[1,4]")
    (graph,) = page.packed("graphs")
    dot = next(node for node in graph["nodes"] if node["id"] == "main/dot")
    attributes = {attribute["key"]: attribute["value"] for attribute in dot["attrs"]}
    assert attributes["hlo"].startswith("%dot = f32[64,16] dot(%x, %w)")
    assert (attributes["source"], attributes["source_link"]) == (
        "/src/model.py:7",
        "https://example.com/src/model.py#L7",
    )
    assert attributes["flops"] == f"{64 * 32 * 16 * 2:,}"


def test_calls_of_libraries_are_named_and_others_make_the_total_at_least():
    text = """ENTRY main {
      x = f32[8,8] parameter(0)
      l = (f32[8,8], s32[]) custom-call(x), custom_call_target="lapack_spotrf_ffi"
      y = f32[8,8] get-tuple-element(l), index=0
      ROOT m = f32[8,8] custom-call(y), custom_call_target="mine"
    }"""
    page = blocks(parse(text))
    assert page.summary["totals"]["FLOPs"] == 171 and page.summary["totals"]["is_lower_bound"]
    note = "FLOPs and times are at least what is shown: without 1 instruction of unknown cost: 1 mine"
    assert note in page.summary["notes"]
    (graph,) = page.packed("graphs")
    call = next(node for node in graph["nodes"] if node["id"] == "main/l")
    assert {"key": "library_call", "value": "Cholesky factorization"} in call["attrs"]


def test_the_same_module_makes_the_same_page():
    assert page_text(parse(STEP)) == page_text(parse(STEP))


def test_a_page_loads_nothing_and_runs_its_own_scripts_only():
    page = blocks(parse(STEP))
    policy = next(
        attributes["content"] for tag, attributes in page.tags if tag == "meta" and "http-equiv" in attributes
    )
    nonces = {attributes["nonce"] for tag, attributes in page.tags if tag == "script" and "nonce" in attributes}
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert nonces == {re.findall("'nonce-([0-9a-f]+)'", policy)[0]}
    assert not [attributes for _, attributes in page.tags if "src" in attributes]
    assert [attributes["href"] for tag, attributes in page.tags if tag == "link"] == ["data:,"]


def test_hostile_names_stay_text():
    clean, hostile = blocks(parse(STEP)), blocks(hostile_module())
    assert [tag for tag, _ in hostile.tags] == [tag for tag, _ in clean.tags]
    assert hostile.summary["module"] == HOSTILE[0]
    names = {node["id"].removeprefix("main/") for node in hostile.packed("graphs")[0]["nodes"]}
    assert set(HOSTILE) - {HOSTILE[9]} <= names


@pytest.mark.parametrize(
    "text",
    [
        "a = f32[2] add(b, c)\n",
        "HloModule one\nENTRY e { ROOT a = f32[] parameter(0) }\n",
        "HloModule none\nENTRY e { a = f32[2] parameter(0)\n b = f32[2] negate(a)\n ROOT c = (f32[2]) tuple(b) }\n",
        "f { a = f32[2] parameter(0)\n ROOT b = f32[2] negate(a) }\n\ng { c = f32[2] parameter(0)\n"
        "  ROOT d = f32[2] fusion(c), calls=f }\n",
        "HloModule odd\nENTRY e { a = f32[2] parameter(0)\n ROOT b = f32[2] strange(a, gone), calls=nowhere }\n",
    ],
)
@pytest.mark.filterwarnings("ignore::hloom.text.HloomWarning")
def test_fragments_and_modules_without_metadata(text: str):
    module = parse(text)
    page = blocks(module)
    assert page.summary["instructions"] == module.node_count
    assert sum(len(graph["nodes"]) for graph in page.packed("graphs")) >= 1


def test_an_empty_module():
    page = blocks(Module("empty"))
    assert page.packed("graphs") == []
    assert page.summary["notes"][0] == "the module has no computations"


def test_a_module_that_is_too_large_for_a_graph(monkeypatch: pytest.MonkeyPatch):
    for place_of_limit in ("graphs", "document"):
        monkeypatch.setattr(f"hloom.inspection.page.{place_of_limit}.MOST_EXPORTED", 11)
    page = blocks(parse(STEP))
    assert page.packed("graphs") == []
    assert "viewer" not in page.texts
    assert page.summary["scopes"]
    assert "without graph and table: they hold at most 11 instructions" in page.summary["notes"]


def test_errors():
    module = parse(STEP)
    with pytest.raises(HloomError, match="no device is called 'abacus'"):
        page_text(module, device="abacus")
    with pytest.raises(HloomError, match=r"while\.9"):
        page_text(module, trip_counts={"while.9": 3})


def test_whole_or_not_at_all(tmp_path: Path):
    target = tmp_path / "page.html"
    hloom.page(parse(STEP), target)
    assert target.read_text() == page_text(parse(STEP))
    with pytest.raises(HloomError):
        hloom.page(parse(STEP), target, device="abacus")
    assert target.read_text() == page_text(parse(STEP))


def opened(browser: Chromium, tmp_path: Path, module: Module) -> None:
    target = tmp_path / "page.html"
    hloom.page(module, target)
    browser.open(target)
    browser.wait(
        "document.readyState === 'complete' && document.getElementById('page') !== null && "
        "document.getElementById('page').shadowRoot !== null"
    )


@pytest.fixture
def no_viewer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages are made without a graph, as those of large modules are: a browser draws none while others are tried."""
    monkeypatch.setattr("hloom.inspection.page.document.MOST_EXPORTED", 0)


@pytest.mark.usefixtures("no_viewer")
def test_panels_in_a_browser(browser: Chromium, tmp_path: Path):
    opened(browser, tmp_path, parse(STEP))
    assert "forward" in open_tab(browser, "Costs by scope")
    assert "inputs/params/layer_0" in open_tab(browser, "Memory")
    assert "memory" in open_tab(browser, "Roofline")
    assert "all-reduce" in open_tab(browser, "Collectives")
    assert "9 of 9 instructions" in open_tab(browser, "Instructions")
    browser.evaluate(f"{PANEL}.querySelector('input').focus()")
    browser.type("dot layer_0")
    assert "1 of 9 instructions" in browser.wait(f"(text => text.includes('1 of 9') && text)({PANEL}.innerText)")
    browser.evaluate(f"{PANEL}.querySelector('.rows .row').click()")
    assert "dot(%x, %w)" in browser.evaluate(f"{PANEL}.querySelector('.detail').innerText")
    assert (browser.problems(), len(browser.requests())) == ([], 1)


@pytest.mark.usefixtures("no_viewer")
def test_hostile_names_in_a_browser(browser: Chromium, tmp_path: Path):
    opened(browser, tmp_path, hostile_module())
    for tab in ("Costs by scope", "Memory", "Roofline", "Collectives", "Instructions"):
        open_tab(browser, tab)
    for row in range(5):
        browser.evaluate(f"{PANEL}.querySelectorAll('.rows .row')[{row}].click()")
    assert browser.evaluate("window.broken === undefined")
    assert (browser.problems(), len(browser.requests())) == ([], 1)


def test_the_graph_in_a_browser(browser: Chromium, tmp_path: Path):
    """The viewer starts, and shows what it is given, without a request; of hostile names too."""
    for module in (parse(STEP), hostile_module()):
        browser.events.clear()
        opened(browser, tmp_path, module)
        wait_for_graph(browser)
        assert "bytes accessed" in browser.evaluate("document.querySelector('app-root').innerText")
        browser.evaluate("document.querySelector('input[placeholder*=Search]').focus()")
        browser.type("dot")
        browser.wait("/[0-9]+ results?/.test(document.querySelector('app-root').innerText)")
        assert browser.evaluate("window.broken === undefined")
        assert (browser.problems(), len(browser.requests())) == ([], 1)


@pytest.mark.usefixtures("chromium")
def test_a_browser_without_webgl(tmp_path: Path):
    path = program()
    assert path is not None
    with Chromium(path, "--disable-3d-apis") as browser:
        opened(browser, tmp_path, parse(STEP))
        browser.wait("document.getElementById('graph').innerText.includes('The graph needs WebGL')")
        assert "forward" in open_tab(browser, "Costs by scope")


def test_measured_times_are_an_overlay(tmp_path: Path):
    trace = written(tmp_path)
    for text, is_given in ((TRACED, True), (COMPILED_FROM, False)):
        page = blocks(parse(text), profile=trace)
        (graph,) = page.packed("overlays")["time (measured), µs"].values()
        assert sorted(row["value"] for row in graph["results"].values()) == [2.0, 10.0, 15.0]
        notes = page.summary["notes"]
        assert any(note.startswith("measured in 2 runs on 1 devices: 35 us a run") for note in notes)
        assert is_given != any("the optimised program out of the trace" in note for note in notes)
    with pytest.raises(HloomError, match="is a trace of other programs than step"):
        blocks(parse(STEP), profile=trace)
