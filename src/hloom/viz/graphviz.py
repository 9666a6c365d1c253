"""Pictures, by the `dot` program of Graphviz."""

from __future__ import annotations

import shutil
import subprocess

from hloom.text import HloomError, Unsupported

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
