"""Drawings in files: the suffix says the format."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hloom.inspection.viz import draw, to_dot, to_graphml, to_json
from hloom.text import Unsupported
from tests.inspection.viz.build import fused


@pytest.mark.parametrize(
    ("suffix", "writer"), [(".dot", to_dot), (".gv", to_dot), (".DOT", to_dot), (".graphml", to_graphml)]
)
def test_text_formats(tmp_path: Path, suffix: str, writer):
    path = tmp_path / f"module{suffix}"
    assert draw(fused(), path) == path
    assert path.read_text() == writer(fused())


def test_json_with_a_selection(tmp_path: Path):
    path = draw(fused(), tmp_path / "module.json", computation="main")
    assert json.loads(path.read_text()) == json.loads(to_json(fused(), computation="main"))


def test_pictures_are_rendered(tmp_path: Path):
    assert draw(fused(), tmp_path / "module.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in draw(fused(), tmp_path / "module.svg").read_bytes()


def test_another_suffix_is_refused_with_the_known_ones(tmp_path: Path):
    with pytest.raises(Unsupported) as caught:
        draw(fused(), tmp_path / "module.txt")
    assert caught.value.message == "cannot draw into 'module.txt': the suffix does not name a format"
    assert caught.value.hint == "the suffixes are .dot, .gv, .json, .graphml, .svg, .png, .pdf"
