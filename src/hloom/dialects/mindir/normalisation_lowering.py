"""The lowering of softmax, of the normalisations and of dropout."""

from __future__ import annotations

import math

import numpy as np

from hloom.dialects.arrays import HloArray, table_of
from hloom.dialects.mindir.elementwise_lowering import data_format
from hloom.dialects.mindir.lowering_context import Primitive
from hloom.dialects.mindir.reduction_lowering import mean, reduced
from hloom.ir import Literal, Node, TensorType, TupleType, dtype

TABLE, lowers = table_of()
F32, U32, U64 = dtype("f32"), dtype("u32"), dtype("u64")


@lowers("Softmax")
def _softmax(primitive: Primitive) -> HloArray:
    """exp(x - max) / sum of that, along dimensions."""
    _, raised, total = shifted_exponents(primitive.x, _softmax_axes(primitive))
    return raised / total


@lowers("LogSoftmax", "LogSoftmaxExt")
def _log_softmax(primitive: Primitive) -> HloArray:
    """x - max - log(sum of exp(x - max)), along a dimension."""
    x = primitive.x if primitive.result is None else primitive.x.convert(primitive.result.dtype)
    shifted, _, total = shifted_exponents(x, _softmax_axes(primitive))
    return shifted - total.op("log")


def _softmax_axes(primitive: Primitive) -> tuple[int, ...]:
    given = primitive.static(1, primitive.attribute("axis", -1))
    axes = given if isinstance(given, tuple) else (given,)
    return tuple(sorted({primitive.axis_of(axis, primitive.x.rank) for axis in axes}))


def shifted_exponents(x: HloArray, axes: tuple[int, ...]) -> tuple[HloArray, HloArray, HloArray]:
    """x - max, exp(x - max), and the sums of the latter over dimensions, broadcast back to x."""
    shifted = x - reduced("maximum", x, axes, keeps=True).stretch(x.dims)
    raised = shifted.op("exponential")
    return shifted, raised, reduced("add", raised, axes, keeps=True).stretch(x.dims)


def inverse_root(variance: HloArray, epsilon: float) -> HloArray:
    """rsqrt(variance + epsilon)."""
    return (variance + epsilon).op("rsqrt")


@lowers("LayerNorm", "LayerNormV3", "LayerNormExt")
def _layer_norm(primitive: Primitive) -> tuple[HloArray, HloArray, HloArray]:
    """(x - mean) * rsqrt(variance + epsilon) * gamma + beta; the mean, and the variance or its inverse root."""
    x = primitive.x
    if primitive.name == "LayerNormExt":
        first, begin, epsilon = 2, x.rank - len(primitive.dims(1)), primitive.static(4, 1e-5)
        begin_params = begin
    else:
        first, begin = 1, primitive.axis(3, x, primitive.attribute("begin_norm_axis", 1))
        begin_params = primitive.axis(4, x, primitive.attribute("begin_params_axis", 1))
        epsilon = primitive.static(5, primitive.attribute("epsilon", 1e-7))
    axes = tuple(range(begin, x.rank))
    wide = _widened(x)
    middle = mean(wide, axes, keeps=True)
    centred = wide - middle.stretch(x.dims)
    variance = mean(centred * centred, axes, keeps=True)
    inverse = inverse_root(variance, epsilon)
    y = centred * inverse.stretch(x.dims)
    for index, opcode in ((first, "multiply"), (first + 1, "add")):
        if isinstance(primitive.operands[index], Node):
            parameter = primitive.array(index, wide.dtype)
            y = y.op(opcode, parameter.spread(x.dims, tuple(range(begin_params, x.rank))))
    return y.convert(x.dtype), middle, variance if primitive.name == "LayerNorm" else inverse


@lowers("RmsNorm")
def _rms_norm(primitive: Primitive) -> tuple[HloArray, HloArray]:
    """x * rsqrt(mean of squares + epsilon) * gamma over gamma's dimensions, and the inverse root."""
    x, gamma = primitive.arrays(0, 1)
    axes = tuple(range(x.rank - gamma.rank, x.rank))
    wide = _widened(x)
    squares = mean(wide * wide, axes, keeps=True)
    inverse = inverse_root(squares, primitive.static(2, primitive.attribute("epsilon", 1e-6)))
    scaled = wide * inverse.stretch(x.dims) * gamma.convert(wide.dtype).spread(x.dims, axes)
    return scaled.convert(x.dtype), inverse


@lowers("BatchNorm")
def _batch_norm(primitive: Primitive) -> tuple[HloArray, ...]:
    """(x - mean) * rsqrt(variance + epsilon) * scale + bias by channel, with the statistics that are given.

    The other results are those statistics.
    """
    if primitive.static(5, primitive.attribute("is_training", False)):
        raise primitive.error("BatchNorm in training writes its statistics, and has no monad that says when")
    middle, variance = primitive.arrays(3, 4)
    y = _normalised(primitive, _widened(primitive.x), middle, variance)
    return y, middle, variance, middle, variance


def batch_norm_in_training(primitive: Primitive) -> tuple[tuple[HloArray, ...], dict[int, HloArray]]:
    """BatchNorm with the batch's statistics: (x, scale, bias, mean, variance, is training, epsilon, momentum, format).

    The results are y, and twice the batch's mean and variance, of which the gradient takes the latter ones (MindSpore's
    CPU kernel leaves the former ones unwritten). The mean and the variance that are given, operands 3 and 4, move
    towards the batch's by `momentum`, the variance towards the one without bias.
    """
    x = _widened(primitive.x)
    channel, axes = _channel(primitive, x)
    count = math.prod(x.dims[axis] for axis in axes)
    middle = mean(x, axes)
    centred = x - middle.spread(x.dims, channel)
    variance = mean(centred * centred, axes)
    y = _normalised(primitive, x, middle, variance)
    momentum = primitive.static(7, primitive.attribute("momentum", 0.1))
    unbiased = variance * (count / max(count - 1, 1))
    writes = {index: _moved(primitive.array(index), value, momentum) for index, value in ((3, middle), (4, unbiased))}
    return (y, middle, variance, middle, variance), writes


