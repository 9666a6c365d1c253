"""Model Explorer's web app, whose files are in this package, as parts of a page.

The page changes a few places of the program by their text (docs/decisions/019-graph-viewer.md).
"""

from __future__ import annotations

import base64
import re
import zipfile
import zlib
from pathlib import Path
from typing import Any

from hloom.text import HloomError

VERSION = "0.1.34"
ARCHIVE = Path(__file__).parent / "assets" / "model_explorer.zip"
"""Files of the wheel ai-edge-model-explorer, unchanged, as `scripts/vendor_viewer.py` writes them."""
HASHES = ARCHIVE.with_suffix(".sha256")
"""Their SHA-256, in the format of `sha256sum`."""
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
STYLES, PROGRAM, WORKER = "styles-IRUOMJAV.css", "main-PMF54IZX.js", "worker-GBTWHUEZ.js"
INDEX, POLYFILLS = "index.html", "polyfills-B6TNHZQ6.js"
FILES = (INDEX, PROGRAM, POLYFILLS, STYLES, WORKER, *(f"static_files/{name}" for name in (*TABLES, *IMAGES, *ICONS)))
_FACE = re.compile(r"@font-face\s*\{[^}]*\}")
_STYLE = re.compile(r"<style>(.*?)</style>", re.DOTALL)
_URL = re.compile(r"""url\(["']?/?static_files/([^)"']+)["']?\)""")

Parts = dict[str, Any]


def viewer_parts() -> Parts:
    """The program, its worker, styles and pictures; raises HloomError if the installed files are damaged."""
    files = _files()
    texts = {name: files[name].decode() for name in (INDEX, PROGRAM, POLYFILLS, STYLES, WORKER)}
    program = texts[PROGRAM]
    for before, after in CHANGES:
        program = program.replace(before, after)
    assets = {name: _data_url("image/png", files[f"static_files/{name}"]) for name in IMAGES}
    assets |= {name: _data_url("application/json", files[f"static_files/{name}"]) for name in TABLES}
    return {
        "main": program,
        "polyfills": texts[POLYFILLS],
        "worker": texts[WORKER],
        "styles": _with_icons("\n".join(_STYLE.findall(texts[INDEX])) + texts[STYLES], files),
        "assets": assets,
    }


def _files() -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(ARCHIVE) as archive:
            return {name: archive.read(name) for name in FILES}
    except (OSError, KeyError, zipfile.BadZipFile, zlib.error) as problem:
        raise HloomError(f"the viewer's files in {ARCHIVE} are damaged: {problem}", hint="reinstall hloom") from None


def _with_icons(styles: str, files: dict[str, bytes]) -> str:
    """The styles without fonts but those of icons, which are put in."""
    faces = _FACE.sub(lambda match: match[0] if any(name in match[0] for name in ICONS) else "", styles)
    return _URL.sub(lambda match: f"url({_data_url('font/woff2', files[f'static_files/{match[1]}'])})", faces)


def _data_url(media_type: str, contents: bytes) -> str:
    return f"data:{media_type};base64,{base64.b64encode(contents).decode()}"
