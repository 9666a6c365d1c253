"""Draws random attributes and result types for operations of test programs.

To draw another op well, add a function of its operands' types to ATTRIBUTES.
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
from hloom.rewrite.random_types import Sampler, Values, some_labels
from hloom.rewrite.type_guards import is_tuple

Drawn = tuple[dict[str, Any], Type | None]
"""Attributes, and the result's type if operands and attributes do not determine it."""

Draw = Callable[[Sampler, Sequence[Any], Values], Drawn]


def draw_attributes(sampler: Sampler, row: Op, types: Sequence[Type], fixed: Values) -> Drawn:
    """Attributes likely to suit an op on operands of these types; `fixed` are already determined."""
    own = ATTRIBUTES.get(row.name)
    try:
        return own(sampler, types, fixed) if own is not None else ({}, None)
    except (AttributeError, IndexError, TypeError, ValueError, KeyError):
        return {}, None  # operands or fixed attributes that do not suit the op: inference will reject them


def draw_attribute(sampler: Sampler, attribute: Attribute, types: Sequence[Type]) -> Any:
    """A value for an attribute about which only the row is known."""
    rank = next((array_type.rank for array_type in types if isinstance(array_type, TensorType)), 0)
    attribute_kind = attribute.kind
    if attribute_kind is AttributeKind.ANY:
        return _like(sampler, attribute.default, rank)
    if attribute_kind is AttributeKind.ENUM and attribute.choices:
        return sampler.random.choice(attribute.choices)
    if attribute_kind is AttributeKind.PRECISIONS:
        return tuple(sampler.random.choice(("default", "highest")) for _ in types)
    if attribute_kind is AttributeKind.INTEGERS:
        return sampler.subset(rank)
    plain = {AttributeKind.INTEGER: 0, AttributeKind.BOOLEAN: False, AttributeKind.FLOAT: 0.0, AttributeKind.STRING: ""}
    return _like(sampler, plain.get(attribute_kind), rank)


def _like(sampler: Sampler, default: Any, rank: int) -> Any:
    if isinstance(default, bool):
        return sampler.likely(0.5)
    if isinstance(default, int):
        return sampler.random.randint(min(default, 0), max(rank - 1, default, 1))
    if isinstance(default, float):
        return sampler.random.choice((default, 0.0, 0.25, 0.5, 1.0, 2.0))
    if is_tuple(default):
        return tuple(_like(sampler, item, rank) for item in default)
    return default


def _transpose(sampler: Sampler, types: Sequence[Any], fixed: Values) -> Drawn:
    count = types[0].rank
    return {"dimensions": tuple(range(count)) if sampler.likely(0.1) else sampler.order(count)}, None


def _some_dimensions(sampler: Sampler, types: Sequence[Any], fixed: Values) -> Drawn:
    return {"dimensions": sampler.subset(types[0].rank)}, None


def _one_dimension(sampler: Sampler, types: Sequence[Any], fixed: Values) -> Drawn:
    return {"dimensions": (sampler.random.randrange(types[0].rank),)}, None


def _broadcast(sampler: Sampler, types: Sequence[Any], fixed: Values) -> Drawn:
    operand_type = types[0]
    given = fixed.get("dimensions")
    embedded = _embedded(operand_type.dims, sampler.dims)
    if given is None and embedded is not None and sampler.likely(0.7):
        return {"dimensions": embedded}, TensorType(operand_type.dtype, sampler.dims)
    rank = max([operand_type.rank + sampler.random.randint(0, 2), *(axis + 1 for axis in given or ())])
    dimensions = given if given is not None else tuple(sorted(sampler.random.sample(range(rank), operand_type.rank)))
    sizes = list(sampler.dims if len(sampler.dims) == rank else sampler.some_dims(rank))
    for axis, size in zip(dimensions, operand_type.dims, strict=True):
        sizes[axis] = size
    return {"dimensions": dimensions}, TensorType(operand_type.dtype, tuple(sizes))


def _embedded(inner: Sequence[int], outer: Sequence[int]) -> tuple[int, ...] | None:
    """The positions of one shape's sizes in another, in order; None if they do not occur."""
    dims: list[int] = []
    start = 0
    for size in inner:
        dim = next((axis for axis in range(start, len(outer)) if outer[axis] == size), None)
        if dim is None:
            return None
        dims.append(dim)
        start = dim + 1
    return tuple(dims)


