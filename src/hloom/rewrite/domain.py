"""Domains of equivalence tests: restrictions on a rule's random inputs, or a tolerance, each with a reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hloom.ir import DTYPES
from hloom.rewrite.registry import RuleError
from hloom.rewrite.type_guards import as_tuple, is_mapping
from hloom.rewrite.type_text import type_from

KEYS: Mapping[str, str] = {
    "reason": "why the test is narrowed",
    "tolerance": "how far results in f32 may differ, relative to the larger; other types in proportion",
    "dtypes": "the element types that values are drawn from",
    "ranks": "the ranks that values are drawn from",
    "sizes": "the dimensions that values are drawn from",
    "values": "by a value's name, the type or types that it has, as HLO text",
    "attributes": "by a variable's or attribute's name, the values to choose from",
    "finite": "whether inputs are ordinary numbers only: no NaN, no infinity",
    "positive": "whether inputs are above zero",
    "exact": "whether results must agree in every bit",
}
"""The options of `p.equivalence(...)`."""


def check_domain(domain: Mapping[str, Any]) -> None:
    """Raise RuleError if a domain has unknown keys or gives no reason."""
    for name, value in domain.items():
        if name not in KEYS:
            raise RuleError(f"an equivalence test has no '{name}'", hint=f"it has {', '.join(KEYS)}")
        if not _CHECKS[name](value):
            raise RuleError(f"equivalence: '{name}' is {KEYS[name]}, not {value!r:.60}")
    if domain and not domain.get("reason"):
        raise RuleError("say why the equivalence test is narrowed: reason=...")


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _are_sizes(value: Any, most: int) -> bool:
    sizes = as_tuple(value)
    return bool(sizes) and all(type(size) is int and 0 <= size <= most for size in sizes)


def _are_types(value: Any) -> bool:
    if not is_mapping(value):
        return False
    for item in value.values():
        for text in as_tuple(item):
            if not isinstance(text, str):
                return False
            type_from(text)
    return True


_CHECKS: Mapping[str, Callable[[Any], bool]] = {
    "reason": lambda value: isinstance(value, str),
    "tolerance": lambda value: type(value) in (int, float) and 0 <= value < 1e6,
    "dtypes": lambda value: bool(as_tuple(value)) and all(name in DTYPES for name in as_tuple(value)),
    "ranks": lambda value: _are_sizes(value, 8),
    "sizes": lambda value: _are_sizes(value, 1_000),
    "values": _are_types,
    "attributes": lambda value: is_mapping(value) and all(type(v) in (tuple, list) for v in value.values()),
    "finite": _is_flag,
    "positive": _is_flag,
    "exact": _is_flag,
}
