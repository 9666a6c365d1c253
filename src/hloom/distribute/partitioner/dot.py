"""A dot to partition: its operands and output with their tiles, and the roles of its dimensions.

Follows xla/service/spmd/dot_handler.cc and `DotConvolutionDimsInfo` in xla/service/dot_as_convolution_util.h.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from hloom.distribute.partitioner.grouped_sharding import GroupedSharding
from hloom.distribute.partitioner.reshard import replicate, reshard
from hloom.distribute.partitioner.tile_assignment import Dims, TileAssignment, replicate_on_dims, transpose_dims
from hloom.distribute.partitioner.trace import Trace
from hloom.ir import AxisMap, FactorKind

LHS, RHS, OUTPUT = range(3)


class DimNumbers(NamedTuple):
    """The positions of one dimension of a dot: in the left and right operand and in the output, -1 where absent."""

    lhs: int
    rhs: int
    output: int


@dataclass(frozen=True, slots=True)
class DotDimensions:
    """The dimensions of a dot: batch, contracting, and the non-contracting ones of either operand.

    Dimensions in `is_replicated` are computed redundantly by all devices, as for a convolution of groups with several
    input features each.
    """

    batch: tuple[DimNumbers, ...]
    contracting: tuple[DimNumbers, ...]
    lhs_non_contracting: tuple[DimNumbers, ...]
    rhs_non_contracting: tuple[DimNumbers, ...]
    is_replicated: bool = False

    def swapped(self) -> DotDimensions:
        """The same with the operands swapped."""
        return DotDimensions(
            *(
                tuple(DimNumbers(dim.rhs, dim.lhs, dim.output) for dim in dims)
                for dims in (self.batch, self.contracting, self.rhs_non_contracting, self.lhs_non_contracting)
            ),
            is_replicated=self.is_replicated,
        )

    def index_mapping(self, source: int, target: int, rank: int) -> Dims:
        """For each dimension of LHS, RHS or OUTPUT its number in another of them (`ComputeDimensionIndexMapping`)."""
        mapping = [-1] * rank
        for dim in (*self.batch, *self.contracting, *self.lhs_non_contracting, *self.rhs_non_contracting):
            if dim[source] >= 0:
                mapping[dim[source]] = dim[target]
        return tuple(mapping)


def dot_dimensions(axes: AxisMap) -> DotDimensions:
    """The dimensions of a dot or convolution, from its axis map; windowed dimensions are left out.

    A dimension of several factors, as grouped convolutions have them, is that of its major one.
    """
    groups: dict[tuple[bool, bool, bool], list[DimNumbers]] = defaultdict(list)
    values = (*axes.operands[:2], axes.results[0])
    minor = {number for value in values for factors in value for number in _minor(axes, factors)}
    for number, factor in enumerate(axes.factors):
        if factor.kind is FactorKind.WINDOWED or number in minor:
            continue
        numbers = DimNumbers(
            *(next((dim for dim, factors in enumerate(value) if number in factors), -1) for value in values)
        )
        groups[numbers.lhs >= 0, numbers.rhs >= 0, numbers.output >= 0].append(numbers)
    present = ((True, True, True), (True, True, False), (True, False, True), (False, True, True))
    is_replicated = any(
        axes.factors[number].size > 1 and axes.factors[number].kind is FactorKind.CONTRACTED for number in minor
    )
    return DotDimensions(*(tuple(groups[key]) for key in present), is_replicated=is_replicated)


def _minor(axes: AxisMap, factors: tuple[int, ...]) -> tuple[int, ...]:
    """All factors of a dimension but the first of more than one point."""
    major = next((number for number in factors if axes.factors[number].size > 1), factors[0] if factors else None)
    return tuple(number for number in factors if number != major)


@dataclass(frozen=True, slots=True)
class PartitionedValue:
    """A dot's operand or output: its dimensions, bytes per element and tiles, and which of LHS, RHS, OUTPUT it is."""

    dims: Dims
    element_bytes: int
    tiles: TileAssignment
    index: int

    @property
    def bytes(self) -> int:
        """The bytes that one device holds."""
        return math.prod(self.tiles.shard_dims(self.dims)) * self.element_bytes

    def per_group(self, grouped: GroupedSharding) -> PartitionedValue:
        """One group's part of the value."""
        return replace(self, dims=grouped.per_group_dims(self.dims), tiles=grouped.tiles)


CreateShardedDot = Callable[[PartitionedValue, PartitionedValue], int]
"""Creates one device's dot from its operands, all-reduces it if needed, and returns its output's number of elements."""


