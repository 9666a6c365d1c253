"""Types and layouts, read from HLO text."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from hloom.formats.hlo.tokens import (
    INTEGER,
    Value,
    parse_integer,
    read_inside,
    read_integer,
    read_list,
    read_natural,
    read_sequence,
)
from hloom.ir import (
    COMBINED,
    DTYPES,
    OPAQUE,
    TOKEN,
    UNBOUNDED,
    BufferType,
    FunctionType,
    Layout,
    SplitConfig,
    TensorType,
    TupleType,
    Type,
)
from hloom.text import Cursor

DEEPEST = 1200
"""The maximum nesting depth of tuples; XLA's own parser overflows its stack somewhat above this."""

LONGEST_KEPT = 1 << 14
"""Longer signatures, in characters, are not cached."""

_ELEMENT = re.compile(r"([a-z][a-z0-9]*)(?=\s*\[)")
_NUMBERS = r"[0-9]{1,18}(?:,[0-9]{1,18}){0,31}+"
"""Up to 32 numbers below 2^63; others are left to the careful path."""
_LAYOUT = rf"\{{(?:{_NUMBERS}|(?=:))(?::(?:T(?:\({_NUMBERS}\))++)?(?:S\([0-9]{{1,18}}\))?)?\}}"
"""A layout of an order, tiles and a memory space."""
_SIMPLE = re.compile(rf"([a-z][a-z0-9]*)\[((?:{_NUMBERS})?)\]({_LAYOUT})?(?![{{\[])")
_TUPLE_ELEMENT = re.compile(rf"\s*+(?:/\*index=[0-9]++\*/)?([a-z][a-z0-9]*+\[(?:{_NUMBERS})?\](?:{_LAYOUT})?)(,|\))")
"""One plain element of a tuple and what follows it."""
_PLAIN_SIGNATURE = re.compile(r"\(([^()\n]*+)\)->([^(){}>\n]*+(?:\{[0-9,]++\})?+)(?=\})")
"""A signature from arrays to an array, as in the braces of the header's entry layout."""
_INDEX_COMMENT = re.compile(r"/\*index=[0-9]++\*/")
_BUFFER = re.compile(r"b\s*\(")
_DIM = re.compile(r"\?|(<=)?\s*(-?[0-9]+)")
_LEVEL_TYPES = re.compile(r"[DCSH]\+?~?(?:\s*,\s*[DCSH]\+?~?)*")
_INTEGER_TYPE = re.compile(r"[a-z][a-z0-9]*")


def read_type(cursor: Cursor) -> Type:
    """Read any type: arrays, tuples nested up to DEEPEST, buffers, tokens.

    Raises ParseError at the offending character.
    """
    start = cursor.skip()
    pending: list[list[Type]] = []
    while True:
        if cursor.accept("("):
            if len(pending) >= DEEPEST:
                raise cursor.error(f"tuple types nest deeper than {DEEPEST}", start)
            pending.append([])
            if not cursor.at(")"):
                continue
        elif not (pending and _read_plain_elements(cursor, pending[-1])):
            if cursor.at("("):
                continue
            type_ = _read_leaf(cursor)
            if not pending:
                return type_
            pending[-1].append(type_)
            if cursor.accept(","):
                continue
        while pending and cursor.accept(")"):
            type_ = TupleType(pending.pop())
            if not pending:
                return type_
            pending[-1].append(type_)
            if cursor.accept(","):
                break
        else:
            raise cursor.error(f"expected ',' or ')' in a tuple type, found {cursor.next_token()}")


def _read_plain_elements(cursor: Cursor, elements: list[Type]) -> bool:
    """Consume plain elements and the commas after them; returns whether the tuple's last element was among them."""
    position = cursor.position
    while match := _TUPLE_ELEMENT.match(cursor.text, position, cursor.end):
        type_ = simple_type(match[1])
        if type_ is None:
            break
        elements.append(type_)
        position = match.end()
        if match[2] == ")":
            cursor.position = position - 1
            return True
    cursor.position = position
    return False


