"""Rules that give another form of convolutions with what is around them: for equality saturation.

A factor per feature before or behind a convolution, sums of convolutions of one image (as in TASO, Jia et al. 2019).
Numbers change by rounding.
"""

from __future__ import annotations

from dataclasses import replace

from hloom.ir import (
    Apply,
    ConvolutionDimensions,
    Node,
    PaddingDimension,
    SliceDimension,
    Window,
    WindowDimension,
)
from hloom.passes.rules.dimensions import broadcast_dims
from hloom.rewrite import Builder, Family, is_splat, static_type, tensor_type

EXPLORE_CONVOLUTION = Family("explore-convolution", because="asks the dimension labels for the place of features")


@EXPLORE_CONVOLUTION.rewrites("multiply", "divide")
def factor_into_kernel(build: Builder, node: Apply) -> Node | None:
    """convolution(x, w) * broadcast(s) -> convolution(x, w * broadcast(s)), for a factor of each output feature"""
    for side in (0, 1) if node.opcode == "multiply" else (0,):
        convolution, factor = node.operands[side], node.operands[1 - side]
        if convolution.opcode != "convolution" or factor.opcode != "broadcast" or not isinstance(convolution, Apply):
            continue
        kernel = tensor_type(convolution.operands[1])
        labels: ConvolutionDimensions = convolution.attributes["dim_labels"]
        dims = broadcast_dims(factor)
        if kernel is None or kernel.dtype is not _element(node) or dims not in ((), (labels.output.index("f"),)):
            continue
        mapped = (labels.rhs.index("o"),) if dims else ()
        spread = build.op("broadcast", factor.operands[0], type=kernel.with_layout(None), dimensions=mapped)
        scaled = build.op(node.opcode, convolution.operands[1], spread)
        return build.like(convolution, convolution.operands[0], scaled, type=static_type(convolution))
    return build.decline("it is not a product of a convolution and a factor of each feature")


@EXPLORE_CONVOLUTION.rewrites("convolution")
def factor_behind_convolution(build: Builder, node: Apply) -> Node | None:
    """convolution(x * broadcast(s), w) -> convolution(x, w) * broadcast(s), for a number, or a factor of each image

    Of a kernel, for a number, or a factor of each output feature.
    """
    labels: ConvolutionDimensions = node.attributes["dim_labels"]
    for side, letter, result_dim in ((0, "b", labels.output.index("b")), (1, "o", labels.output.index("f"))):
        scaled = node.operands[side]
        own = (labels.lhs if side == 0 else labels.rhs).index(letter)
        if scaled.opcode not in ("multiply", "divide") or _element(scaled) is not _element(node):
            continue
        for at in (1, 0) if scaled.opcode == "multiply" else (1,):
            factor, value = scaled.operands[at], scaled.operands[1 - at]
            if factor.opcode != "broadcast" or broadcast_dims(factor) not in ((), (own,)):
                continue
            if side == 0 and broadcast_dims(factor) and node.attribute("batch_group_count") != 1:
                continue
            operands = (value, node.operands[1]) if side == 0 else (node.operands[0], value)
            made = build.like(node, *operands, type=static_type(node))
            mapped = (result_dim,) if broadcast_dims(factor) else ()
            spread = build.op("broadcast", factor.operands[0], type=static_type(node), dimensions=mapped)
            return build.op(scaled.opcode, made, spread)
    return build.decline("no operand is scaled by a number, nor images or output features")


@EXPLORE_CONVOLUTION.rewrites("convolution")
def factor_from_image_to_kernel(build: Builder, node: Apply) -> Node | None:
    """convolution(x * broadcast(s), w) -> convolution(x, w * broadcast(s)), for a factor of each input feature"""
    labels: ConvolutionDimensions = node.attributes["dim_labels"]
    scaled, kernel = node.operands
    if scaled.opcode not in ("multiply", "divide") or _element(scaled) is not _element(kernel) or _has_groups(node):
        return build.decline("the image is not scaled, or there are groups")
    for at in (1, 0) if scaled.opcode == "multiply" else (1,):
        factor, value = scaled.operands[at], scaled.operands[1 - at]
        if factor.opcode != "broadcast" or broadcast_dims(factor) != (labels.lhs.index("f"),):
            continue
        mapped = (labels.rhs.index("i"),)
        spread = build.op("broadcast", factor.operands[0], type=static_type(kernel), dimensions=mapped)
        return build.like(node, value, build.op(scaled.opcode, kernel, spread), type=static_type(node))
    return build.decline("it is not scaled by a factor of each input feature")


EXPLORE_CONVOLUTION.table("""
sum-of-convolutions: f(p:convolution(x, w), q:convolution(x, v)) -> again(p, x, f(w, v))
    if same-type(w, v), same-element(w, root);
    f(p:convolution(x, w), q:convolution(y, w)) -> again(p, f(x, y), w) if same-type(x, y), same-element(x, root)
    where in order, same-attributes(p, q) for f in add, subtract  # convolutions are linear
""")


@EXPLORE_CONVOLUTION.rewrites("add", "subtract", because="computes the padding of a kernel")
def sum_of_convolutions_of_two_sizes(build: Builder, node: Apply) -> Node | None:
    """convolution(x, w) + convolution(x, v) -> convolution(x, w + pad(v, 0)), where the kernel v is the smaller one"""
    first, second = node.operands
    if not (isinstance(first, Apply) and isinstance(second, Apply)) or {first.opcode, second.opcode} != {"convolution"}:
        return build.decline("it is not a sum of convolutions")
    if first.operands[0] is not second.operands[0] or _element(first.operands[1]) is not _element(node):
        return build.decline("the convolutions are not of one image")
    for smaller, larger in ((second, first), (first, second)):
        padding = kernel_enlargement(smaller, larger)
        if padding is None:
            continue
        zero = build.constant(0, static_type(smaller.operands[1]).dtype)
        padded = build.op("pad", smaller.operands[1], zero, padding=padding)
        kernels = (larger.operands[1], padded) if larger is first else (padded, larger.operands[1])
        return build.like(larger, first.operands[0], build.op(node.opcode, *kernels), type=static_type(node))
    return build.decline("no kernel with zeros around it does what the other does")


