"""Convolutions of any rank: padding, strides, dilations, groups and reversal."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hloom.evaluate.contraction import narrowed, widened
from hloom.evaluate.data_movement import padded
from hloom.evaluate.table import Runner, Value, Values, array_type, arrays_of, evaluator
from hloom.ir import Apply, ConvolutionDimensions, PaddingDimension, Window, WindowDimension
from hloom.text import Unsupported


@evaluator("convolution")
def _convolution(node: Apply, operands: Values, run: Runner) -> Value:
    """Sum, over the places in the window, products of shifted slices of the left operand with the right one there."""
    left, right = arrays_of(operands)
    labels: ConvolutionDimensions = node.attribute("dim_labels")
    if node.attribute("sparsity_config") is not None or "?" in str(labels):
        raise Unsupported("sparse operands and unused dimensions are not known")
    window: Window = node.attribute("window") or Window()
    features, batches = node.attribute("feature_group_count"), node.attribute("batch_group_count")
    images = _with_padding(_images(widened(left, right), labels, features, batches), window)
    kernel = _kernel(widened(right, left), labels, features * batches)
    sizes = [
        output_size(size, dimension) for size, dimension in zip(images.shape[2:-1], window.dimensions, strict=True)
    ]
    batch, groups = images.shape[0], images.shape[1]
    total = np.zeros((batch, groups, *sizes, kernel.shape[-1]), images.dtype)
    for offset in np.ndindex(*(dimension.size for dimension in window.dimensions)):
        shifted = images[:, :, *slices(offset, sizes, window)]
        weights = kernel[:, *_tap(offset, window)].reshape(groups, *[1] * max(len(sizes) - 1, 0), *kernel.shape[-2:])
        total += shifted @ weights if sizes else (shifted[:, :, None] @ weights)[:, :, 0]
    return narrowed(_result(total, labels), array_type(node).dtype)


def _images(left: np.ndarray, labels: ConvolutionDimensions, features: int, batches: int) -> np.ndarray:
    """The left operand as [batch, group, spatial..., feature]; groups are of features or of batches."""
    order = [labels.lhs.index("b"), *labels.spatial(labels.lhs), labels.lhs.index("f")]
    batch, *spatial, feature = (left.shape[axis] for axis in order)
    cut = left.transpose(order).reshape(batches, batch // batches, *spatial, features, feature // features)
    rank = len(spatial)
    moved = cut.transpose(1, 0, rank + 2, *range(2, rank + 2), rank + 3)
    return moved.reshape(batch // batches, batches * features, *spatial, feature // features)


def _kernel(right: np.ndarray, labels: ConvolutionDimensions, groups: int) -> np.ndarray:
    """The right operand as [group, spatial..., input feature, output feature]."""
    order = [*labels.spatial(labels.rhs), labels.rhs.index("i"), labels.rhs.index("o")]
    *spatial, inputs, outputs = (right.shape[axis] for axis in order)
    cut = right.transpose(order).reshape(*spatial, inputs, groups, outputs // groups)
    return np.moveaxis(cut, -2, 0)


def _with_padding(images: np.ndarray, window: Window) -> np.ndarray:
    padding = [base_padding(dimension) for dimension in window.dimensions]
    return padded(images, np.zeros((), images.dtype), [*_NO_PADDING * 2, *padding, *_NO_PADDING])


_NO_PADDING = [PaddingDimension(0, 0)]


def base_padding(dimension: WindowDimension) -> PaddingDimension:
    """The padding and dilation of what a window slides over."""
    return PaddingDimension(dimension.padding_low, dimension.padding_high, dimension.base_dilation - 1)


def output_size(size: int, dimension: WindowDimension) -> int:
    """How many places a window takes in a dimension that is padded and dilated already."""
    reach = (dimension.size - 1) * dimension.window_dilation + 1
    return max((size - reach) // dimension.stride + 1, 0) if dimension.size else 0


def slices(tap: tuple[int, ...], sizes: list[int], window: Window) -> Iterator[slice]:
    """The elements that stand at one place of the window, for each place that the window takes."""
    for offset, size, dimension in zip(tap, sizes, window.dimensions, strict=True):
        start = offset * dimension.window_dilation
        yield slice(start, start + max((size - 1) * dimension.stride + 1, 0), dimension.stride)


def _tap(tap: tuple[int, ...], window: Window) -> Iterator[int]:
    for offset, dimension in zip(tap, window.dimensions, strict=True):
        yield dimension.size - 1 - offset if dimension.reversal else offset


def _result(total: np.ndarray, labels: ConvolutionDimensions) -> np.ndarray:
    """From [batch, group, spatial..., output feature] to the labels' order; groups are major in the features."""
    joined = np.moveaxis(total, 1, -2)
    joined = joined.reshape(*joined.shape[:-2], joined.shape[-2] * joined.shape[-1])
    own = ["b", *map(str, range(labels.spatial_rank)), "f"]
    return joined.transpose([own.index(letter) for letter in labels.output])
