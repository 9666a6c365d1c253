"""Dropout, the masks it draws, and the fusion that takes a mask."""

from __future__ import annotations

from typing import Any

from hloom.dialects.oneflow.elementwise import bias_add
from hloom.dialects.oneflow.rows import array, row, table
from hloom.ir import Effect, TensorType, TupleType, Type, TypeProblem, dtype


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


ROWS = table(
    row("dropout", (1, 2), _dropout, {"rate": 0.0}, effect=Effect.STATE),
    row("random_mask_like", 1, _mask_like, {"rate": 0.0, "seed": 0}, effect=Effect.STATE),
    row("fused_bias_add_mask_scale", (3, 4), _mask_scale, {"axis": 0, "scale": 0.0}),
)
