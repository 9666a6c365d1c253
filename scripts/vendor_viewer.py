"""Put the files of Model Explorer that a page needs into the package, with their hashes and licences.

    .venv/bin/python scripts/vendor_viewer.py

Needs pip, and npm for the texts of the licences. Another version changes the names and texts that
`inspection/page/viewer.py` knows: the tests say which (docs/decisions/019-graph-viewer.md).
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from hloom.inspection.page.viewer import ARCHIVE, FILES, HASHES, VERSION

ROOT = Path(__file__).resolve().parent.parent
FOLDER = "model_explorer/web_app"
"""Where the wheel has them."""
BUNDLED = {
    "@angular/core@20.1.2": "Angular",
    "@angular/material@20.1.2": "Angular Material and CDK",
    "d3@5.7.0": "d3",
    "dagre@0.8.5": "dagre",
    "graphlib@2.1.8": "graphlib",
    "lodash@4.17.21": "lodash",
    "three@0.134.0": "three.js",
    "tslib@2.8.1": "tslib",
    "zone.js@0.15.1": "zone.js",
}
"""Programs that the files contain and that have licences of their own (src/ui/package.json), by npm package."""
BEGINNING = f"""\
{ARCHIVE.name} has files of Model Explorer {VERSION}, Copyright The Model Explorer Authors, as published in the wheel
ai-edge-model-explorer: https://github.com/google-ai-edge/model-explorer. They, RxJS, safevalues and the icons (Material
Icons, Copyright Google LLC) are under the Apache License, Version 2.0, whose text follows. The texts behind it are of
other programs that the files contain. A page changes a few places of the program: see inspection/page/viewer.py.
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        wheel = downloaded(Path(folder))
        contents = {name: wheel.read(f"{FOLDER}/{name}") for name in FILES}
        licence = "\n".join([BEGINNING, (ROOT / "LICENSE").read_text(), *licences(Path(folder))])
    with zipfile.ZipFile(ARCHIVE, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in contents.items():
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)  # of no date: the same file each time
    HASHES.write_text("".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in contents.items()))
    ARCHIVE.with_suffix(".LICENSE").write_text(licence)
    print(f"wrote {ARCHIVE} ({ARCHIVE.stat().st_size:,} bytes)")


def downloaded(folder: Path) -> zipfile.ZipFile:
    """The wheel as PyPI has it."""
    package = f"ai-edge-model-explorer=={VERSION}"
    subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder), package], check=True)
    return zipfile.ZipFile(next(folder.glob("*.whl")))


def licences(folder: Path) -> list[str]:
    """The text of each bundled program's licence, under its name."""
    texts = []
    for package, name in BUNDLED.items():
        packed = subprocess.run(["npm", "pack", "--silent", package], check=True, cwd=folder, capture_output=True)
        with tarfile.open(folder / packed.stdout.decode().strip()) as archive:
            member = next(one for one in archive.getnames() if one in ("package/LICENSE", "package/LICENSE.txt"))
            file = archive.extractfile(member)
            assert file is not None
            texts.append(f"{'-' * 80}\n{name} ({package})\n\n{file.read().decode().strip()}\n")
    return texts


if __name__ == "__main__":
    main()
