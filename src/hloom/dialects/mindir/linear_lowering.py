"""The lowering of products of matrices, convolution and pooling."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from hloom.dialects.mindir.data_movement_lowering import narrowed
from hloom.dialects.mindir.elementwise_lowering import broadcast_dims, data_format
from hloom.dialects.mindir.lowering_context import Primitive, table_of
from hloom.dialects.mindir.reduction_lowering import mean, reduced_windows
from hloom.dialects.oneflow.builder import HloBuilder, tensor
from hloom.ir import ConvolutionDimensions, Node, Window, WindowDimension

TABLE, lowers = table_of()
PADDING_MODES = {0: "pad", 1: "same", 2: "valid"}
"""Source: mindapi/base/types.h, PadMode."""


@lowers("MatMul", "BatchMatMul", "MatMulExt", "BatchMatMulExt", "Mm", "Mv", "Dot")
def _matmul(primitive: Primitive) -> Node:
    """Batches of products; operands 2 and 3 say which matrices are transposed; vectors are rows and columns."""
    build = primitive.build
    left, right = primitive.array(0), primitive.array(1)
    if primitive.static(2, primitive.attribute("transpose_a", False)):
        left = swapped(build, left)
    if primitive.static(3, primitive.attribute("transpose_b", False)):
        right = swapped(build, right)
    dropped: list[int] = []
    if tensor(left).rank == 1:
        left = build.reshape(left, (1, *tensor(left).dims))
        dropped.append(-2)
    if tensor(right).rank == 1:
        right = build.reshape(right, (*tensor(right).dims, 1))
        dropped.append(-1)
    a, b = tensor(left).dims, tensor(right).dims
    if len(a) < 2 or len(b) < 2 or a[-1] != b[-2]:
        raise primitive.error(f"{tensor(left)} and {tensor(right)} cannot be multiplied")
    batch = _common_batch(primitive, a[:-2], b[:-2])
    left, right = build.stretch(left, (*batch, *a[-2:])), build.stretch(right, (*batch, *b[-2:]))
    product = build.product(left, right)
    rank = len(batch) + 2
    dims = [size for dim, size in enumerate(tensor(product).dims) if dim - rank not in dropped]
    result = build.reshape(product, dims)
    return build.convert(result, primitive.result.dtype) if primitive.result else result


def _common_batch(primitive: Primitive, a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    rank = max(len(a), len(b))
    pairs = zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True)
    batch = tuple(q if p == 1 else p for p, q in pairs)
    pairs = zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True)
    if any(p != q and 1 not in (p, q) for p, q in pairs):
        raise primitive.error(f"the batch dimensions {a} and {b} cannot be broadcast")
    return batch


def swapped(build: HloBuilder, x: Node) -> Node:
    """The last two dimensions exchanged."""
    rank = tensor(x).rank
    return build.transpose(x, (*range(rank - 2), rank - 1, rank - 2))


@lowers("Dense")
def _dense(primitive: Primitive) -> Node:
    """x times transposed weights, plus a bias that may be None."""
    build, x = primitive.build, primitive.x
    last = tensor(x).rank - 1
    weights = primitive.array(1)
    product: Node = build.op(
        "dot", x, weights, lhs_contracting_dims=(last,), rhs_contracting_dims=(tensor(weights).rank - 1,)
    )
    bias = primitive.operands[2] if len(primitive.operands) > 2 else None
    if not isinstance(bias, Node):
        return product
    return build.op("add", product, build.stretch(bias, tensor(product).dims))


@lowers("Addmm", "Baddbmm")
def _added_product(primitive: Primitive) -> Node:
    """beta * x + alpha * (a @ b)."""
    build = primitive.build
    product = build.product(primitive.array(1), primitive.array(2))
    beta, alpha = primitive.static(3, 1), primitive.static(4, 1)
    x = build.stretch(primitive.x, broadcast_dims(primitive, (primitive.x, product)))
    parts = [
        part if factor == 1 else build.op("multiply", part, build.like(factor, part))
        for part, factor in ((x, beta), (product, alpha))
    ]
    return build.op("add", *parts)


@lowers("Conv2D")
def _conv2d(primitive: Primitive) -> Node:
    """A convolution of images: sizes, strides, dilation, groups and padding are attributes."""
    x, kernel = primitive.x, primitive.array(1)
    form = primitive.attribute("format", "NCHW")
    if form not in ("NCHW", "NHWC"):
        raise primitive.error(f"the data format {form} has no lowering")
    spatial = (2, 3) if form == "NCHW" else (1, 2)
    sizes = tuple(tensor(kernel).dims[dim] for dim in spatial)
    shape = _geometry(primitive, tuple(tensor(x).dims[dim] for dim in spatial), sizes)
    windows = [
        WindowDimension(size, stride, low, high, window_dilation=dilation)
        for size, stride, (low, high), dilation in zip(
            sizes, shape.strides, shape.padding, shape.dilations, strict=True
        )
    ]
    labels = ConvolutionDimensions("bf01", "oi01", "bf01") if form == "NCHW" else _CHANNELS_LAST
    return primitive.build.op(
        "convolution",
        x,
        kernel,
        window=Window(tuple(windows)),
        dim_labels=labels,
        feature_group_count=shape.groups,
    )


@dataclass(frozen=True, slots=True)
class Geometry:
    """The strides, the dilations and the padding of a convolution's two dimensions, and its groups."""

    strides: tuple[int, int]
    dilations: tuple[int, int]
    padding: list[tuple[int, int]]
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
    return Geometry(strides, dilations, _convolution_padding(primitive, sides, sizes, strides, dilations), groups)


