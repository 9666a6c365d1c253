"""Random attributes, and results, for the operations of the programs that a pattern is tried on.

To let a further op be drawn well, put a function of its operands' types in ATTRIBUTES.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from hloom.ir import (
    DTYPES,
    Attribute,
    AttributeKind,
    DType,
    Op,
    PaddingDimension,
    SliceDimension,
    TensorType,
    Type,
    Window,
    WindowDimension,
    dtype,
)
from hloom.rewrite.drawing import Chance, Values, some_labels

Drawn = tuple[dict[str, Any], Type | None]
"""Attributes, and the result's type where operands and attributes do not say it."""

Draw = Callable[[Chance, Sequence[Any], Values], Drawn]


def draw_attributes(chance: Chance, row: Op, kinds: Sequence[Type], fixed: Values) -> Drawn:
    """Attributes that may suit an op on operands of these types; `fixed` are those that are settled."""
    own = ATTRIBUTES.get(row.name)
    try:
        return own(chance, kinds, fixed) if own is not None else ({}, None)
    except (AttributeError, IndexError, TypeError, ValueError, KeyError):
        return {}, None  # operands or settled attributes that do not suit the op: inference refuses them


def draw_attribute(chance: Chance, attribute: Attribute, kinds: Sequence[Type]) -> Any:
    """A value of an attribute of which only the row is known."""
    rank = next((kind.rank for kind in kinds if isinstance(kind, TensorType)), 0)
    kind = attribute.kind
    if kind is AttributeKind.ANY:
        return _like(chance, attribute.default, rank)
    if kind is AttributeKind.ENUM and attribute.choices:
        return chance.random.choice(attribute.choices)
    if kind is AttributeKind.PRECISIONS:
        return tuple(chance.random.choice(("default", "highest")) for _ in kinds)
    if kind is AttributeKind.INTEGERS:
        return chance.subset(rank)
    plain = {AttributeKind.INTEGER: 0, AttributeKind.BOOLEAN: False, AttributeKind.FLOAT: 0.0, AttributeKind.STRING: ""}
    return _like(chance, plain.get(kind), rank)


def _like(chance: Chance, default: Any, rank: int) -> Any:
    if isinstance(default, bool):
        return chance.likely(0.5)
    if isinstance(default, int):
        return chance.random.randint(min(default, 0), max(rank - 1, default, 1))
    if isinstance(default, float):
        return chance.random.choice((default, 0.0, 0.25, 0.5, 1.0, 2.0))
    if isinstance(default, tuple):
        return tuple(_like(chance, each, rank) for each in default)
    return default


def _transpose(chance: Chance, kinds: Sequence[Any], fixed: Values) -> Drawn:
    count = kinds[0].rank
    return {"dimensions": tuple(range(count)) if chance.likely(0.1) else chance.order(count)}, None


def _some_dimensions(chance: Chance, kinds: Sequence[Any], fixed: Values) -> Drawn:
    return {"dimensions": chance.subset(kinds[0].rank)}, None


def _one_dimension(chance: Chance, kinds: Sequence[Any], fixed: Values) -> Drawn:
    return {"dimensions": (chance.random.randrange(kinds[0].rank),)}, None


def _broadcast(chance: Chance, kinds: Sequence[Any], fixed: Values) -> Drawn:
    kind = kinds[0]
    given = fixed.get("dimensions")
    embedded = _embedded(kind.dims, chance.dims)
    if given is None and embedded is not None and chance.likely(0.7):
        return {"dimensions": embedded}, TensorType(kind.dtype, chance.dims)
    rank = max([kind.rank + chance.random.randint(0, 2), *(axis + 1 for axis in given or ())])
    places = given if given is not None else tuple(sorted(chance.random.sample(range(rank), kind.rank)))
    sizes = list(chance.dims if len(chance.dims) == rank else chance.some_dims(rank))
    for axis, size in zip(places, kind.dims, strict=True):
        sizes[axis] = size
    return {"dimensions": places}, TensorType(kind.dtype, tuple(sizes))


def _embedded(inner: Sequence[int], outer: Sequence[int]) -> tuple[int, ...] | None:
    """Where the sizes of one shape stand in another, in order; None where they do not."""
    places: list[int] = []
    start = 0
    for size in inner:
        found = next((axis for axis in range(start, len(outer)) if outer[axis] == size), None)
        if found is None:
            return None
        places.append(found)
        start = found + 1
    return tuple(places)


def _reshape(chance: Chance, kinds: Sequence[Any], fixed: Values) -> Drawn:
    kind = kinds[0]
    if math.prod(chance.dims) == kind.element_count and chance.likely(0.7):
        return {}, TensorType(kind.dtype, chance.dims)
    dims = list(kind.dims)
    if len(dims) > 1 and chance.likely(0.5):
        place = chance.random.randrange(len(dims) - 1)
        dims[place : place + 2] = [dims[place] * dims[place + 1]]
    else:
        dims.insert(chance.random.randint(0, len(dims)), 1)
    return {}, TensorType(kind.dtype, tuple(dims))


