"""The lowering of products of matrices, convolution and pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hloom.dialects.arrays import HloArray, table_of
from hloom.dialects.mindir.elementwise_lowering import broadcast_dims, data_format
from hloom.dialects.mindir.lowering_context import Primitive
from hloom.dialects.mindir.reduction_lowering import mean
from hloom.ir import ConvolutionDimensions, Node, Window, WindowDimension

TABLE, lowers = table_of()
PADDING_MODES = {0: "pad", 1: "same", 2: "valid"}
"""Source: mindapi/base/types.h, PadMode."""
_LABELS = {
    "NCHW": ConvolutionDimensions("bf01", "oi01", "bf01"),
    "NHWC": ConvolutionDimensions("b01f", "o01i", "b01f"),
}
_SPATIAL = {"NCHW": (2, 3), "NHWC": (1, 2)}
"""The dimensions of an image by its format."""
Pair = tuple[int, int]
"""A number for each dimension of an image, or elements before and after."""


@lowers("MatMul", "BatchMatMul", "MatMulExt", "BatchMatMulExt", "Mm", "Mv", "Dot")
def _matmul(primitive: Primitive) -> HloArray:
    """Batches of products; operands 2 and 3 say which matrices are transposed; vectors are rows and columns."""
    left, right = primitive.arrays(0, 1)
    if primitive.static(2, primitive.attribute("transpose_a", False)):
        left = left.swapped()
    if primitive.static(3, primitive.attribute("transpose_b", False)):
        right = right.swapped()
    dropped: list[int] = []
    if left.rank == 1:
        left = left.reshape((1, *left.dims))
        dropped.append(-2)
    if right.rank == 1:
        right = right.reshape((*right.dims, 1))
        dropped.append(-1)
    a, b = left.dims, right.dims
    if len(a) < 2 or len(b) < 2 or a[-1] != b[-2]:
        raise primitive.error(f"{left.type} and {right.type} cannot be multiplied")
    try:
        batch = np.broadcast_shapes(a[:-2], b[:-2])
    except ValueError:
        raise primitive.error(f"the batch dimensions {a[:-2]} and {b[:-2]} cannot be broadcast") from None
    product = left.stretch((*batch, *a[-2:])).product(right.stretch((*batch, *b[-2:])))
    result = product.reshape([size for dim, size in enumerate(product.dims) if dim - product.rank not in dropped])
    return result.convert(primitive.result.dtype) if primitive.result else result


@lowers("Dense")
def _dense(primitive: Primitive) -> HloArray:
    """x times transposed weights, plus a bias that may be None."""
    x, weights = primitive.arrays(0, 1)
    dims = {"lhs_contracting_dims": (x.rank - 1,), "rhs_contracting_dims": (weights.rank - 1,)}
    product = x.op("dot", weights, **dims)
    bias = primitive.operands[2] if len(primitive.operands) > 2 else None
    return product + primitive.array(2).stretch(product.dims) if isinstance(bias, Node) else product


@lowers("Addmm", "Baddbmm")
def _added_product(primitive: Primitive) -> HloArray:
    """beta * x + alpha * (a @ b)."""
    x, a, b = primitive.arrays(0, 1, 2)
    product = a.product(b)
    beta, alpha = primitive.static(3, 1), primitive.static(4, 1)
    x = x.stretch(broadcast_dims(primitive, (x, product)))
    left, right = (part if factor == 1 else part * factor for part, factor in ((x, beta), (product, alpha)))
    return left + right


@lowers("Conv2D")
def _conv2d(primitive: Primitive) -> HloArray:
    """A convolution of images: sizes, strides, dilation, groups and padding are attributes."""
    x, kernel = primitive.arrays(0, 1)
    form = primitive.attribute("format", "NCHW")
    if form not in _SPATIAL:
        raise primitive.error(f"the data format {form} has no lowering")
    sides, sizes = (tuple(array.dims[dim] for dim in _SPATIAL[form]) for array in (x, kernel))
    shape = _geometry(primitive, sides, sizes)
    windows = [
        WindowDimension(size, stride, low, high, window_dilation=dilation)
        for size, stride, (low, high), dilation in zip(
            sizes, shape.strides, shape.padding, shape.dilations, strict=True
        )
    ]
    return x.op(
        "convolution",
        kernel,
        window=Window(tuple(windows)),
        dim_labels=_LABELS[form],
        feature_group_count=shape.groups,
    )


@dataclass(frozen=True, slots=True)
class Geometry:
    """The strides, the dilations and the padding of a convolution's two dimensions, and its groups."""

    strides: Pair
    dilations: Pair
    padding: list[Pair]
    groups: int


def convolution_geometry(primitive: Primitive, sides: tuple[int, ...], sizes: tuple[int, ...]) -> Geometry:
    """The geometry of a convolution, or of its gradients, of images and kernels of these sizes."""
    form = primitive.attribute("format", "NCHW")
    if form != "NCHW":
        raise primitive.error(f"the data format {form} has no lowering")
    return _geometry(primitive, sides, sizes)


