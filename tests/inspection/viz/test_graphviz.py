"""Pictures, and what is said where there can be none."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest

from hloom.inspection.viz import draw, graphviz, render, to_dot
from hloom.text import HloomError, Unsupported
from tests.inspection.viz.build import fused

needs_dot = pytest.mark.skipif(shutil.which("dot") is None, reason="pdf needs an installed Graphviz: no program 'dot'")


@pytest.fixture
def without_port(monkeypatch: pytest.MonkeyPatch):
    """As on a platform that the port has no wheel for."""
    monkeypatch.setattr(graphviz, "PORT", "no-such-distribution")


@pytest.fixture
def fake_dot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without_port: None):
    """Puts a shell script in the place of Graphviz."""

    def install(script: str) -> None:
        program = tmp_path / "dot"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    return install


def test_pictures_without_an_installed_graphviz(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "")
    assert render(to_dot(fused())).lstrip().startswith(b"<?xml")
    assert render(to_dot(fused()), "png").startswith(b"\x89PNG")


def test_a_picture_does_not_depend_on_the_machines_fonts_and_language(monkeypatch: pytest.MonkeyPatch):
    drawn = render(to_dot(fused()))
    monkeypatch.setenv("FONTCONFIG_FILE", os.devnull)
    monkeypatch.setenv("LC_ALL", "tr_TR.UTF-8")
    monkeypatch.setenv("HOME", os.devnull)
    assert render(to_dot(fused())) == drawn


@needs_dot
def test_pdf_by_an_installed_graphviz():
    assert render(to_dot(fused()), "pdf").startswith(b"%PDF")


@needs_dot
def test_an_installed_graphviz_draws_where_there_is_no_port(without_port: None):
    assert b"<svg" in render(to_dot(fused()))


def test_large_graphs_get_straight_arrows(fake_dot):
    fake_dot('echo "$@"; cat > /dev/null')
    assert render("digraph {\n}\n") == b"-Tsvg\n"
    large = "digraph {\n" + "a -> b;\n" * graphviz.LARGE + "}\n"
    assert b"-Gsplines=line" in render(large)


def test_text_that_is_no_dot_is_refused():
    with pytest.raises(HloomError, match=r"Graphviz refused the DOT text: .*syntax error in line [12]"):
        render("digraph {")


def test_without_any_graphviz_it_says_how_to_install_one(monkeypatch: pytest.MonkeyPatch, without_port: None):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(Unsupported) as caught:
        render("digraph {}")
    assert str(caught.value) == (
        "there is neither no-such-distribution nor a program 'dot' on the PATH\n"
        "  `pip install graphviz-pure`, or install Graphviz (apt, brew and conda call it graphviz), or write .dot"
    )


def test_what_only_an_installed_graphviz_writes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(Unsupported) as caught:
        render("digraph {}", "pdf")
    assert str(caught.value) == (
        "pdf needs an installed Graphviz: no program 'dot' on the PATH\n"
        "  install it (`apt install graphviz`, `brew install graphviz`, `conda install graphviz`), "
        "or write .svg or .png"
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


@pytest.mark.parametrize(("suffix", "start"), [(".svg", b"<?xml"), (".PNG", b"\x89PNG")])
def test_pictures_in_files(tmp_path, suffix, start):
    assert draw(fused(), tmp_path / f"m{suffix}").read_bytes().startswith(start)


def test_a_suffix_that_names_no_format_is_refused(tmp_path):
    with pytest.raises(Unsupported) as caught:
        draw(fused(), tmp_path / "m.docx")
    assert str(caught.value) == (
        "cannot draw into 'm.docx': the suffix does not name a format\n"
        "  the suffixes are .dot, .gv, .json, .graphml, .svg, .png, .pdf"
    )
