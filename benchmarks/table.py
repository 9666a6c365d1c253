"""The figures as a table for people and as JSON for programs."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version

from rich.table import Table

from benchmarks.figures import Figure

_VERDICTS = {True: "[green]pass", False: "[bold red]FAIL", None: ""}


def to_table(figures: Sequence[Figure]) -> Table:
    """One row for each figure."""
    table = Table(title=f"hloom {version('hloom')}, Python {platform.python_version()}, jaxlib {version('jaxlib')}")
    table.add_column("subject")
    for title in ("ours", "peer's", "ratio", "of medians", "bar", "instructions/s"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("")
    for figure in figures:
        table.add_row(
            figure.subject,
            figure.ours,
            f"{figure.theirs} {figure.peer}",
            _number(figure.ratio),
            _number(figure.median_ratio),
            str(figure.bar or ""),
            f"{figure.instructions_per_second:,.0f}" if figure.instructions_per_second else "",
            _VERDICTS[figure.passes],
        )
    return table


def to_json(figures: Sequence[Figure]) -> str:
    """The figures, and where they were measured."""
    machine = {
        "python": platform.python_version(),
        "jaxlib": version("jaxlib"),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
    }
    rows = [asdict(figure) | {"bar": figure.bar and str(figure.bar), "passes": figure.passes} for figure in figures]
    return json.dumps({"machine": machine, "figures": rows}, indent=1)


def _number(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"