@EXPLORE_CONVOLUTION.rewrites("convolution", because="computes the combined window")
def convolution_with_zeros_around(build: Builder, node: Apply) -> Node | None:
    """convolution(x, pad(w, 0)) -> convolution(x, w), with as much less padding of the image"""
    pad = node.operands[1]
    labels: ConvolutionDimensions = node.attributes["dim_labels"]
    source = tensor_type(pad.operands[0]) if pad.opcode == "pad" else None
    if source is None or not (is_splat(pad.operands[1], 0) or is_splat(pad.operands[1], -0.0)):
        return build.decline("the kernel has no zeros around it")
    padding: tuple[PaddingDimension, ...] = pad.attributes["padding"]
    if any(padding[labels.rhs.index(letter)] != PaddingDimension(0, 0) for letter in "io"):
        return build.decline("features are padded")
    dimensions: list[WindowDimension] = []
    for dim, own in zip(labels.spatial(labels.rhs), _window(node).dimensions, strict=True):
        part = padding[dim]
        low = own.padding_low - part.low * own.window_dilation
        high = own.padding_high - part.high * own.window_dilation
        if part.interior or min(part.low, part.high, low, high, source.dims[dim] - 1) < 0 or own.reversal:
            return build.decline("the image is not padded by as much")
        dimensions.append(replace(own, size=source.dims[dim], padding_low=low, padding_high=high))
    return build.like(node, node.operands[0], pad.operands[0], type=static_type(node), window=Window(tuple(dimensions)))


@EXPLORE_CONVOLUTION.rewrites("slice", because="computes the slices of images and of features")
def slice_of_convolution(build: Builder, node: Apply) -> Node | None:
    """slice(convolution(x, w)) -> convolution(slice(x), slice(w)), of images and of features"""
    convolution = node.operands[0]
    if not isinstance(convolution, Apply) or convolution.opcode != "convolution" or _has_groups(convolution):
        return build.decline("it is not a slice of a convolution without groups")
    labels: ConvolutionDimensions = convolution.attributes["dim_labels"]
    parts, result = node.attributes["slice"], static_type(convolution)
    if any(parts[dim] != SliceDimension(0, result.dims[dim], 1) for dim in labels.spatial(labels.output)):
        return build.decline("it cuts spatial dimensions")
    operands: list[Node] = []
    for operand, dim, part in (
        (convolution.operands[0], labels.lhs.index("b"), parts[labels.output.index("b")]),
        (convolution.operands[1], labels.rhs.index("o"), parts[labels.output.index("f")]),
    ):
        cut = [SliceDimension(0, size, 1) for size in static_type(operand).dims]
        takes_all, cut[dim] = part == cut[dim], part
        operands.append(operand if takes_all else build.op("slice", operand, slice=tuple(cut)))
    return build.like(convolution, *operands, type=static_type(node))


def kernel_enlargement(smaller: Apply, larger: Apply) -> tuple[PaddingDimension, ...] | None:
    """The zeros around a convolution's kernel with which it has another's window; None where there are none.

    Both must slide in the same way over images of one shape; kernels may differ in spatial sizes and output features.
    """
    types = [tensor_type(operand) for operand in (*smaller.operands, *larger.operands)]
    windows = _window(smaller), _window(larger)
    rest = [{k: v for k, v in convolution.attributes.items() if k != "window"} for convolution in (smaller, larger)]
    if any(array_type is None for array_type in types) or rest[0] != rest[1] or windows[0] == windows[1]:
        return None
    if types[0].dims != types[2].dims:  # pyright: ignore[reportOptionalMemberAccess]
        return None
    labels: ConvolutionDimensions = larger.attributes["dim_labels"]
    padding = [PaddingDimension(0, 0)] * len(labels.rhs)
    inputs = labels.rhs.index("i")
    if types[1].dims[inputs] != types[3].dims[inputs]:  # pyright: ignore[reportOptionalMemberAccess]
        return None
    for dim, inner, outer in zip(labels.spatial(labels.rhs), *(w.dimensions for w in windows), strict=True):
        dilation = outer.window_dilation
        low, high = outer.padding_low - inner.padding_low, outer.padding_high - inner.padding_high
        is_same_way = replace(
            inner, size=outer.size, padding_low=outer.padding_low, padding_high=outer.padding_high,
            window_dilation=dilation,
        ) == outer  # fmt: skip
        if not is_same_way or outer.reversal or (inner.size > 1 and inner.window_dilation != dilation):
            return None
        if low < 0 or high < 0 or low % dilation or high % dilation:
            return None
        if inner.size + low // dilation + high // dilation != outer.size:
            return None
        padding[dim] = PaddingDimension(low // dilation, high // dilation)
    return tuple(padding)


def _window(node: Apply) -> Window:
    return node.attribute("window") or Window()


def _has_groups(node: Apply) -> bool:
    return {node.attribute("feature_group_count"), node.attribute("batch_group_count")} != {1}


def _element(node: Node) -> object:
    array_type = tensor_type(node)
    is_float = array_type is not None and (array_type.dtype.is_float or array_type.dtype.is_complex)
    return array_type.dtype if array_type is not None and is_float else None
