"""Programs of an entry's lines alone: the computations that they name, `add_f32` and the like, are filled in."""

from __future__ import annotations

import re

_NAMED = re.compile(r"(?:to_apply|scatter|select)=(add|multiply|maximum|minimum|and|or|ge|lt)_([a-z]+\d*)\b")
_COMPARISONS = ("ge", "lt")


def program(body: str) -> str:
    """The text of a module whose entry consists of these lines."""
    named = dict.fromkeys(_NAMED.findall(body))
    return "".join(computation(*item) for item in named) + f"ENTRY e {{\n{body.strip()}\n}}\n"


def computation(op: str, element: str) -> str:
    """A computation of two scalars: an op, or a comparison."""
    if op in _COMPARISONS:
        last = f"ROOT c = pred[] compare(a, b), direction={op.upper()}"
    else:
        last = f"ROOT c = {element}[] {op}(a, b)"
    return f"{op}_{element} {{\n  a = {element}[] parameter(0)\n  b = {element}[] parameter(1)\n  {last}\n}}\n"
