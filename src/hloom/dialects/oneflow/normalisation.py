"""Softmax, and batch normalisation with what OneFlow fuses to it."""

from __future__ import annotations

import math
from typing import Any

from hloom.dialects.oneflow.rows import array, axis_in, optional_operands, plain, row, table
from hloom.ir import TensorType, TupleType, Type, TypeProblem, dtype

OPERANDS = "x moving_mean moving_variance gamma beta _add_to_output"
WITH_ADDEND = "x addend moving_mean moving_variance gamma beta"
WORD = 32
"""How many elements' signs one number of the reserve space holds."""


def places_of(opcode: str, count: int, sizes: Any) -> dict[str, int]:
    """Where the operands of a normalisation stand, by name."""
    if opcode != "oneflow.normalization_add_relu":
        return optional_operands(OPERANDS, count, sizes)
    if plain(sizes) is None and count == 5:
        return {name: index for index, name in enumerate(WITH_ADDEND.replace("addend ", "").split())}
    return optional_operands(WITH_ADDEND, count, sizes)


def _normalization(*operands: Type, axis: Any, training: Any, result: Type | None, operand_segment_sizes: Any) -> Type:
    """The operand's type; in training the mean and the inverse deviation of each channel too."""
    array_type, channel = _channels(operands, axis)
    _check(operands, places_of("oneflow.normalization", len(operands), operand_segment_sizes), array_type, channel)
    has_statistics = plain(training) if result is None else isinstance(result, TupleType)
    return TupleType([array_type, channel, channel]) if has_statistics else array_type


def _inference(*operands: Type, axis: Any, operand_segment_sizes: Any) -> Type:
    array_type, channel = _channels(operands, axis)
    _check(
        operands, places_of("oneflow.normalization_infer", len(operands), operand_segment_sizes), array_type, channel
    )
    return array_type


def _add_relu(*operands: Type, axis: Any, training: Any, result: Type | None, operand_segment_sizes: Any) -> Type:
    """The operand's type, one bit per element for where the result is positive, and the statistics as above."""
    array_type, channel = _channels(operands, axis)
    places = places_of("oneflow.normalization_add_relu", len(operands), operand_segment_sizes)
    _check(operands, places, array_type, channel)
    reserve = TensorType(dtype("s32"), (math.ceil(array_type.element_count / WORD),))
    has_statistics = plain(training) if not isinstance(result, TupleType) else len(result.elements) == 4
    return TupleType([array_type, reserve, channel, channel] if has_statistics else [array_type, reserve])


def _channels(operands: tuple[Type, ...], axis: Any) -> tuple[TensorType, TensorType]:
    array_type = array(operands[0])
    element = dtype("f32") if array_type.dtype.bits < 32 else array_type.dtype
    return array_type, TensorType(element, (array_type.dims[axis_in(axis, array_type)],))


def _check(operands: tuple[Type, ...], places: dict[str, int], array_type: TensorType, channel: TensorType) -> None:
    for name, index in places.items():
        wanted = array_type.dims if name in ("x", "addend", "_add_to_output") else channel.dims
        if array(operands[index], name).dims != wanted:
            raise TypeProblem(f"{name} must have the dimensions {list(wanted)}, but is {operands[index]}")


def _softmax(x: Type) -> Type:
    operand_type = array(x)
    if not operand_type.rank:
        raise TypeProblem("softmax needs a dimension")
    return operand_type


_BATCH = {"axis": 0, "epsilon": 0.0, "training": False, "momentum": 0.0}

ROWS = table(
    row("softmax", 1, _softmax),
    row("normalization", (3, 6), _normalization, _BATCH),
    row("normalization_infer", (5, 6), _inference, _BATCH),
    row("normalization_add_relu", (3, 6), _add_relu, _BATCH),
)
