"""Convolutions: linear in each operand; each transpose is a convolution.

Source of dimension numbers, groups and padding: jax/_src/lax/convolution.py, _conv_general_dilated_transpose_lhs and
_conv_general_dilated_transpose_rhs. A reversed window is a reversed kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hloom.autodiff.backward import Backward
from hloom.autodiff.emitter import Emitter, array_type
from hloom.autodiff.linear import Linear, LinearOps
from hloom.autodiff.rules.windows import dilated, transposed_padding
from hloom.autodiff.table import rules, transposition
from hloom.ir import Apply, ConvolutionDimensions, Node, Window, WindowDimension
from hloom.text import Unsupported

_CARRIED = ("operand_precision", "algorithm")


@rules("convolution")
def convolution(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    if node.attributes.get("sparsity_config") is not None:
        raise Unsupported(f"{node.graph.name}: {node.name}: a convolution with a sparse kernel has no derivative here")
    left, right = node.operands
    attributes = {**node.attributes, "convolution_kind": None}
    total = None
    if tangents[0] is not None:
        total = t.op("convolution", tangents[0], right, type=array_type(node), **attributes)
    if tangents[1] is not None:
        total = t.add(total, t.op("convolution", left, tangents[1], type=array_type(node), **attributes))
    return total


@transposition("convolution")
def transpose_convolution(b: Backward, value: Linear, cotangent: Node) -> None:
    window: Window = value.attributes.get("window") or Window()
    labels: ConvolutionDimensions = value.attributes["dim_labels"]
    groups = value.attributes.get("feature_group_count", 1), value.attributes.get("batch_group_count", 1)
    further = {name: value.attributes[name] for name in _CARRIED if name in value.attributes}
    left, right = value.operands
    if isinstance(left, Linear) and isinstance(right, Node):
        made = _to_image(b, left, _same_type(b, right, cotangent), cotangent, window, labels, groups, further)
        b.give(left, b.convert(made, array_type(left).dtype))
    if isinstance(right, Linear) and isinstance(left, Node):
        made = _to_kernel(b, _same_type(b, left, cotangent), right, cotangent, window, labels, groups, further)
        b.give(right, b.convert(made, array_type(right).dtype))


def _same_type(b: Backward, operand: Node, cotangent: Node) -> Node:
    return b.convert(operand, array_type(cotangent).dtype)


def _to_image(
    b: Backward,
    image: Linear,
    kernel: Node,
    cotangent: Node,
    window: Window,
    labels: ConvolutionDimensions,
    groups: tuple[int, int],
    further: dict[str, Any],
) -> Node:
    """The cotangent, its elements a stride apart, convolved with the kernel turned around."""
    feature_groups, batch_groups = groups
    count = max(feature_groups, batch_groups)
    spatial = labels.spatial(labels.rhs)
    kept = [dim for number, dim in enumerate(spatial) if not window.dimensions[number].reversal]
    out_features, in_features = labels.rhs.index("o"), labels.rhs.index("i")
    if count > 1:
        kernel = _split_off(b, kernel, out_features, count)
        kernel = _merged_into(b, kernel, in_features)
    turned = b.op("reverse", kernel, dimensions=tuple(kept)) if kept else kernel
    dims = array_type(image).dims
    sizes = [dims[dim] for dim in labels.spatial(labels.lhs)]
    made = [array_type(cotangent).dims[dim] for dim in labels.spatial(labels.output)]
    dimensions = []
    for dimension, size, result in zip(window.dimensions, sizes, made, strict=True):
        low, high = transposed_padding(dimension, size, result)
        dimensions.append(
            WindowDimension(
                dimension.size, dimension.base_dilation, low, high, dimension.stride, dimension.window_dilation
            )
        )
    value = b.op(
        "convolution",
        cotangent,
        turned,
        window=Window(tuple(dimensions)) if dimensions else None,
        dim_labels=ConvolutionDimensions(labels.output, _swapped(labels.rhs, "i", "o"), labels.lhs),
        feature_group_count=count,
        **further,
    )
    if batch_groups > 1:
        features, batch = labels.lhs.index("f"), labels.lhs.index("b")
        value = _split_off(b, value, features, batch_groups)
        value = _merged_into(b, value, batch)
    return value


def _to_kernel(
    b: Backward,
    image: Node,
    kernel: Linear,
    cotangent: Node,
    window: Window,
    labels: ConvolutionDimensions,
    groups: tuple[int, int],
    further: dict[str, Any],
) -> Node:
    """The image convolved with the cotangent, batches in place of features."""
    feature_groups, batch_groups = groups
    sizes = [array_type(image).dims[dim] for dim in labels.spatial(labels.lhs)]
    made = [array_type(cotangent).dims[dim] for dim in labels.spatial(labels.output)]
    dimensions = []
    for dimension, size, result in zip(window.dimensions, sizes, made, strict=True):
        strided = dilated(result, dimension.stride)
        covered = dilated(dimension.size, dimension.window_dilation)
        low = dimension.padding_low
        high = strided - dilated(size, dimension.base_dilation) + covered - low - 1
        dimensions.append(
            WindowDimension(result, dimension.window_dilation, low, high, dimension.base_dilation, dimension.stride)
        )
    as_kernel = labels.output.replace("f", "o").replace("b", "i")
    as_output = labels.rhs.replace("i", "b").replace("o", "f")
    value = b.op(
        "convolution",
        image,
        cotangent,
        window=Window(tuple(dimensions)) if dimensions else None,
        dim_labels=ConvolutionDimensions(_swapped(labels.lhs, "b", "f"), as_kernel, as_output),
        feature_group_count=batch_groups,
        batch_group_count=feature_groups,
        **further,
    )
    spatial = labels.spatial(labels.rhs)
    turned = [dim for number, dim in enumerate(spatial) if window.dimensions[number].reversal]
    return b.op("reverse", value, dimensions=tuple(turned)) if turned else value


def _swapped(labels: str, first: str, second: str) -> str:
    return labels.translate(str.maketrans(first + second, second + first))


def _split_off(emitter: Emitter, node: Node, dimension: int, count: int) -> Node:
    """A dimension as two, the major one of this size in front of all others."""
    dims = array_type(node).dims
    split = [*dims[:dimension], count, dims[dimension] // count, *dims[dimension + 1 :]]
    apart = emitter.reshape(node, split)
    return emitter.transpose(apart, [dimension, *[dim for dim in range(len(split)) if dim != dimension]])


def _merged_into(emitter: Emitter, node: Node, target: int) -> Node:
    """The dimension in front of all others made the major part of another."""
    dims: Sequence[int] = array_type(node).dims
    rest = list(range(1, len(dims)))
    order = [*rest[:target], 0, *rest[target:]]
    turned = emitter.transpose(node, order)
    inner = [dims[dim] for dim in rest]
    inner[target] *= dims[0]
    return emitter.reshape(turned, inner)
