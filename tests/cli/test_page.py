"""`hloom page` and `hloom view`: where the page goes, and errors before anything is written.

Covers `page.py`, `view.py`.
"""

from __future__ import annotations

import os
import tempfile
import webbrowser
from pathlib import Path

import pytest

from hloom.formats.hlo import load
from hloom.inspection.page import page_text
from tests.cli.conftest import Call


def test_beside_where_it_is_called(call: Call, step: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    result = call("page", step)
    assert (result.exit_code, result.stdout) == (0, "")
    assert (tmp_path / "step.html").read_text() == page_text(load(step))
    assert result.stderr.endswith("MiB\n")


def test_into_a_file_and_the_standard_output(call: Call, step: Path, tmp_path: Path):
    text = page_text(load(step), device="a100-80", source_url="https://example.com{path}")
    options = ("--device", "a100-80", "--source-url", "https://example.com{path}")
    assert call("page", step, *options, "-o", tmp_path / "x.html").exit_code == 0
    assert (tmp_path / "x.html").read_text() == text
    assert call("page", step, *options, "-o", "-").stdout == text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--device", "abacus"), "no device is called 'abacus'"),
        (("--source-url", "javascript:{line}"), "is not a URL that a page may open"),
        (("--trips", "while.9=3"), "while.9"),
    ],
)
def test_errors(call: Call, step: Path, tmp_path: Path, options: tuple[str, ...], message: str):
    result = call("page", step, *options, "-o", tmp_path / "x.html")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ")
    assert message in result.stderr
    assert os.listdir(tmp_path) == ["step.hlo"]


def test_a_folder_that_is_not_there(call: Call, step: Path, tmp_path: Path):
    result = call("page", step, "-o", tmp_path / "none" / "x.html")
    assert result.exit_code == 2
    assert "no such file or directory" in result.stderr


def test_view(call: Call, step: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: opened.append(url) or True)
    result = call("view", step)
    assert result.exit_code == 0
    target = Path(result.stdout.strip())
    assert opened == [target.as_uri()]
    assert target.read_text() == page_text(load(step))


def test_view_without_a_browser(call: Call, step: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(webbrowser, "open", lambda url: False)
    result = call("view", step)
    assert result.exit_code == 2
    assert "error: no browser was found\n  open " in result.stderr
