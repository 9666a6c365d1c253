"""`hloom view`: a module in the browser."""

from __future__ import annotations

import tempfile
import webbrowser
from collections.abc import Callable
from pathlib import Path

import click

from hloom.cli.options import ModuleSource, file_argument
from hloom.cli.output import write_text
from hloom.cli.page import page_options
from hloom.text import HloomError


@click.command("view")
@file_argument
@page_options
def command(source: ModuleSource, make_page: Callable[[], str]) -> None:
    """Open a module in the browser.

    Writes the page of `hloom page` into a folder for temporary files, which stays, and opens it.

    \b
    Examples:
      hloom view step.hlo
      hloom view step.hlo --device a100
    """
    text = make_page()
    target = Path(tempfile.mkdtemp(prefix="hloom-")) / "page.html"
    write_text(text, target)
    click.echo(str(target))
    if not webbrowser.open(target.as_uri()):
        raise HloomError("there is no browser here", hint=f"open {target}, or write it elsewhere with hloom page -o")
