"""Types as HLO text in rule files: arrays with plain layouts, tuples of them, tokens."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Any

import numpy as np

from hloom.ir import DTYPES, TOKEN, UNBOUNDED, DType, Layout, TensorType, TupleType, Type, dtype_of
from hloom.rewrite.registry import RuleError
from hloom.rewrite.type_guards import as_tuple
from hloom.text import HloomError

MAX_DEPTH = 64
"""The maximum nesting depth of tuples in a rule file."""
_LARGEST = 1 << 62
"""The largest dimension of a type in a rule file, in elements: products with small numbers stay within 64 bits."""

_ARRAY = re.compile(r"([a-z][a-z0-9]*)\[([^\]]*)\](?:\{([0-9,]*)\})?")
_INDEX = re.compile(r"/\*index=\d+\*/")
_SIZE = re.compile(r"\?|(<=)?(\d{1,20})")


def type_from(text: str) -> Type:
    """The type that a text denotes; raises RuleError.

    >>> type_from("(f32[2,<=3]{1,0}, token[])")
    (f32[2,<=3]{1,0}, token[])
    """
    bare = _INDEX.sub("", text).replace(" ", "")
    value_type, end = _read(bare, 0, 0)
    if end != len(bare):
        raise RuleError(f"'{text}' is not a type", hint="write f32[2,3], f32[], or (f32[2], s32[])")
    return value_type


def element_names(given: Any) -> tuple[str, ...]:
    """The names of one or several element types: HLO's names, or anything but a text that numpy accepts as a dtype.

    Raises RuleError for anything else: a rule that asks for a nonexistent type would never match.

    >>> element_names("f32"), element_names(("s8", "u8"))
    (('f32',), ('s8', 'u8'))
    """
    return tuple(map(_element_name, as_tuple(given)))


def _element_name(given: Any) -> str:
    if isinstance(given, DType):
        return given.name
    if isinstance(given, str) and given in DTYPES:
        return given
    try:
        name = dtype_of(np.dtype(given)).name
    except (HloomError, TypeError, ValueError, KeyError):
        near = get_close_matches(str(given), DTYPES, 3)
        hint = f"near: {', '.join(near)}" if near else f"HLO has {', '.join(DTYPES)}"
        raise RuleError(f"{given!r:.40} is not an element type", hint=hint) from None
    if isinstance(given, str):
        raise RuleError(f"'{given}' is not an element type", hint=f"HLO calls it {name}")
    return name


def check_type_or_element(text: str) -> None:
    """Raise RuleError for a text that is neither a type, `f32[2,3]`, nor an element type, `f32`."""
    if "[" in text or "(" in text:
        type_from(text)
    else:
        element_names(text)


def type_text(value_type: Type) -> str:
    """The text of a type; raises RuleError if `type_from` could not read it back."""
    try:
        if type_from(str(value_type)) is value_type:
            return str(value_type)
    except RuleError:
        pass
    raise RuleError(f"a rule file cannot hold the type {value_type}")


def _read(text: str, start: int, depth: int) -> tuple[Type, int]:
    if text.startswith("(", start):
        return _read_tuple(text, start + 1, depth + 1)
    match = _ARRAY.match(text, start)
    if match is None:
        raise RuleError(f"'{text[start : start + 40]}' is not a type")
    if match[1] == "token":
        return TOKEN, match.end()
    if match[1] not in DTYPES:
        raise RuleError(f"'{match[1]}' is not an element type")
    dims, dynamic = _dims(match[2])
    layout = _layout(match[3], len(dims)) if match[3] is not None else None
    return TensorType(DTYPES[match[1]], dims, layout, dynamic), match.end()


def _read_tuple(text: str, position: int, depth: int) -> tuple[Type, int]:
    if depth > MAX_DEPTH:
        raise RuleError(f"tuple types nest deeper than {MAX_DEPTH}")
    elements: list[Type] = []
    while not text.startswith(")", position):
        if elements and not text.startswith(",", position):
            raise RuleError(f"'{text[position : position + 40]}' is not part of a tuple type")
        element, position = _read(text, position + bool(elements), depth)
        elements.append(element)
    return TupleType(elements), position + 1


def _dims(text: str) -> tuple[tuple[int, ...], tuple[bool, ...]]:
    dims: list[int] = []
    dynamic: list[bool] = []
    for size in text.split(",") if text else ():
        match = _SIZE.fullmatch(size)
        if match is None or (match[2] and int(match[2]) > _LARGEST):
            raise RuleError(f"'{size[:40]}' is not a dimension")
        dims.append(int(match[2]) if match[2] else UNBOUNDED)
        dynamic.append(not match[2] or bool(match[1]))
    return tuple(dims), tuple(dynamic)


def _layout(text: str, rank: int) -> Layout:
    order = tuple(int(dim) for dim in text.split(",")) if re.fullmatch(r"\d{1,3}(,\d{1,3})*", text) else ()
    if sorted(order) != list(range(rank)):
        raise RuleError(f"{{{text[:40]}}} is not a layout of {rank} dimensions")
    return Layout(order)
