"""What the subcommands write: text and JSON to the standard output or into a file, all of it or nothing, and notes.

Strings of programs may hold what terminals obey. Here alone it is decided what of them reaches one: escapes that show
them. Text that is written into a file or a pipe is not changed, so that it can be read back.
"""

from __future__ import annotations

import json
import os
import shlex
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from hloom.cli.streams import STDOUT, writing_stdout
from hloom.formats.hlo import write_whole
from hloom.text import SCHEMA_VERSION, HloomError, plain, readable, visible, visible_json

TYPED = "hloom.typed"
"""Where click's context keeps the subcommand and its arguments as they were typed."""


def write_text(text: str, output: Path | None) -> None:
    """Write text, which ends in a line break, into the file or to the standard output."""
    if output is None or output == STDOUT:
        shown = visible(text) if sys.stdout.isatty() else text
        write_bytes(shown.encode("utf-8", "surrogateescape") + (b"" if text.endswith("\n") else b"\n"))
    else:
        write_whole(output, visible(text) if _is_terminal(output) else text)


def write_bytes(data: bytes) -> None:
    """Write bytes to the standard output."""
    with writing_stdout():
        click.echo(data, nl=False)


def write_record(report: Any, output: Path | None) -> None:
    """Write a report as JSON: what every --json writes."""
    write_text(record_text(report), output)


def record_text(report: Any) -> str:
    """A report as JSON, with the version of its schema."""
    return _json_text({"schema_version": SCHEMA_VERSION, **plain(report)})


def write_json(value: Any, output: Path | None) -> None:
    """Write plain values as indented JSON: a file in another program's format, or one of a format of its own."""
    write_text(_json_text(value), output)


def _json_text(value: Any) -> str:
    return visible_json(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)) + "\n"


def write_note(text: str) -> None:
    """Write a message to the standard error."""
    click.echo(readable(text), err=True)


def typed_again(changes: Mapping[str, str]) -> str:
    """The command line that was typed, with some of its arguments changed, to be pasted into a shell."""
    context = click.get_current_context()
    arguments = context.meta.get(TYPED, (context.info_name, *changes))
    return shlex.join(["hloom", *(changes.get(argument, argument) for argument in arguments)])


def check_folder(output: Path | None) -> None:
    """Raise HloomError where a file's folder is not there: before work that takes long, and not after it."""
    if output not in (None, STDOUT) and not output.parent.is_dir():
        raise HloomError(f"cannot write {output}: no such file or directory")


def _is_terminal(output: Path) -> bool:
    """Whether a path is a terminal, as /dev/stdout and /dev/tty may be."""
    try:
        if not stat.S_ISCHR(output.stat().st_mode):
            return False
        descriptor = os.open(output, os.O_WRONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.isatty(descriptor)
    finally:
        os.close(descriptor)
