"""The lowering of softmax and of the normalisations."""

from __future__ import annotations

from hloom.dialects.mindir.elementwise_lowering import data_format
from hloom.dialects.mindir.lowering_context import Primitive, table_of
from hloom.dialects.mindir.reduction_lowering import mean, reduced
from hloom.dialects.oneflow.builder import HloBuilder, tensor
from hloom.ir import Node, dtype

TABLE, lowers = table_of()
F32 = dtype("f32")


@lowers("Softmax")
def _softmax(primitive: Primitive) -> Node:
    """exp(x - max) / sum of that, along dimensions."""
    x = primitive.x
    axes = _softmax_axes(primitive, x)
    shifted = _shifted(primitive.build, x, axes)
    raised = primitive.build.apply("exponential", shifted)
    return primitive.build.apply("divide", raised, _total(primitive.build, raised, axes))


@lowers("LogSoftmax", "LogSoftmaxExt")
def _log_softmax(primitive: Primitive) -> Node:
    """x - max - log(sum of exp(x - max)), along a dimension."""
    build, x = primitive.build, primitive.x
    axes = _softmax_axes(primitive, x)
    shifted = _shifted(build, x, axes)
    return build.apply(
        "subtract", shifted, build.apply("log", _total(build, build.apply("exponential", shifted), axes))
    )


def _softmax_axes(primitive: Primitive, x: Node) -> tuple[int, ...]:
    given = primitive.static(1, primitive.attribute("axis", -1))
    axes = given if isinstance(given, tuple) else (given,)
    return tuple(sorted({primitive.axis_of(axis, tensor(x).rank) for axis in axes}))


def _shifted(build: HloBuilder, x: Node, axes: tuple[int, ...]) -> Node:
    greatest = reduced(build, "maximum", x, axes, keeps=True)
    return build.apply("subtract", x, build.stretch(greatest, tensor(x).dims))


def _total(build: HloBuilder, x: Node, axes: tuple[int, ...]) -> Node:
    return build.stretch(reduced(build, "add", x, axes, keeps=True), tensor(x).dims)


@lowers("LayerNorm", "LayerNormV3", "LayerNormExt")
def _layer_norm(primitive: Primitive) -> tuple[Node, Node, Node]:
    """(x - mean) * rsqrt(variance + epsilon) * gamma + beta; the mean, and the variance or its inverse root."""
    build, x = primitive.build, primitive.x
    rank = tensor(x).rank
    if primitive.node.opcode.endswith("Ext"):
        dims, gamma, beta = primitive.dims(1), primitive.operands[2], primitive.operands[3]
        begin, epsilon = rank - len(dims), primitive.static(4, 1e-5)
        begin_params = begin
    else:
        gamma, beta = primitive.operands[1], primitive.operands[2]
        begin = primitive.axis(3, x, primitive.attribute("begin_norm_axis", 1))
        begin_params = primitive.axis(4, x, primitive.attribute("begin_params_axis", 1))
        epsilon = primitive.static(5, primitive.attribute("epsilon", 1e-7))
    axes = tuple(range(begin, rank))
    computed = build.convert(x, F32) if tensor(x).dtype.bits < F32.bits else x
    dims = tensor(x).dims
    middle = mean(build, computed, axes, keeps=True)
    centred = build.apply("subtract", computed, build.stretch(middle, dims))
    variance = mean(build, build.apply("multiply", centred, centred), axes, keeps=True)
    inverse = build.apply("rsqrt", build.apply("add", variance, build.filled(epsilon, variance)))
    y: Node = build.apply("multiply", centred, build.stretch(inverse, dims))
    places = tuple(range(begin_params, rank))
    for value, opcode in ((gamma, "multiply"), (beta, "add")):
        if isinstance(value, Node):
            y = build.apply(opcode, y, build.spread(build.convert(value, tensor(computed).dtype), dims, places))
    has_variance = primitive.node.opcode.endswith("LayerNorm")
    return build.convert(y, tensor(x).dtype), middle, variance if has_variance else inverse


@lowers("RmsNorm")
def _rms_norm(primitive: Primitive) -> tuple[Node, Node]:
    """x * rsqrt(mean of squares + epsilon) * gamma over gamma's dimensions, and the inverse root."""
    build, x, gamma = primitive.build, primitive.x, primitive.array(1)
    rank, dims = tensor(x).rank, tensor(x).dims
    axes = tuple(range(rank - tensor(gamma).rank, rank))
    computed = build.convert(x, F32) if tensor(x).dtype.bits < F32.bits else x
    squares = mean(build, build.apply("multiply", computed, computed), axes, keeps=True)
    epsilon = primitive.static(2, primitive.attribute("epsilon", 1e-6))
    inverse = build.apply("rsqrt", build.apply("add", squares, build.filled(epsilon, squares)))
    normal = build.apply("multiply", computed, build.stretch(inverse, dims))
    scaled = build.apply("multiply", normal, build.spread(build.convert(gamma, tensor(computed).dtype), dims, axes))
    return build.convert(scaled, tensor(x).dtype), inverse


@lowers("BatchNorm")
def _batch_norm(primitive: Primitive) -> tuple[Node, ...]:
    """(x - mean) * rsqrt(variance + epsilon) * scale + bias by channel, with the statistics that are given.

    In training the statistics would be written to: that has no lowering. The other results are those statistics.
    """
    build, x = primitive.build, primitive.x
    scale, bias, middle, variance = (primitive.array(index) for index in range(1, 5))
    if primitive.static(5, primitive.attribute("is_training", False)):
        raise primitive.error("BatchNorm in training writes its statistics, which has no lowering", "set_train(False)")
    epsilon = primitive.static(6, primitive.attribute("epsilon", 1e-5))
    axis = tensor(x).rank - 1 if data_format(primitive, 8) == "NHWC" else 1
    dims = tensor(x).dims
    inverse = build.apply("rsqrt", build.apply("add", variance, build.filled(epsilon, variance)))
    centred = build.apply("subtract", x, build.spread(middle, dims, (axis,)))
    scaled = build.apply("multiply", centred, build.spread(build.apply("multiply", inverse, scale), dims, (axis,)))
    y = build.apply("add", scaled, build.spread(bias, dims, (axis,)))
    return y, middle, variance, middle, variance
