"""What the subcommands write: to the standard output or into a file, whole or not at all."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
from rich.console import Console, RenderableType

from hloom.hlo import write_whole
from hloom.text import HloomError

WIDTH = 120
"""The width of tables that are not written to a terminal."""


def write_text(text: str, output: Path | None) -> None:
    """Write text, which ends in a line break, into the file or to the standard output."""
    if output is None:
        click.echo(text.encode("utf-8", "surrogateescape"), nl=not text.endswith("\n"))
    else:
        write_whole(output, text)


def check_folder(output: Path) -> None:
    """Raise HloomError where a file's folder is not there: before work that takes long, and not after it."""
    if not output.parent.is_dir():
        raise HloomError(f"cannot write {output}: no such file or directory")


def write_json(value: Any, output: Path | None) -> None:
    """Write a value as indented JSON."""
    write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", output)


def write_tables(parts: Iterable[RenderableType], output: Path | None) -> None:
    """Write tables and lines of text: coloured on a terminal, plain elsewhere."""
    console = Console(highlight=False)
    if output is None and console.is_terminal:
        _show(parts, console)
    else:
        write_text(_plain(parts), output)


def note_tables(parts: Iterable[RenderableType]) -> None:
    """Write tables and lines of text to the standard error, where the standard output is for something else."""
    console = Console(highlight=False, stderr=True)
    if console.is_terminal:
        _show(parts, console)
    else:
        click.echo(_plain(parts), err=True, nl=False)


def _show(parts: Iterable[RenderableType], console: Console) -> None:
    for part in parts:
        console.print(part)


def _plain(parts: Iterable[RenderableType]) -> str:
    plain = io.StringIO()
    _show(parts, Console(file=plain, width=WIDTH, highlight=False, no_color=True, force_terminal=False))
    lines = (line.rstrip() for line in plain.getvalue().splitlines())
    return "\n".join(lines) + "\n"


def byte_text(count: int) -> str:
    """A number of bytes for people.

    >>> byte_text(512), byte_text(1536), byte_text(3 * 2**30)
    ('512 B', '1.5 KiB', '3.0 GiB')
    """
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} PiB"


def cut(text: str, limit: int) -> str:
    """The text, shortened in the middle where it is longer than the limit.

    >>> cut("region_1.2.clone.3", 11)
    'regio…one.3'
    """
    if len(text) <= limit:
        return text
    left = (limit - 1) // 2
    return f"{text[:left]}…{text[left + 1 - limit :]}"
