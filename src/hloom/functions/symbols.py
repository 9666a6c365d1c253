"""Python's operators by their symbols: the functions of the module operator, and what HLO and methods call them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "@": operator.matmul, "<<": operator.lshift, ">>": operator.rshift,
    "&": operator.and_, "|": operator.or_, "^": operator.xor,
}  # fmt: skip
UNARY: dict[str, Callable[[Any], Any]] = {"-": operator.neg, "+": operator.pos, "~": operator.invert}
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
REFLECTED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
DIRECTIONS = {symbol: function.__name__.upper() for symbol, function in COMPARISONS.items()}
"""The directions of HLO's `compare`."""
BINARY_METHODS = {symbol: function.__name__.strip("_") for symbol, function in BINARY.items()}
"""`add` for `__add__`, `__radd__` and `__iadd__`."""
COMPARISON_METHODS = {symbol: f"__{function.__name__}__" for symbol, function in COMPARISONS.items()}
UNARY_METHODS = {symbol: f"__{function.__name__}__" for symbol, function in UNARY.items()}
