"""The viewer's files: read from a wheel or where it is installed, of one version only."""

from __future__ import annotations

import hashlib
import re
import zipfile
from pathlib import Path

import pytest

from hloom.inspection.page.viewer import FOLDER, VERSION, has_viewer, viewer_parts
from hloom.text import HloomError

ASSETS = Path(__file__).resolve().parents[3] / "src" / "hloom" / "inspection" / "page" / "assets"
UPLOT = {
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}
"""What is in the package as it was published: uplot 1.6.32."""


def test_uplot_is_as_it_was_published():
    assert {name: hashlib.sha256((ASSETS / name).read_bytes()).hexdigest() for name in UPLOT} == UPLOT


@pytest.mark.parametrize("path", ["/dev/zero", "/"])
def test_a_path_that_is_no_file(path: str):
    with pytest.raises(HloomError, match=f"cannot read {path}: it is not a file"):
        viewer_parts(Path(path))


def test_a_file_that_is_no_wheel(tmp_path: Path):
    with pytest.raises(HloomError, match=r"cannot read .*none\.whl"):
        viewer_parts(tmp_path / "none.whl")
    (tmp_path / "text.whl").write_text("no archive")
    with pytest.raises(HloomError, match=r"cannot read .*text\.whl: File is not a zip file"):
        viewer_parts(tmp_path / "text.whl")


@pytest.mark.parametrize("name", ["index.html", "other.html"])
def test_another_version(tmp_path: Path, name: str):
    wheel = tmp_path / "other.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{FOLDER}/{name}", "<html>")
    with pytest.raises(HloomError, match=rf"is not of Model Explorer {VERSION}") as refused:
        viewer_parts(wheel)
    assert refused.value.hint == f"pip install --no-deps ai-edge-model-explorer=={VERSION}"


def test_the_installed_one():
    if not has_viewer():
        pytest.skip("Model Explorer is not installed")
    parts = viewer_parts()
    assert parts is not None
    assert not re.search(r"\b(document|window)\.location\.search", parts["main"])
    assert "fonts.gstatic.com" not in parts["styles"]
    assert "static_files" not in parts["styles"]
    assert set(parts["assets"]) >= {"FontBold.png", "icons_20240521.json"}
