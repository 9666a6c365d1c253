"""Model Explorer's web app, from the wheel that is installed or given, as parts of a page.

Only the wheel's static files are read; nothing of it is imported or runs in Python. Version and checksums are fixed:
the page changes a few places of the program by their text (docs/decisions/019-graph-viewer.md).
"""

from __future__ import annotations

import base64
import hashlib
import re
import zipfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hloom.text import HloomError

VERSION = "0.1.34"
DISTRIBUTION = "ai-edge-model-explorer"
VIEWER_HINT = f"pip install --no-deps {DISTRIBUTION}=={VERSION}"
DOWNLOAD = f"pip download --no-deps {DISTRIBUTION}=={VERSION}"
FOLDER = "model_explorer/web_app"
CHECKSUMS = {
    "index.html": "eb3adc8c1e8996d5f57dbbd0f56612a91f12caa4409b471320b0ccecbc1cb302",
    "main-PMF54IZX.js": "c76470cc97f510ce8261f3355ebd1fd986469dbba5d6512e164613e25ba0c9fe",
    "polyfills-B6TNHZQ6.js": "e58411db71b908616c5c212d2373e7b5ab79055c7987e0836e64b259da72507f",
    "styles-IRUOMJAV.css": "f487a87a7a1f2a214b0de496df548ae579e8e288c80a268c828f3dbfc64ff2ce",
    "worker-GBTWHUEZ.js": "c10e4b72349366320f816ead37524765fb1a433d2d0ff439077a726b82fe0725",
    "static_files/FontBold.json": "3d78eab062551a287b284198678e251b267a6507b2cb8f3b9c72d2dad81ddc39",
    "static_files/FontBold.png": "fce0c2f4d35b2c925660a7b1f93dc04e0d5fe192a701676fcf6b3d11a02ad0da",
    "static_files/FontMedium.json": "25c9a410d5a39e10d5d03cce6b5fe2522ee80fdfd7eb8739cbfa70b80667c3aa",
    "static_files/FontMedium.png": "5f3df0a9dc9821053221d3c4ac0003a9ca9963864cc9e9286aacc68d05cafe51",
    "static_files/FontRegular.json": "de16f8ad4be93059a4171a647b0beb5b86c237e18e9047635cee48f3312e2c59",
    "static_files/FontRegular.png": "11123a36efcd99145ce81cbe71021044276f434bac4c0b93522acc5a7c059478",
    "static_files/google_material_icon.woff2": "5c614344882aedbfc5924145beef2715d9283a8fde18ddd747e851f0e787b33f",
    "static_files/icons_20240521.json": "4367744b8168b1902be7e4a8ef8a1a22b24c565b34788dab3feb1f319be9f2de",
    "static_files/icons_20240521.png": "468b256ed90ba5213a2582e7e62b2f4da383c602502dd71d34f5339bdc016e72",
    "static_files/material_icon.woff2": "8265f64786397d6b832d1ca0aafdf149ad84e72759fffa9f7272e91a0fb015d1",
}
"""The files that are put into a page, by their SHA-256."""
IMAGES = ("FontBold.png", "FontMedium.png", "FontRegular.png", "icons_20240521.png")
TABLES = ("FontBold.json", "FontMedium.json", "FontRegular.json", "icons_20240521.json")
ICONS = ("material_icon.woff2", "google_material_icon.woff2")
"""The fonts of icons; those of letters are left out, and the system's are used."""
CHANGES = (
    ("document.location.search", "window.viewerQuery"),
    ("window.location.search", "window.viewerQuery"),
    ("this.renderer.render(this.scene,this.camera),this.web", "window.drawGraph(this),this.web"),
)
"""What of the program's text is replaced: its query, and how often it draws; `viewer.js` says how."""
_FACE = re.compile(r"@font-face\s*\{[^}]*\}")
_STYLE = re.compile(r"<style>(.*?)</style>", re.DOTALL)
_URL = re.compile(r"""url\(["']?/?static_files/([^)"']+)["']?\)""")

Parts = dict[str, Any]


def viewer_parts(wheel: Path | None = None) -> Parts | None:
    """The program, its worker, styles and pictures; None where it is not installed and no wheel is given.

    Raises HloomError for a file that is no such wheel, or of another version.
    """
    read = _wheel_reader(wheel) if wheel is not None else _installed_reader()
    if read is None:
        return None
    index = _checked(read, "index.html").decode()
    styles = "\n".join(_STYLE.findall(index)) + _checked(read, "styles-IRUOMJAV.css").decode()
    program = _checked(read, "main-PMF54IZX.js").decode()
    for before, after in CHANGES:
        assert before in program, "the program is the one that was looked at"
        program = program.replace(before, after)
    assets = {name: _data_url("image/png", _checked(read, f"static_files/{name}")) for name in IMAGES}
    assets |= {name: _data_url("application/json", _checked(read, f"static_files/{name}")) for name in TABLES}
    return {
        "main": program,
        "polyfills": _checked(read, "polyfills-B6TNHZQ6.js").decode(),
        "worker": _checked(read, "worker-GBTWHUEZ.js").decode(),
        "styles": _with_icons(styles, read),
        "assets": assets,
    }


def has_viewer() -> bool:
    """Whether Model Explorer is installed, of whatever version."""
    return _installed_reader() is not None


def _with_icons(styles: str, read: Callable[[str], bytes]) -> str:
    """The styles without fonts but those of icons, which are put in."""
    faces = _FACE.sub(lambda match: match[0] if any(name in match[0] for name in ICONS) else "", styles)

    def data_url(match: re.Match[str]) -> str:
        return f"url({_data_url('font/woff2', _checked(read, f'static_files/{match[1]}'))})"

    return _URL.sub(data_url, faces)


def _installed_reader() -> Callable[[str], bytes] | None:
    spec = find_spec("model_explorer")
    locations = spec.submodule_search_locations if spec is not None else None
    if not locations:
        return None
    folder = Path(next(iter(locations))) / "web_app"

    def read(name: str) -> bytes:
        try:
            return (folder / name).read_bytes()
        except OSError as problem:
            raise _other_version(str(folder)) from problem

    return read


def _wheel_reader(wheel: Path) -> Callable[[str], bytes]:
    def read(name: str) -> bytes:
        if wheel.exists() and not wheel.is_file():  # zipfile would look for an archive's end in /dev/zero
            raise HloomError(f"cannot read {wheel}: it is not a file", hint=DOWNLOAD)
        try:
            with zipfile.ZipFile(wheel) as archive:
                return archive.read(f"{FOLDER}/{name}")
        except (OSError, zipfile.BadZipFile) as problem:
            raise HloomError(f"cannot read {wheel}: {problem}", hint=DOWNLOAD) from None
        except KeyError as problem:
            raise _other_version(str(wheel)) from problem

    return read


def _checked(read: Callable[[str], bytes], name: str) -> bytes:
    contents = read(name)
    if hashlib.sha256(contents).hexdigest() != CHECKSUMS.get(name):
        raise _other_version(name)
    return contents


def _other_version(name: str) -> HloomError:
    return HloomError(f"{name} is not of Model Explorer {VERSION}, which is what a page is made with", hint=VIEWER_HINT)


def _data_url(media_type: str, contents: bytes) -> str:
    return f"data:{media_type};base64,{base64.b64encode(contents).decode()}"
