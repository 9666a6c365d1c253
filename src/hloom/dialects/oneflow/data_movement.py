"""Ops that move elements: reshape, transpose, narrow, pad; and the lower triangle."""

from __future__ import annotations

import math
from typing import Any

from hloom.dialects.oneflow.rows import array, axis_in, plain, row, table
from hloom.ir import TensorType, Type, TypeProblem


def reshaped(kind: TensorType, shape: Any) -> tuple[int, ...]:
    """The dimensions of a reshape, the one given as -1 worked out."""
    dims = plain(shape)
    known = math.prod(size for size in dims if size != -1)
    if dims.count(-1) == 1 and known and kind.element_count % known == 0:
        dims = tuple(kind.element_count // known if size == -1 else size for size in dims)
    if math.prod(dims) != kind.element_count or -1 in dims:
        raise TypeProblem(f"{kind} cannot become {list(dims)}: the elements are not as many")
    return dims


def _reshape(x: Type, *, shape: Any) -> Type:
    kind = array(x)
    return TensorType(kind.dtype, reshaped(kind, shape))


def _transpose(x: Type, *, perm: Any) -> Type:
    kind, order = array(x), plain(perm)
    if sorted(order) != list(range(kind.rank)):
        raise TypeProblem(f"perm={list(order)} is no order of the {kind.rank} dimensions of {kind}")
    return TensorType(kind.dtype, [kind.dims[place] for place in order])


def _narrow(x: Type, *, dim: Any, start: Any, length: Any) -> Type:
    kind, first, count = array(x), plain(start), plain(length)
    place = axis_in(dim, kind, "dim")
    if not 0 <= first <= first + count <= kind.dims[place]:
        raise TypeProblem(f"start={first}, length={count} reach out of dimension {place} of {kind}")
    return TensorType(kind.dtype, (*kind.dims[:place], count, *kind.dims[place + 1 :]))


def _pad(x: Type, *, padding_before: Any, padding_after: Any) -> Type:
    kind, before, after = array(x), plain(padding_before), plain(padding_after)
    if len(before) != kind.rank or len(after) != kind.rank:
        raise TypeProblem(f"padding_before and padding_after need one number for each dimension of {kind}")
    return TensorType(kind.dtype, [p + n + q for p, n, q in zip(before, kind.dims, after, strict=True)])


def _triangle(x: Type) -> Type:
    kind = array(x)
    if kind.rank < 2:
        raise TypeProblem(f"a triangle needs two dimensions, {kind} has {kind.rank}")
    return kind


_FILL = {"diagonal": 0, "floating_fill_value": 0.0, "integer_fill_value": 0, "is_floating_fill_value": False}
_SCALE = {"floating_scale_value": 1.0, "integer_scale_value": 1, "is_floating_scale_value": False}

ROWS = table(
    row("reshape", 1, _reshape, {"shape": ()}),
    row("transpose", 1, _transpose, {"perm": ()}),
    row("narrow", 1, _narrow, {"dim": 0, "start": 0, "length": 0}),
    row(
        "pad",
        1,
        _pad,
        {"padding_before": (), "padding_after": (), "floating_constant_value": 0.0, "integral_constant_value": 0},
        carried=("padding",),
    ),
    row("tril", 1, _triangle, _FILL),
    row("fused_scale_tril", 1, _triangle, {**_FILL, **_SCALE}),
)