def _geometry(primitive: Primitive, sides: tuple[int, ...], sizes: tuple[int, ...]) -> Geometry:
    strides = _spatial(primitive.attribute("stride", 1))
    dilations = _spatial(primitive.attribute("dilation", 1))
    groups = primitive.attribute("group", primitive.attribute("groups", 1))
    mode = _padding_mode(primitive.attribute("pad_mode", 2))
    if mode == "valid":
        padding = [(0, 0), (0, 0)]
    elif mode == "same":
        spans = [(size - 1) * dilation + 1 for size, dilation in zip(sizes, dilations, strict=True)]
        padding = _same(sides, spans, strides)
    else:
        given = primitive.attribute("pad", (0, 0, 0, 0))
        top, bottom, left, right = given if isinstance(given, tuple) else (given,) * 4
        padding = [(top, bottom), (left, right)]
    return Geometry(strides, dilations, padding, groups)


def _same(sides: Sequence[int], spans: Sequence[int], strides: Pair) -> list[Pair]:
    """The padding with which the size of a result is that of the operand divided by the stride."""
    totals = [
        max(0, (math.ceil(side / stride) - 1) * stride + span - side)
        for side, span, stride in zip(sides, spans, strides, strict=True)
    ]
    return [(total // 2, total - total // 2) for total in totals]


def _padding_mode(mode: Any) -> str:
    return PADDING_MODES.get(mode, "") if isinstance(mode, int) else str(mode).lower()


def _spatial(value: Any) -> Pair:
    """The last two of a tuple of numbers, or a number twice."""
    numbers = list(value) if isinstance(value, tuple) else [value]
    return (numbers[-2], numbers[-1]) if len(numbers) > 1 else (numbers[0], numbers[0])


@lowers("MaxPool", "AvgPool")
def _pool(primitive: Primitive) -> HloArray:
    """The greatest element, or the mean, of each window: sizes, strides, a mode of padding and a format."""
    x, window = primitive.x, pooling_window(primitive, 1)
    if primitive.name == "MaxPool":
        return x.reduce_windows("maximum", window, -math.inf)
    return x.reduce_windows("add", window, 0) / x.filled(1).reduce_windows("add", window, 0)


def pooling_window(primitive: Primitive, first: int) -> Window:
    """The window of pooling: sizes, strides, a mode of padding and a format, in operands from `first` or attributes."""
    x = primitive.x
    names = ("kernel_size", "strides", "pad_mode")
    size, strides, mode = (primitive.static(first + i, primitive.attribute(name)) for i, name in enumerate(names))
    form = data_format(primitive, first + 3)
    if x.rank != 4 or form not in _SPATIAL:
        raise primitive.error(f"pooling of {x.type} has no lowering")
    sizes, steps = _pool_sizes(size, form), _pool_sizes(strides, form)
    padding = [(0, 0), (0, 0)]
    if _padding_mode(mode) == "same":
        padding = _same([x.dims[dim] for dim in _SPATIAL[form]], sizes, steps)
    elif _padding_mode(mode) != "valid":
        raise primitive.error(f"the padding mode {mode} has no lowering")
    return _window(x.rank, _SPATIAL[form], sizes, steps, padding)


def _pool_sizes(value: Any, form: str) -> Pair:
    if isinstance(value, tuple) and len(value) == 4:
        first, second = _SPATIAL[form]
        return value[first], value[second]
    return _spatial(value)


def _window(rank: int, spatial: Pair, sizes: Pair, steps: Pair, padding: list[Pair]) -> Window:
    dimensions = [WindowDimension() for _ in range(rank)]
    for dim, size, step, (low, high) in zip(spatial, sizes, steps, padding, strict=True):
        dimensions[dim] = WindowDimension(size, step, low, high)
    return Window(tuple(dimensions))


@lowers("AdaptiveAvgPool2D", "AdaptiveAvgPool2DExt")
def _adaptive_pool(primitive: Primitive) -> HloArray:
    """Means of windows of nearly equal sizes: from floor(i * side / size) up to ceil((i + 1) * side / size)."""
    x = primitive.x
    given = primitive.dims(1) if len(primitive.operands) > 1 else primitive.attribute("output_size")
    spatial, sides = (x.rank - 2, x.rank - 1), x.dims[-2:]
    wanted = [side if size in (None, -1) else size for side, size in zip(sides, given, strict=True)]
    if any(side % size for side, size in zip(sides, wanted, strict=True)):
        for dim, size in zip(spatial, wanted, strict=True):
            x = _means_of_parts(x, dim, size)
        return x
    sizes = (sides[0] // wanted[0], sides[1] // wanted[1])
    window = _window(x.rank, spatial, sizes, sizes, [(0, 0), (0, 0)])
    return x.reduce_windows("add", window, 0) / (sizes[0] * sizes[1])


def _means_of_parts(x: HloArray, dim: int, count: int) -> HloArray:
    """The means of `count` parts of a dimension, which may overlap by one element."""
    side = x.dims[dim]
    parts: list[HloArray] = []
    for index in range(count):
        start, end = index * side // count, -(-(index + 1) * side // count)
        parts.append(mean(x.narrowed(dim, start, end - start), (dim,), keeps=True))
    return x.build.concatenate(parts, dim)
