"""The lowering of losses, and of primitives that are derivatives of others, as backward graphs have them."""

from __future__ import annotations

import math

from hloom.dialects.arrays import HloArray, table_of
from hloom.dialects.mindir.data_movement_lowering import from_the_front
from hloom.dialects.mindir.elementwise_lowering import softplus
from hloom.dialects.mindir.linear_lowering import convolution_geometry, pooling_window
from hloom.dialects.mindir.lowering_context import Primitive
from hloom.dialects.mindir.normalisation_lowering import inverse_root, shifted_exponents
from hloom.dialects.mindir.reduction_lowering import mean, reduced
from hloom.ir import ConvolutionDimensions, Node, PaddingDimension, Window, WindowDimension

TABLE, lowers = table_of()
SUM, MEAN, NONE = 0, 1, 2
"""How a loss combines the losses of examples. Source: mindapi/base/types.h, Reduction."""


# Normalisation


@lowers("LayerNormGrad")
def _layer_norm_gradient(primitive: Primitive) -> tuple[HloArray, HloArray, HloArray]:
    """(x, dy, variance, mean, gamma, first normalised dimension, gamma's first dimension): gradients of x, gamma, beta.

    normal = (x - mean) * rsqrt(variance + epsilon), scaled = dy * gamma
    dx     = rsqrt(variance + epsilon) * (scaled - mean of scaled - normal * mean of (scaled * normal))
    """
    x = primitive.x
    gradient, variance, middle, gamma = primitive.arrays(1, 2, 3, 4, element=x.dtype)
    begin = primitive.axis(5, x, primitive.attribute("begin_norm_axis", 1))
    begin_params = primitive.axis(6, x, primitive.attribute("begin_params_axis", 1))
    axes = tuple(range(begin, x.rank))
    inverse = inverse_root(variance, primitive.attribute("epsilon", 1e-7)).stretch(x.dims)
    normal = (x - middle.stretch(x.dims)) * inverse
    scaled = gradient * gamma.spread(x.dims, tuple(range(begin_params, x.rank)))
    along = mean(scaled * normal, axes, keeps=True)
    rest = scaled - mean(scaled, axes, keeps=True).stretch(x.dims) - normal * along.stretch(x.dims)
    others = tuple(range(begin_params))
    sums = [reduced("add", value, others) for value in (gradient * normal, gradient)]
    return inverse * rest, sums[0], sums[1]


# Losses


@lowers("SparseSoftmaxCrossEntropyWithLogits")
def _sparse_cross_entropy(primitive: Primitive) -> HloArray:
    """(logits, classes): the mean of -log softmax at the classes; with `is_grad` its gradient."""
    x, classes = primitive.arrays(0, 1)
    places = primitive.build.indices(x.dims, 1, classes.dtype)
    labels = places.compare(classes.spread(x.dims, (0,)), "EQ").convert(x.dtype)
    loss, gradient = _cross_entropy(x, labels)
    if not primitive.attribute("is_grad", False):
        return mean(loss, (0,))
    return gradient * (primitive.attribute("sens", 1.0) / x.dims[0])


@lowers("SoftmaxCrossEntropyWithLogits")
def _dense_cross_entropy(primitive: Primitive) -> tuple[HloArray, HloArray]:
    """(logits, labels): the loss of each example, and the gradient of their sum."""
    return _cross_entropy(*primitive.arrays(0, 1))


def _cross_entropy(x: HloArray, labels: HloArray) -> tuple[HloArray, HloArray]:
    """-sum(labels * log softmax(x)) of each row, and softmax(x) * (sum of labels) - labels, where that sum is 1."""
    shifted, raised, total = shifted_exponents(x, (1,))
    logarithms = shifted - total.op("log")
    loss = -(labels * logarithms).reduce("add", (1,))
    return loss, raised / total - labels


@lowers("BCEWithLogitsLoss")
def _binary_cross_entropy(primitive: Primitive) -> HloArray:
    """(x, labels, weights, weights of the positive, reduction): the binary cross entropy of sigmoid(x).

    weight * ((1 - label) * x + (1 + (positive - 1) * label) * log(1 + exp(-x)))
    """
    x, labels = primitive.arrays(0, 1)
    one = x.filled(1)
    bent = softplus(-x)
    if (positive := _weights(primitive, 3)) is not None:
        bent = (one + (positive - one) * labels) * bent
    loss = (one - labels) * x + bent
    if (weights := _weights(primitive, 2)) is not None:
        loss = loss * weights
    reduction, axes = _reduction(primitive, 4), tuple(range(x.rank))
    if reduction == NONE:
        return loss
    return mean(loss, axes) if reduction == MEAN else reduced("add", loss, axes)


