"""Drawings in files, the format by the file's suffix; pictures by the `dot` program of Graphviz."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Unpack

from hloom.ir import Module
from hloom.text import HloomError, Unsupported
from hloom.viz.dot import to_dot
from hloom.viz.graphml import to_graphml
from hloom.viz.json_records import to_json
from hloom.viz.selection import Selection

FORMATS = ("svg", "png", "pdf", "ps", "json", "plain")
"""What `render` makes: Graphviz's names; `json` and `plain` are its layouts as text."""
TIME_LIMIT = 60.0
"""Seconds that `dot` is given: it lays out about a thousand nodes in them."""

_INSTALL = "install it (`apt install graphviz`, `brew install graphviz`, `conda install graphviz`) or write .dot"
_DRAW_LESS = (
    "draw less: one computation (--computation NAME), the surroundings of a node (--around NODE --hops N), or fusions "
    "as single nodes (--collapse-fusions); or write .dot, .graphml or .json for a program that takes large graphs"
)


def render(dot_text: str, format: str = "svg", *, time_limit: float = TIME_LIMIT) -> bytes:
    """Lay out DOT text and draw it, within `time_limit` seconds.

    Raises Unsupported where Graphviz is not installed, does not make the format, or cannot lay out so large a graph;
    HloomError where it refuses the text.
    """
    if format not in FORMATS:
        raise Unsupported(f"cannot render '{format}'", hint=f"the formats are {', '.join(FORMATS)}")
    program = shutil.which("dot")
    if program is None:
        raise Unsupported("Graphviz is not installed: no program 'dot' on the PATH", hint=_INSTALL)
    command = [program, f"-T{format}"]
    try:
        done = subprocess.run(command, input=dot_text.encode(), capture_output=True, timeout=time_limit, check=False)
    except subprocess.TimeoutExpired:
        message = f"Graphviz did not lay out the graph of {_size(dot_text)} within {time_limit:g} s"
        raise Unsupported(message, hint=_DRAW_LESS) from None
    if done.returncode < 0:
        message = f"Graphviz died (signal {-done.returncode}) on the graph of {_size(dot_text)}"
        raise Unsupported(message, hint=_DRAW_LESS)
    if done.returncode > 0:
        complaint = done.stderr.decode(errors="replace").strip().splitlines()
        raise HloomError(f"Graphviz refused the DOT text: {complaint[0] if complaint else 'it does not say why'}")
    return done.stdout


def _size(dot_text: str) -> str:
    return f"{dot_text.count(chr(10)):,} lines"


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


def draw(module: Module, path: str | Path, **selection: Unpack[Selection]) -> Path:
    """Draw a module into a file; its suffix says the format, `Selection` what is drawn. Gives the path back.

    Raises Unsupported for a suffix that is not one of `SUFFIXES` and where Graphviz is needed and missing, HloomError
    for a computation or a node that the module does not have, OSError where the file cannot be written.
    """
    path = Path(path)
    writer = SUFFIXES.get(path.suffix.lower())
    if writer is None:
        message = f"cannot draw into '{path.name}': the suffix does not name a format"
        raise Unsupported(message, hint=f"the suffixes are {', '.join(SUFFIXES)}")
    contents = writer(module, **selection)
    path.write_bytes(contents if isinstance(contents, bytes) else contents.encode())
    return path
