"""The lowering of softmax, of the normalisations and of dropout."""

from __future__ import annotations

import math

import numpy as np

from hloom.dialects.mindir.elementwise_lowering import data_format
from hloom.dialects.mindir.lowering_context import Primitive, table_of
from hloom.dialects.mindir.reduction_lowering import mean, reduced
from hloom.dialects.oneflow.builder import HloBuilder, tensor
from hloom.ir import Literal, Node, TensorType, TupleType, dtype
from hloom.ops import OPS

TABLE, lowers = table_of()
F32, U32, U64 = dtype("f32"), dtype("u32"), dtype("u64")


@lowers("Softmax")
def _softmax(primitive: Primitive) -> Node:
    """exp(x - max) / sum of that, along dimensions."""
    _, raised, total = shifted_exponents(primitive.build, primitive.x, _softmax_axes(primitive, primitive.x))
    return primitive.build.op("divide", raised, total)


@lowers("LogSoftmax", "LogSoftmaxExt")
def _log_softmax(primitive: Primitive) -> Node:
    """x - max - log(sum of exp(x - max)), along a dimension."""
    build, x = primitive.build, primitive.x
    if primitive.result is not None:
        x = build.convert(x, primitive.result.dtype)
    shifted, _, total = shifted_exponents(build, x, _softmax_axes(primitive, x))
    return build.op("subtract", shifted, build.op("log", total))


def _softmax_axes(primitive: Primitive, x: Node) -> tuple[int, ...]:
    given = primitive.static(1, primitive.attribute("axis", -1))
    axes = given if isinstance(given, tuple) else (given,)
    return tuple(sorted({primitive.axis_of(axis, tensor(x).rank) for axis in axes}))


def shifted_exponents(build: HloBuilder, x: Node, axes: tuple[int, ...]) -> tuple[Node, Node, Node]:
    """x - max, exp of that, and the sums of the latter along dimensions, in as many elements."""
    greatest = reduced(build, "maximum", x, axes, keeps=True)
    shifted = build.op("subtract", x, build.stretch(greatest, tensor(x).dims))
    raised = build.op("exponential", shifted)
    return shifted, raised, build.stretch(reduced(build, "add", raised, axes, keeps=True), tensor(x).dims)


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
    centred = build.op("subtract", computed, build.stretch(middle, dims))
    variance = mean(build, build.op("multiply", centred, centred), axes, keeps=True)
    inverse = build.op("rsqrt", build.op("add", variance, build.like(epsilon, variance)))
    y: Node = build.op("multiply", centred, build.stretch(inverse, dims))
    places = tuple(range(begin_params, rank))
    for value, opcode in ((gamma, "multiply"), (beta, "add")):
        if isinstance(value, Node):
            y = build.op(opcode, y, build.broadcast(build.convert(value, tensor(computed).dtype), dims, places))
    has_variance = primitive.node.opcode.endswith("LayerNorm")
    return build.convert(y, tensor(x).dtype), middle, variance if has_variance else inverse


@lowers("RmsNorm")
def _rms_norm(primitive: Primitive) -> tuple[Node, Node]:
    """x * rsqrt(mean of squares + epsilon) * gamma over gamma's dimensions, and the inverse root."""
    build, x, gamma = primitive.build, primitive.x, primitive.array(1)
    rank, dims = tensor(x).rank, tensor(x).dims
    axes = tuple(range(rank - tensor(gamma).rank, rank))
    computed = build.convert(x, F32) if tensor(x).dtype.bits < F32.bits else x
    squares = mean(build, build.op("multiply", computed, computed), axes, keeps=True)
    epsilon = primitive.static(2, primitive.attribute("epsilon", 1e-6))
    inverse = build.op("rsqrt", build.op("add", squares, build.like(epsilon, squares)))
    normal = build.op("multiply", computed, build.stretch(inverse, dims))
    scaled = build.op("multiply", normal, build.broadcast(build.convert(gamma, tensor(computed).dtype), dims, axes))
    return build.convert(scaled, tensor(x).dtype), inverse


