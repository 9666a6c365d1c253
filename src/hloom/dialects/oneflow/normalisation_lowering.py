"""The lowering of softmax and the batch normalisations."""

from __future__ import annotations

import math

from hloom.dialects.oneflow.builder import Given, HloBuilder, table_of, tensor
from hloom.dialects.oneflow.elementwise_lowering import relu
from hloom.dialects.oneflow.normalisation import WORD, places_of
from hloom.dialects.oneflow.rows import SEGMENTS
from hloom.ir import Node, PaddingDimension, TensorType, TupleType, dtype
from hloom.ops import OPS

TABLE, lowers = table_of()


@lowers("softmax")
def _softmax(given: Given) -> Node:
    return softmax(given.build, given.x)


def softmax(build: HloBuilder, x: Node) -> Node:
    """exp(x - max) / sum of that, over the last dimension."""
    operand_type = tensor(x)
    last, others = operand_type.rank - 1, tuple(range(operand_type.rank - 1))
    greatest = build.broadcast(build.reduce("maximum", x, (last,)), operand_type.dims, others)
    raised = build.op("exponential", build.op("subtract", x, greatest))
    total = build.broadcast(build.reduce("add", raised, (last,)), operand_type.dims, others)
    return build.op("divide", raised, total)


@lowers("normalization", "normalization_infer", "normalization_add_relu")
def _normalization(given: Given) -> Node | tuple[Node, ...]:
    """(x - mean) * rsqrt(variance + epsilon) * gamma + beta, and what is fused to it."""
    build, opcode = given.build, given.node.opcode
    places = places_of(opcode, len(given.operands), given.node.attribute(SEGMENTS))
    operands = {name: given.operands[index] for name, index in places.items()}
    x, axis = given.x, given.axis()
    if given["training"] and opcode != "oneflow.normalization_infer":
        mean, variance = _statistics(build, x, axis)
    else:
        mean, variance = operands["moving_mean"], operands["moving_variance"]
    inverse = build.op("rsqrt", build.op("add", variance, build.like(given["epsilon"], variance)))
    parts = [given.along(build.convert(operand, given.x_type.dtype), axis, x) for operand in (mean, inverse)]
    gamma, beta = (
        given.along(build.convert(operands[name], given.x_type.dtype), axis, x) for name in ("gamma", "beta")
    )
    normal = build.op("multiply", build.op("subtract", x, parts[0]), parts[1])
    y: Node = build.op("add", build.op("multiply", normal, gamma), beta)
    for name in ("_add_to_output", "addend"):
        y = build.op("add", y, operands[name]) if name in operands else y
    if opcode == "oneflow.normalization_add_relu":
        return relu(build, y), _packed(build, build.compare("GT", y, build.like(0, y))), mean, inverse
    return (y, mean, inverse) if isinstance(given.node.type, TupleType) else y


def _statistics(build: HloBuilder, x: Node, axis: int) -> tuple[Node, Node]:
    """The mean and the variance over all dimensions but one."""
    operand_type = tensor(x)
    others = [dim for dim in range(operand_type.rank) if dim != axis]
    count = math.prod(operand_type.dims[dim] for dim in others)
    wide = build.convert(x, dtype("f32")) if operand_type.dtype.bits < 32 else x

    def mean_of(values: Node) -> Node:
        total = build.reduce("add", values, others)
        return build.op("divide", total, build.like(count, total))

    mean = mean_of(wide)
    apart = build.op("subtract", wide, build.broadcast(mean, operand_type.dims, (axis,)))
    return mean, mean_of(build.op("multiply", apart, apart))


def _packed(build: HloBuilder, signs: Node) -> Node:
    """Bools as the bits of 32-bit numbers, the first ones lowest."""
    count = math.prod(tensor(signs).dims)
    words = math.ceil(count / WORD)
    flat = build.convert(build.reshape(signs, (count,)), dtype("u32"))
    padding = (PaddingDimension(0, words * WORD - count),)
    padded = build.op("pad", flat, build.constant(0, dtype("u32")), padding=padding)
    bits = build.reshape(padded, (words, WORD))
    places = build.iota(dtype("u32"), (words, WORD), 1)
    sums = build.reduce("add", build.op("shift-left", bits, places), (1,))
    return build.graph.add_apply(OPS["bitcast-convert"], [sums], TensorType(dtype("s32"), (words,)))
