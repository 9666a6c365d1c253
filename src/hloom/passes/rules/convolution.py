"""Rules on convolution: empty operands, padded operands, depthwise and pointwise kernels.

Follows XLA's xla/hlo/transforms/simplifiers/algebraic_simplifier.cc (HandleConvolution, FoldConvInputPad,
FoldConvFilterPad, SwapConvOperands, SimplifyConvToDot, SimplifyConvToMultiply).
"""

from __future__ import annotations

import math
from dataclasses import replace

from hloom.ir import (
    Apply,
    ConvolutionDimensions,
    DTypeKind,
    Node,
    PaddingDimension,
    TensorType,
    Window,
    WindowDimension,
    default_layout,
)
from hloom.ops import check_convolution
from hloom.passes.rules.dot import PRECISION_ATTRIBUTES
from hloom.passes.rules.reduce_window import broadcast_degenerate
from hloom.passes.rules.reducers import adder
from hloom.passes.rules.value_properties import is_zero
from hloom.rewrite import Builder, Family, tensor_type

CONVOLUTION = Family("convolution", formerly="convolving", because="computes the combined window")
CONVOLUTION_INEXACT = Family(
    "convolution-inexact", formerly="convolving-relaxed", because="computes the combined window"
)

_NO_PADDING = PaddingDimension(0, 0)


CONVOLUTION.table("""
convolution-of-nothing [9]: convolution(x, y, rest...) -> 0 if empty; convolution(x, y, rest...) -> 0 if x is empty;
    convolution(x, y, rest...) -> 0 if y is empty where static, x and y are static
    # a sum of no products is zero, and what has no elements is anything
""")


@CONVOLUTION.rewrites("convolution", benefit=3, depth=2)
def integer_convolution_of_pad(build: Builder, node: Apply) -> Node | None:
    """convolution(pad(x, 0), y) -> convolution(x, y) with the padding in the window, for integers.

    With floats, a backend that skips the padding of windows loses the NaN of zero times infinity.
    """
    return _without_input_pad(build, node) if _multiplies_integers(node) else None


@CONVOLUTION.rewrites("convolution", benefit=3, depth=2)
def integer_convolution_with_pad(build: Builder, node: Apply) -> Node | None:
    """convolution(x, pad(y, 0)) with padding inside only -> convolution(x, y), rhs_dilate, for integers."""
    return _without_kernel_pad(build, node) if _multiplies_integers(node) else None


@CONVOLUTION_INEXACT.rewrites("convolution", benefit=3, depth=2)
def convolution_of_pad(build: Builder, node: Apply) -> Node | None:
    """convolution(pad(x, 0), y) -> convolution(x, y) with the padding in the window: pad and lhs_dilate."""
    return _without_input_pad(build, node)


@CONVOLUTION_INEXACT.rewrites("convolution", benefit=3, depth=2)
def convolution_with_pad(build: Builder, node: Apply) -> Node | None:
    """convolution(x, pad(y, 0)) with padding inside only -> convolution(x, y), rhs_dilate."""
    return _without_kernel_pad(build, node)


@CONVOLUTION_INEXACT.rewrites(
    "convolution", benefit=2, depth=1, because="computes the window of the exchanged operands"
)
def convolution_of_small(build: Builder, node: Apply) -> Node | None:
    """convolution(x, y) -> convolution(reverse(y), x), where the kernel is the larger array of the two.

    The kernel slides over the image as the image does over the kernel, from behind.
    """
    types = _types(node)
    if types is None or not _is_plain(node):
        return None
    labels: ConvolutionDimensions = node.attributes["dim_labels"]
    image = [types[0].dims[dim] for dim in labels.spatial(labels.lhs)]
    exchanged_dims = [
        _exchanged_window(dimension, size) for dimension, size in zip(_window(node).dimensions, image, strict=True)
    ]
    before = math.prod(
        dimension.size for dimension, (_, turns) in zip(_window(node).dimensions, exchanged_dims, strict=True) if turns
    )
    after = math.prod(
        _exchanged_cost(dimension, size)
        for dimension, size, (_, turns) in zip(_window(node).dimensions, image, exchanged_dims, strict=True)
        if turns
    )
    if before <= after:
        return build.decline("the kernel is not the larger one")
    backwards = tuple(
        dim
        for dim, dimension, (_, turns) in zip(
            labels.spatial(labels.rhs), _window(node).dimensions, exchanged_dims, strict=True
        )
        if turns and not dimension.reversal
    )
    kernel = build.op("reverse", node.operands[1], dimensions=backwards) if backwards else node.operands[1]
    exchanged = ConvolutionDimensions(
        labels.rhs.translate(_TO_LEFT), labels.lhs.translate(_TO_RIGHT), labels.output.translate(_EXCHANGED)
    )
    window = Window(tuple(dimension for dimension, _ in exchanged_dims))
    return _convolution(build, node, kernel, node.operands[0], window=window, dim_labels=exchanged, exchanged=True)