def read_signature_type(cursor: Cursor) -> FunctionType:
    """`(f32[2]{0}, s32[])->f32[2]{0}`, as the header's entry layout has it."""
    plain = _PLAIN_SIGNATURE.match(cursor.text, cursor.position, cursor.end)
    if plain:
        read = _plain_signature if plain.end() - plain.start() < LONGEST_KEPT else _plain_signature.__wrapped__
        signature = read(plain[1], plain[2])
        if signature is not None:
            cursor.position = plain.end()
            return signature
    parameters = read_type(cursor)
    if not isinstance(parameters, TupleType):
        raise cursor.error("expected the parameters' types in parentheses")
    cursor.expect("->")
    return FunctionType(parameters.elements, read_type(cursor))


@lru_cache(maxsize=128)
def _plain_signature(parameters: str, result: str) -> FunctionType | None:
    """A function type of plain arrays; cached because all dumps of one program share it."""
    texts = _INDEX_COMMENT.sub("", parameters).split(", ") if parameters else ()
    types = [simple_type(text) for text in (*texts, result)]
    return None if None in types else FunctionType(types[:-1], types[-1])


def _read_leaf(cursor: Cursor) -> Type:
    position = cursor.skip()
    simple = _SIMPLE.match(cursor.text, position, cursor.end)
    if simple:
        fast = simple_type(simple[0])
        cursor.position = simple.end()
        if fast is not None and (simple[3] or not cursor.at("{") or not _layout_follows(cursor)):
            return fast
        cursor.position = position
    if cursor.match(_BUFFER):
        if cursor.match_ahead(_BUFFER) or cursor.at("("):
            raise cursor.error("a buffer holds an array, not a buffer or tuple")
        element = _read_leaf(cursor)
        cursor.expect(")")
        return BufferType(element)
    name = cursor.read(_ELEMENT, "a type")[1]
    if name in ("token", "opaque"):
        cursor.expect("[")
        cursor.expect("]")
        return TOKEN if name == "token" else OPAQUE
    if name not in DTYPES:
        raise cursor.error(f"no element type is called '{name}'", position)
    dims, dynamic = _read_dims(cursor)
    layout = None
    if cursor.at("{") and _layout_follows(cursor):
        layout = _read_layout(cursor, len(dims))
    type_ = TensorType(DTYPES[name], dims, layout, dynamic)
    if not type_.is_countable:
        raise cursor.error(f"{type_} has more bytes than 63 bits count", position)
    return type_


@lru_cache(maxsize=8192)
def simple_type(text: str) -> TensorType | None:
    """The type of a plain text such as f32[2,3]{1,0}; None sends it to the careful path."""
    match = _SIMPLE.fullmatch(text)
    if match is None or match[1] not in DTYPES:
        return None
    name, dims_text, layout_text = match.groups()
    dims = tuple(map(int, dims_text.split(","))) if dims_text else ()
    layout = None
    if layout_text is not None:
        layout = _simple_layout(layout_text)
        if layout is None or len(layout.minor_to_major) != len(dims):
            return None
    type_ = TensorType(DTYPES[name], dims, layout)
    return type_ if type_.is_countable else None


@lru_cache(maxsize=2048)
def _simple_layout(text: str) -> Layout | None:
    """The layout of a text such as {1,0:T(8,128)S(1)}; None sends it to the careful path."""
    order_text, _, annotations = text[1:-1].partition(":")
    order = tuple(map(int, order_text.split(","))) if order_text else ()
    if sorted(order) != list(range(len(order))):
        return None
    tile_text, _, space = annotations.rstrip(")").partition("S(")
    tiles = tile_text[2:].rstrip(")").split(")(") if tile_text else []
    return Layout(order, tuple(tuple(map(int, tile.split(","))) for tile in tiles), memory_space=int(space or 0))


def _layout_follows(cursor: Cursor) -> bool:
    inside = Cursor(cursor.source, cursor.position + 1, cursor.end)
    return inside.at(":") or inside.match_ahead(INTEGER) is not None


def _read_dims(cursor: Cursor) -> tuple[tuple[int, ...], tuple[bool, ...]]:
    sizes = read_list(cursor, _read_dim, "[", "]")
    return tuple(size for size, _ in sizes), tuple(moves for _, moves in sizes)


def _read_dim(cursor: Cursor) -> tuple[int, bool]:
    start = cursor.skip()
    match = cursor.read(_DIM, "a dimension")
    if match[0] == "?":
        return UNBOUNDED, True
    size = parse_integer(match[2])
    if not 0 <= size < 2**63:
        raise cursor.error(f"a dimension cannot be {size}", start)
    return size, match[1] is not None