@lowers("BinaryCrossEntropyWithLogitsBackward")
def _binary_cross_entropy_gradient(primitive: Primitive) -> HloArray:
    """(gradient, x, labels, weights, weights of the positive, reduction): BCEWithLogitsLoss's gradient by x.

    weight * ((positive * label + 1 - label) * sigmoid(x) - positive * label)
    """
    x, labels = primitive.arrays(1, 2)
    positive = _weights(primitive, 4)
    wanted = labels if positive is None else positive * labels
    slope = (wanted + x.filled(1) - labels) * x.op("logistic") - wanted
    if (weights := _weights(primitive, 3)) is not None:
        slope = slope * weights
    slope = slope * primitive.x.stretch(x.dims)
    return slope / x.type.element_count if _reduction(primitive, 5) == MEAN else slope


def _weights(primitive: Primitive, index: int) -> HloArray | None:
    """An operand that may be None, stretched to the dimensions of operand 1."""
    if not isinstance(primitive.operands[index], Node):
        return None
    return primitive.array(index).stretch(primitive.array(1).dims)


def _reduction(primitive: Primitive, index: int) -> int:
    value = primitive.static(index, MEAN)
    number = {"sum": SUM, "mean": MEAN, "none": NONE}.get(value, value)
    if number not in (SUM, MEAN, NONE):
        raise primitive.error(f"the reduction {value} has no lowering")
    return number


# Elements by index


@lowers("GatherD")
def _gather_along(primitive: Primitive) -> HloArray:
    """(x, dimension, indices): the element of x at each place, with an index in place of one dimension's."""
    x = primitive.x
    every = tuple(range(x.rank))
    return x.op(
        "gather",
        _places(x, primitive.axis(1, x), primitive.array(2)),
        offset_dims=(),
        collapsed_slice_dims=every,
        start_index_map=every,
        index_vector_dim=x.rank,
        slice_sizes=(1,) * x.rank,
    )


@lowers("GatherDGradV2")
def _gather_along_gradient(primitive: Primitive) -> HloArray:
    """(x, dimension, indices, gradient): the gradients added where their elements came from."""
    x = primitive.x
    places = _places(x, primitive.axis(1, x), primitive.array(2))
    return _added_at(x.filled(0), places, primitive.array(3), (), tuple(range(x.rank)))


def _places(x: HloArray, axis: int, indices: HloArray) -> HloArray:
    """The whole index of each element of indices into one dimension; negative ones count from its end."""
    wrapped = from_the_front(indices, x.dims[axis])
    dims = indices.dims
    columns = [wrapped if dim == axis else x.build.indices(dims, dim, indices.dtype) for dim in range(len(dims))]
    parts = [column.reshape((*dims, 1)) for column in columns]
    return x.build.concatenate(parts, len(dims)) if len(parts) > 1 else parts[0]


@lowers("UnsortedSegmentSum")
def _segment_sum(primitive: Primitive) -> HloArray:
    """(x, segments, count): the sums of the parts of x with equal numbers; those of negative numbers are dropped."""
    x, segments = primitive.arrays(0, 1)
    zero = primitive.build.number(0, x.dtype)
    zeros = zero.spread((primitive.static(2), *x.dims[segments.rank :]))
    rows = segments.reshape((*segments.dims, 1))
    return _added_at(zeros, rows, x, tuple(range(segments.rank, x.rank)), (0,))


def _added_at(
    x: HloArray, places: HloArray, updates: HloArray, window: tuple[int, ...], dims: tuple[int, ...]
) -> HloArray:
    """Add updates to an array; the last dimension of `places` holds an index into each of `dims`."""
    return x.op(
        "scatter",
        places,
        updates,
        update_window_dims=window,
        inserted_window_dims=dims,
        scatter_dims_to_operand_dims=dims,
        index_vector_dim=places.rank - 1,
        to_apply=x.build.reducer("add", x.dtype),
    )


# Pooling and convolution


@lowers("MaxPoolGrad")
def _max_pool_gradient(primitive: Primitive) -> HloArray:
    """(x, y, dy): each gradient at the first greatest element of its window."""
    build, x = primitive.build, primitive.x
    return x.op(
        "select-and-scatter",
        primitive.array(2),
        build.number(0, x.dtype),
        window=pooling_window(primitive, 3),
        select=build.comparer("GE", x.dtype),
        scatter=build.reducer("add", x.dtype),
    )


