"""Padding that cuDNN does not take, which is written out before the convolution.

    convolution(x, k), window={size=3x3 stride=2x2 pad=0_1x0_1}   ->   convolution(pad(x, 0), k), without padding

It pads both sides alike, dilates no operand, and crops none. A padded array is shared by the convolutions that read it,
such as the gradient of the filter. Follows `CanonicalizeForwardConvolution` and `CanonicalizeBackwardFilterConvolution`
(xla/backends/gpu/transforms/conv_padding_legalization.cc).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hloom.ir import Apply, Graph, Literal, Node, PaddingDimension, TensorType, Window, WindowDimension
from hloom.ops import OPS
from hloom.targets.gpu.convolution_layout import BACKWARD_FILTER, BACKWARD_INPUT, convolution_kind


def pad_convolutions(graph: Graph) -> None:
    """Pad the data of the convolutions of a graph where cuDNN does not."""
    padded: dict[tuple[Node, tuple[PaddingDimension, ...]], Node] = {}
    for node in list(graph.nodes):
        if isinstance(node, Apply) and node.opcode == "convolution" and node.attributes.get("dim_labels") is not None:
            window = node.attributes.get("window") or Window()
            kind = convolution_kind(node)
            if kind is BACKWARD_INPUT or all(_is_taken(dim, kind is BACKWARD_FILTER) for dim in window.dimensions):
                continue
            padding = _padding(node, window)
            data = node.operands[0]
            if (data, padding) not in padded:
                padded[data, padding] = _pad(graph, data, padding, node)
            plain = tuple(replace(dim, padding_low=0, padding_high=0, base_dilation=1) for dim in window.dimensions)
            graph.set_operands(node, (padded[data, padding], *node.operands[1:]))
            graph.set_attributes(node, {**node.attributes, "window": Window(plain)})


def _is_taken(dim: WindowDimension, is_backward_filter: bool) -> bool:
    """Whether cuDNN pads a dimension: alike on both sides, where the last windows may have left some elements out."""
    left_out = dim.window_dilation - 1 if is_backward_filter else 0
    return (
        dim.base_dilation == 1
        and dim.padding_low - left_out <= dim.padding_high <= dim.padding_low
        and dim.padding_low >= 0
    )


def _padding(convolution: Apply, window: Window) -> tuple[PaddingDimension, ...]:
    labels = convolution.attributes["dim_labels"].lhs
    padding = [PaddingDimension(0, 0)] * len(labels)
    for label, dim in zip(sorted(filter(str.isdigit, labels)), window.dimensions, strict=True):
        place = labels.index(label)
        padding[place] = PaddingDimension(dim.padding_low, dim.padding_high, dim.base_dilation - 1)
    return tuple(padding)


def _pad(graph: Graph, data: Node, padding: tuple[PaddingDimension, ...], before: Node) -> Node:
    assert isinstance(data.type, TensorType)
    scalar = TensorType(data.type.dtype)
    zero = graph.add_constant(Literal.array(scalar, np.zeros((), scalar.dtype.numpy)), scalar, before=before)
    dims = tuple(
        size + amount.low + amount.high + max(size - 1, 0) * amount.interior
        for size, amount in zip(data.type.dims, padding, strict=True)
    )
    return graph.add_apply(
        OPS["pad"], (data, zero), TensorType(data.type.dtype, dims), {"padding": padding}, before=before
    )
