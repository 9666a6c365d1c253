"""The numbers and sizes that options take: finite ones, and sizes with their units, alike in all subcommands."""

from __future__ import annotations

import math
from typing import Any

import click

from hloom import analysis
from hloom.text import HloomError, parse_bytes, parse_capacity

HBM = "hbm"
"""Another name for the main memory."""
MOST_DIGITS = 18
"""How many digits a number has at most that stands in a text: more do not fit into 64 bits."""


class FiniteNumber(click.FloatRange):
    """A number, not infinite and not NaN, which no comparison with a tolerance or a limit would notice."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if isinstance(value, str) and not math.isfinite(number):
            self.fail(f"{value[:40]} is not a finite number", param, ctx)
        return number

    def _describe_range(self) -> str:
        """The range that `--help` shows; click writes `x<=None` where there are no bounds."""
        return "" if self.min is None and self.max is None else super()._describe_range()


class ByteSize(click.ParamType):
    """A number of bytes with its unit: `80GiB`; `is_capacity` says that it is of something that holds them."""

    name = "size"

    def __init__(self, *, is_capacity: bool = False) -> None:
        self.is_capacity = is_capacity

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return parse_capacity(value) if self.is_capacity else parse_bytes(value)
        except HloomError as problem:
            self.fail(f"{problem.message}: {problem.hint}", param, ctx)


class SpaceBudgets(click.ParamType):
    """Sizes of memories: `16GiB` of the main one, `hbm=16GiB,vmem=128MiB` of several; a dict by short name."""

    name = "budgets"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, dict):
            return value
        budgets: dict[str, int] = {}
        known = analysis.SPACE_SHORT_NAMES
        for part in value.split(","):
            if not part.strip() and value.strip():
                self.fail(f"'{value}' has an empty part: write hbm=16GiB,vmem=128MiB", param, ctx)
            name, equals, size = part.rpartition("=")
            name = name.strip().lower() if equals else analysis.MAIN_MEMORY
            name = analysis.MAIN_MEMORY if name == HBM else name
            if name not in known:
                self.fail(f"no memory is called '{name}'; known are {', '.join((HBM, *known))}", param, ctx)
            if name in budgets:
                self.fail(f"'{value}' gives two budgets for one memory", param, ctx)
            budgets[name] = ByteSize().convert(size, param, ctx)
        return budgets
