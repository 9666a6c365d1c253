"""Type inference and axis maps of convolutions.

    plain               ([n,h,c], [k,c,o]) -> [n,h,o]                 h: windowed    k, c: contracted by add
    feature groups g    ([n,h,(gc)], [k,c,(go)]) -> [n,h,(go)]        n, g, o: parallel
    batch groups g      ([(gn),h,c], [k,c,(go)]) -> [n,h,(go)]

A windowed factor's size is how often the window fits, which is the result's dimension; the left operand's dimension, in
which it stands too, has another size: the array that the window slides over. Twice the points are the floating-point
operations, those on padding included. Source: xla/service/shape_inference.cc, InferConvolveShape.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from hloom.ir import (
    UNBOUNDED,
    AxisMap,
    AxisMapBuilder,
    ConvolutionDimensions,
    FactorKind,
    Sparsity,
    TensorType,
    TupleType,
    Type,
    TypeProblem,
    Window,
)
from hloom.ops.dot_rules import element_of, sum_of
from hloom.ops.shapes import Extent, array, extents, tensor
from hloom.ops.windows import NO_WINDOW, positions

_KERNEL_SPARSITY = re.compile(r"rhs=\{sparsity=(\d+)x(\d+)")


def infer_convolution(
    lhs: Type,
    rhs: Type,
    *,
    window: Window | None,
    dim_labels: ConvolutionDimensions,
    feature_group_count: int,
    batch_group_count: int,
    sparsity_config: Sparsity | None,
    result: Type | None = None,
) -> TensorType:
    """The result's dimensions follow the labels after the arrow; a written element type is kept."""
    image, kernel = array(lhs, "the left operand"), _kernel(rhs)
    window = window or NO_WINDOW
    check_convolution(image, kernel, window, dim_labels, feature_group_count, batch_group_count, sparsity_config)
    extent_of = {str(number): extent for number, extent in enumerate(_spatial(image, kernel, window, dim_labels))}
    batch, moves = extents(image)[dim_labels.lhs.index("b")]
    extent_of["b"] = batch if batch == UNBOUNDED else batch // batch_group_count, moves
    extent_of["f"] = kernel.dims[dim_labels.rhs.index("o")], False
    return tensor(element_of(image, kernel, result), [extent_of[label] for label in dim_labels.output])


