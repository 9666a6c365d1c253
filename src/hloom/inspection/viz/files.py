"""Drawings in files, the format by the file's suffix."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Unpack

from hloom.formats.hlo import write_whole
from hloom.inspection.viz.dot import to_dot
from hloom.inspection.viz.graphml import to_graphml
from hloom.inspection.viz.graphviz import render
from hloom.inspection.viz.json_records import to_json
from hloom.inspection.viz.selection import Selection
from hloom.ir import ModuleLike, as_module
from hloom.text import Unsupported


def _rendered(format: str) -> Callable[..., bytes]:
    return lambda module, **selection: render(to_dot(module, **selection), format)


SUFFIXES: dict[str, Callable[..., str | bytes]] = {
    ".dot": to_dot,
    ".gv": to_dot,
    ".json": to_json,
    ".graphml": to_graphml,
    ".svg": _rendered("svg"),
    ".png": _rendered("png"),
    ".pdf": _rendered("pdf"),
}
"""What makes the contents of a file, by its suffix."""


def draw(module: ModuleLike, path: str | Path, **selection: Unpack[Selection]) -> Path:
    """Draw a module into a file; its suffix says the format, `Selection` what is drawn. Gives the path back.

    Raises Unsupported for a suffix that is not one of `SUFFIXES` and for what `render` cannot draw, HloomError for a
    computation or a node that the module does not have, and where the file cannot be written.
    """
    module = as_module(module)
    path = Path(path)
    writer = SUFFIXES.get(path.suffix.lower())
    if writer is None:
        message = f"cannot draw into '{path.name}': the suffix does not name a format"
        raise Unsupported(message, hint=f"the suffixes are {', '.join(SUFFIXES)}")
    contents = writer(module, **selection)
    return write_whole(path, contents)
