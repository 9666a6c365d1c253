"""Random types and attributes for the programs that a pattern is tried on: what fits together is drawn more often.

To let a further op be drawn well, put a function of its operands' types in ATTRIBUTES (what its attributes and result
may be) or in OPERANDS (what an operand may be, beside those that are known).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from hloom.ir import (
    DTYPES,
    Attribute,
    AttributeKind,
    ConvolutionDimensions,
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

COMMON_DTYPES = ("f32",) * 6 + ("s32",) * 3 + ("pred", "f16", "bf16", "f64", "s8", "u32", "s64", "c64")
_SIZES = ((2,), (3,), (2, 3), (2, 3), (1, 2, 3), (2, 3, 4), (1, 2), (0, 2, 3))
_RANKS = (0, 1, 2, 2, 2, 2, 3, 3, 4)

Values = Mapping[str, Any]
Drawn = tuple[dict[str, Any], Type | None]
"""Attributes, and the result's type where operands and attributes do not say it."""


class Chance:
    """The choices behind one program: which sizes occur, the shape and the element type that most values have."""

    def __init__(self, random: Random, domain: Values) -> None:
        self.random = random
        self.sizes = _several(domain.get("sizes")) or random.choice(_SIZES)
        self.ranks = _several(domain.get("ranks")) or _RANKS
        self.dtypes = _several(domain.get("dtypes")) or COMMON_DTYPES
        self.dims = self.some_dims(random.choice(self.ranks))
        self.element = dtype(random.choice(self.dtypes))

    def some_dims(self, rank: int) -> tuple[int, ...]:
        return tuple(self.random.choice(self.sizes) for _ in range(rank))

    def likely(self, odds: float) -> bool:
        return self.random.random() < odds

    def some_type(self) -> TensorType:
        """A type: mostly the common one."""
        if self.likely(0.7):
            return TensorType(self.element, self.dims)
        rank = len(self.dims) if self.likely(0.5) else self.random.choice(self.ranks)
        element = self.element if self.likely(0.7) else dtype(self.random.choice(self.dtypes))
        return TensorType(element, self.some_dims(rank))

    def order(self, count: int) -> tuple[int, ...]:
        return tuple(self.random.sample(range(count), count))

    def subset(self, count: int) -> tuple[int, ...]:
        return tuple(place for place in range(count) if self.likely(0.5))


