"""Pictures, and what is said where there can be none."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path

import pytest

from hloom.text import HloomError, Unsupported
from hloom.viz import draw, render, to_dot
from tests.viz.build import fused

needs_graphviz = pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed: no program 'dot'")


@pytest.fixture
def fake_dot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Puts a shell script in the place of Graphviz."""

    def install(script: str) -> None:
        program = tmp_path / "dot"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    return install


@needs_graphviz
def test_pictures():
    assert render(to_dot(fused())).lstrip().startswith(b"<?xml")
    assert render(to_dot(fused()), "png").startswith(b"\x89PNG")
    assert render(to_dot(fused()), "pdf").startswith(b"%PDF")


@needs_graphviz
def test_text_that_is_no_dot_is_refused():
    with pytest.raises(HloomError, match=r"Graphviz refused the DOT text: .*syntax error in line 1"):
        render("digraph {")


def test_without_graphviz_it_says_how_to_install_it(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(Unsupported) as caught:
        render("digraph {}")
    assert str(caught.value) == (
        "Graphviz is not installed: no program 'dot' on the PATH\n"
        "  install it (`apt install graphviz`, `brew install graphviz`, `conda install graphviz`) or write .dot"
    )


def test_an_unknown_format_is_refused():
    with pytest.raises(Unsupported) as caught:
        render("digraph {}", "docx")
    assert str(caught.value) == "cannot render 'docx'\n  the formats are svg, png, pdf, ps, json, plain"


def test_a_graph_that_takes_too_long_is_given_up(fake_dot):
    fake_dot("exec sleep 20")
    with pytest.raises(Unsupported) as caught:
        render("digraph {\n}\n", time_limit=0.2)
    assert caught.value.message == "Graphviz did not lay out the graph of 2 lines within 0.2 s"
    assert "--computation NAME" in str(caught.value.hint)
    assert "--around NODE" in str(caught.value.hint)


def test_a_graph_that_kills_graphviz_is_given_up(fake_dot):
    fake_dot("kill -9 $$")
    with pytest.raises(Unsupported, match=r"Graphviz died \(signal 9\) on the graph of 1 lines"):
        render("digraph {}\n")


@pytest.mark.parametrize("suffix", [".dot", ".gv", ".json", ".graphml"])
def test_a_files_suffix_says_its_format(tmp_path, suffix):
    path = draw(fused(), tmp_path / f"m{suffix}", computation="body")
    assert "body" in path.read_text(encoding="utf-8")
    assert "fused" not in path.read_text(encoding="utf-8")


@needs_graphviz
@pytest.mark.parametrize(("suffix", "start"), [(".svg", b"<?xml"), (".PNG", b"\x89PNG"), (".pdf", b"%PDF")])
def test_pictures_in_files(tmp_path, suffix, start):
    assert draw(fused(), tmp_path / f"m{suffix}").read_bytes().startswith(start)


def test_a_suffix_that_names_no_format_is_refused(tmp_path):
    with pytest.raises(Unsupported) as caught:
        draw(fused(), tmp_path / "m.docx")
    assert str(caught.value) == (
        "cannot draw into 'm.docx': the suffix does not name a format\n"
        "  the suffixes are .dot, .gv, .json, .graphml, .svg, .png, .pdf"
    )