@dataclass(frozen=True, slots=True)
class Dot:
    """A dot inside of groups of `device_count` devices; `partition` partitions a dot inside of groups of these."""

    dimensions: DotDimensions
    lhs: PartitionedValue
    rhs: PartitionedValue
    output: PartitionedValue
    device_count: int
    trace: Trace
    create_sharded_dot: CreateShardedDot
    partition: Callable[[Dot], None]

    def value(self, index: int) -> PartitionedValue:
        """The left operand, the right one or the output."""
        return (self.lhs, self.rhs, self.output)[index]

    def partitions(self, index: int, dims: tuple[DimNumbers, ...]) -> int:
        """Into how many tiles LHS, RHS or OUTPUT is split along some dimensions (`GetPartitionsForDims`)."""
        counts = self.value(index).tiles.tile_counts
        return math.prod(counts[dim[index]] for dim in dims if dim[index] >= 0)

    def transposed_tiles(self, source: int, target: int) -> TileAssignment | None:
        """The tiles of LHS, RHS or OUTPUT transposed to match another; None where that lacks a split dimension."""
        mapping = self.dimensions.index_mapping(source, target, len(self.value(source).dims))
        return transpose_dims(self.value(source).tiles, mapping, len(self.value(target).dims))

    def inferred_tiles(self, operand_index: int) -> TileAssignment:
        """The tiles of an operand that match the output's (`hlo_sharding_util::InferDotOperandSharding`)."""
        dimensions = self.dimensions
        others = (dimensions.rhs_non_contracting, dimensions.lhs_non_contracting)[operand_index]
        replicated = replicate_on_dims(self.output.tiles, tuple(dim.output for dim in others))
        mapping = dimensions.index_mapping(OUTPUT, operand_index, len(self.output.dims))
        tiles = transpose_dims(replicated, mapping, len(self.value(operand_index).dims))
        assert tiles is not None
        return tiles

    def resharded(self, operand_index: int, tiles: TileAssignment) -> Dot:
        """The dot after an operand is resharded."""
        operand = self.value(operand_index)
        reshard(self.operand_trace(operand), operand.dims, operand.tiles, tiles)
        return self._with(operand_index, replace(operand, tiles=tiles))

    def replicated(self, operand_index: int) -> Dot:
        """The dot after an operand is replicated."""
        operand = self.value(operand_index)
        tiles = replicate(self.operand_trace(operand), operand.dims, operand.tiles)
        return self._with(operand_index, replace(operand, tiles=tiles))

    def operand_trace(self, operand: PartitionedValue) -> Trace:
        """The trace for reshards of an operand."""
        return self.trace.of_operand(operand.index, operand.element_bytes)

    def swapped(self) -> Dot:
        """The same with the operands swapped."""
        return replace(
            self,
            dimensions=self.dimensions.swapped(),
            lhs=self.rhs,
            rhs=self.lhs,
            create_sharded_dot=lambda lhs, rhs: self.create_sharded_dot(rhs, lhs),
        )

    def create(self) -> int:
        """Create the dot of one device from the operands as they are."""
        return self.create_sharded_dot(self.lhs, self.rhs)

    def reshard_output(self, tiles: TileAssignment) -> bool:
        """Reshard the output from the tiles of the created dot to its own."""
        reshard_created(self.trace, self.output.dims, self.output.element_bytes, tiles, self.output.tiles)
        return True

    def _with(self, operand_index: int, operand: PartitionedValue) -> Dot:
        return replace(self, lhs=operand) if operand_index == LHS else replace(self, rhs=operand)


def reshard_created(
    trace: Trace, dims: Dims, element_bytes: int, source: TileAssignment, target: TileAssignment
) -> None:
    """Reshard a value that was just created; where that only slices an all-reduce, part of it is a reduce-scatter.

    Uneven tiles are sliced from what is padded first, which leaves the all-reduce as it is.
    """
    count = len(trace.collectives)
    reshard(trace.of_elements(element_bytes), dims, source, target)
    added = trace.collectives[count:]
    if any(collective.opcode != "collective-permute" for collective in added) or target.tile_count <= source.tile_count:
        return
    padded = math.prod(target.shard_dims(dims)) * target.tile_count
    if padded != math.prod(source.shard_dims(dims)) * source.tile_count:
        return
    del trace.collectives[count:]
    trace.scatter_last(target.tile_count // source.tile_count)
    trace.collectives += added
