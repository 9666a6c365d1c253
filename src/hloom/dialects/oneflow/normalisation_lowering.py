"""The lowering of softmax and the batch normalisations."""

from __future__ import annotations

import math

from hloom.dialects.arrays import HloArray, relu, table_of
from hloom.dialects.oneflow.lowering_context import Given
from hloom.dialects.oneflow.normalisation import WORD, places_of
from hloom.dialects.oneflow.rows import SEGMENTS
from hloom.ir import PaddingDimension, TensorType, TupleType, dtype

TABLE, lowers = table_of("oneflow.")


@lowers("softmax")
def _softmax(given: Given) -> HloArray:
    return softmax(given.x)


def softmax(x: HloArray) -> HloArray:
    """exp(x - max) / sum of that, over the last dimension."""
    last, others = x.rank - 1, tuple(range(x.rank - 1))
    raised = (x - x.reduce("maximum", (last,)).spread(x.dims, others)).op("exponential")
    return raised / raised.reduce("add", (last,)).spread(x.dims, others)


@lowers("normalization", "normalization_infer", "normalization_add_relu")
def _normalization(given: Given) -> HloArray | tuple[HloArray, ...]:
    """(x - mean) * rsqrt(variance + epsilon) * gamma + beta, and what is fused to it."""
    places = places_of(given.node.opcode, len(given.operands), given.node.attribute(SEGMENTS))
    operands = {name: given.operands[index] for name, index in places.items()}
    x, axis = given.x, given.axis()
    if given["training"] and given.name != "normalization_infer":
        mean, variance = _statistics(x, axis)
    else:
        mean, variance = operands["moving_mean"], operands["moving_variance"]
    inverse = (variance + given["epsilon"]).op("rsqrt")
    middle, slope, gamma, beta = (
        value.convert(x.dtype).spread(x.dims, (axis,)) for value in (mean, inverse, operands["gamma"], operands["beta"])
    )
    y = (x - middle) * slope * gamma + beta
    for name in ("_add_to_output", "addend"):
        y = y + operands[name] if name in operands else y
    if given.name == "normalization_add_relu":
        return relu(y), _packed(y > 0), mean, inverse
    return (y, mean, inverse) if isinstance(given.node.type, TupleType) else y


def _statistics(x: HloArray, axis: int) -> tuple[HloArray, HloArray]:
    """The mean and the variance over all dimensions but one."""
    others = [dim for dim in range(x.rank) if dim != axis]
    count = math.prod(x.dims[dim] for dim in others)
    wide = x.convert(dtype("f32")) if x.dtype.bits < 32 else x
    mean = wide.reduce("add", others) / count
    apart = wide - mean.spread(x.dims, (axis,))
    return mean, (apart * apart).reduce("add", others) / count


def _packed(signs: HloArray) -> HloArray:
    """Bools as the bits of 32-bit numbers, the first ones lowest."""
    build, u32 = signs.build, dtype("u32")
    count = math.prod(signs.dims)
    words = math.ceil(count / WORD)
    flat = signs.reshape((count,)).convert(u32)
    padding = (PaddingDimension(0, words * WORD - count),)
    bits = flat.op("pad", build.number(0, u32), padding=padding).reshape((words, WORD))
    sums = bits.op("shift-left", build.indices((words, WORD), 1, u32)).reduce("add", (1,))
    return HloArray(build, build.op("bitcast-convert", sums.node, type=TensorType(dtype("s32"), (words,))))
