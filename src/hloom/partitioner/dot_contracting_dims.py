"""Dots grouped on contracting dimensions that both operands split equally; the groups' results are reduced.

Follows `PartitionDotGroupOnContractingDims` and `PartitionDotGroupOnContractingImpl` in
xla/service/spmd/dot_handler.cc.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from hloom.partitioner.dot import LHS, OUTPUT, RHS, DimNumbers, Dot, PartitionedValue
from hloom.partitioner.grouped_sharding import (
    GroupedSharding,
    align_groups,
    dims_matching_groups,
    group_on_dims,
    ungroup,
)
from hloom.partitioner.tile_assignment import Dims, TileAssignment, is_sub_tiling, replicate_on_dims, transpose_dims
from hloom.partitioner.trace import all_reduce_along_dims


def group_on_contracting_dims(dot: Dot, may_reshard_groups: bool) -> bool:
    """Partition a dot in groups along contracting dimensions."""
    contracting = dot.dimensions.contracting
    lhs, rhs = dot.partitions(LHS, contracting), dot.partitions(RHS, contracting)
    if lhs == rhs > 1 and _group_on(dot, contracting, may_reshard_groups):
        return True
    if min(lhs, rhs) == 1:
        return False
    lhs_counts, rhs_counts = dot.lhs.tiles.tile_counts, dot.rhs.tiles.tile_counts
    matching = tuple(dim for dim in contracting if lhs_counts[dim.lhs] == rhs_counts[dim.rhs] > 1)
    return bool(matching) and _group_on(dot, matching, may_reshard_groups)


def _group_on(dot: Dot, contracting: tuple[DimNumbers, ...], may_reshard_groups: bool) -> bool:
    """Group on some contracting dimensions; the smaller operand is resharded to the larger one's groups."""
    dims = [tuple(dim[index] for dim in contracting) for index in (LHS, RHS)]
    group_count = math.prod(dot.lhs.tiles.tile_counts[dim] for dim in dims[LHS])
    larger = LHS if dot.lhs.bytes > dot.rhs.bytes else RHS
    smaller = 1 - larger
    shape = list(dot.value(smaller).tiles.shape)
    for large_dim, small_dim in zip(dims[larger], dims[smaller], strict=True):
        shape[small_dim] = dot.value(larger).tiles.tile_counts[large_dim]
    reference = group_on_dims(dot.value(larger).tiles, dims[larger])
    aligned = align_groups(group_on_dims(dot.value(smaller).tiles.reshaped(shape), dims[smaller]), reference)
    if not may_reshard_groups and not ungroup(aligned).same_tiles(dot.value(smaller).tiles):
        return False
    dot = dot.resharded(smaller, ungroup(aligned))
    lhs, rhs = (reference, aligned) if larger == LHS else (aligned, reference)
    plan = _output_tiles(dot, lhs, rhs, group_count)
    rank = len(dot.output.dims)
    slice_dims = tuple(dim for dim in plan.slice_dims if dim < rank)
    output_dims = dot.output.dims
    if slice_dims:
        kept = replicate_on_dims(plan.output, tuple(dim for dim in range(rank) if dim not in slice_dims))
        output_dims = kept.shard_dims(output_dims)
    trace, lhs_tiles = dot.trace.of_elements(dot.output.element_bytes), dot.lhs.tiles

    def create_and_reduce(left: PartitionedValue, right: PartitionedValue) -> int:
        elements = dot.create_sharded_dot(left, right)
        if not slice_dims:
            all_reduce_along_dims(trace, elements, lhs_tiles, dims[LHS])
            return elements
        all_reduce_along_dims(trace, elements, plan.outer, slice_dims)
        tile_count = math.prod(plan.outer.tile_counts[dim] for dim in slice_dims)
        if all(dot.output.dims[dim] % plan.outer.tile_counts[dim] == 0 for dim in slice_dims):
            trace.scatter_last(tile_count)
        if rank in plan.slice_dims:
            all_reduce_along_dims(trace, elements // tile_count, plan.outer, (rank,))
        return elements // tile_count

    dot.partition(
        replace(
            dot,
            lhs=dot.lhs.per_group(lhs),
            rhs=dot.rhs.per_group(rhs),
            output=replace(dot.output, dims=output_dims, tiles=plan.inner),
            device_count=dot.device_count // group_count,
            trace=dot.trace.inside(lhs.device_groups),
            create_sharded_dot=create_and_reduce,
        )
    )
    return dot.reshard_output(plan.outer)


@dataclass(frozen=True, slots=True)
class _OutputTiles:
    """The output's tiles inside the groups and over all devices, the dimensions that are sliced, its tiles before."""

    inner: TileAssignment
    outer: TileAssignment
    slice_dims: Dims
    output: TileAssignment


def _output_tiles(dot: Dot, lhs: GroupedSharding, rhs: GroupedSharding, group_count: int) -> _OutputTiles:
    """How the groups' results are reduced (`GetDotGroupPartitionContractingOutputShardings`)."""
    output, rank, dimensions = dot.output.tiles, len(dot.output.dims), dot.dimensions
    replicated = TileAssignment.replicated(rank)
    if not output.is_replicated and (not output.is_partially_replicated or output.replication % group_count):
        output = _coarser_output_tiles(dot, lhs, rhs)
    if output.is_partially_replicated and output.replication % group_count == 0:
        grouped = group_on_dims(output, (rank,), (output.replication // group_count,))
        grouped = align_groups(grouped, lhs, ignore_group_order=True)
        return _OutputTiles(grouped.tiles, ungroup(grouped), (), output)
    matching = dims_matching_groups(output, lhs.device_groups)
    if matching is not None:
        if not matching:
            return _OutputTiles(replicated, replicated, (), output)
        return _OutputTiles(group_on_dims(output, matching).tiles, output, matching, output)
    if not output.is_replicated:
        for dims in (dimensions.lhs_non_contracting, dimensions.rhs_non_contracting, dimensions.batch):
            if dot.partitions(OUTPUT, dims) == group_count:
                slice_dims = tuple(dim.output for dim in dims)
                grouped = align_groups(group_on_dims(output, slice_dims), lhs)
                return _OutputTiles(grouped.tiles, ungroup(grouped), slice_dims, output)
    return _OutputTiles(replicated, replicated, (), output)


def _coarser_output_tiles(dot: Dot, lhs: GroupedSharding, rhs: GroupedSharding) -> TileAssignment:
    """The output's tiles, or coarser ones that the only operand with other tiles gives it."""
    output = dot.output.tiles
    if lhs.tiles.is_replicated == rhs.tiles.is_replicated:
        return output
    index = RHS if lhs.tiles.is_replicated else LHS
    operand = replicate_on_dims(ungroup((lhs, rhs)[index]), tuple(dim[index] for dim in dot.dimensions.contracting))
    mapping = dot.dimensions.index_mapping(index, OUTPUT, len(dot.value(index).dims))
    given = transpose_dims(operand, mapping, len(dot.output.dims))
    return given if given is not None and is_sub_tiling(output, given) else output
