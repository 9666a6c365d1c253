"""A page in a file, opened in the browser, and its link in a notebook."""

from __future__ import annotations

import tempfile
import webbrowser
from pathlib import Path

import pytest

import hloom
from hloom.inspection.page import page_text
from hloom.text import HloomError

MODULE = "HloModule m\nENTRY e { x = f32[4] parameter(0) ROOT y = f32[4] negate(x) }"


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    urls: list[str] = []
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(webbrowser, "open", lambda url: urls.append(url) or True)
    return urls


def test_a_temporary_file(opened: list[str]):
    module = hloom.parse(MODULE)
    written = hloom.view(module)
    assert written.is_opened
    assert opened == [written.path.as_uri()]
    assert written.path.read_text() == page_text(module)
    html = written._repr_html_()
    assert html.startswith(f'<a href="{written.path.as_uri()}" target="_blank">&lt;page of m: ')
    assert len(html) < 1000


def test_beside_the_notebook_the_link_is_relative(opened: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    written = hloom.view(hloom.parse(MODULE), "a step.html", device="a100-80")
    assert 'href="./a%20step.html"' in written._repr_html_()
    assert written.path.read_text() == page_text(hloom.parse(MODULE), device="a100-80")


def test_a_folder_that_is_not_there(opened: list[str], tmp_path: Path):
    with pytest.raises(HloomError, match="cannot write"):
        hloom.view(hloom.parse(MODULE), tmp_path / "none" / "x.html")
    assert opened == []