@lowers("BatchNorm")
def _batch_norm(primitive: Primitive) -> tuple[Node, ...]:
    """(x - mean) * rsqrt(variance + epsilon) * scale + bias by channel, with the statistics that are given.

    The other results are those statistics.
    """
    if primitive.static(5, primitive.attribute("is_training", False)):
        raise primitive.error("BatchNorm in training writes its statistics, and has no monad that says when")
    build = primitive.build
    middle, variance = primitive.array(3), primitive.array(4)
    y = _normalised(primitive, _widened(build, primitive.x), middle, variance)
    return y, middle, variance, middle, variance


def batch_norm_in_training(primitive: Primitive) -> tuple[tuple[Node, ...], dict[int, Node]]:
    """BatchNorm with the batch's statistics: (x, scale, bias, mean, variance, is training, epsilon, momentum, format).

    The results are y, and twice the batch's mean and variance, of which the gradient takes the latter ones (MindSpore's
    CPU kernel leaves the former ones unwritten). The mean and the variance that are given, operands 3 and 4, move
    towards the batch's by `momentum`, the variance towards the one without bias.
    """
    build, x = primitive.build, _widened(primitive.build, primitive.x)
    axes = _but_channel(primitive, x, 8)
    count = math.prod(tensor(x).dims[axis] for axis in axes)
    middle = mean(build, x, axes)
    centred = build.op("subtract", x, build.broadcast(middle, tensor(x).dims, _channel(primitive, x, 8)))
    variance = mean(build, build.op("multiply", centred, centred), axes)
    y = _normalised(primitive, x, middle, variance)
    momentum = primitive.static(7, primitive.attribute("momentum", 0.1))
    unbiased = build.op("multiply", variance, build.like(count / max(count - 1, 1), variance))
    writes = {
        index: _moved(build, primitive.array(index), value, momentum) for index, value in ((3, middle), (4, unbiased))
    }
    return (y, middle, variance, middle, variance), writes


def _moved(build: HloBuilder, old: Node, value: Node, momentum: float) -> Node:
    """(1 - momentum) * old + momentum * value."""
    value = build.convert(value, tensor(old).dtype)
    kept = build.op("multiply", old, build.like(1 - momentum, old))
    return build.op("add", kept, build.op("multiply", value, build.like(momentum, value)))


def _normalised(primitive: Primitive, x: Node, middle: Node, variance: Node) -> Node:
    """BatchNorm's first result, given an array that is computed in, and statistics."""
    build, element, dims = primitive.build, tensor(x).dtype, tensor(x).dims
    scale, bias, middle, variance = (
        build.convert(value, element) for value in (primitive.array(1), primitive.array(2), middle, variance)
    )
    epsilon = primitive.static(6, primitive.attribute("epsilon", 1e-5))
    axis = _channel(primitive, x, 8)
    inverse = build.op("rsqrt", build.op("add", variance, build.like(epsilon, variance)))
    centred = build.op("subtract", x, build.broadcast(middle, dims, axis))
    scaled = build.op("multiply", centred, build.broadcast(build.op("multiply", inverse, scale), dims, axis))
    y = build.op("add", scaled, build.broadcast(bias, dims, axis))
    return build.convert(y, primitive.x_type.dtype)


@lowers("BatchNormGrad")
def _batch_norm_gradient(primitive: Primitive) -> tuple[Node, Node, Node]:
    """(dy, x, scale, mean, variance, reserved, is training, epsilon, format): the gradients of x, scale and bias.

        normal = (x - mean) * rsqrt(variance + epsilon)
        dscale = sum(dy * normal), dbias = sum(dy)
        dx     = scale * rsqrt(variance + epsilon) * (dy - mean of dy - normal * mean of (dy * normal))

    The means are not subtracted where the statistics are not the batch's. `variance` is that of the batch, with bias.
    """
    build = primitive.build
    gradient, x = _widened(build, primitive.x), _widened(build, primitive.array(1))
    scale, middle, variance = (build.convert(primitive.array(index), tensor(x).dtype) for index in (2, 3, 4))
    is_training = primitive.static(6, primitive.attribute("is_training", False))
    epsilon = primitive.static(7, primitive.attribute("epsilon", 1e-5))
    dims, axis, axes = tensor(x).dims, _channel(primitive, x, 8), _but_channel(primitive, x, 8)
    inverse = build.op("rsqrt", build.op("add", variance, build.like(epsilon, variance)))
    centred = build.op("subtract", x, build.broadcast(middle, dims, axis))
    normal = build.op("multiply", centred, build.broadcast(inverse, dims, axis))
    by_normal = build.op("multiply", gradient, normal)
    rest: Node = gradient
    if is_training:
        rest = build.op("subtract", rest, build.broadcast(mean(build, gradient, axes), dims, axis))
        along = build.op("multiply", normal, build.broadcast(mean(build, by_normal, axes), dims, axis))
        rest = build.op("subtract", rest, along)
    dx = build.op("multiply", rest, build.broadcast(build.op("multiply", scale, inverse), dims, axis))
    sums = [reduced(build, "add", value, axes) for value in (by_normal, gradient)]
    element = tensor(primitive.array(2)).dtype
    dscale, dbias = (build.convert(total, element) for total in sums)
    return build.convert(dx, primitive.x_type.dtype), dscale, dbias