_CHANNELS_LAST = ConvolutionDimensions("b01f", "o01i", "b01f")


def _convolution_padding(
    primitive: Primitive,
    sides: tuple[int, ...],
    sizes: tuple[int, ...],
    strides: tuple[int, int],
    dilations: tuple[int, int],
) -> list[tuple[int, int]]:
    """Elements before and after: none, those that keep the size divided by the stride, or those given."""
    mode = _padding_mode(primitive.attribute("pad_mode", 2))
    if mode == "valid":
        return [(0, 0), (0, 0)]
    if mode == "same":
        spans = [(size - 1) * dilation + 1 for size, dilation in zip(sizes, dilations, strict=True)]
        return [_same(side, span, stride) for side, span, stride in zip(sides, spans, strides, strict=True)]
    given = primitive.attribute("pad", (0, 0, 0, 0))
    top, bottom, left, right = given if isinstance(given, tuple) else (given,) * 4
    return [(top, bottom), (left, right)]


def _same(side: int, span: int, stride: int) -> tuple[int, int]:
    total = max(0, (math.ceil(side / stride) - 1) * stride + span - side)
    return total // 2, total - total // 2


def _padding_mode(mode: Any) -> str:
    return PADDING_MODES.get(mode, "") if isinstance(mode, int) else str(mode).lower()


def _spatial(value: Any) -> tuple[int, int]:
    """The last two of a tuple of numbers, or a number twice."""
    return (value[-2], value[-1]) if isinstance(value, tuple) and len(value) > 1 else _twice(value)


def _twice(value: Any) -> tuple[int, int]:
    number = value[0] if isinstance(value, tuple) else value
    return number, number


@lowers("MaxPool", "AvgPool")
def _pool(primitive: Primitive) -> Node:
    """The greatest element, or the mean, of each window: sizes, strides, a mode of padding and a format."""
    build, x = primitive.build, primitive.x
    window = pooling_window(primitive, 1)
    if primitive.node.opcode.endswith("MaxPool"):
        return reduced_windows(build, "maximum", x, window, -math.inf)
    total = reduced_windows(build, "add", x, window, 0)
    counts = reduced_windows(build, "add", build.like(1, x), window, 0)
    return build.op("divide", total, counts)


def pooling_window(primitive: Primitive, first: int) -> Window:
    """The window of pooling: sizes, strides, a mode of padding and a format, in operands from `first` or attributes."""
    x = primitive.x
    names = ("kernel_size", "strides", "pad_mode")
    size, strides, mode = (primitive.static(first + i, primitive.attribute(name)) for i, name in enumerate(names))
    form = data_format(primitive, first + 3)
    rank = tensor(x).rank
    if rank != 4 or form == "NCDHW":
        raise primitive.error(f"pooling of {tensor(x)} has no lowering")
    spatial = (2, 3) if form == "NCHW" else (1, 2)
    sizes, steps = _pool_sizes(size, form), _pool_sizes(strides, form)
    padding = [(0, 0), (0, 0)]
    if _padding_mode(mode) == "same":
        sides = [tensor(x).dims[dim] for dim in spatial]
        padding = [_same(side, span, step) for side, span, step in zip(sides, sizes, steps, strict=True)]
    elif _padding_mode(mode) != "valid":
        raise primitive.error(f"the padding mode {mode} has no lowering")
    return _window(rank, spatial, sizes, steps, padding)


def _pool_sizes(value: Any, form: str) -> tuple[int, int]:
    if isinstance(value, tuple) and len(value) == 4:
        return (value[2], value[3]) if form == "NCHW" else (value[1], value[2])
    return _spatial(value)


def _window(
    rank: int, spatial: tuple[int, ...], sizes: tuple[int, int], steps: tuple[int, int], padding: list[tuple[int, int]]
) -> Window:
    dimensions = [WindowDimension() for _ in range(rank)]
    for dim, size, step, (low, high) in zip(spatial, sizes, steps, padding, strict=True):
        dimensions[dim] = WindowDimension(size, step, low, high)
    return Window(tuple(dimensions))


@lowers("AdaptiveAvgPool2D", "AdaptiveAvgPool2DExt")
def _adaptive_pool(primitive: Primitive) -> Node:
    """Means of windows of nearly equal sizes: from floor(i * side / size) up to ceil((i + 1) * side / size)."""
    build, x = primitive.build, primitive.x
    given = primitive.dims(1) if len(primitive.operands) > 1 else primitive.attribute("output_size")
    rank = tensor(x).rank
    sides = tensor(x).dims[-2:]
    wanted = [side if size in (None, -1) else size for side, size in zip(sides, given, strict=True)]
    if any(side % size for side, size in zip(sides, wanted, strict=True)):
        for dim, size in zip((rank - 2, rank - 1), wanted, strict=True):
            x = _means_of_parts(build, x, dim, size)
        return x
    sizes = (sides[0] // wanted[0], sides[1] // wanted[1])
    window = _window(rank, (rank - 2, rank - 1), sizes, sizes, [(0, 0), (0, 0)])
    total = reduced_windows(build, "add", x, window, 0)
    return build.op("divide", total, build.like(sizes[0] * sizes[1], total))


def _means_of_parts(build: HloBuilder, x: Node, dim: int, count: int) -> Node:
    """The means of `count` parts of a dimension, which may overlap by one element."""
    side = tensor(x).dims[dim]
    parts: list[Node] = []
    for index in range(count):
        start, end = index * side // count, -(-(index + 1) * side // count)
        parts.append(mean(build, narrowed(build, x, dim, start, end - start), (dim,), keeps=True))
    return build.op("concatenate", *parts, dimensions=(dim,))
