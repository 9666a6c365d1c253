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
    for each in figures:
        table.add_row(
            each.subject,
            each.ours,
            f"{each.theirs} {each.peer}",
            _number(each.ratio),
            _number(each.median_ratio),
            str(each.bar or ""),
            f"{each.instructions_per_second:,.0f}" if each.instructions_per_second else "",
            _VERDICTS[each.passes],
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
    rows = [asdict(each) | {"bar": each.bar and str(each.bar), "passes": each.passes} for each in figures]
    return json.dumps({"machine": machine, "figures": rows}, indent=1)


def _number(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"
