"""Ops that move elements: reshape, transpose, narrow, pad; and the lower triangle."""

from __future__ import annotations

import math
from typing import Any

from hloom.dialects.oneflow.rows import array, axis_in, plain, row, table
from hloom.ir import TensorType, Type, TypeProblem


def reshaped(array_type: TensorType, shape: Any) -> tuple[int, ...]:
    """The dimensions of a reshape, the one given as -1 worked out."""
    dims = plain(shape)
    known = math.prod(size for size in dims if size != -1)
    if dims.count(-1) == 1 and known and array_type.element_count % known == 0:
        dims = tuple(array_type.element_count // known if size == -1 else size for size in dims)
    if math.prod(dims) != array_type.element_count or -1 in dims:
        raise TypeProblem(f"{array_type} cannot become {list(dims)}: the elements are not as many")
    return dims


def _reshape(x: Type, *, shape: Any) -> Type:
    operand_type = array(x)
    return TensorType(operand_type.dtype, reshaped(operand_type, shape))


def _transpose(x: Type, *, perm: Any) -> Type:
    operand_type, order = array(x), plain(perm)
    if sorted(order) != list(range(operand_type.rank)):
        raise TypeProblem(f"perm={list(order)} is not an order of the {operand_type.rank} dimensions of {operand_type}")
    return TensorType(operand_type.dtype, [operand_type.dims[dim] for dim in order])


def _narrow(x: Type, *, dim: Any, start: Any, length: Any) -> Type:
    array_type, first, count = array(x), plain(start), plain(length)
    index = axis_in(dim, array_type, "dim")
    if not 0 <= first <= first + count <= array_type.dims[index]:
        raise TypeProblem(f"start={first}, length={count} reach out of dimension {index} of {array_type}")
    return TensorType(array_type.dtype, (*array_type.dims[:index], count, *array_type.dims[index + 1 :]))


def _pad(x: Type, *, padding_before: Any, padding_after: Any) -> Type:
    array_type, before, after = array(x), plain(padding_before), plain(padding_after)
    if len(before) != array_type.rank or len(after) != array_type.rank:
        raise TypeProblem(f"padding_before and padding_after need one number for each dimension of {array_type}")
    return TensorType(array_type.dtype, [p + n + q for p, n, q in zip(before, array_type.dims, after, strict=True)])


def _triangle(x: Type) -> Type:
    operand_type = array(x)
    if operand_type.rank < 2:
        raise TypeProblem(f"a triangle needs two dimensions, {operand_type} has {operand_type.rank}")
    return operand_type


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
