"""Reads attribute values from HLO text: one reader per kind that needs only the cursor."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from hloom.formats.hlo.literal_reader import read_typed_literal
from hloom.formats.hlo.mesh_reader import MESH, read_axis, read_iota, read_mesh, read_sizes
from hloom.formats.hlo.sharding_reader import read_sharding
from hloom.formats.hlo.tokens import (
    LOWEST_INTEGER,
    NUMBER,
    parse_integer,
    read_boolean,
    read_braced,
    read_integer,
    read_integers,
    read_list,
    read_string,
)
from hloom.formats.hlo.type_reader import read_type
from hloom.ir import (
    Attribute,
    AttributeKind,
    AxisRef,
    ConvolutionDimensions,
    Domain,
    ExplicitGroups,
    IotaGroups,
    MeshGroups,
    OutputAlias,
    PaddingDimension,
    ReplicaGroups,
    ResultAccuracy,
    SliceDimension,
    Sparsity,
    Statistics,
    Window,
    WindowDimension,
)
from hloom.text import Cursor

_WORD = re.compile(r"[A-Za-z0-9_]+")
_DIMENSION_LABELS = re.compile(r"([0-9bf?]{2,})_([0-9io?]{2,})->([0-9bf?]{2,})")
_PLAIN_SLICES = re.compile(r"\{\[([0-9]{1,18}(?::[0-9]{1,18}){1,2}+(?:\], \[[0-9]{1,18}(?::[0-9]{1,18}){1,2}+)*+)\]\}")
_NO_PADDING = re.compile(r"[ \t]*+(?=[,}\n]|$)")
_PADDING = re.compile(r"-?[0-9]+_-?[0-9]+(?:_-?[0-9]+)?(?:x-?[0-9]+_-?[0-9]+(?:_-?[0-9]+)?)*")
_WINDOW_KEY = re.compile(r"(size|stride|pad|lhs_dilate|rhs_dilate|rhs_reversal)\s*=")
_WINDOW_VALUE = re.compile(r"-?[0-9]+(?:_-?[0-9]+)?(?:x-?[0-9]+(?:_-?[0-9]+)?)*")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BARE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_KEY = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]*)\s*=")
_PRECISION = re.compile(r"[A-Za-z0-9_]+")
PRECISIONS = ("default", "high", "highest", "packed_nibble")


def read_window(cursor: Cursor) -> Window:
    """`{size=2x2 stride=1x2 pad=0_1x-1_0 ...}`: the keys in any order."""
    start = cursor.skip()
    cursor.expect("{")
    columns: dict[str, list[str]] = {}
    while not cursor.accept("}"):
        position = cursor.skip()
        key = cursor.read(_WINDOW_KEY, "size=, stride=, pad=, lhs_dilate=, rhs_dilate= or rhs_reversal=")[1]
        if key in columns:
            raise cursor.error(f"'{key}' is given twice", position)
        columns[key] = cursor.read(_WINDOW_VALUE, "numbers such as 3x3")[0].split("x")
    sizes = columns.get("size")
    if not columns:
        return Window()
    if sizes is None:
        raise cursor.error("a window needs size=", start)
    for key, values in columns.items():
        if len(values) != len(sizes) or any(("_" in value) != (key == "pad") for value in values):
            raise cursor.error(f"'{key}' does not fit a window of rank {len(sizes)}", start)
    numbers = {
        key: [tuple(map(parse_integer, value.split("_"))) for value in values] for key, values in columns.items()
    }
    if any(not LOWEST_INTEGER <= n < 2**63 for rows in numbers.values() for row in rows for n in row):
        raise cursor.error("a number of this window does not fit into 64 bits", start)
    return Window(tuple(_window_dimension(numbers, index) for index in range(len(sizes))))


def _window_dimension(numbers: dict[str, list[tuple[int, ...]]], index: int) -> WindowDimension:
    row = {key: values[index] for key, values in numbers.items()}
    low, high = row.get("pad", (0, 0))
    return WindowDimension(
        size=row["size"][0],
        stride=row.get("stride", (1,))[0],
        padding_low=low,
        padding_high=high,
        base_dilation=row.get("lhs_dilate", (1,))[0],
        window_dilation=row.get("rhs_dilate", (1,))[0],
        reversal=row.get("rhs_reversal", (0,))[0] != 0,
    )


def read_dimension_labels(cursor: Cursor) -> ConvolutionDimensions:
    """`b01f_01io->b01f`: every letter once, digits 0, 1, ... without gaps, equal ranks."""
    start = cursor.skip()
    labels = ConvolutionDimensions(*cursor.read(_DIMENSION_LABELS, "labels such as b01f_01io->b01f").groups())
    spatial = {str(number) for number in range(len(labels.lhs.replace("?", "")) - 2)}
    for name, text, letters in (("lhs", labels.lhs, "bf"), ("rhs", labels.rhs, "io"), ("output", labels.output, "bf")):
        given = text.replace("?", "")
        if len(set(given)) != len(given) or set(given) != spatial | set(letters):
            raise cursor.error(
                f"{name} labels '{text}' need {', '.join(letters)} and {len(spatial)} digits once", start
            )
    return labels


def read_padding(cursor: Cursor) -> tuple[PaddingDimension, ...]:
    """`0_1x2_3_1`: low, high and optional interior padding of each dimension; empty for a scalar."""
    if cursor.match_ahead(_NO_PADDING):
        return ()
    start = cursor.skip()
    text = cursor.read(_PADDING, "padding such as 0_1x2_3")[0]
    rows = [tuple(map(parse_integer, part.split("_"))) for part in text.split("x")]
    if any(not LOWEST_INTEGER <= number < 2**63 for row in rows for number in row):
        raise cursor.error("a number of this padding does not fit into 64 bits", start)
    dimensions = tuple(PaddingDimension(*row) for row in rows)
    if any(dimension.interior < 0 for dimension in dimensions):
        raise cursor.error("interior padding cannot be negative", start)
    return dimensions


def read_slices(cursor: Cursor) -> tuple[SliceDimension, ...]:
    """`{[0:4], [0:8:2]}`."""
    plain = cursor.match(_PLAIN_SLICES)
    if plain:
        return tuple([SliceDimension(*map(int, part.split(":"))) for part in plain[1].split("], [")])
    return read_list(cursor, _read_slice)


def _read_slice(cursor: Cursor) -> SliceDimension:
    numbers = read_list(cursor, read_integer, "[", "]", ":")
    if len(numbers) not in (2, 3):
        raise cursor.error("a slice is [start:limit] or [start:limit:stride]")
    return SliceDimension(*numbers)


def read_precisions(cursor: Cursor) -> tuple[str, ...]:
    """`{highest,default}`, in any case."""
    return read_list(cursor, _read_precision)


def _read_precision(cursor: Cursor) -> str:
    start = cursor.skip()
    word = cursor.read(_PRECISION, "a precision")[0].lower()
    if word not in PRECISIONS:
        raise cursor.error(f"no precision is called '{word}'", start, f"there are {', '.join(PRECISIONS)}")
    return word


def read_aliasing(cursor: Cursor) -> tuple[OutputAlias, ...]:
    """`{{}: (0, {1}), {2}: (1, {})}`."""
    return read_list(cursor, _read_alias)


def _read_alias(cursor: Cursor) -> OutputAlias:
    output_index = read_integers(cursor)
    cursor.expect(":")
    cursor.expect("(")
    operand = read_integer(cursor)
    cursor.expect(",")
    operand_index = read_integers(cursor)
    cursor.expect(")")
    return OutputAlias(output_index, operand, operand_index)


def read_domain(cursor: Cursor) -> Domain:
    """`{kind="sharding", entry={replicated}, exit={maximal device=0}}`."""
    cursor.expect("{")
    values: dict[str, Any] = {}
    while len(values) < 3:
        start = cursor.skip()
        key = cursor.read(_KEY, "kind=, entry= or exit=")[1]
        if key not in ("kind", "entry", "exit") or key in values:
            raise cursor.error(f"'{key}' cannot stand here; a domain has kind, entry and exit, each once", start)
        values[key] = read_string(cursor) if key == "kind" else read_sharding(cursor)
        if len(values) < 3:
            cursor.expect(",")
    cursor.expect("}")
    return Domain(**values)


def read_statistics(cursor: Cursor) -> Statistics:
    """`{visualizing_index=0,name=1.5}`."""
    start = cursor.skip()
    cursor.expect("{")
    index: int | None = None
    values: list[tuple[str, float]] = []
    if not cursor.accept("}"):
        follows = True
        while follows:
            name = cursor.read(_KEY, "a name and '='")[1]
            if name == "visualizing_index":
                index = read_integer(cursor)
            else:
                values.append((name, read_float(cursor)))
            follows = cursor.accept(",")
        cursor.expect("}")
    if values and index is not None and not 0 <= index < len(values):
        raise cursor.error(f"visualizing_index={index} does not name one of the {len(values)} statistics", start)
    return Statistics(index, tuple(values))


def read_accuracy(cursor: Cursor) -> ResultAccuracy:
    """`{mode=highest}` or `{tolerance={atol=0,rtol=1e-5,ulps=2}}`."""
    cursor.expect("{")
    key = cursor.read(_KEY, "mode= or tolerance=")[1]
    if key == "mode":
        start = cursor.skip()
        mode = cursor.read(_WORD, "default or highest")[0].lower()
        if mode not in ("default", "highest"):
            raise cursor.error(f"no accuracy mode is called '{mode}'", start)
        cursor.expect("}")
        return ResultAccuracy(mode)
    if key != "tolerance":
        raise cursor.error(f"expected mode= or tolerance=, found '{key}'")
    start = cursor.skip()
    numbers = dict(read_list(cursor, _read_tolerance))
    units = numbers.get("ulps", 0.0)
    if not -(2.0**63) <= units < 2.0**63:
        raise cursor.error(f"ulps={units:g} does not fit into 64 bits", start)
    cursor.expect("}")
    return ResultAccuracy("", numbers.get("atol", 0.0), numbers.get("rtol", 0.0), int(units))


def _read_tolerance(cursor: Cursor) -> tuple[str, float]:
    start = cursor.skip()
    name = cursor.read(_KEY, "atol=, rtol= or ulps=")[1]
    if name not in ("atol", "rtol", "ulps"):
        raise cursor.error(f"no tolerance is called '{name}'", start)
    return name, read_float(cursor)


def read_frontend(cursor: Cursor) -> tuple[tuple[str, str], ...]:
    """`{key="text",other={json}}`, sorted by key; a value that begins with a brace is JSON."""
    values: dict[str, str] = {}
    cursor.expect("{")
    while not cursor.accept("}"):
        if values:
            cursor.expect(",")
        start = cursor.skip()
        key = cursor.read(_KEY, "a key and '='")[1]
        if key in values:
            raise cursor.error(f"'{key}' is given twice", start)
        values[key] = read_braced(cursor) if cursor.at("{") else read_string(cursor)
    return tuple(sorted(values.items()))


def read_backend_config(cursor: Cursor) -> str:
    """A quoted string or JSON, kept verbatim."""
    return read_braced(cursor) if cursor.at("{") else read_string(cursor, "a string or '{'")


def read_origin(cursor: Cursor) -> str:
    """`{{"name" {idx}}}`, `{({"a"}, {"b"})}` or `{[synthetic_call]}`, kept verbatim; names are quoted."""
    start = cursor.skip()
    text = read_braced(cursor)
    if text != "{[synthetic_call]}" and (bare := _BARE_NAME.search(_QUOTED.sub('""', text))):
        raise cursor.error(f"'{bare[0]}' needs quotes: origin={{{{\"name\" {{index}}}}}}", start)
    return text


def read_sparsity(cursor: Cursor) -> Sparsity:
    """`{lhs={sparsity=2x4 dimension=1 stride=1} rhs={...}}`, kept verbatim except for white space."""
    return Sparsity(re.sub(r"\s+", " ", read_braced(cursor)))


def read_pairs(cursor: Cursor) -> tuple[tuple[int, ...], ...]:
    """`{{0,1},{1,0}}`."""
    return read_list(cursor, read_integers)


def read_booleans(cursor: Cursor) -> tuple[bool, ...]:
    """`{true,false}`."""
    return read_list(cursor, read_boolean)


def read_float(cursor: Cursor) -> float:
    """A number, including infinity and nan; a nan's payload is lost."""
    return float(cursor.read(NUMBER, "a number")[0].partition("(")[0])