def _channel(primitive: Primitive, x: Node, format_index: int) -> tuple[int]:
    return (tensor(x).rank - 1 if data_format(primitive, format_index) == "NHWC" else 1,)


def _but_channel(primitive: Primitive, x: Node, format_index: int) -> tuple[int, ...]:
    (channel,) = _channel(primitive, x, format_index)
    return tuple(dim for dim in range(tensor(x).rank) if dim != channel)


def _widened(build: HloBuilder, x: Node) -> Node:
    """The array in no less than f32."""
    return build.convert(x, F32) if tensor(x).dtype.bits < F32.bits else x


@lowers("Dropout")
def _dropout(primitive: Primitive) -> tuple[Node, Node]:
    """(x, probability to keep, two seeds): x * mask / probability, and the mask of zeros and ones.

    The numbers cannot be those of MindSpore's generator. Where both seeds are 0, which means none, they are the
    device's, others in each run; else they follow from the seeds, and are the same in each run, as are those of
    another Dropout of equal seeds and size.
    """
    build, x = primitive.build, primitive.x
    keep = primitive.static(1, primitive.attribute("keep_prob", 0.5))
    if not 0 < keep <= 1:
        raise primitive.error(f"the probability to keep an element is {keep}, which is not above 0 and at most 1")
    if keep == 1:
        return x, build.like(1, x)
    names = ("Seed0", "Seed1")
    seeds = [primitive.static(2 + index, primitive.attribute(name, 0)) for index, name in enumerate(names)]
    is_kept = _below(build, tensor(x).dims, keep, seeds)
    mask = build.convert(is_kept, tensor(x).dtype)
    return _kept(build, x, mask, keep), mask


def _below(build: HloBuilder, dims: tuple[int, ...], limit: float, seeds: list[int]) -> Node:
    """Whether uniform random numbers in [0, 1) are below a limit."""
    if any(seeds):
        state = Literal.array(TensorType(U64, (2,)), np.array(seeds, np.int64).astype(np.uint64))
        types = TupleType([state.type, TensorType(U32, dims)])
        attributes = {"algorithm": "rng_three_fry"}
        pair = build.graph.add_apply(
            OPS["rng-bit-generator"],
            [build.graph.add_constant(state, state.type)],
            types,
            attributes,
            metadata=build.metadata,
        )
        bits = build.graph.add_apply(
            OPS["get-tuple-element"], [pair], types.elements[1], {"index": 1}, metadata=build.metadata
        )
        return build.compare("LT", bits, build.like(min(int(limit * 2**32), 2**32 - 1), bits))
    bounds = [build.constant(bound, F32) for bound in (0.0, 1.0)]
    attributes = {"distribution": "rng_uniform"}
    numbers = build.graph.add_apply(OPS["rng"], bounds, TensorType(F32, dims), attributes, metadata=build.metadata)
    return build.compare("LT", numbers, build.like(limit, numbers))


def _kept(build: HloBuilder, x: Node, mask: Node, keep: float) -> Node:
    return build.op("multiply", x, build.op("multiply", mask, build.like(1 / keep, mask)))


@lowers("DropoutGrad")
def _dropout_gradient(primitive: Primitive) -> Node:
    """(dy, mask): dy * mask / probability to keep."""
    keep = primitive.static(2, primitive.attribute("keep_prob", 0.5))
    return _kept(primitive.build, primitive.x, primitive.array(1, primitive.x_type.dtype), keep)
