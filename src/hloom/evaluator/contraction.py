"""Matrix products of any dimensions, dense, scaled and ragged, and convolutions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from hloom.evaluator.data_movement import padded
from hloom.evaluator.table import Runner, Value, Values, array_type, arrays_of, evaluator
from hloom.ir import (
    Apply,
    ConvolutionDimensions,
    DType,
    DTypeKind,
    PaddingDimension,
    Window,
    WindowDimension,
    dtype_of,
    round_doubles,
)
from hloom.text import Unsupported


@evaluator("dot")
def _dot(node: Apply, operands: Values, run: Runner) -> Value:
    """Sum up in doubles and round once, whatever `algorithm` and `operand_precision` allow to be less exact."""
    left, right = arrays_of(operands)
    return narrowed(product(node, widened(left, right), widened(right, left)), array_type(node).dtype)


def widened(operand: np.ndarray, other: np.ndarray) -> np.ndarray:
    """An operand in the type in which products are summed: doubles for floats, 64 bits for integers and pred."""
    return operand.astype(np.result_type(_wide(operand), _wide(other)))


def _wide(operand: np.ndarray) -> type:
    element_type = dtype_of(operand.dtype)
    if element_type.is_complex:
        return np.complex128
    return np.float64 if element_type.is_float else np.int64


def narrowed(total: np.ndarray, dtype: DType) -> np.ndarray:
    """A sum in the type of the result: floats rounded, integers cut off, pred whether it is not zero."""
    if dtype.kind is DTypeKind.BOOLEAN:
        return total != 0
    if dtype.is_float and total.dtype.kind != "c":
        return round_doubles(total.astype(np.float64).reshape(-1), dtype).reshape(total.shape)
    return total.astype(dtype.numpy)


def product(node: Apply, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Batch dimensions, then what is left of the left operand, then what is left of the right one."""
    names = ("lhs_batch_dims", "lhs_contracting_dims", "rhs_batch_dims", "rhs_contracting_dims")
    left_batch, left_contracting, right_batch, right_contracting = (node.attribute(name) for name in names)
    left_free = other_axes(left.ndim, left_batch, left_contracting)
    right_free = other_axes(right.ndim, right_batch, right_contracting)
    batch = [left.shape[axis] for axis in left_batch]
    rows, columns = [left.shape[axis] for axis in left_free], [right.shape[axis] for axis in right_free]
    inner = math.prod(left.shape[axis] for axis in left_contracting)
    a = left.transpose((*left_batch, *left_free, *left_contracting)).reshape((*batch, math.prod(rows), inner))
    b = right.transpose((*right_batch, *right_contracting, *right_free)).reshape((*batch, inner, math.prod(columns)))
    return np.matmul(a, b).reshape((*batch, *rows, *columns))


def other_axes(rank: int, *taken: Sequence[int]) -> list[int]:
    used = {axis for axes in taken for axis in axes}
    return [axis for axis in range(rank) if axis not in used]


@evaluator("scaled-dot")
def _scaled_dot(node: Apply, operands: Values, run: Runner) -> Value:
    """The product of operands whose elements are multiplied by scales, each for a block of neighbours."""
    left, right, left_scale, right_scale = arrays_of(operands)
    a, b = scaled(left, left_scale), scaled(right, right_scale)
    return narrowed(product(node, a, b), array_type(node).dtype)


def scaled(operand: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """An operand times its scales, as doubles; a scale of rank 0 or of ones means that there is none."""
    wide = scale.astype(np.float64)
    for axis, (size, count) in enumerate(zip(operand.shape, scale.shape, strict=False)):
        if count == 0 or size % count:
            raise Unsupported(f"{count} scales do not divide dimension {axis} of size {size}")
        wide = np.repeat(wide, size // count, axis=axis)
    return operand.astype(np.float64) * wide


@evaluator("ragged-dot")
def _ragged_dot(node: Apply, operands: Values, run: Runner) -> Value:
    """Multiply group by group.

    A ragged dimension that is free has a right operand per group (`rhs_group_dims`), and elements behind the last
    group give zeros. One that is contracted gives one product per group. A batch dimension gives the plain product.
    """
    left, right, sizes = arrays_of(operands)
    wide_left, wide_right = widened(left, right), widened(right, left)
    (ragged,) = node.attribute("lhs_ragged_dims")
    operand_type = array_type(node)
    if ragged in node.attribute("lhs_batch_dims"):
        return narrowed(product(node, wide_left, wide_right), operand_type.dtype)
    masks = group_masks(left.shape, sizes, ragged, outer_axes(node, left.ndim, ragged))
    parts = (np.where(mask, wide_left, 0) for mask in masks)
    if ragged in node.attribute("lhs_contracting_dims"):
        return narrowed(np.stack([product(node, part, wide_right) for part in parts]), operand_type.dtype)
    (group_axis,) = node.attribute("rhs_group_dims")
    total = np.zeros(operand_type.dims, wide_left.dtype)
    for number, part in enumerate(parts):
        total += product(node, part, np.take(wide_right, [number], axis=group_axis)).reshape(operand_type.dims)
    return narrowed(total, operand_type.dtype)


def outer_axes(node: Apply, rank: int, ragged: int) -> list[int]:
    """The dimensions of the left operand along which group sizes may differ: those outside the ragged one."""
    batch, contracting = node.attribute("lhs_batch_dims"), node.attribute("lhs_contracting_dims")
    own = list(contracting) if ragged in contracting else other_axes(rank, batch, contracting)
    return [*batch, *own[: own.index(ragged)]]


def group_masks(dims: Sequence[int], sizes: np.ndarray, ragged: int, outer: Sequence[int]) -> list[np.ndarray]:
    """Which elements of the left operand belong to each group, as arrays that broadcast to it."""
    ends = np.cumsum(sizes.astype(np.int64), axis=-1)
    starts = ends - sizes
    places = np.arange(dims[ragged]).reshape([-1 if axis == ragged else 1 for axis in range(len(dims))])
    return [
        (places >= _along(starts[..., group], outer, len(dims))) & (places < _along(ends[..., group], outer, len(dims)))
        for group in range(sizes.shape[-1])
    ]


def _along(values: np.ndarray, axes: Sequence[int], rank: int) -> np.ndarray:
    """An array with one dimension per given axis, laid along these axes of an array of some rank."""
    if values.ndim == 0:
        return values
    ordered = values.transpose(np.argsort(axes))
    sizes = dict(zip(axes, values.shape, strict=True))
    return ordered.reshape([sizes.get(axis, 1) for axis in range(rank)])


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