def _read_layout(cursor: Cursor, rank: int) -> Layout:
    start = cursor.skip()
    cursor.expect("{")
    is_ordered = INTEGER.match(cursor.text, cursor.skip(), cursor.end)
    order = read_sequence(cursor, read_integer) if is_ordered else ()
    if sorted(order) != list(range(rank)):
        raise cursor.error(
            f"layout {{{','.join(map(str, order))}}} is not a permutation of the dimensions 0 to {rank - 1}"
            if rank
            else "a scalar's layout names no dimension",
            start,
        )
    layout = Layout(order)
    parts: dict[str, object] = {}
    if cursor.accept(":"):
        while not cursor.at("}"):
            for sign, name, read in _PARTS:
                if cursor.accept(sign):
                    parts[name] = read(cursor)
                    break
            else:
                raise cursor.error(f"expected a part of a layout, found {cursor.next_token()}")
            if any(_RANKS[other] > _RANKS[name] for other in parts):
                raise cursor.error(f"'{sign}' stands too late in this layout; the order is D T L # * E S SC P M")
    cursor.expect("}")
    return Layout(layout.minor_to_major, **parts) if parts else layout  # type: ignore[arg-type]


def _read_level_types(cursor: Cursor) -> str:
    what = "dimension level types (D, C, S or H)"
    text = read_inside(cursor, lambda inner: inner.read(_LEVEL_TYPES, what)[0])
    return re.sub(r"\s", "", text)


def _in_parentheses(cursor: Cursor, read: Callable[[Cursor], Value]) -> tuple[Value, ...]:
    """One or more parts that each begin with a parenthesis."""
    values = [read(cursor)]
    while cursor.at("("):
        values.append(read(cursor))
    return tuple(values)


def _read_tiles(cursor: Cursor) -> tuple[tuple[int, ...], ...]:
    return _in_parentheses(cursor, lambda inner: read_list(inner, _read_tile_size, "(", ")"))


def _read_tile_size(cursor: Cursor) -> int:
    return COMBINED if cursor.accept("*") else read_natural(cursor)


def _read_number(cursor: Cursor) -> int:
    return read_inside(cursor, read_natural)


def _read_tail_padding(cursor: Cursor) -> int:
    start = cursor.skip()
    padding = _read_number(cursor)
    if not padding:
        raise cursor.error("a layout pads to a multiple of at least 1 element", start)
    return padding


def _read_integer_type(cursor: Cursor) -> str:
    return read_inside(cursor, _read_type_name)


def _read_type_name(cursor: Cursor) -> str:
    start = cursor.skip()
    name = cursor.read(_INTEGER_TYPE, "an element type")[0]
    if name not in DTYPES:
        raise cursor.error(f"no element type is called '{name}'", start)
    return name


def _read_split_configs(cursor: Cursor) -> tuple[SplitConfig, ...]:
    return _in_parentheses(cursor, lambda inner: read_inside(inner, _read_split_config))


def _read_split_config(cursor: Cursor) -> SplitConfig:
    dimension = read_natural(cursor)
    cursor.expect(":")
    return SplitConfig(dimension, read_sequence(cursor, read_natural))


def _refuse_physical_shape(cursor: Cursor) -> object:
    raise cursor.error("physical shapes P(...) are not supported, here as in XLA")


_PARTS = (
    ("D", "dim_level_types", _read_level_types),
    ("T", "tiles", _read_tiles),
    ("L", "tail_padding", _read_tail_padding),
    ("#", "index_type", _read_integer_type),
    ("*", "pointer_type", _read_integer_type),
    ("E", "element_bits", _read_number),
    ("SC", "split_configs", _read_split_configs),  # before S, which is a prefix of it
    ("S", "memory_space", _read_number),
    ("P", "", _refuse_physical_shape),
    ("M", "metadata_prefix_bytes", _read_number),
)
_PRINTED = ("D", "T", "L", "#", "*", "E", "S", "SC", "P", "M")
"""The signs in the order in which XLA prints and reads them."""
_RANKS = {name: _PRINTED.index(sign) for sign, name, _ in _PARTS}