def read_choice(cursor: Cursor, attribute: Attribute) -> str:
    """One of the attribute's choices."""
    start = cursor.skip()
    word = cursor.read(_WORD, f"one of {', '.join(attribute.choices)}")[0]
    if word not in attribute.choices:
        raise cursor.error(f"'{word}' is not one of {', '.join(attribute.choices)}", start)
    return word


def read_replica_groups(cursor: Cursor) -> ReplicaGroups:
    """`{{0,1},{2,3}}`, `[2,4]<=[4,2]T(1,0)` or `mesh['x'=2,'y'=4] {'x'}`.

    >>> from hloom.text import Source
    >>> read_replica_groups(Cursor(Source("[2,4]<=[4,2]T(1,0)"))).groups(8)
    ((0, 2, 4, 6), (1, 3, 5, 7))
    """
    if cursor.at("{"):
        return ExplicitGroups(read_list(cursor, read_integers))
    if cursor.at("["):
        return _read_iota_groups(cursor)
    start = cursor.skip()
    if cursor.match(MESH):
        cursor.position = start
        return _read_mesh_groups(cursor)
    raise cursor.error(f"expected replica groups, which begin with '{{', '[' or 'mesh', found {cursor.next_token()}")


def _read_iota_groups(cursor: Cursor) -> IotaGroups:
    start = cursor.skip()
    sizes = read_sizes(cursor)
    if len(sizes) != 2:
        raise cursor.error(f"expected [groups,devices per group], found {len(sizes)} sizes", start)
    cursor.expect("<=")
    return IotaGroups(*sizes, read_iota(cursor))


