"""MindSpore's abstracts (`<Tensor[Float32], (4, 8)>`: what its inference knows of a value) and our types."""

from __future__ import annotations

import re
from functools import lru_cache

from hloom.dialects.mindir.brackets import Span, depth_of, items
from hloom.dialects.mindir.data_types import DATA_TYPES, NAMES
from hloom.ir import OPAQUE, TOKEN, UNBOUNDED, FunctionType, TensorType, TupleType, Type
from hloom.text import ParseError, Source

MOST_NESTED = 100
"""How deep tuples may nest in an abstract whose type is understood."""
UNKNOWN = "<null>"
"""The abstract of a value of which nothing is known."""
_TENSOR = re.compile(r"(Ref\[)?Tensor\[(\w+)\](?(1)\])")
_DIMS = re.compile(r"\((?:-?[0-9]{1,18}(?:, -?[0-9]{1,18})*+)?\)")
_SEQUENCE = re.compile(r"(?:Tuple|List)\[")
_SHAPES = re.compile(r"(?:Tuple|List)Shape\(")
_TIMES = re.compile(r"\*([0-9]{1,5})$")
MOST_ELEMENTS = 1 << 16
"""How many elements a tuple may have."""


@lru_cache(maxsize=1 << 14)
def type_of(abstract: str) -> Type | None:
    """The type that an abstract says, `opaque[]` for values that no array holds; None for `<null>`.

    >>> type_of("<Tensor[Float32], (4, -1)>"), type_of("<Tuple[Int64*2], TupleShape(NoShape, NoShape)>")
    (f32[4,?], (s64[], s64[]))
    """
    if abstract == UNKNOWN:
        return None
    if depth_of(abstract, most=MOST_NESTED) >= MOST_NESTED:
        return OPAQUE
    source = Source(abstract)
    try:
        spans, _ = items(source, 0, angles=True)
        parts = [_cut(abstract, span) for span in spans]
        return _type(parts[0], parts[1]) if len(parts) > 1 else OPAQUE
    except ParseError:
        return OPAQUE


def abstract_of(type_: Type | None) -> str:
    """The abstract that says a type; nesting is bounded by what `type_of` reads."""
    if type_ is None:
        return UNKNOWN
    if isinstance(type_, TensorType):
        name = NAMES.get(type_.dtype, str(type_.dtype))
        return f"<Tensor[{name}], ({', '.join(map(_size, type_.dims))})>"
    if isinstance(type_, FunctionType):
        return "<Func, NoShape>"
    if type_ is TOKEN:
        return "<UMonad, NoShape>"
    if isinstance(type_, TupleType):
        element_names, shapes = _sequence(type_, 0)
        return f"<{element_names}, {shapes}>"
    return "<Any, NoShape>"


def _type(name: str, shape: str) -> Type | None:
    if match := _TENSOR.fullmatch(name):
        return _tensor(match[2], shape)
    if name in DATA_TYPES:
        return TensorType(DATA_TYPES[name])
    if name == "Func":
        return FunctionType((), None)
    if name in ("UMonad", "IOMonad"):
        return TOKEN
    if _SEQUENCE.match(name) and _SHAPES.match(shape):
        return _tuple(name, shape)
    return OPAQUE


def _tensor(name: str, shape: str) -> Type:
    element = DATA_TYPES.get(name)
    if element is None or not _DIMS.fullmatch(shape):
        return OPAQUE
    dims = [int(size) for size in re.findall(r"-?[0-9]+", shape)]
    if any(size < -1 for size in dims):
        return OPAQUE
    return TensorType(element, [UNBOUNDED if size < 0 else size for size in dims], dynamic=[size < 0 for size in dims])


def _tuple(name: str, shape: str) -> Type:
    names: list[str] = []
    for part in _parts(name):
        times = _TIMES.search(part)
        names += [part[: times.start()] if times else part] * (int(times[1]) if times else 1)
        if len(names) > MOST_ELEMENTS:
            return OPAQUE
    shapes = _parts(shape)
    if len(names) != len(shapes):
        return OPAQUE
    elements = [_type(element, dims) for element, dims in zip(names, shapes, strict=True)]
    return TupleType([OPAQUE if element is None else element for element in elements])


def _parts(text: str) -> list[str]:
    """The items in the bracket that a text ends with."""
    start = min(index for index in (text.find("["), text.find("(")) if index >= 0)
    spans, _ = items(Source(text), start, angles=True)
    return [_cut(text, span) for span in spans]


def _cut(text: str, span: Span) -> str:
    return text[span[0] : span[1]]


def _sequence(type_: TupleType, depth: int) -> tuple[str, str]:
    names: list[str] = []
    shapes: list[str] = []
    for element in type_.elements:
        if isinstance(element, TupleType) and depth < MOST_NESTED:
            name, shape = _sequence(element, depth + 1)
        else:
            name, shape = abstract_of(element if not isinstance(element, TupleType) else OPAQUE)[1:-1].split(", ", 1)
        names.append(name)
        shapes.append(shape)
    return f"Tuple[{','.join(_runs(names))}]", f"TupleShape({', '.join(shapes)})"


def _runs(names: list[str]) -> list[str]:
    """Equal names in a row as one, times their number."""
    runs: list[tuple[str, int]] = []
    for name in names:
        if runs and runs[-1][0] == name:
            runs[-1] = (name, runs[-1][1] + 1)
        else:
            runs.append((name, 1))
    return [name if count == 1 else f"{name}*{count}" for name, count in runs]


def _size(size: int) -> str:
    return "-1" if size == UNBOUNDED else str(size)
