"""`hloom view`: a module in the browser."""

from __future__ import annotations

from collections.abc import Callable

import click

from hloom.cli.options import ModuleSource, file_argument
from hloom.cli.output import write_text
from hloom.cli.page import page_options
from hloom.inspection.page import open_page
from hloom.text import HloomError


@click.command("view")
@file_argument
@page_options
def command(source: ModuleSource, after: str | None, make_page: Callable[[], str]) -> None:
    """Open a module's page in the browser.

    Writes the page of `hloom page` to a temporary directory, which is kept, and opens it.

    \b
    Examples:
      hloom view step.hlo
      hloom view step.hlo --device a100-80
      hloom view old.hlo new.hlo
    """
    written = open_page(make_page(), source.file if after is None else after)
    write_text(f"{written.path}\n", None)
    if not written.is_opened:
        hint = f"open {written.path}, or choose the file with `hloom page -o`"
        raise HloomError("no browser was found", hint=hint)
