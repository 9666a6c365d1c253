"""Ops that work element by element, those at the borders of a job, dropout and its masks."""

from __future__ import annotations

from typing import Any

from hloom.dialects.oneflow.rows import array, axis_in, data_type, plain, row, table
from hloom.ir import Effect, TensorType, TupleType, Type, TypeProblem, dtype

SCALAR = {"has_int_operand": False, "has_float_operand": False, "int_operand": 0, "float_operand": 0.0}
"""The attributes of an op with a number as its second operand."""


def _same(x: Type) -> Type:
    return array(x)


def _alike(*operands: Type) -> Type:
    first = array(operands[0])
    for other in operands[1:]:
        if other is not first:
            raise TypeProblem(f"the operands must be of one type, but are {first} and {other}")
    return first


def broadcast(left: Type, right: Type) -> TensorType:
    """The type of two arrays that are stretched to each other, dimensions counted from the end."""
    a, b = array(left, "the left operand"), array(right, "the right operand")
    if a.dtype is not b.dtype:
        raise TypeProblem(f"the operands must have one element type, but are {a} and {b}")
    rank = max(a.rank, b.rank)
    pairs = zip((1,) * (rank - a.rank) + a.dims, (1,) * (rank - b.rank) + b.dims, strict=True)
    dims: list[int] = []
    for p, q in pairs:
        if p != q and 1 not in (p, q):
            raise TypeProblem(f"{a} and {b} cannot be broadcast: {p} meets {q}")
        dims.append(q if p == 1 else p)
    return TensorType(a.dtype, dims)


def _by_scalar(x: Type, scalar: Type) -> Type:
    operand_type, number = array(x), array(scalar, "the scalar")
    if number.element_count != 1 or number.dtype is not operand_type.dtype:
        raise TypeProblem(f"the scalar must be one {operand_type.dtype}, not {scalar}")
    return operand_type


def bias_add(a: Type, b: Type, *_: Type, axis: Any) -> Type:
    """The first operand's type; the second has the size of one of its dimensions."""
    operand_type, bias = array(a), array(b, "the bias")
    index = axis_in(axis, operand_type)
    if bias.dims != (operand_type.dims[index],) or bias.dtype is not operand_type.dtype:
        raise TypeProblem(
            f"the bias must be {operand_type.dtype}[{operand_type.dims[index]}] for axis={index} of {operand_type}, "
            f"not {bias}"
        )
    return operand_type


def _cast(x: Type, *, dtype: Any) -> Type:
    return TensorType(data_type(dtype), array(x).dims)


def _cast_scale(x: Type, scale_by_tensor: Type) -> Type:
    scale = array(scale_by_tensor, "the scale")
    if scale.element_count != 1:
        raise TypeProblem(f"the scale must be one number, not {scale}")
    return TensorType(scale.dtype, array(x).dims)


def _variable(*, shape: Any, data_type: Any) -> Type:
    return TensorType(_data_type(data_type), plain(shape))


def _dropout(x: Type, *_: Type, result: Type | None) -> Type:
    """The operand's type, and a mask of bytes; a mask of bools where that is written."""
    operand_type = array(x)
    written = result.elements[1] if isinstance(result, TupleType) and len(result.elements) == 2 else None
    is_bool = isinstance(written, TensorType) and written.dtype is dtype("pred")
    return TupleType([operand_type, TensorType(dtype("pred" if is_bool else "s8"), operand_type.dims)])


def _mask_like(like: Type, *, result: Type | None) -> Type:
    """The operand's type, or that of dropout's mask where that is written."""
    array_type = array(like)
    is_mask = isinstance(result, TensorType) and result.dtype.name in ("s8", "pred") and result.dims == array_type.dims
    return result if is_mask and result is not None else array_type


def _mask_scale(a: Type, b: Type, mask: Type, *rest: Type, axis: Any) -> Type:
    array_type = array(bias_add(a, b, axis=axis))
    for role, operand in zip(("the mask", "what is added"), (mask, *rest), strict=False):
        if array(operand, role).dims != array_type.dims:
            raise TypeProblem(f"{role} must have the dimensions of {array_type}, but is {operand}")
    return array_type


_data_type = data_type
_BORDER = ("data_type", "is_dynamic", "job_id", "shape")
UNARY = "relu fast_gelu silu sigmoid tanh sqrt rsqrt identity"
BROADCASTING = "broadcast_add broadcast_sub broadcast_mul broadcast_div"
SCALARS = "scalar_add scalar_mul scalar_div"

ROWS = table(
    *[row(name, 1, _same) for name in UNARY.split()],
    row("gelu", 1, _same, carried=("axis",)),
    *[row(name, 2, broadcast) for name in BROADCASTING.split()],
    *[row(name, 1, _same, SCALAR) for name in SCALARS.split()],
    row("multiply", 2, _alike),
    row("add_n", (1, None), _alike),
    row("add_n2", 2, _alike),
    row("scalar_mul_by_tensor", 2, _by_scalar),
    row("bias_add", 2, bias_add, {"axis": 0}),
    row("fused_bias_add_gelu", 2, bias_add, {"axis": 0}),
    row("cast", 1, _cast, {"dtype": 0}, carried=("pin_memory",)),
    row("fused_cast_scale", 2, _cast_scale, {"scale": 1.0}),
    row("input", 1, _same, carried=_BORDER),
    row("output", 1, _same, carried=_BORDER),
    row("variable", 0, _variable, {"shape": (), "data_type": 2}, carried=("trainable", "initializer")),
    row("dropout", (1, 2), _dropout, {"rate": 0.0}, effect=Effect.STATE),
    row("random_mask_like", 1, _mask_like, {"rate": 0.0, "seed": 0}, effect=Effect.STATE),
    row("fused_bias_add_mask_scale", (3, 4), _mask_scale, {"axis": 0, "scale": 0.0}),
)
