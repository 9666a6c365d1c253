"""Attribute values stored as messages: windows, dimension labels, paddings, slices, aliases and others."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Sequence
from typing import Any

from hloom.formats import protobuf
from hloom.formats.hlo.proto.field_mapping import rows_of
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
"""The maximum number of spatial dimensions in a convolution's labels, one digit each."""


_write_dimensions, _read_dimensions = rows_of(
    WindowDimension,
    *("size", "stride", "padding_low", "padding_high", "base_dilation", "window_dilation", "window_reversal"),
)
_write_padding, _read_padding = rows_of(PaddingDimension, "edge_padding_low", "edge_padding_high", "interior_padding")
write_slices, read_slices = rows_of(SliceDimension, "start", "limit", "stride")
write_aliasing, read_aliasing = rows_of(OutputAlias, "output_shape_index", "operand_index", "operand_shape_index")
_LABELS = (
    ("lhs", "input", {"b": "batch", "f": "feature"}),
    ("rhs", "kernel", {"i": "input_feature", "o": "output_feature"}),
    ("output", "output", {"b": "batch", "f": "feature"}),
)
"""The fields of ConvolutionDimensionNumbers for each label; the fields of a side begin with its name."""


def write_window(proto: Any, window: Window) -> None:
    """Add the dimensions to a Window message."""
    _write_dimensions(proto.dimensions, window.dimensions)


def read_window(proto: Any) -> Window | None:
    """A Window message as a window; None if it has no dimensions."""
    return Window(_read_dimensions(proto.dimensions)) if proto.dimensions else None


def write_labels(proto: Any, labels: ConvolutionDimensions) -> None:
    """Write the dimension of each label."""
    for side, prefix, letters in _LABELS:
        text = getattr(labels, side)
        for letter, name in letters.items():
            setattr(proto, f"{prefix}_{name}_dimension", text.index(letter))
        getattr(proto, f"{prefix}_spatial_dimensions").extend(labels.spatial(text))


def read_labels(proto: Any, types: Sequence[Type | None]) -> ConvolutionDimensions:
    """The three label strings; `types` are those of the two operands and the result, needed for unused dimensions."""
    sides = []
    for (_, prefix, letters), type_ in zip(_LABELS, (*types, None, None, None), strict=False):
        dims = {letter: getattr(proto, f"{prefix}_{name}_dimension") for letter, name in letters.items()}
        sides.append(_labels(type_, getattr(proto, f"{prefix}_spatial_dimensions"), dims))
    counts = [len(getattr(proto, f"{prefix}_spatial_dimensions")) for _, prefix, _ in _LABELS]
    if len(set(counts)) > 1:
        raise HloomError(f"a convolution's input, kernel and output have {counts} spatial dimensions, not one number")
    return ConvolutionDimensions(*sides)


def _labels(type_: Type | None, spatial: Sequence[int], letters: dict[str, int]) -> str:
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
    _write_padding(proto.dimensions, padding)


def read_padding(proto: Any) -> tuple[PaddingDimension, ...]:
    """A PaddingConfig, dimension by dimension."""
    return _read_padding(proto.dimensions)


def write_statistics(proto: Any, statistics: Statistics) -> None:
    """Fill a StatisticsViz."""
    proto.stat_index_to_visualize = statistics.visualizing_index or 0
    for name, value in statistics.values:
        proto.statistics.add(stat_name=name, stat_val=value)


def read_statistics(proto: Any) -> Statistics | None:
    """A StatisticsViz as statistics; None if it has no numbers, which XLA always writes."""
    values = tuple((statistic.stat_name, statistic.stat_val) for statistic in proto.statistics)
    index = proto.stat_index_to_visualize
    if values and not 0 <= index < len(values):
        raise HloomError(f"statistic {index} of {len(values)} is to be shown")
    return Statistics(index, values) if values else None


def write_accuracy(proto: Any, accuracy: ResultAccuracy) -> None:
    """Fill a ResultAccuracy message."""
    if accuracy.mode:
        proto.mode = protobuf.ResultAccuracy.Mode.Value(accuracy.mode.upper())
        return
    proto.tolerance.atol, proto.tolerance.rtol = accuracy.absolute, accuracy.relative
    proto.tolerance.ulps = accuracy.units


def read_accuracy(proto: Any) -> ResultAccuracy | None:
    """A ResultAccuracy message; None if it is empty or the default."""
    if proto.WhichOneof("specs") == "tolerance":
        tolerance = proto.tolerance
        return ResultAccuracy("", tolerance.atol, tolerance.rtol, tolerance.ulps)
    if proto.mode not in (0, 1):
        raise HloomError(f"a result's accuracy has the unknown mode {proto.mode}")
    return ResultAccuracy("highest") if proto.mode else None


def write_sparsity(proto: Any, sparsity: Sparsity) -> None:
    """Fill a SparsityConfig; HloomError if the text is not in XLA's printed form."""
    sides = _SPARSE_SIDE.findall(sparsity.text)
    rest = _SPARSE_SIDE.sub("", sparsity.text)
    if rest.strip("{}, ") or not sides:
        raise HloomError(f"sparsity_config={sparsity} is not understood")
    for side, *numbers in sides:
        part = getattr(proto, side)
        part.num_non_zero, part.block_size, part.dimension, part.stride = map(int, numbers)


def read_sparsity(proto: Any) -> Sparsity | None:
    """A SparsityConfig in HLO's text form; None if it is empty, which XLA always writes."""
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
    """The precisions; None if all are the default."""
    numbers = tuple(proto.operand_precision)
    if not any(numbers):
        return None
    if not all(0 <= number < len(PRECISIONS) for number in numbers):
        raise HloomError(f"precisions {list(numbers)}: hloom knows 0 to {len(PRECISIONS) - 1}")
    return tuple(PRECISIONS[number] for number in numbers)


def shortest_float(value: float) -> float:
    """The shortest decimal number that rounds to the same float32, which is what people wrote.

    >>> shortest_float(0.0010000000474974513)
    0.001
    """
    for digits in range(6, 10):
        short = float(f"{value:.{digits}g}")
        if short != value and struct.pack("<f", short) == struct.pack("<f", value):
            return short
    return value