def _convert(chance: Chance, kinds: Sequence[Any], fixed: Values) -> Drawn:
    return {}, kinds[0].with_dtype(dtype(chance.random.choice(chance.dtypes)))


def _bitcast_convert(chance: Chance, kinds: Sequence[Any], fixed: Values) -> Drawn:
    same = [each for each in DTYPES.values() if each.bits == kinds[0].dtype.bits and each.bits >= 8]
    return {}, kinds[0].with_dtype(chance.random.choice([each for each in same if _is_plain(each)]))


def _is_plain(element: DType) -> bool:
    return element.name in ("s8", "u8", "s16", "u16", "f16", "bf16", "s32", "u32", "f32", "s64", "u64", "f64")


def _iota(chance: Chance, kinds: Sequence[Any], fixed: Values) -> Drawn:
    axis = fixed.get("iota_dimension")
    dims = chance.dims if len(chance.dims) > (axis or 0) else chance.some_dims((axis or 0) + 1)
    element = chance.element if chance.element.name != "pred" else DTYPES["s32"]
    return {"iota_dimension": chance.random.randrange(len(dims))}, TensorType(element, dims)


def _slice(chance: Chance, kinds: Sequence[Any], fixed: Values) -> Drawn:
    parts = []
    for size in kinds[0].dims:
        start = chance.random.randint(0, size)
        parts.append(SliceDimension(start, chance.random.randint(start, size), chance.random.choice((1, 1, 2))))
    return {"slice": tuple(parts)}, None


def _pad(chance: Chance, kinds: Sequence[Any], fixed: Values) -> Drawn:
    def one() -> PaddingDimension:
        low, high = chance.random.choice((0, 0, 1, 2, -1)), chance.random.choice((0, 0, 1, 2, -1))
        return PaddingDimension(low, high, chance.random.choice((0, 0, 0, 1)))

    return {"padding": tuple(one() for _ in kinds[0].dims)}, None


def _compare(chance: Chance, kinds: Sequence[Any], fixed: Values) -> Drawn:
    return {"direction": chance.random.choice(("EQ", "NE", "LT", "LE", "GT", "GE"))}, None


def _dot(chance: Chance, kinds: Sequence[Any], fixed: Values) -> Drawn:
    left, right = kinds
    names = ("lhs_batch_dims", "rhs_batch_dims", "lhs_contracting_dims", "rhs_contracting_dims")
    found: dict[str, list[int]] = {name: [] for name in names}
    free = list(range(right.rank))
    for axis in chance.order(left.rank):
        fits = [other for other in free if right.dims[other] == left.dims[axis]]
        if not fits or chance.likely(0.4 if found["lhs_contracting_dims"] else 0.0):
            continue
        side = "batch" if found["lhs_contracting_dims"] and chance.likely(0.6) else "contracting"
        other = chance.random.choice(fits)
        free.remove(other)
        found[f"lhs_{side}_dims"].append(axis)
        found[f"rhs_{side}_dims"].append(other)
    return {name: tuple(axes) for name, axes in found.items()}, None


def _dynamic_slice(chance: Chance, kinds: Sequence[Any], fixed: Values) -> Drawn:
    return {"dynamic_slice_sizes": tuple(chance.random.randint(min(1, n), n) for n in kinds[0].dims)}, None


def _reduce_window(chance: Chance, kinds: Sequence[Any], fixed: Values) -> Drawn:
    def one() -> WindowDimension:
        low, high = chance.random.choices((0, 1), k=2)
        return WindowDimension(chance.random.choice((1, 2)), chance.random.choice((1, 1, 2)), low, high)

    return {"window": Window(tuple(one() for _ in kinds[0].dims))}, None


def _convolution(chance: Chance, kinds: Sequence[Any], fixed: Values) -> Drawn:
    labels = fixed.get("dim_labels") or some_labels(kinds[0].rank)
    parts = []
    for number in range(labels.spatial_rank):
        size = kinds[1].dims[labels.rhs.index(str(number))]
        pads = (0, 0) if chance.likely(0.5) else (size // 2, size // 2)
        parts.append(WindowDimension(size, chance.random.choice((1, 1, 2)), *pads))
    return {"window": Window(tuple(parts)), "dim_labels": labels}, None


ATTRIBUTES: dict[str, Draw] = {
    "transpose": _transpose,
    "reverse": _some_dimensions,
    "reduce": _some_dimensions,
    "concatenate": _one_dimension,
    "sort": _one_dimension,
    "broadcast": _broadcast,
    "reshape": _reshape,
    "bitcast": _reshape,
    "convert": _convert,
    "bitcast-convert": _bitcast_convert,
    "iota": _iota,
    "slice": _slice,
    "pad": _pad,
    "compare": _compare,
    "dot": _dot,
    "dynamic-slice": _dynamic_slice,
    "reduce-window": _reduce_window,
    "convolution": _convolution,
}