def _several(value: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


# What an operand may be

Operand = Callable[[Chance, int, Sequence[Type | None], Values], TensorType]


def draw_operand(chance: Chance, opcode: str, place: int, known: Sequence[Type | None], fixed: Values) -> TensorType:
    """A type for an operand of an op; `known` are the types of the others as far as they are known."""
    own = OPERANDS.get(opcode)
    if own is not None:
        return own(chance, place, known, fixed)
    others = [kind for kind in known if isinstance(kind, TensorType)]
    if others and chance.likely(0.8):
        return chance.random.choice(others)
    return _with_rank(chance, chance.some_type(), fixed)


def _with_rank(chance: Chance, kind: TensorType, fixed: Values) -> TensorType:
    """A type of as many dimensions as fixed attributes speak of."""
    least = max([max(value) + 1 for value in fixed.values() if _are_dimensions(value)], default=0)
    return kind if kind.rank >= least else TensorType(kind.dtype, chance.some_dims(least))


def _are_dimensions(value: Any) -> bool:
    return isinstance(value, tuple) and bool(value) and all(type(each) is int and 0 <= each < 8 for each in value)


def _first(known: Sequence[Type | None]) -> TensorType | None:
    return next((kind for kind in known if isinstance(kind, TensorType)), None)


def _base(chance: Chance, known: Sequence[Type | None], fixed: Values) -> TensorType:
    return _first(known) or _with_rank(chance, chance.some_type(), fixed)


def _selecting(chance: Chance, place: int, known: Sequence[Type | None], fixed: Values) -> TensorType:
    others = _first(known[1:])
    if place == 0:
        dims = others.dims if others else chance.dims
        return TensorType(DTYPES["pred"], dims if chance.likely(0.8) else ())
    if others:
        return others
    return TensorType(chance.element, known[0].dims if isinstance(known[0], TensorType) else chance.dims)


def _moved(chance: Chance, place: int, known: Sequence[Type | None], fixed: Values) -> TensorType:
    kind = chance.some_type()
    order = fixed.get("dimensions")
    if isinstance(order, tuple) and len(order) != kind.rank:
        return TensorType(kind.dtype, chance.some_dims(len(order)))
    return TensorType(kind.dtype, tuple(kind.dims[axis] for axis in chance.order(kind.rank)))


def _spread(chance: Chance, place: int, known: Sequence[Type | None], fixed: Values) -> TensorType:
    if isinstance(fixed.get("dimensions"), tuple):
        return TensorType(chance.element, chance.some_dims(len(fixed["dimensions"])))
    return TensorType(chance.element, tuple(chance.dims[axis] for axis in chance.subset(len(chance.dims))))


def _reduced(chance: Chance, place: int, known: Sequence[Type | None], fixed: Values) -> TensorType:
    half = len(known) // 2
    if place >= half:
        other = known[place - half]
        return TensorType(other.dtype if isinstance(other, TensorType) else chance.element)
    first = _first(known[:half])
    if first:
        return first
    init = known[place + half]
    kind = _with_rank(chance, chance.some_type(), fixed)
    return kind.with_dtype(init.dtype) if isinstance(init, TensorType) else kind


def _scalar_second(chance: Chance, place: int, known: Sequence[Type | None], fixed: Values) -> TensorType:
    if place == 0:
        other = known[1]
        kind = _with_rank(chance, chance.some_type(), fixed)
        return kind.with_dtype(other.dtype) if isinstance(other, TensorType) else kind
    return TensorType(_base(chance, known, fixed).dtype)


def _indexed(chance: Chance, place: int, known: Sequence[Type | None], fixed: Values) -> TensorType:
    return TensorType(DTYPES["s32"]) if place else TensorType(chance.element, chance.some_dims(max(1, len(known) - 1)))


def _updated(chance: Chance, place: int, known: Sequence[Type | None], fixed: Values) -> TensorType:
    if place >= 2:
        return TensorType(DTYPES["s32"])
    first = _first(known[:2])
    if first is None:
        return TensorType(chance.element, chance.some_dims(max(0, len(known) - 2)))
    if place == 0:
        return first
    return TensorType(first.dtype, tuple(chance.random.randint(min(1, size), size) for size in first.dims))


def _multiplied(chance: Chance, place: int, known: Sequence[Type | None], fixed: Values) -> TensorType:
    other = _first(known)
    rank = max(2 if chance.likely(0.7) else chance.random.choice((1, 2, 3)), 1)
    names = ("lhs_batch_dims", "lhs_contracting_dims") if place == 0 else ("rhs_batch_dims", "rhs_contracting_dims")
    told = [max(fixed[name]) + 1 for name in names if _are_dimensions(fixed.get(name))]
    element = other.dtype if other else chance.element
    pool = [*(other.dims if other else ()), *chance.sizes]
    return TensorType(element, tuple(chance.random.choice(pool) for _ in range(max([rank, *told]))))


def _joined(chance: Chance, place: int, known: Sequence[Type | None], fixed: Values) -> TensorType:
    first = _first(known)
    if first is None:
        kind = _with_rank(chance, chance.some_type(), fixed)
        return kind if kind.rank else TensorType(kind.dtype, chance.some_dims(1))
    axis = fixed.get("dimensions", (chance.random.randrange(max(first.rank, 1)),))[0]
    return TensorType(
        first.dtype, tuple(chance.random.choice(chance.sizes) if a == axis else n for a, n in enumerate(first.dims))
    )


def _convolved(chance: Chance, place: int, known: Sequence[Type | None], fixed: Values) -> TensorType:
    labels = fixed.get("dim_labels") or _labels(4)
    other = _first(known)
    element = other.dtype if other else chance.element
    letters = labels.lhs if place == 0 else labels.rhs
    features = chance.random.randint(1, 3)
    if other:
        features = other.dims[labels.rhs.index("i")] if place == 0 else other.dims[labels.lhs.index("f")]
    sizes = {"f": features, "i": features, "b": chance.random.randint(1, 3), "o": chance.random.randint(1, 3)}
    window = (3, 5) if place == 0 else (1, 3)
    return TensorType(element, tuple(sizes.get(letter) or chance.random.randint(*window) for letter in letters))


OPERANDS: dict[str, Operand] = {
    "select": _selecting,
    "transpose": _moved,
    "reshape": _moved,
    "broadcast": _spread,
    "reduce": _reduced,
    "reduce-window": _reduced,
    "pad": _scalar_second,
    "dynamic-slice": _indexed,
    "dynamic-update-slice": _updated,
    "dot": _multiplied,
    "concatenate": _joined,
    "convolution": _convolved,
}

# What attributes may be

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


def _labels(rank: int) -> ConvolutionDimensions:
    spatial = "".join(map(str, range(rank - 2)))
    return ConvolutionDimensions(f"b{spatial}f", f"{spatial}io", f"b{spatial}f")


def _convolution(chance: Chance, kinds: Sequence[Any], fixed: Values) -> Drawn:
    labels = fixed.get("dim_labels") or _labels(kinds[0].rank)
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
