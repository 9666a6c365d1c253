"""Attribute values that are messages of their own: windows, dimension labels, paddings, slices, aliases and others."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Sequence
from typing import Any

from hloom import protobuf
from hloom.ir import (
    ConvolutionDimensions,
    OutputAlias,
    PaddingDimension,
    ResultAccuracy,
    SliceDimension,
    Sparsity,
    Statistics,
    TensorType,
    Type,
    Window,
    WindowDimension,
)
from hloom.text import HloomError

PRECISIONS = ("default", "high", "highest", "packed_nibble")
_SPARSE_SIDE = re.compile(r"(lhs|rhs)=\{sparsity=(-?\d+)x(-?\d+) dimension=(-?\d+) stride=(-?\d+)\}")
LARGEST_RANK = 10
"""How many spatial dimensions the labels of a convolution can name, a digit each."""


def write_window(proto: Any, window: Window) -> None:
    """Add the dimensions to a Window message."""
    for dimension in window.dimensions:
        proto.dimensions.add(
            size=dimension.size,
            stride=dimension.stride,
            padding_low=dimension.padding_low,
            padding_high=dimension.padding_high,
            window_dilation=dimension.window_dilation,
            base_dilation=dimension.base_dilation,
            window_reversal=dimension.reversal,
        )


def read_window(proto: Any) -> Window | None:
    """A Window message as a window; None where it has no dimensions."""
    dimensions = tuple(
        WindowDimension(
            dimension.size,
            dimension.stride,
            dimension.padding_low,
            dimension.padding_high,
            dimension.base_dilation,
            dimension.window_dilation,
            dimension.window_reversal,
        )
        for dimension in proto.dimensions
    )
    return Window(dimensions) if dimensions else None


def write_labels(proto: Any, labels: ConvolutionDimensions) -> None:
    """Say where each letter and digit stands."""
    proto.input_batch_dimension = labels.lhs.index("b")
    proto.input_feature_dimension = labels.lhs.index("f")
    proto.input_spatial_dimensions.extend(labels.spatial(labels.lhs))
    proto.kernel_input_feature_dimension = labels.rhs.index("i")
    proto.kernel_output_feature_dimension = labels.rhs.index("o")
    proto.kernel_spatial_dimensions.extend(labels.spatial(labels.rhs))
    proto.output_batch_dimension = labels.output.index("b")
    proto.output_feature_dimension = labels.output.index("f")
    proto.output_spatial_dimensions.extend(labels.spatial(labels.output))


def read_labels(proto: Any, types: Sequence[Type | None]) -> ConvolutionDimensions:
    """The three strings of labels; `types` are those of the two operands and the result, for dimensions unused."""
    left, right, result = (*types, None, None, None)[:3]
    return ConvolutionDimensions(
        _labels(
            left, b=proto.input_batch_dimension, f=proto.input_feature_dimension, spatial=proto.input_spatial_dimensions
        ),
        _labels(
            right,
            i=proto.kernel_input_feature_dimension,
            o=proto.kernel_output_feature_dimension,
            spatial=proto.kernel_spatial_dimensions,
        ),
        _labels(
            result,
            b=proto.output_batch_dimension,
            f=proto.output_feature_dimension,
            spatial=proto.output_spatial_dimensions,
        ),
    )


def _labels(type_: Type | None, *, spatial: Sequence[int], **letters: int) -> str:
    if len(spatial) > LARGEST_RANK:
        raise HloomError(f"a convolution over {len(spatial)} spatial dimensions has no labels")
    places = {dim: letter for letter, dim in letters.items()}
    places.update((dim, str(number)) for number, dim in enumerate(spatial))
    rank = max(len(places), type_.rank if isinstance(type_, TensorType) else 0)
    if len(places) != len(letters) + len(spatial) or not all(0 <= dim < rank for dim in places):
        raise HloomError(f"a convolution's dimension numbers {letters} and {list(spatial)} do not fit {type_}")
    return "".join(places.get(dim, "?") for dim in range(rank))


def write_padding(proto: Any, padding: Iterable[PaddingDimension]) -> None:
    """Add the dimensions to a PaddingConfig."""
    for dimension in padding:
        proto.dimensions.add(
            edge_padding_low=dimension.low, edge_padding_high=dimension.high, interior_padding=dimension.interior
        )


def read_padding(proto: Any) -> tuple[PaddingDimension, ...]:
    """A PaddingConfig, dimension by dimension."""
    return tuple(
        PaddingDimension(dimension.edge_padding_low, dimension.edge_padding_high, dimension.interior_padding)
        for dimension in proto.dimensions
    )


def write_slices(protos: Any, slices: Iterable[SliceDimension]) -> None:
    """Add one SliceDimensions per dimension."""
    for dimension in slices:
        protos.add(start=dimension.start, limit=dimension.limit, stride=dimension.stride)


def read_slices(protos: Iterable[Any]) -> tuple[SliceDimension, ...]:
    """SliceDimensions, dimension by dimension."""
    return tuple(SliceDimension(proto.start, proto.limit, proto.stride) for proto in protos)


def write_aliasing(protos: Any, aliases: Iterable[OutputAlias]) -> None:
    """Add one OutputOperandAliasing per alias."""
    for alias in aliases:
        protos.add(
            output_shape_index=alias.output_index,
            operand_index=alias.operand,
            operand_shape_index=alias.operand_index,
        )


def read_aliasing(protos: Iterable[Any]) -> tuple[OutputAlias, ...]:
    """OutputOperandAliasings as aliases."""
    return tuple(
        OutputAlias(tuple(proto.output_shape_index), proto.operand_index, tuple(proto.operand_shape_index))
        for proto in protos
    )


def write_statistics(proto: Any, statistics: Statistics) -> None:
    """Fill a StatisticsViz."""
    proto.stat_index_to_visualize = statistics.visualizing_index or 0
    for name, value in statistics.values:
        proto.statistics.add(stat_name=name, stat_val=value)


def read_statistics(proto: Any) -> Statistics | None:
    """A StatisticsViz as statistics; None where it has no numbers, as XLA always writes it."""
    values = tuple((statistic.stat_name, statistic.stat_val) for statistic in proto.statistics)
    return Statistics(proto.stat_index_to_visualize, values) if values else None


def write_accuracy(proto: Any, accuracy: ResultAccuracy) -> None:
    """Fill a ResultAccuracy message."""
    if accuracy.mode:
        proto.mode = protobuf.ResultAccuracy.Mode.Value(accuracy.mode.upper())
        return
    proto.tolerance.atol, proto.tolerance.rtol = accuracy.absolute, accuracy.relative
    proto.tolerance.ulps = accuracy.units


def read_accuracy(proto: Any) -> ResultAccuracy | None:
    """A ResultAccuracy message; None where it says nothing or the default."""
    if proto.WhichOneof("specs") == "tolerance":
        tolerance = proto.tolerance
        return ResultAccuracy("", tolerance.atol, tolerance.rtol, tolerance.ulps)
    if proto.mode not in (0, 1):
        raise HloomError(f"a result's accuracy has the unknown mode {proto.mode}")
    return ResultAccuracy("highest") if proto.mode else None


def write_sparsity(proto: Any, sparsity: Sparsity) -> None:
    """Fill a SparsityConfig; HloomError where the text is not what XLA prints."""
    sides = _SPARSE_SIDE.findall(sparsity.text)
    rest = _SPARSE_SIDE.sub("", sparsity.text)
    if rest.strip("{}, ") or not sides:
        raise HloomError(f"sparsity_config={sparsity} is not understood")
    for side, *numbers in sides:
        part = getattr(proto, side)
        part.num_non_zero, part.block_size, part.dimension, part.stride = map(int, numbers)


def read_sparsity(proto: Any) -> Sparsity | None:
    """A SparsityConfig as HLO text has it; None where it says nothing, as XLA always writes it."""
    sides = []
    for side in ("lhs", "rhs"):
        if proto.HasField(side):
            part = getattr(proto, side)
            group = f"sparsity={part.num_non_zero}x{part.block_size}"
            sides.append(f"{side}={{{group} dimension={part.dimension} stride={part.stride}}}")
    return Sparsity("{" + " ".join(sides) + "}") if sides else None


def write_precisions(proto: Any, precisions: Iterable[str]) -> None:
    """Add one precision per operand to a PrecisionConfig."""
    proto.operand_precision.extend(PRECISIONS.index(precision) for precision in precisions)


def read_precisions(proto: Any) -> tuple[str, ...] | None:
    """The precisions; None where all are the default."""
    numbers = tuple(proto.operand_precision)
    if not any(numbers):
        return None
    if not all(0 <= number < len(PRECISIONS) for number in numbers):
        raise HloomError(f"precisions {list(numbers)}: hloom knows 0 to {len(PRECISIONS) - 1}")
    return tuple(PRECISIONS[number] for number in numbers)


def shortest_float(value: float) -> float:
    """The number with the fewest digits that is the same float32, which is what people wrote.

    >>> shortest_float(0.0010000000474974513)
    0.001
    """
    for digits in range(6, 10):
        short = float(f"{value:.{digits}g}")
        if short != value and struct.pack("<f", short) == struct.pack("<f", value):
            return short
    return value
