"""The lowering of losses, and of primitives that are derivatives of others, as backward graphs have them."""

from __future__ import annotations

import math

from hloom.dialects.mindir.elementwise_lowering import PRED, softplus
from hloom.dialects.mindir.linear_lowering import convolution_geometry, pooling_window, reduced_windows
from hloom.dialects.mindir.lowering_context import Primitive, table_of
from hloom.dialects.mindir.normalisation_lowering import shifted_exponents
from hloom.dialects.mindir.reduction_lowering import mean, reduced
from hloom.dialects.oneflow.builder import HloBuilder, tensor
from hloom.ir import ConvolutionDimensions, DType, Graph, Node, PaddingDimension, TensorType, Window, WindowDimension
from hloom.ops import OPS

TABLE, lowers = table_of()
SUM, MEAN, NONE = 0, 1, 2
"""How a loss puts the examples' together. Source: mindapi/base/types.h, Reduction."""


# Normalisation


@lowers("LayerNormGrad")
def _layer_norm_gradient(primitive: Primitive) -> tuple[Node, Node, Node]:
    """(x, dy, variance, mean, gamma, first normalised dimension, gamma's first dimension): gradients of x, gamma, beta.

    normal = (x - mean) * rsqrt(variance + epsilon), scaled = dy * gamma
    dx     = rsqrt(variance + epsilon) * (scaled - mean of scaled - normal * mean of (scaled * normal))
    """
    build, x = primitive.build, primitive.x
    gradient, variance, middle, gamma = (primitive.array(index, tensor(x).dtype) for index in (1, 2, 3, 4))
    rank, dims = tensor(x).rank, tensor(x).dims
    begin = primitive.axis(5, x, primitive.attribute("begin_norm_axis", 1))
    begin_params = primitive.axis(6, x, primitive.attribute("begin_params_axis", 1))
    axes = tuple(range(begin, rank))
    epsilon = primitive.attribute("epsilon", 1e-7)
    inverse = build.stretch(build.op("rsqrt", build.op("add", variance, build.like(epsilon, variance))), dims)
    normal = build.op("multiply", build.op("subtract", x, build.stretch(middle, dims)), inverse)
    scaled = build.op("multiply", gradient, build.broadcast(gamma, dims, tuple(range(begin_params, rank))))
    along = mean(build, build.op("multiply", scaled, normal), axes, keeps=True)
    rest = build.op("subtract", scaled, build.stretch(mean(build, scaled, axes, keeps=True), dims))
    rest = build.op("subtract", rest, build.op("multiply", normal, build.stretch(along, dims)))
    others = tuple(range(begin_params))
    sums = [reduced(build, "add", value, others) for value in (build.op("multiply", gradient, normal), gradient)]
    return build.op("multiply", inverse, rest), sums[0], sums[1]


# Losses


@lowers("SparseSoftmaxCrossEntropyWithLogits")
def _sparse_cross_entropy(primitive: Primitive) -> Node:
    """(logits, classes): the mean of -log softmax at the classes; with `is_grad` its gradient."""
    build, x, classes = primitive.build, primitive.x, primitive.array(1)
    dims = tensor(x).dims
    places = build.iota(tensor(classes).dtype, dims, 1)
    is_class = build.compare("EQ", places, build.broadcast(classes, dims, (0,)))
    labels = build.convert(is_class, tensor(x).dtype)
    loss, gradient = _cross_entropy(build, x, labels)
    if not primitive.attribute("is_grad", False):
        return mean(build, loss, (0,))
    return build.op("multiply", gradient, build.like(primitive.attribute("sens", 1.0) / dims[0], gradient))


@lowers("SoftmaxCrossEntropyWithLogits")
def _dense_cross_entropy(primitive: Primitive) -> tuple[Node, Node]:
    """(logits, labels): the loss of each example, and the gradient of their sum."""
    return _cross_entropy(primitive.build, primitive.x, primitive.array(1))


