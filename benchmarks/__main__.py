"""Measure, print the table, and exit with 1 where a bar is missed."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import click
from rich.console import Console

from benchmarks.programs import Plan
from benchmarks.sections import SECTIONS
from benchmarks.table import to_json, to_table

WIDTH = 150
"""How wide the table is at least, in columns: output to a file has no width of its own."""


@click.command(help=__doc__)
@click.argument("sections", nargs=-1, type=click.Choice(list(SECTIONS)))
@click.option("--json", "output", type=click.Path(path_type=Path), help="Write the figures to this file too.")
@click.option("--seconds", default=Plan().seconds, show_default=True, help="Time for the samples of one figure.")
def main(sections: tuple[str, ...], output: Path | None, seconds: float) -> None:
    plan = replace(Plan(), seconds=seconds)
    progress = Console(stderr=True)
    figures = []
    for name in sections or SECTIONS:
        progress.print(f"measuring: {name}", style="dim")
        figures += SECTIONS[name](plan)
    Console(width=max(Console().width, WIDTH)).print(to_table(figures))
    if output:
        output.write_text(to_json(figures))
    sys.exit(any(figure.passes is False for figure in figures))


if __name__ == "__main__":
    main()
