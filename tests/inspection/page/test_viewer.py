"""The programs of others in a page: as they were published, with their licences."""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from hloom.inspection.page import viewer
from hloom.inspection.page.viewer import ARCHIVE, CHANGES, FILES, HASHES, PROGRAM, viewer_parts
from hloom.text import HloomError

UPLOT = {
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}
"""What is in the package as it was published: uplot 1.6.32."""
BUNDLED = ("Apache License", "Angular", "d3", "dagre", "graphlib", "lodash", "three.js", "tslib", "zone.js")


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_uplot_is_as_it_was_published():
    assert {name: sha256((ARCHIVE.parent / name).read_bytes()) for name in UPLOT} == UPLOT


def test_model_explorer_is_as_it_was_published():
    lines = [line.split("  ") for line in HASHES.read_text().splitlines()]
    published = {name: digest for digest, name in lines}
    with zipfile.ZipFile(ARCHIVE) as archive:
        assert {name: sha256(archive.read(name)) for name in archive.namelist()} == published
        program = archive.read(PROGRAM).decode()
    assert set(published) == set(FILES)
    assert all(before in program for before, _ in CHANGES)


def test_the_licences_of_what_it_bundles():
    text = ARCHIVE.with_suffix(".LICENSE").read_text()
    assert [name for name in BUNDLED if name not in text] == []


def test_a_page_requests_nothing_from_others():
    parts = viewer_parts()
    assert not re.search(r"\b(document|window)\.location\.search", parts["main"])
    assert "fonts.gstatic.com" not in parts["styles"]
    assert "static_files" not in parts["styles"]
    assert set(parts["assets"]) >= {"FontBold.png", "icons_20240521.json"}


@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: data[: len(data) // 2], lambda data: data[:100_000] + b"?" * 9 + data[100_009:]])
def test_a_damaged_archive_is_an_error(damage: Callable[[bytes], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    damaged = tmp_path / "viewer.zip"
    damaged.write_bytes(damage(ARCHIVE.read_bytes()))
    monkeypatch.setattr(viewer, "ARCHIVE", damaged)
    with pytest.raises(HloomError, match=r"viewer.zip are damaged"):
        viewer_parts()


def test_a_missing_archive_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(viewer, "ARCHIVE", tmp_path / "viewer.zip")
    with pytest.raises(HloomError, match="reinstall hloom"):
        viewer_parts()