def _cross_entropy(build: HloBuilder, x: Node, labels: Node) -> tuple[Node, Node]:
    """-sum(labels * log softmax(x)) of each row, and softmax(x) * (sum of labels) - labels, where that sum is 1."""
    dims = tensor(x).dims
    shifted, raised, total = shifted_exponents(build, x, (1,))
    logarithms = build.op("subtract", shifted, build.op("log", total))
    products = build.op("multiply", labels, logarithms)
    loss = build.op("negate", build.reduce("add", products, (1,)))
    assert tensor(total).dims == dims, "the totals are stretched"
    return loss, build.op("subtract", build.op("divide", raised, total), labels)


@lowers("BCEWithLogitsLoss")
def _binary_cross_entropy(primitive: Primitive) -> Node:
    """(x, labels, weights, weights of the positive, reduction): the binary cross entropy of sigmoid(x).

    weight * ((1 - label) * x + (1 + (positive - 1) * label) * log(1 + exp(-x)))
    """
    build, x, labels = primitive.build, primitive.x, primitive.array(1)
    one = build.like(1, x)
    bent = softplus(build, build.op("negate", x))
    if (positive := _weights(primitive, 3)) is not None:
        more = build.op("multiply", build.op("subtract", positive, one), labels)
        bent = build.op("multiply", build.op("add", one, more), bent)
    loss: Node = build.op("add", build.op("multiply", build.op("subtract", one, labels), x), bent)
    if (weights := _weights(primitive, 2)) is not None:
        loss = build.op("multiply", loss, weights)
    reduction, axes = _reduction(primitive, 4), tuple(range(tensor(x).rank))
    if reduction == NONE:
        return loss
    return mean(build, loss, axes) if reduction == MEAN else reduced(build, "add", loss, axes)


@lowers("BinaryCrossEntropyWithLogitsBackward")
def _binary_cross_entropy_gradient(primitive: Primitive) -> Node:
    """(gradient, x, labels, weights, weights of the positive, reduction): BCEWithLogitsLoss's gradient by x.

    weight * ((positive * label + 1 - label) * sigmoid(x) - positive * label)
    """
    build, x, labels = primitive.build, primitive.array(1), primitive.array(2)
    positive = _weights(primitive, 4)
    wanted: Node = labels if positive is None else build.op("multiply", positive, labels)
    weight = build.op("subtract", build.op("add", wanted, build.like(1, x)), labels)
    slope: Node = build.op("subtract", build.op("multiply", weight, build.op("logistic", x)), wanted)
    if (weights := _weights(primitive, 3)) is not None:
        slope = build.op("multiply", slope, weights)
    slope = build.op("multiply", slope, build.stretch(primitive.x, tensor(x).dims))
    if _reduction(primitive, 5) == MEAN:
        slope = build.op("divide", slope, build.like(tensor(x).element_count, slope))
    return slope


def _weights(primitive: Primitive, index: int) -> Node | None:
    """An operand that may be None, stretched to the dimensions of operand 1."""
    value = primitive.operands[index]
    if not isinstance(value, Node):
        return None
    return primitive.build.stretch(value, tensor(primitive.array(1)).dims)


def _reduction(primitive: Primitive, index: int) -> int:
    value = primitive.static(index, MEAN)
    number = {"sum": SUM, "mean": MEAN, "none": NONE}.get(value, value)
    if number not in (SUM, MEAN, NONE):
        raise primitive.error(f"the reduction {value} has no lowering")
    return number


# Elements by index


@lowers("GatherD")
def _gather_along(primitive: Primitive) -> Node:
    """(x, dimension, indices): the element of x at each place, with an index in place of one dimension's."""
    build, x = primitive.build, primitive.x
    rank = tensor(x).rank
    every = tuple(range(rank))
    return build.op(
        "gather",
        x,
        _places(primitive, x, primitive.axis(1, x), primitive.array(2)),
        offset_dims=(),
        collapsed_slice_dims=every,
        start_index_map=every,
        index_vector_dim=rank,
        slice_sizes=(1,) * rank,
    )