def _reshape(sampler: Sampler, types: Sequence[Any], fixed: Values) -> Drawn:
    operand_type = types[0]
    if math.prod(sampler.dims) == operand_type.element_count and sampler.likely(0.7):
        return {}, TensorType(operand_type.dtype, sampler.dims)
    dims = list(operand_type.dims)
    if len(dims) > 1 and sampler.likely(0.5):
        dim = sampler.random.randrange(len(dims) - 1)
        dims[dim : dim + 2] = [dims[dim] * dims[dim + 1]]
    else:
        dims.insert(sampler.random.randint(0, len(dims)), 1)
    return {}, TensorType(operand_type.dtype, tuple(dims))


def _convert(sampler: Sampler, types: Sequence[Any], fixed: Values) -> Drawn:
    return {}, types[0].with_dtype(dtype(sampler.random.choice(sampler.dtypes)))


def _bitcast_convert(sampler: Sampler, types: Sequence[Any], fixed: Values) -> Drawn:
    same = [
        element_type
        for element_type in DTYPES.values()
        if element_type.bits == types[0].dtype.bits and element_type.bits >= 8
    ]
    return {}, types[0].with_dtype(
        sampler.random.choice([element_type for element_type in same if _is_plain(element_type)])
    )


def _is_plain(element: DType) -> bool:
    return element.name in ("s8", "u8", "s16", "u16", "f16", "bf16", "s32", "u32", "f32", "s64", "u64", "f64")


def _iota(sampler: Sampler, types: Sequence[Any], fixed: Values) -> Drawn:
    axis = fixed.get("iota_dimension")
    dims = sampler.dims if len(sampler.dims) > (axis or 0) else sampler.some_dims((axis or 0) + 1)
    element = sampler.element if sampler.element.name != "pred" else DTYPES["s32"]
    return {"iota_dimension": sampler.random.randrange(len(dims))}, TensorType(element, dims)


def _slice(sampler: Sampler, types: Sequence[Any], fixed: Values) -> Drawn:
    parts: list[SliceDimension] = []
    for size in types[0].dims:
        start = sampler.random.randint(0, size)
        parts.append(SliceDimension(start, sampler.random.randint(start, size), sampler.random.choice((1, 1, 2))))
    return {"slice": tuple(parts)}, None


def _pad(sampler: Sampler, types: Sequence[Any], fixed: Values) -> Drawn:
    def one() -> PaddingDimension:
        low, high = sampler.random.choice((0, 0, 1, 2, -1)), sampler.random.choice((0, 0, 1, 2, -1))
        return PaddingDimension(low, high, sampler.random.choice((0, 0, 0, 1)))

    return {"padding": tuple(one() for _ in types[0].dims)}, None


def _compare(sampler: Sampler, types: Sequence[Any], fixed: Values) -> Drawn:
    return {"direction": sampler.random.choice(("EQ", "NE", "LT", "LE", "GT", "GE"))}, None


def _dot(sampler: Sampler, types: Sequence[Any], fixed: Values) -> Drawn:
    left, right = types
    names = ("lhs_batch_dims", "rhs_batch_dims", "lhs_contracting_dims", "rhs_contracting_dims")
    numbers: dict[str, list[int]] = {name: [] for name in names}
    free = list(range(right.rank))
    for axis in sampler.order(left.rank):
        fits = [other for other in free if right.dims[other] == left.dims[axis]]
        if not fits or sampler.likely(0.4 if numbers["lhs_contracting_dims"] else 0.0):
            continue
        side = "batch" if numbers["lhs_contracting_dims"] and sampler.likely(0.6) else "contracting"
        other = sampler.random.choice(fits)
        free.remove(other)
        numbers[f"lhs_{side}_dims"].append(axis)
        numbers[f"rhs_{side}_dims"].append(other)
    return {name: tuple(axes) for name, axes in numbers.items()}, None


def _dynamic_slice(sampler: Sampler, types: Sequence[Any], fixed: Values) -> Drawn:
    return {"dynamic_slice_sizes": tuple(sampler.random.randint(min(1, n), n) for n in types[0].dims)}, None


def _reduce_window(sampler: Sampler, types: Sequence[Any], fixed: Values) -> Drawn:
    def one() -> WindowDimension:
        low, high = sampler.random.choices((0, 1), k=2)
        return WindowDimension(sampler.random.choice((1, 2)), sampler.random.choice((1, 1, 2)), low, high)

    return {"window": Window(tuple(one() for _ in types[0].dims))}, None


def _convolution(sampler: Sampler, types: Sequence[Any], fixed: Values) -> Drawn:
    labels = fixed.get("dim_labels") or some_labels(types[0].rank)
    parts: list[WindowDimension] = []
    for number in range(labels.spatial_rank):
        size = types[1].dims[labels.rhs.index(str(number))]
        pads = (0, 0) if sampler.likely(0.5) else (size // 2, size // 2)
        parts.append(WindowDimension(size, sampler.random.choice((1, 1, 2)), *pads))
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