def _moved(old: HloArray, value: HloArray, momentum: float) -> HloArray:
    """(1 - momentum) * old + momentum * value."""
    value = value.convert(old.dtype)
    return old * (1 - momentum) + value * momentum


def _normalised(primitive: Primitive, x: HloArray, middle: HloArray, variance: HloArray) -> HloArray:
    """BatchNorm's first result, given an array that is computed in, and statistics."""
    scale, bias, middle, variance = (value.convert(x.dtype) for value in (*primitive.arrays(1, 2), middle, variance))
    channel, _ = _channel(primitive, x)
    inverse = inverse_root(variance, primitive.static(6, primitive.attribute("epsilon", 1e-5)))
    centred = x - middle.spread(x.dims, channel)
    y = centred * (inverse * scale).spread(x.dims, channel) + bias.spread(x.dims, channel)
    return y.convert(primitive.x.dtype)


@lowers("BatchNormGrad")
def _batch_norm_gradient(primitive: Primitive) -> tuple[HloArray, HloArray, HloArray]:
    """(dy, x, scale, mean, variance, reserved, is training, epsilon, format): the gradients of x, scale and bias.

        normal = (x - mean) * rsqrt(variance + epsilon)
        dscale = sum(dy * normal), dbias = sum(dy)
        dx     = scale * rsqrt(variance + epsilon) * (dy - mean of dy - normal * mean of (dy * normal))

    The means are not subtracted where the statistics are not the batch's. `variance` is that of the batch, with bias.
    """
    gradient, x = map(_widened, primitive.arrays(0, 1))
    scale, middle, variance = primitive.arrays(2, 3, 4, element=x.dtype)
    channel, axes = _channel(primitive, x)

    def spread(value: HloArray) -> HloArray:
        return value.spread(x.dims, channel)

    inverse = inverse_root(variance, primitive.static(7, primitive.attribute("epsilon", 1e-5)))
    normal = (x - spread(middle)) * spread(inverse)
    by_normal = gradient * normal
    rest = gradient
    if primitive.static(6, primitive.attribute("is_training", False)):
        rest = rest - spread(mean(gradient, axes)) - normal * spread(mean(by_normal, axes))
    dx = rest * spread(scale * inverse)
    sums = [reduced("add", value, axes) for value in (by_normal, gradient)]
    dscale, dbias = (total.convert(primitive.array(2).dtype) for total in sums)
    return dx.convert(primitive.x.dtype), dscale, dbias


def _channel(primitive: Primitive, x: HloArray) -> tuple[tuple[int], tuple[int, ...]]:
    """The dimension of channels, as operand 8 of the batch normalisations says, and the others."""
    channel = x.rank - 1 if data_format(primitive, 8) == "NHWC" else 1
    return (channel,), tuple(dim for dim in range(x.rank) if dim != channel)


def _widened(x: HloArray) -> HloArray:
    """The array in no less than f32."""
    return x.convert(F32) if x.dtype.bits < F32.bits else x


@lowers("Dropout")
def _dropout(primitive: Primitive) -> tuple[HloArray, HloArray]:
    """(x, probability to keep, two seeds): x * mask / probability, and the mask of zeros and ones.

    The numbers cannot be those of MindSpore's generator. Where both seeds are 0, which means none, they are the
    device's, others in each run; else they follow from the seeds, and are the same in each run, as are those of
    another Dropout of equal seeds and size.
    """
    x = primitive.x
    keep = primitive.static(1, primitive.attribute("keep_prob", 0.5))
    if not 0 < keep <= 1:
        raise primitive.error(f"the probability to keep an element is {keep}, which is not above 0 and at most 1")
    if keep == 1:
        return x, x.filled(1)
    names = ("Seed0", "Seed1")
    seeds = [primitive.static(2 + index, primitive.attribute(name, 0)) for index, name in enumerate(names)]
    mask = _is_below(x, keep, seeds).convert(x.dtype)
    return _kept(x, mask, keep), mask


def _is_below(x: HloArray, limit: float, seeds: list[int]) -> HloArray:
    """Whether uniform random numbers in [0, 1), one for each element of an array, are below a limit."""
    build = x.build
    if any(seeds):
        state = Literal.array(TensorType(U64, (2,)), np.array(seeds, np.int64).astype(np.uint64))
        types = TupleType([state.type, TensorType(U32, x.dims)])
        given = build.array(state).node
        pair = build.op("rng-bit-generator", given, type=types, algorithm="rng_three_fry")
        bits = HloArray(build, build.op("get-tuple-element", pair, index=1))
        return bits < min(int(limit * 2**32), 2**32 - 1)
    bounds = [build.number(bound, F32).node for bound in (0.0, 1.0)]
    return HloArray(build, build.op("rng", *bounds, type=TensorType(F32, x.dims), distribution="rng_uniform")) < limit


def _kept(x: HloArray, mask: HloArray, keep: float) -> HloArray:
    return x * (mask * (1 / keep))


@lowers("DropoutGrad")
def _dropout_gradient(primitive: Primitive) -> HloArray:
    """(dy, mask): dy * mask / probability to keep."""
    keep = primitive.static(2, primitive.attribute("keep_prob", 0.5))
    return _kept(primitive.x, primitive.array(1, primitive.x.dtype), keep)