@lowers("GatherDGradV2")
def _gather_along_gradient(primitive: Primitive) -> Node:
    """(x, dimension, indices, gradient): the gradients added where their elements came from."""
    build, x, gradient = primitive.build, primitive.x, primitive.array(3)
    rank = tensor(x).rank
    every = tuple(range(rank))
    places = _places(primitive, x, primitive.axis(1, x), primitive.array(2))
    return _added_at(build, build.like(0, x), places, gradient, (), every)


def _places(primitive: Primitive, x: Node, axis: int, indices: Node) -> Node:
    """The whole index of each element of indices into one dimension; negative ones count from its end."""
    build = primitive.build
    dims, element, size = tensor(indices).dims, tensor(indices).dtype, tensor(x).dims[axis]
    below = build.compare("LT", indices, build.like(0, indices))
    wrapped = build.op("select", below, build.op("add", indices, build.like(size, indices)), indices)
    columns = [wrapped if dim == axis else build.iota(element, dims, dim) for dim in range(len(dims))]
    parts = [build.reshape(column, (*dims, 1)) for column in columns]
    return build.op("concatenate", *parts, dimensions=(len(dims),)) if len(parts) > 1 else parts[0]


@lowers("UnsortedSegmentSum")
def _segment_sum(primitive: Primitive) -> Node:
    """(x, segments, count): the sums of the parts of x with equal numbers; those of negative numbers are dropped."""
    build, x, segments = primitive.build, primitive.x, primitive.array(1)
    batch, dims = tensor(segments).rank, tensor(x).dims
    result = TensorType(tensor(x).dtype, (primitive.static(2), *dims[batch:]))
    zeros = build.broadcast(build.constant(0, result.dtype), result.dims, ())
    rows = build.reshape(segments, (*tensor(segments).dims, 1))
    return _added_at(build, zeros, rows, x, tuple(range(batch, len(dims))), (0,))


def _added_at(
    build: HloBuilder, x: Node, places: Node, updates: Node, window: tuple[int, ...], dims: tuple[int, ...]
) -> Node:
    """Updates added to an array, at places in some dimensions that the last dimension of `places` holds."""
    return build.op(
        "scatter",
        x,
        places,
        updates,
        update_window_dims=window,
        inserted_window_dims=dims,
        scatter_dims_to_operand_dims=dims,
        index_vector_dim=tensor(places).rank - 1,
        to_apply=build.reducer("add", tensor(x).dtype),
    )


# Pooling and convolution


@lowers("MaxPoolGrad")
def _max_pool_gradient(primitive: Primitive) -> Node:
    """(x, y, dy): each gradient at the first greatest element of its window."""
    build, x, gradient = primitive.build, primitive.x, primitive.array(2)
    element = tensor(x).dtype
    return build.op(
        "select-and-scatter",
        x,
        gradient,
        build.constant(0, element),
        window=pooling_window(primitive, 3),
        select=_at_least(build, element),
        scatter=build.reducer("add", element),
    )


def _at_least(build: HloBuilder, element: DType) -> Graph:
    graph = build.module.add_graph(f"ge_{element}")
    pair = [graph.add_parameter(TensorType(element), side) for side in ("left", "right")]
    graph.set_output(graph.add_apply(OPS["compare"], pair, TensorType(PRED), {"direction": "GE"}))
    return graph


@lowers("AvgPoolGrad")
def _average_pool_gradient(primitive: Primitive) -> Node:
    """(x, y, dy): each gradient, over the number of elements of its window, spread over these."""
    build, x, gradient = primitive.build, primitive.x, primitive.array(2)
    window = pooling_window(primitive, 3)
    counts = reduced_windows(build, "add", build.like(1, x), window, 0)
    share = build.op("divide", gradient, counts)
    padding: list[PaddingDimension] = []
    for dimension, size, side in zip(window.dimensions, tensor(x).dims, tensor(gradient).dims, strict=True):
        low = dimension.size - 1 - dimension.padding_low
        spread = (side - 1) * dimension.stride + 1
        padding.append(PaddingDimension(low, size + dimension.size - 1 - low - spread, dimension.stride - 1))
    apart = build.op("pad", share, build.constant(0, tensor(x).dtype), padding=tuple(padding))
    return reduced_windows(
        build, "add", apart, Window(tuple(WindowDimension(dimension.size) for dimension in window.dimensions)), 0
    )