@CONVOLUTION_INEXACT.rewrites(
    "convolution", benefit=5, depth=1, because="computes where dimensions go and which are summed"
)
def convolution_per_channel(build: Builder, node: Apply) -> Node | None:
    """convolution(x, y) of one channel per group -> multiply(x, broadcast(y)), summed where the kernel is as large."""
    types, window = _types(node), _window(node)
    if (
        types is None
        or node.attributes.get("sparsity_config")
        or any(_is_uneven(dimension) for dimension in window.dimensions)
    ):
        return None
    image, kernel, result = types
    labels: ConvolutionDimensions = node.attributes["dim_labels"]
    groups = node.attribute("feature_group_count")
    if kernel.dims[labels.rhs.index("i")] != 1 or node.attribute("batch_group_count") != 1:
        return None
    if image.dims[labels.lhs.index("f")] != groups or result.dims[labels.output.index("f")] != groups:
        return build.decline("there is not one channel per group")
    summed = []
    for number, dim in enumerate(labels.spatial(labels.output)):
        if kernel.dims[labels.rhs.index(str(number))] != 1:
            summed.append(dim)
            if result.dims[dim] != 1:
                return build.decline("the kernel slides")
    left = build.transpose(node.operands[0], [labels.lhs.index(label) for label in labels.output])
    right = build.transpose(node.operands[1], [labels.rhs.index(_KERNELS.get(label, label)) for label in labels.output])
    left, right = build.convert(left, result.dtype), build.convert(right, result.dtype)
    assert isinstance(left.type, TensorType), "what is transposed is an array"
    product = build.op("multiply", left, broadcast_degenerate(build, right, left.type.with_layout(None)))
    if not summed:
        return product
    total = build.op(
        "reduce",
        product,
        build.constant(0, result.dtype),
        dimensions=tuple(sorted(summed)),
        to_apply=adder(build, result.dtype),
    )
    return build.reshape(total, result.with_layout(None))


@CONVOLUTION_INEXACT.rewrites("convolution", benefit=1, depth=1, because="computes the shapes of matrices")
def convolution_of_points(build: Builder, node: Apply) -> Node | None:
    """convolution(f32[8,5,5,3], f32[1,1,3,16]) -> reshape(dot(reshape(x), reshape(y))).

    Where the window is one element, the features stand last in image and result, and the kernel takes in before out.
    """
    types, window = _types(node), _window(node)
    if types is None or not _is_plain(node) or any(not _is_lone(dimension) for dimension in window.dimensions):
        return None
    image, kernel, result = types
    labels: ConvolutionDimensions = node.attributes["dim_labels"]
    if labels.lhs != labels.output or labels.lhs[-1] != "f" or labels.rhs.index("i") > labels.rhs.index("o"):
        return build.decline("dimensions would have to move")
    if any(array_type.layout not in (None, default_layout(array_type.rank)) for array_type in types):
        return build.decline("the layouts are not the plain ones")
    inward, outward = kernel.dims[labels.rhs.index("i")], kernel.dims[labels.rhs.index("o")]
    rows = image.element_count // inward
    attributes = {name: node.attributes[name] for name in PRECISION_ATTRIBUTES if name in node.attributes}
    product = build.op(
        "dot",
        build.reshape(node.operands[0], TensorType(image.dtype, (rows, inward))),
        build.reshape(node.operands[1], TensorType(kernel.dtype, (inward, outward))),
        type=TensorType(result.dtype, (rows, outward)),
        attributes={**attributes, "lhs_contracting_dims": (1,), "rhs_contracting_dims": (0,)},
    )
    return build.reshape(product, result.with_layout(None))


_KERNELS = {"b": "i", "f": "o"}
_TO_LEFT = str.maketrans("io", "fb")
_TO_RIGHT = str.maketrans("bf", "oi")
_EXCHANGED = str.maketrans("bf", "fb")
"""What the letters become when image and kernel change places."""


def _without_input_pad(build: Builder, node: Apply) -> Node | None:
    pad = node.operands[0]
    if (
        _types(node) is None
        or pad.opcode != "pad"
        or tensor_type(pad.operands[0]) is None
        or not is_zero(pad.operands[1])
    ):
        return None
    labels: ConvolutionDimensions = node.attributes["dim_labels"]
    padding: tuple[PaddingDimension, ...] = pad.attributes["padding"]
    if any(padding[labels.lhs.index(label)] != _NO_PADDING for label in "bf"):
        return build.decline("images or features are padded")
    parts = [padding[dim] for dim in labels.spatial(labels.lhs)]
    joined = [_padded(*dimension) for dimension in zip(_window(node).dimensions, parts, strict=True)]
    dimensions = tuple(dimension for dimension in joined if dimension is not None)
    if len(dimensions) != len(joined):
        return build.decline("the padding does not fit the window's own")
    return _convolution(build, node, pad.operands[0], node.operands[1], window=Window(dimensions))