def convolution_axes(
    lhs: Type,
    rhs: Type,
    *,
    window: Window | None,
    dim_labels: ConvolutionDimensions,
    feature_group_count: int,
    batch_group_count: int,
    sparsity_config: Sparsity | None,
) -> AxisMap:
    """The map with the group, where there is one, as the major factor of what it divides.

    A sparse kernel keeps one of every few input features: their factor is indexed, and minor to the contracted one. A
    kernel that is a tuple of values and metadata counts as its values.
    """
    image, kernel = array(lhs, "the left operand"), _kernel(rhs)
    window = window or NO_WINDOW
    check_convolution(image, kernel, window, dim_labels, feature_group_count, batch_group_count, sparsity_config)
    block, adds = kept_of(sparsity_config), sum_of(image, kernel)
    groups = feature_group_count * batch_group_count

    build = AxisMapBuilder()
    batch = build.factor(image.dims[dim_labels.lhs.index("b")] // batch_group_count)
    group = [build.factor(groups)] if groups > 1 else []
    spatial = [build.factor(size, FactorKind.WINDOWED) for size, _ in _spatial(image, kernel, window, dim_labels)]
    taps = [build.factor(dimension.size, FactorKind.CONTRACTED, adds) for dimension in window.dimensions]
    inward = build.factor(kernel.dims[dim_labels.rhs.index("i")], FactorKind.CONTRACTED, adds)
    kept = [build.factor(block, FactorKind.INDEXED, adds)] if block > 1 else []
    outward = build.factor(kernel.dims[dim_labels.rhs.index("o")] // groups)

    by_feature = group if feature_group_count > 1 else []
    by_batch = group if batch_group_count > 1 else []
    left = {"b": [*by_batch, batch], "f": [*by_feature, inward, *kept], **_numbered(spatial)}
    right = {"i": [inward], "o": [*group, outward], **_numbered(taps)}
    output = {"b": [batch], "f": [*group, outward], **_numbered(spatial)}
    build.operand(*[left[label] for label in dim_labels.lhs]).operand(*[right[label] for label in dim_labels.rhs])
    return build.result(*[output[label] for label in dim_labels.output]).finish()


def check_convolution(
    image: TensorType,
    kernel: TensorType,
    window: Window,
    labels: ConvolutionDimensions,
    feature_groups: int,
    batch_groups: int,
    sparsity: Sparsity | None,
) -> None:
    """Raise TypeProblem where ranks, groups, features or the window do not fit together."""
    for name, count in (("feature_group_count", feature_groups), ("batch_group_count", batch_groups)):
        if count <= 0:
            raise TypeProblem(f"{name}={count} must be positive")
    if feature_groups > 1 and batch_groups > 1:
        counts = f"feature_group_count={feature_groups} and batch_group_count={batch_groups}"
        raise TypeProblem(f"{counts} exclude each other")
    _check_ranks(image, kernel, window, labels)
    _check_groups(image, kernel, labels, feature_groups, batch_groups, kept_of(sparsity))
    sizes = tuple(dimension.size for dimension in window.dimensions)
    taps = tuple(kernel.dims[dim] for dim in labels.spatial(labels.rhs))
    if sizes != taps:
        raise TypeProblem(f"the window {window} is not of the size of the kernel {kernel} ({labels})")
    if kernel.dynamic and kernel.dynamic[labels.rhs.index("o")]:
        raise TypeProblem(f"the kernel {kernel} must not be dynamic in its output features ({labels})")


def kept_of(sparsity: Sparsity | None) -> int:
    """How many input features share one kept feature in a kernel; raises TypeProblem if it keeps several."""
    match = _KERNEL_SPARSITY.search(str(sparsity)) if sparsity else None
    if not match:
        return 1
    if match[1] != "1":
        raise TypeProblem(f"sparsity_config={sparsity}: a kernel keeps 1 of several features, not {match[1]}")
    return int(match[2])


def _kernel(rhs: Type) -> TensorType:
    """The right operand; a sparse one may be a tuple of its values and their places."""
    if isinstance(rhs, TupleType) and len(rhs.elements) == 2:
        return array(rhs.elements[0], "the right operand's first element")
    return array(rhs, "the right operand")


def _spatial(image: TensorType, kernel: TensorType, window: Window, labels: ConvolutionDimensions) -> Sequence[Extent]:
    """The result's spatial dimensions; dynamic where the image's or the kernel's are."""
    across, taps = extents(image), extents(kernel)
    base = [across[dim] for dim in labels.spatial(labels.lhs)]
    moving = [taps[dim][1] for dim in labels.spatial(labels.rhs)]
    return [(size, moves or also) for (size, moves), also in zip(positions(base, window), moving, strict=True)]


def _check_ranks(image: TensorType, kernel: TensorType, window: Window, labels: ConvolutionDimensions) -> None:
    rank = labels.spatial_rank + 2
    if len(window.dimensions) != labels.spatial_rank:
        raise TypeProblem(f"the window {window} must have as many dimensions as dim_labels={labels} has digits")
    for side, array_type, text in (("left", image, labels.lhs), ("right", kernel, labels.rhs)):
        if array_type.rank != rank or len(text) != rank:
            raise TypeProblem(f"the {side} operand {array_type} must have rank {rank}, as dim_labels={labels} says")
    digits = set(map(str, range(labels.spatial_rank)))
    for text, letters in ((labels.lhs, "bf"), (labels.rhs, "io"), (labels.output, "bf")):
        if set(text) != digits | set(letters) and len(text) == rank:
            raise TypeProblem(f"dim_labels={labels} must have {letters} and the numbers from 0 on in '{text}'")
    if len(labels.output) != rank:
        raise TypeProblem(f"dim_labels={labels} must give the result {rank} dimensions")


def _check_groups(
    image: TensorType, kernel: TensorType, labels: ConvolutionDimensions, feature: int, batch: int, block: int
) -> None:
    outward, inward = kernel.dims[labels.rhs.index("o")], kernel.dims[labels.rhs.index("i")]
    features, images = image.dims[labels.lhs.index("f")], image.dims[labels.lhs.index("b")]
    if outward % batch or (images != UNBOUNDED and images % batch):
        raise TypeProblem(f"batch_group_count={batch} must divide the batch {images} and the output features {outward}")
    if outward % feature:
        raise TypeProblem(f"feature_group_count={feature} must divide the {outward} output features of {kernel}")
    if features != feature * inward * block:
        times = (f"{feature} groups of " if feature > 1 else "") + ("?" if inward == UNBOUNDED else str(inward))
        sparse = f" times {block} for sparsity" if block > 1 else ""
        raise TypeProblem(f"the left operand {image} must have {times} features{sparse}, as in {kernel}")


def _numbered(factors: Sequence[int]) -> dict[str, list[int]]:
    return {str(number): [factor] for number, factor in enumerate(factors)}
