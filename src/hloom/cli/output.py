"""Text and JSON that the subcommands write: to the standard output or into a file, all of it or nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from hloom.cli.options import STDOUT
from hloom.hlo import write_whole
from hloom.text import HloomError


def write_text(text: str, output: Path | None) -> None:
    """Write text, which ends in a line break, into the file or to the standard output."""
    if output is None or output == STDOUT:
        click.echo(text.encode("utf-8", "surrogateescape"), nl=not text.endswith("\n"))
    else:
        write_whole(output, text)


def check_folder(output: Path) -> None:
    """Raise HloomError where a file's folder is not there: before work that takes long, and not after it."""
    if output != STDOUT and not output.parent.is_dir():
        raise HloomError(f"cannot write {output}: no such file or directory")


def write_json(value: Any, output: Path | None) -> None:
    """Write a value as indented JSON."""
    write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", output)