@lowers("AvgPoolGrad")
def _average_pool_gradient(primitive: Primitive) -> HloArray:
    """(x, y, dy): each gradient, over the number of elements of its window, spread over these."""
    x, gradient = primitive.x, primitive.array(2)
    window = pooling_window(primitive, 3)
    share = gradient / x.filled(1).reduce_windows("add", window, 0)
    padding: list[PaddingDimension] = []
    for dimension, size, side in zip(window.dimensions, x.dims, gradient.dims, strict=True):
        low = dimension.size - 1 - dimension.padding_low
        spread = (side - 1) * dimension.stride + 1
        padding.append(PaddingDimension(low, size + dimension.size - 1 - low - spread, dimension.stride - 1))
    apart = share.op("pad", x.build.number(0, x.dtype), padding=tuple(padding))
    sizes = tuple(WindowDimension(dimension.size) for dimension in window.dimensions)
    return apart.reduce_windows("add", Window(sizes), 0)


@lowers("Conv2DBackpropInput", "Conv2DTranspose")
def _convolution_gradient_of_input(primitive: Primitive) -> HloArray:
    """(dy, kernel, x's dimensions): the gradient of a convolution's images, which is a transposed convolution."""
    gradient, kernel = primitive.arrays(0, 1)
    dims, kernel_dims = primitive.dims(2), kernel.dims
    shape = convolution_geometry(primitive, dims[2:], kernel_dims[2:])
    out, group = kernel_dims[0], shape.groups
    if group > 1:
        parts = kernel.reshape((group, out // group, *kernel_dims[1:]))
        kernel = parts.transpose((1, 0, 2, 3, 4)).reshape((out // group, group * kernel_dims[1], *kernel_dims[2:]))
    windows: list[WindowDimension] = []
    for i in range(2):
        size, side, stride, dilation = kernel_dims[2 + i], dims[2 + i], shape.strides[i], shape.dilations[i]
        low, count = shape.padding[i][0], gradient.dims[2 + i]
        span = (size - 1) * dilation + 1
        high = side - 1 - (count - 1) * stride + low
        windows.append(
            WindowDimension(
                size, 1, span - 1 - low, high, base_dilation=stride, window_dilation=dilation, reversal=True
            )
        )
    return gradient.op(
        "convolution",
        kernel,
        window=Window(tuple(windows)),
        dim_labels=ConvolutionDimensions("bf01", "io01", "bf01"),
        feature_group_count=group,
    )


@lowers("Conv2DBackpropFilter")
def _convolution_gradient_of_kernel(primitive: Primitive) -> HloArray:
    """(dy, x, the kernel's dimensions): the gradient of a convolution's kernel, a convolution over the batch."""
    gradient, x = primitive.arrays(0, 1)
    dims, sides = primitive.dims(2), x.dims
    shape = convolution_geometry(primitive, sides[2:], dims[2:])
    windows: list[WindowDimension] = []
    for i in range(2):
        low, count = shape.padding[i][0], gradient.dims[2 + i]
        stride, dilation = shape.strides[i], shape.dilations[i]
        high = (dims[2 + i] - 1) * dilation + (count - 1) * stride + 1 - sides[2 + i] - low
        windows.append(WindowDimension(count, dilation, low, high, window_dilation=stride))
    return x.op(
        "convolution",
        gradient,
        window=Window(tuple(windows)),
        dim_labels=ConvolutionDimensions("fb01", "io01", "fb01"),
        batch_group_count=shape.groups,
    )


def gelu_slope(x: HloArray) -> HloArray:
    """The derivative of 0.5 * x * (1 + tanh(u)), u = sqrt(2 / pi) * (x + 0.044715 * x^3)."""
    square = x * x
    factor = math.sqrt(2 / math.pi)
    inner = 1 + square * 0.044715
    bent = (x * inner * factor).op("tanh")
    slope = 1 + square * (3 * 0.044715)
    rest = 1 - bent * bent
    return 0.5 * (1 + bent) + x * rest * slope * (0.5 * factor)


@lowers("GeLUGrad")
def _gelu_gradient(primitive: Primitive) -> HloArray:
    """(dy, x, y)."""
    return primitive.x * gelu_slope(primitive.array(1))
