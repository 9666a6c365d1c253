"""Values that a program quantises itself: instructions that find their scales and round.

    scale = f32[2,1,4,1] maximum(max|row| / 127, least)      q = s8[2,1,4,64] clamp(-127, round(row / scale), 127)

MX scales are powers of two, cut out of the bits of the greatest magnitude. Rounding is to nearest, ties to even.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from hloom.compress.quantization.arithmetic import scale_dims
from hloom.compress.quantization.formats import MX_SCALE, NumberFormat, wide_type
from hloom.compress.quantization.insertion_point import InsertionPoint, splat_value
from hloom.compress.quantization.quantized_value import F32, SCALE, QuantizedValue, stretch
from hloom.ir import DTYPES, DType, Node, PaddingDimension, TensorType

_EXPONENT_BITS = 0x7F800000
_LEAST_POWER = 2.0**-126


def quantize_in_program(
    node: Node, number_format: NumberFormat, blocks: Sequence[int], before: Node | None
) -> QuantizedValue:
    """A value in a number format, without zero points, its scales made by the program in front of a node."""
    type_ = node.array_type.with_layout(None)
    point = InsertionPoint(node.graph, before)
    wide = wide_type(type_.dtype)
    if splat_value(node) == 0:
        return _zeros(point, type_, number_format, blocks, wide)
    if node.opcode == "broadcast" and _keeps_blocks(node, blocks):
        return _broadcast(point, node, number_format, blocks, before)
    values = point.convert(node, wide)
    greatest = _greatest(point, values, blocks)
    scale = _scale(point, greatest, number_format, wide)
    divisor = point.convert(scale, wide)
    quotients = point.div(values, stretch(point, divisor, type_.dims, blocks))
    largest = number_format.largest
    limits = [point.constant(limit, wide) for limit in (-largest, largest)]
    if number_format.is_integer:
        quotients = point.op("round-nearest-even", quotients)
    made = point.convert(point.op("clamp", limits[0], quotients, limits[1]), number_format.dtype)
    return QuantizedValue(made, {SCALE: scale}, {SCALE: tuple(blocks)}, type_)


def _greatest(point: InsertionPoint, values: Node, blocks: Sequence[int]) -> Node:
    """The greatest magnitude of every block, in as many dimensions as the value has."""
    dims = values.array_type.dims
    counts = scale_dims(dims, blocks)
    magnitudes = point.op("abs", values)
    padding = [count * block - size for count, block, size in zip(counts, blocks, dims, strict=True)]
    if any(padding):
        zero = point.constant(0.0, values.array_type.dtype)
        magnitudes = point.op("pad", magnitudes, zero, padding=tuple(PaddingDimension(0, high) for high in padding))
    split: list[int] = []
    summed: list[int] = []
    for count, block in zip(counts, blocks, strict=True):
        split += [count, block] if block > 1 else [count]
        summed += [len(split) - 1] if block > 1 else []
    magnitudes = point.reshape(magnitudes, split)
    if summed:
        magnitudes = point.maximum(magnitudes, summed)
    return point.reshape(magnitudes, counts)


def _scale(point: InsertionPoint, greatest: Node, number_format: NumberFormat, wide: DType) -> Node:
    type_ = greatest.array_type
    if number_format.exponent is None:
        share = point.mul(greatest, point.constant(1 / number_format.largest, type_))
        return point.op("maximum", share, point.constant(float(np.finfo(wide.numpy).tiny), type_))
    greatest = point.convert(greatest, F32)
    plain = TensorType(DTYPES["s32"], type_.dims)
    bits = point.op("bitcast-convert", greatest, type=plain)
    powers = point.op("and", bits, point.constant(_EXPONENT_BITS, plain))
    power = point.op("bitcast-convert", powers, type=TensorType(F32, type_.dims))
    scale = point.mul(power, point.constant(2.0**-number_format.exponent, power.array_type))
    return point.convert(point.op("maximum", scale, point.constant(_LEAST_POWER, scale.array_type)), MX_SCALE)


def _zeros(
    point: InsertionPoint, type_: TensorType, number_format: NumberFormat, blocks: Sequence[int], wide: DType
) -> QuantizedValue:
    values = point.convert(point.constant(0.0, type_.with_dtype(wide)), number_format.dtype)
    ones = point.constant(1.0, TensorType(wide, scale_dims(type_.dims, blocks)))
    return QuantizedValue(
        values, {SCALE: point.convert(ones, number_format.scale_type(wide))}, {SCALE: tuple(blocks)}, type_
    )


def _keeps_blocks(node: Node, blocks: Sequence[int]) -> bool:
    """Whether every block of a broadcast repeats one of its operand."""
    source, into = node.operands[0].array_type, tuple(node.attributes.get("dimensions") or ())
    sizes = node.array_type.dims
    from_dim = {target: dim for dim, target in enumerate(into)}
    return prod(source.dims) > 1 and all(
        block == 1 or (target in from_dim and source.dims[from_dim[target]] == sizes[target])
        for target, block in enumerate(blocks)
    )


def _broadcast(
    point: InsertionPoint, node: Node, number_format: NumberFormat, blocks: Sequence[int], before: Node | None
) -> QuantizedValue:
    type_ = node.array_type.with_layout(None)
    into = tuple(node.attributes.get("dimensions") or ())
    made = quantize_in_program(node.operands[0], number_format, [blocks[target] for target in into], before)
    values = point.broadcast(made.node, type_.dims, into)
    scale = point.broadcast(made.companions[SCALE], scale_dims(type_.dims, blocks), into)
    return QuantizedValue(values, {SCALE: scale}, {SCALE: tuple(blocks)}, type_)
