"""MLIR's spelling of types: the IR's type for a spelling, and the spelling of an IR type.

Where several spellings mean one type (`i8` and `si8`), `spell` gives the canonical one; a text's own spelling is kept
beside the node. What the IR has no type for (memrefs, vectors, types of dialects) is OPAQUE.
"""

from __future__ import annotations

import re
from functools import lru_cache

from hloom.ir import DTYPES, EMPTY_TUPLE, OPAQUE, UNBOUNDED, DType, TensorType, TupleType, Type
from hloom.text import Unsupported

_FLOATS = {
    "f8e5m2": "f8E5M2",
    "f8e4m3": "f8E4M3",
    "f8e4m3fn": "f8E4M3FN",
    "f8e4m3b11fnuz": "f8E4M3B11FNUZ",
    "f8e3m4": "f8E3M4",
    "f8e5m2fnuz": "f8E5M2FNUZ",
    "f8e4m3fnuz": "f8E4M3FNUZ",
    "f4e2m1fn": "f4E2M1FN",
    "f8e8m0fnu": "f8E8M0FNU",
    "f16": "f16",
    "bf16": "bf16",
    "f32": "f32",
    "f64": "f64",
}
_INTEGERS = {f"s{bits}": f"i{bits}" for bits in (2, 4, 8, 16, 32, 64)} | {
    f"u{bits}": f"ui{bits}" for bits in (1, 2, 4, 8, 16, 32, 64)
}
SPELLINGS: dict[DType, str] = {
    DTYPES[name]: text
    for name, text in {
        "pred": "i1",
        "s1": "si1",
        "c64": "complex<f32>",
        "c128": "complex<f64>",
        **_INTEGERS,
        **_FLOATS,
    }.items()
}
"""The canonical spelling of each element type."""

ELEMENTS: dict[str, DType] = {
    **{text: element for element, text in SPELLINGS.items()},
    **{f"si{bits}": DTYPES[f"s{bits}"] for bits in (2, 4, 8, 16, 32, 64)},
    "index": DTYPES["s64"],
}
"""The element type of each spelling."""

TENSOR = re.compile(r"tensor<((?:(?:[0-9]{1,19}|\?)x)*)([A-Za-z][A-Za-z0-9]*|complex<f(?:32|64)>)>")
"""A tensor of elements that the IR may know."""


@lru_cache(maxsize=65536)
def type_of(text: str) -> Type:
    """The IR's type for a spelling: a tensor, a scalar as a tensor without dimensions, or OPAQUE."""
    element = ELEMENTS.get(text)
    if element is not None:
        return TensorType(element)
    match = TENSOR.fullmatch(text)
    element = ELEMENTS.get(match[2]) if match else None
    if match is None or element is None:
        return OPAQUE
    sizes = match[1].split("x")[:-1]
    if any(len(size) > 18 for size in sizes):
        return OPAQUE  # beyond 64 bits
    dims = [UNBOUNDED if size == "?" else int(size) for size in sizes]
    return TensorType(element, dims, None, [size == "?" for size in sizes])


@lru_cache(maxsize=65536)
def spell(type_: Type) -> str:
    """The canonical spelling of an array type; raises Unsupported for types that MLIR's builtin ones do not hold."""
    if not isinstance(type_, TensorType):
        raise Unsupported(f"a value of type {type_} has no MLIR type")
    if type_.dynamic and any(
        moves and size != UNBOUNDED for size, moves in zip(type_.dims, type_.dynamic, strict=True)
    ):
        raise Unsupported(f"MLIR's tensors have no bounded dimensions, but {type_} does")
    sizes = "".join("?x" if size == UNBOUNDED else f"{size}x" for size in type_.dims)
    return f"tensor<{sizes}{SPELLINGS[type_.dtype]}>"


def result_type(texts: tuple[str, ...]) -> Type:
    """The type of an op with results of these spellings: a tuple where they are not one."""
    if len(texts) == 1:
        return type_of(texts[0])
    return TupleType([type_of(text) for text in texts]) if texts else EMPTY_TUPLE


def result_spellings(type_: Type | None, written: str | None) -> tuple[str, ...]:
    """How an op's results are spelled: as written, as far as that still means the type; canonically elsewhere."""
    texts = tuple(written.split(SEPARATOR)) if written else ()
    if type_ is None:
        raise Unsupported("a value without a type cannot be printed")
    if texts and result_type(texts) is type_:
        return texts
    if isinstance(type_, TupleType):
        return tuple(spell(element) for element in type_.elements)
    return (spell(type_),)


def written_spellings(texts: tuple[str, ...]) -> str | None:
    """What must be kept of spellings: nothing where all are canonical."""
    return None if all(map(_is_canonical, texts)) else SEPARATOR.join(texts)


@lru_cache(maxsize=65536)
def _is_canonical(text: str) -> bool:
    type_ = type_of(text)
    return type_ is not OPAQUE and spell(type_) == text


def shaped_element(text: str) -> str:
    """The spelling of the elements of a tensor or vector of known dimensions; empty for other types."""
    match = _SHAPED.fullmatch(text)
    return match[1] if match else ""


_SHAPED = re.compile(r"(?:tensor|vector)<(?:[0-9]+x)*([a-zA-Z][a-zA-Z0-9]*)>")
SEPARATOR = " & "
"""Between the spellings of several results, where they are kept as one text."""