@lowers("Conv2DBackpropInput", "Conv2DTranspose")
def _convolution_gradient_of_input(primitive: Primitive) -> Node:
    """(dy, kernel, x's dimensions): the gradient of a convolution's images, which is a transposed convolution."""
    build, gradient, kernel = primitive.build, primitive.x, primitive.array(1)
    dims, kernel_dims = primitive.dims(2), tensor(kernel).dims
    shape = convolution_geometry(primitive, dims[2:], kernel_dims[2:])
    out, group = kernel_dims[0], shape.groups
    if group > 1:
        parts = build.reshape(kernel, (group, out // group, *kernel_dims[1:]))
        order = build.transpose(parts, (1, 0, 2, 3, 4))
        kernel = build.reshape(order, (out // group, group * kernel_dims[1], *kernel_dims[2:]))
    windows: list[WindowDimension] = []
    for i in range(2):
        size, side, stride, dilation = kernel_dims[2 + i], dims[2 + i], shape.strides[i], shape.dilations[i]
        low, count = shape.padding[i][0], tensor(gradient).dims[2 + i]
        span = (size - 1) * dilation + 1
        high = side - 1 - (count - 1) * stride + low
        windows.append(
            WindowDimension(
                size, 1, span - 1 - low, high, base_dilation=stride, window_dilation=dilation, reversal=True
            )
        )
    return build.op(
        "convolution",
        gradient,
        kernel,
        window=Window(tuple(windows)),
        dim_labels=ConvolutionDimensions("bf01", "io01", "bf01"),
        feature_group_count=group,
    )


@lowers("Conv2DBackpropFilter")
def _convolution_gradient_of_kernel(primitive: Primitive) -> Node:
    """(dy, x, the kernel's dimensions): the gradient of a convolution's kernel, a convolution over the batch."""
    build, gradient, x = primitive.build, primitive.x, primitive.array(1)
    dims, sides = primitive.dims(2), tensor(x).dims
    shape = convolution_geometry(primitive, sides[2:], dims[2:])
    windows: list[WindowDimension] = []
    for i in range(2):
        low, count = shape.padding[i][0], tensor(gradient).dims[2 + i]
        stride, dilation = shape.strides[i], shape.dilations[i]
        high = (dims[2 + i] - 1) * dilation + (count - 1) * stride + 1 - sides[2 + i] - low
        windows.append(WindowDimension(count, dilation, low, high, window_dilation=stride))
    return build.op(
        "convolution",
        x,
        gradient,
        window=Window(tuple(windows)),
        dim_labels=ConvolutionDimensions("fb01", "io01", "fb01"),
        batch_group_count=shape.groups,
    )


def gelu_slope(build: HloBuilder, x: Node) -> Node:
    """The derivative of 0.5 * x * (1 + tanh(u)), u = sqrt(2 / pi) * (x + 0.044715 * x^3)."""
    square = build.op("multiply", x, x)
    factor = math.sqrt(2 / math.pi)
    inner = build.op("add", build.like(1, x), build.op("multiply", square, build.like(0.044715, x)))
    bent = build.op("tanh", build.op("multiply", build.op("multiply", x, inner), build.like(factor, x)))
    slope = build.op("add", build.like(1, x), build.op("multiply", square, build.like(3 * 0.044715, x)))
    rest = build.op("subtract", build.like(1, x), build.op("multiply", bent, bent))
    left = build.op("multiply", build.like(0.5, x), build.op("add", build.like(1, x), bent))
    right = build.op("multiply", build.op("multiply", x, rest), slope)
    return build.op("add", left, build.op("multiply", right, build.like(0.5 * factor, x)))


@lowers("GeLUGrad")
def _gelu_gradient(primitive: Primitive) -> Node:
    """(dy, x, y)."""
    return primitive.build.op("multiply", primitive.x, gelu_slope(primitive.build, primitive.array(1)))
