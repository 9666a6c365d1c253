"""What notebooks show of a value: `notebook.py`; the values are modules and reports of other packages."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

import hloom
from hloom.text import Display, Displayed, DisplayTable
from tests.helpers.work import calls

HOSTILE = '</code><script>alert("1")</script><img src=x onerror=alert(1)>&\0\udcff\u202e'
STEP = """HloModule step
ENTRY main {
  x = f32[8,16] parameter(0)
  w = f32[16,16] parameter(1)
  d = f32[8,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(f)/a/dot"}
  ROOT t = f32[8,16] tanh(d)
}
"""
LARGEST = 100_000
"""How many characters of HTML a value has at most."""


class Checked(HTMLParser):
    """Reads HTML whose elements are closed; notes their tags and the text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.text = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert {name for name, _ in attrs} <= {"style", "colspan", "href", "target"}
        self.open.append(tag)
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def shown(value: object) -> str:
    """The text of a value's HTML, which is checked: small, closed, without scripts, and JSON can hold it."""
    assert isinstance(value, Displayed)
    bundle = value._repr_mimebundle_()
    assert bundle["text/html"] == value._repr_html_()
    assert len(bundle["text/html"]) < LARGEST
    bundle["text/html"].encode("utf-8")
    page = Checked(bundle["text/html"])
    assert page.tags <= {"details", "summary", "code", "table", "thead", "tbody", "tr", "th", "td", "div", "a"}
    return page.text


def large(count: int) -> hloom.Module:
    """Very many instructions, all users of one, and operands of one."""
    lines = [f"  n{number} = f32[4] negate(x)" for number in range(count)]
    types, names = ", ".join(["f32[4]"] * count), ", ".join(f"n{number}" for number in range(count))
    tail = f"  ROOT all = ({types}) tuple({names})"
    return hloom.parse(
        "HloModule large\nENTRY main {\n  x = f32[4] parameter(0)\n" + "\n".join([*lines, tail]) + "\n}\n"
    )


def test_a_module_its_graphs_and_its_nodes():
    module = hloom.parse(STEP)
    text = shown(module)
    assert "<module step: 1 graphs, 4 nodes>" in text
    assert "opcodes: 3" in text
    assert "hloom.view(module)" in text
    assert "<graph main: 4 nodes>" in shown(module.entry)
    text = shown(module.entry["d"])
    assert "<d = f32[8,16] dot(x, w)>" in text
    assert 'op_name="jit(f)/a/dot"' in text
    assert "users: 1" in text


def test_a_module_without_an_entry_and_one_without_anything():
    assert "0 nodes" in shown(hloom.Module("nothing"))
    fragment = hloom.parse("f { x = f32[2] parameter(0) ROOT y = f32[2] negate(z) }")
    assert "1 graphs" in shown(fragment)
    assert "missing" in shown(fragment["f"].missing[0])


def test_names_become_text():
    module = hloom.parse(STEP)
    module.name = HOSTILE
    module.entry.rename(module.entry["d"], HOSTILE)
    module.notes.append(HOSTILE)
    for value in (module, module.entry, *module.entry.nodes, hloom.cost(module), hloom.roofline(module, "h100")):
        assert "\N{REPLACEMENT CHARACTER}" in shown(value) or HOSTILE not in repr(value)
    assert "<script>" in shown(module)
    for value in (hloom.memory(module), hloom.inspect(module), hloom.grep(module, "dot"), hloom.table(module)):
        shown(value)
    shown(hloom.diff(hloom.parse(STEP), module))


def test_reports():
    module = hloom.parse(STEP)
    assert "by opcode: 2" in shown(hloom.cost(module))
    assert "what takes the time: 2" in shown(hloom.roofline(module, "h100"))
    assert "live at the peak: 3" in shown(hloom.memory(module, schedule="list"))
    assert "largest results: 2" in shown(hloom.inspect(module))
    assert "1 of 4 instructions" in shown(hloom.grep(module, "tanh"))
    other, report = hloom.opt(module, ["simplify", "cse"])
    assert "passes: 2" in shown(report)
    assert "no differences" in shown(hloom.diff(module, other))


def test_plans():
    from hloom.distribute.pipeline import PipelinePlan, Stage

    assert "2 stages, 4 microbatches" in shown(PipelinePlan((Stage(0, 1, (0,)), Stage(2, 3, (1,))), 4))
    planned = hloom.plan(hloom.parse(STEP), "data=2")
    assert "plans, best first" in shown(planned)
    assert "parameters: 2" in shown(planned.plan)


def test_very_many_instructions_are_counted_in_a_few_calls_each():
    module = large(55_079)
    for value in (module, module.entry, module.entry["x"], module.entry["all"]):
        assert calls(lambda value=value: shown(value)) < 6 * 55_079
        assert "55,0" in shown(value)


def test_a_table_shows_its_first_rows_in_a_shell():
    table = hloom.table(large(500), columns=("name", "opcode"))
    assert repr(table) == "<table of 502 rows: name, opcode>"
    assert table._repr_mimebundle_()["text/plain"].count("\n") == 60


def test_rows_that_are_not_shown_are_not_made():
    rows = iter([(number,) for number in range(30)])
    html = Display("t", [DisplayTable("numbers", ("n",), rows, 30), DisplayTable("none", ("n",), [], 0)]).to_html()
    assert "10 more" in html
    assert "none" not in html
    assert next(rows) == (20,)


def test_a_link_opens_files_only():
    assert Display("a<b", link="./a%20b.html").to_html() == '<a href="./a%20b.html" target="_blank">a&lt;b</a>'
    with pytest.raises(ValueError, match="not 'javascript:'"):
        Display("a", link="javascript:alert(1)")
