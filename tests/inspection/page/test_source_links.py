"""Links to source lines by a template."""

from __future__ import annotations

import pytest

from hloom.inspection.page import SourceLinks
from hloom.ir import Module
from hloom.text import HloomError

FIELDS = {"source_file": "/src/my model.py", "source_line": 7}


@pytest.mark.parametrize(
    ("template", "link"),
    [
        ("https://example.com/blob{path}#L{line}", "https://example.com/blob/src/my%20model.py#L7"),
        ("vscode://file{path}:{line}", "vscode://file/src/my%20model.py:7"),
        ("https://example.com/", "https://example.com/"),
    ],
)
def test_links(template: str, link: str):
    assert SourceLinks(Module(), template).link(FIELDS) == link
    assert SourceLinks(Module(), template).link({}) == ""
    assert SourceLinks(Module(), template).location(FIELDS) == "/src/my model.py:7"


def test_a_hostile_path_stays_a_path():
    link = SourceLinks(Module(), "https://example.com{path}#L{line}").link({"source_file": "/a?b#c'\"<{line}>"})
    assert link == "https://example.com/a%3Fb%23c%27%22%3C%7Bline%7D%3E#L0"


@pytest.mark.parametrize(
    "template", ["javascript:alert({line})", "data:text/html,{path}", "{path}", "", "model.py", "HTTP"]
)
def test_templates_that_are_no_urls(template: str):
    with pytest.raises(HloomError, match="is not a URL that a page may open"):
        SourceLinks(Module(), template)


def test_a_template_that_names_what_there_is_not():
    with pytest.raises(HloomError, match=r"names \{column\}") as refused:
        SourceLinks(Module(), "https://example.com/{column}")
    assert refused.value.hint == "a template may name {path}, {line}"