def _without_kernel_pad(build: Builder, node: Apply) -> Node | None:
    pad = node.operands[1]
    if _types(node) is None or pad.opcode != "pad" or not is_zero(pad.operands[1]):
        return None
    source = tensor_type(pad.operands[0])
    labels: ConvolutionDimensions = node.attributes["dim_labels"]
    padding: tuple[PaddingDimension, ...] = pad.attributes["padding"]
    if source is None or any(padding[labels.rhs.index(label)] != _NO_PADDING for label in "io"):
        return build.decline("channels are padded")
    dimensions: list[WindowDimension] = []
    for dim, dimension in zip(labels.spatial(labels.rhs), _window(node).dimensions, strict=True):
        part = padding[dim]
        if part.low or part.high or (part.interior and dimension.window_dilation != 1):
            return build.decline("the window cannot do this padding")
        dilation = 1 + part.interior if part.interior else dimension.window_dilation
        dimensions.append(replace(dimension, size=source.dims[dim], window_dilation=dilation))
    return _convolution(build, node, node.operands[0], pad.operands[0], window=Window(tuple(dimensions)))


def _convolution(
    build: Builder,
    like: Apply,
    image: Node,
    kernel: Node,
    *,
    window: Window,
    dim_labels: ConvolutionDimensions | None = None,
    exchanged: bool = False,
) -> Node:
    """The same result by a convolution of other operands; `exchanged` where they have changed places."""
    result = like.type
    assert isinstance(result, TensorType), f"{like!r} is not an array"
    row = like.op.attributes
    attributes = {name: value for name, value in like.attributes.items() if name in row and not row[name].carried}
    attributes |= {"window": window, "dim_labels": dim_labels or like.attributes["dim_labels"]}
    if exchanged and "operand_precision" in attributes:
        attributes["operand_precision"] = tuple(reversed(attributes["operand_precision"]))
    return build.op("convolution", image, kernel, type=result.with_layout(None), attributes=attributes)


def _types(node: Apply) -> tuple[TensorType, TensorType, TensorType] | None:
    types = tensor_type(node.operands[0]), tensor_type(node.operands[1]), tensor_type(node)
    image, kernel, result = types
    if image is None or kernel is None or result is None or "dim_labels" not in node.attributes:
        return None
    groups = node.attribute("feature_group_count"), node.attribute("batch_group_count")
    sparsity = node.attribute("sparsity_config")
    check_convolution(image, kernel, _window(node), node.attributes["dim_labels"], *groups, sparsity)
    return image, kernel, result


def _window(node: Apply) -> Window:
    return node.attribute("window") or Window()


def _is_plain(node: Apply) -> bool:
    """Whether there are neither groups nor sparse operands."""
    groups = node.attribute("feature_group_count"), node.attribute("batch_group_count")
    return groups == (1, 1) and not node.attributes.get("sparsity_config")


def _is_uneven(dimension: WindowDimension) -> bool:
    return dimension != WindowDimension(dimension.size)


def _is_lone(dimension: WindowDimension) -> bool:
    return replace(dimension, window_dilation=1, reversal=False) == WindowDimension()


def _multiplies_integers(node: Apply) -> bool:
    types = _types(node)
    return types is not None and all(
        array_type.dtype.kind in (DTypeKind.SIGNED, DTypeKind.UNSIGNED) for array_type in types
    )


def _padded(dimension: WindowDimension, pad: PaddingDimension) -> WindowDimension | None:
    """A window over what is padded, as one that pads itself; None where there is none, or where XLA sees none."""
    own = dimension.padding_low or dimension.padding_high or dimension.base_dilation != 1
    if (pad.interior and own) or (dimension.base_dilation != 1 and pad != _NO_PADDING):
        return None
    if (pad.low < 0 < dimension.padding_low) or (pad.high < 0 < dimension.padding_high):
        return None
    return replace(
        dimension,
        padding_low=dimension.padding_low + pad.low,
        padding_high=dimension.padding_high + pad.high,
        base_dilation=1 + pad.interior if pad.interior else dimension.base_dilation,
    )


def _exchanged_window(dimension: WindowDimension, size: int) -> tuple[WindowDimension, bool]:
    """A window dimension when image and kernel have changed places, and whether it changes at all."""
    unpadded = not dimension.reversal and not dimension.padding_low and not dimension.padding_high
    simple = unpadded and dimension.window_dilation == 1
    spread = dimension.base_dilation, dimension.stride
    if simple and dimension.size == size and spread in ((1, 1), (size, size - 1)):
        return dimension, False
    beyond = (size - 1) * dimension.base_dilation - (dimension.size - 1) * dimension.window_dilation
    exchanged = WindowDimension(
        size,
        dimension.stride,
        dimension.padding_low + beyond,
        dimension.padding_high + beyond,
        dimension.window_dilation,
        dimension.base_dilation,
        reversal=True,
    )
    return exchanged, True


def _exchanged_cost(dimension: WindowDimension, size: int) -> int:
    """What a dimension of the image counts as a kernel's: as many taps as it has, or as the window's when it is one."""
    last = dimension.size - 1
    lone = size == 1 and dimension.stride == 1 and dimension.window_dilation == 1
    return dimension.size if lone and dimension.padding_low == dimension.padding_high == last else size
