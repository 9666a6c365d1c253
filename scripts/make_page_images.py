"""Make the pictures of a page in docs/images: a GPT-2 step as `hloom page` shows it, in headless Chromium.

python scripts/make_page_images.py        with Chromium and Model Explorer's files installed (the extra page)
"""

from __future__ import annotations

import sys
import tempfile
from base64 import b64decode
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import hloom
from tests.inspection.page.chromium import FRAMES, Chromium, open_tab, program, wait_for_graph

IMAGES = ROOT / "docs" / "images"
DUMP = ROOT / "docs" / "dumps" / "gpt2_step.hlo"
TABS = {"Costs by scope": ("page_costs.png", 460), "Memory": ("page_memory.png", 760)}
"""The pictures of tabs, and how many pixels high they are."""
WIDTH = 1600


def main() -> int:
    path = program()
    if path is None:
        print("no pictures of pages: they need Chromium", file=sys.stderr)
        return 0
    with tempfile.TemporaryDirectory() as folder, Chromium(path) as browser:
        page = Path(folder, "page.html")
        hloom.page(hloom.load(DUMP), page)
        browser.open(page)
        wait_for_graph(browser)
        (IMAGES / "page_graph.png").write_bytes(browser.screenshot())
        for tab, (name, height) in TABS.items():
            open_tab(browser, tab)
            browser.evaluate(FRAMES)
            clip = {"x": 0, "y": 0, "width": WIDTH, "height": height, "scale": 1}
            taken = browser.call("Page.captureScreenshot", format="png", clip=clip)
            (IMAGES / name).write_bytes(b64decode(taken["data"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
