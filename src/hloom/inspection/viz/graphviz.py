"""Layouts and images by Graphviz: by the port installed with hloom, else by the machine's `dot`."""

from __future__ import annotations

import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from hloom.text import HloomError, Unsupported

FORMATS = ("svg", "png", "pdf", "ps", "json", "plain")
"""What `render` makes: Graphviz's names; `json` and `plain` are its layouts as text."""
PORT = "graphviz-pure"
"""The distribution, and the program in it: Graphviz in Rust, which writes the same bytes on every machine."""
PORT_FORMATS = ("svg", "png", "json", "plain")
"""What the port makes of `FORMATS`; the others need an installed Graphviz."""
TIME_LIMIT = 60.0
"""Seconds that a layout is given."""
LARGE = 2000
"""A graph of more lines (about 1,000 instructions) is laid out with straight arrows and fewer rounds of improvement.

GPT-2's training step: of two layers, all 1,593 instructions, 30 s with curves and 4 s so; 3,412 instructions around one
in twelve layers more than 40 s and 4 s; 5,431 exceed `TIME_LIMIT` both ways.
"""
LARGE_OPTIONS = ("-Gsplines=line", "-Gnslimit=0.2", "-Gnslimit1=2", "-Gmclimit=0.05")

_INSTALL = f"`pip install {PORT}`, or install Graphviz (apt, brew and conda call it graphviz), or write .dot"
_INSTALL_GRAPHVIZ = (
    "install it (`apt install graphviz`, `brew install graphviz`, `conda install graphviz`), or write .svg or .png"
)
_DRAW_LESS = (
    "draw less: one computation (--computation NAME), the surroundings of a node (--around NODE --hops N), or fusions "
    "as single nodes (--collapse-fusions); or write .dot, .graphml or .json for a program that takes large graphs"
)


def render(dot_text: str, format: str = "svg", *, time_limit: float = TIME_LIMIT) -> bytes:
    """Lay out DOT text and draw it, within `time_limit` seconds.

    Raises Unsupported where no Graphviz makes the format here, or cannot lay out so large a graph in time; HloomError
    where it refuses the text.
    """
    if format not in FORMATS:
        raise Unsupported(f"cannot render '{format}'", hint=f"the formats are {', '.join(FORMATS)}")
    options = LARGE_OPTIONS if dot_text.count("\n") > LARGE else ()
    command = [_program(format), f"-T{format}", *options]
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


def _program(format: str) -> str:
    """The program that makes the format: the port where it can, so that a picture is the same on every machine."""
    port = _port() if format in PORT_FORMATS else None
    program = port or shutil.which("dot")
    if program is not None:
        return program
    if format not in PORT_FORMATS:
        message = f"{format} needs an installed Graphviz: no program 'dot' on the PATH"
        raise Unsupported(message, hint=_INSTALL_GRAPHVIZ)
    raise Unsupported(f"there is neither {PORT} nor a program 'dot' on the PATH", hint=_INSTALL)


def _port() -> str | None:
    """The port's program where pip put it, which need not be on the PATH."""
    try:
        files = distribution(PORT).files or ()
    except PackageNotFoundError:
        return shutil.which(PORT)
    programs = (Path(file.locate()) for file in files if file.stem == PORT)
    return next((str(program) for program in programs if program.is_file()), None)


def _size(dot_text: str) -> str:
    return f"{dot_text.count(chr(10)):,} lines"
