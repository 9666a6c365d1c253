"""Make the pictures in docs/images from real output: what `hloom inspect` and `hloom draw` say of a GPT-2 step.

    python scripts/make_images.py
"""

from __future__ import annotations

import io
import shutil
from itertools import islice
from pathlib import Path

from lower_gpt2 import Config, lower
from rich.console import Console

import hloom
from hloom.cli.inspect import tables

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
WIDTH = 84
LINES = 9
TABLES = 3
COMMAND = "hloom inspect gpt2.hlo"


def main() -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    module = hloom.parse(lower(Config()))
    module.source_name = "gpt2.hlo"
    inspect_picture(module, IMAGES / "inspect.svg")
    if shutil.which("dot"):
        softmax_picture(module, IMAGES / "softmax.svg")


def inspect_picture(module: hloom.Module, path: Path) -> None:
    """The head, the counts and the tree of calls of GPT-2 small's training step."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), highlight=False)
    console.print(f"[dim]$ {COMMAND}[/dim]")
    for part in islice(tables(hloom.summary(module), LINES), TABLES):
        console.print(part)
    path.write_text(console.export_svg(title=COMMAND, unique_id="hloom"))


def softmax_picture(module: hloom.Module, path: Path) -> None:
    """The first attention's softmax: what is at most two uses away from its exponential."""
    node = next(node for node in module.entry.nodes if node.opcode == "exponential")
    hloom.draw(module, path, around=node, hops=2)


if __name__ == "__main__":
    main()