def _read_mesh_groups(cursor: Cursor) -> MeshGroups:
    mesh = read_mesh(cursor)
    cursor.accept(",")
    axes: list[AxisRef] = []

    def read_next(cursor: Cursor) -> None:
        axes.append(read_axis(cursor, mesh, axes, axes))

    read_list(cursor, read_next)
    return MeshGroups(mesh, tuple(axes))


_K = AttributeKind
READERS: dict[AttributeKind, Callable[[Cursor], Any]] = {
    _K.INTEGER: read_integer,
    _K.BOOLEAN: read_boolean,
    _K.FLOAT: read_float,
    _K.STRING: read_string,
    _K.INTEGERS: read_integers,
    _K.BOOLEANS: read_booleans,
    _K.PAIRS: read_pairs,
    _K.TYPE: read_type,
    _K.TYPES: lambda cursor: read_list(cursor, read_type),
    _K.WINDOW: read_window,
    _K.DIMENSION_LABELS: read_dimension_labels,
    _K.PADDING: read_padding,
    _K.SLICES: read_slices,
    _K.PRECISIONS: read_precisions,
    _K.REPLICA_GROUPS: read_replica_groups,
    _K.ALIASING: read_aliasing,
    _K.DOMAIN: read_domain,
    _K.SPARSITY: read_sparsity,
    _K.LITERAL: lambda cursor: read_typed_literal(cursor, read_type),
    _K.SHARDING: read_sharding,
    _K.FRONTEND: read_frontend,
    _K.STATISTICS: read_statistics,
    _K.ACCURACY: read_accuracy,
    _K.ORIGIN: read_origin,
    _K.BACKEND_CONFIG: read_backend_config,
}
"""A reader per kind; graphs, nodes and enumerations need more than the cursor and are read in `attributes.py`."""

_VERBATIM_STEP = re.compile(r'[^][(){},"\'\n]+|"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'', re.DOTALL)
_CLOSING = {"(": ")", "[": "]", "{": "}"}


def read_verbatim(cursor: Cursor) -> str:
    """The text of an unknown value: up to a comma or a line's end outside brackets and strings."""
    start = cursor.skip()
    open_brackets: list[str] = []
    position = start
    while position < cursor.end:
        character = cursor.text[position]
        if not open_brackets and character in ",\n)}]":
            break
        step = _VERBATIM_STEP.match(cursor.text, position, cursor.end)
        if step:
            position = step.end()
            continue
        if character in _CLOSING:
            open_brackets.append(_CLOSING[character])
        elif open_brackets and character == open_brackets[-1]:
            open_brackets.pop()
        elif character in ")]}\"'":
            raise cursor.error(f"'{character}' closes or opens nothing here", position)
        position += 1
    if open_brackets:
        raise cursor.error(f"expected '{open_brackets[-1]}' before the end of the text", start)
    text = cursor.text[start:position].rstrip()
    if not text:
        raise cursor.error(f"expected a value, found {cursor.next_token()}", start)
    cursor.position = start + len(text)
    return text
