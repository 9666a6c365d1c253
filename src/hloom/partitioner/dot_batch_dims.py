"""Dots grouped on batch dimensions: groups of devices along what operands and output split of them.

Follows `PartitionDotGroupOnBatchDims` and `PartitionDotGroupOnBatchImpl` in xla/service/spmd/dot_handler.cc.
"""

from __future__ import annotations

import math
from dataclasses import replace

from hloom.partitioner.dot import LHS, OUTPUT, RHS, Dot, PartitionedValue
from hloom.partitioner.grouped_sharding import GroupedSharding, align_groups, group_on_dims, ungroup
from hloom.partitioner.reshard import reshard
from hloom.partitioner.tile_assignment import TileAssignment


def group_on_batch_dims(dot: Dot, may_reshard_groups: bool) -> bool:
    """Partition a dot in groups along batch dimensions."""
    batch = dot.dimensions.batch
    asked = dot.partitions(OUTPUT, batch)
    if asked == 1 or asked not in (dot.partitions(LHS, batch), dot.partitions(RHS, batch)):
        return False
    dims = [tuple(dim[index] for dim in batch) for index in (LHS, RHS, OUTPUT)]
    output = group_on_dims(dot.output.tiles, dims[OUTPUT])
    is_matching = all(dot.lhs.tiles.tile_counts[dim.lhs] == dot.rhs.tiles.tile_counts[dim.rhs] for dim in batch)
    if is_matching and not may_reshard_groups:
        lhs, rhs = group_on_dims(dot.lhs.tiles, dims[LHS]), group_on_dims(dot.rhs.tiles, dims[RHS])
        is_matching = ungroup(align_groups(rhs, lhs)).same_tiles(dot.rhs.tiles)
    if is_matching:
        lhs, rhs = group_on_dims(dot.lhs.tiles, dims[LHS]), group_on_dims(dot.rhs.tiles, dims[RHS])
        if dot.lhs.bytes > dot.rhs.bytes:
            rhs = align_groups(rhs, lhs)
            dot = dot.resharded(RHS, ungroup(rhs))
        else:
            lhs = align_groups(lhs, rhs)
            dot = dot.resharded(LHS, ungroup(lhs))
        shape = list(dot.output.tiles.shape)
        for dim in batch:
            shape[dim.output] = lhs.group_dim_sizes[dims[LHS].index(dim.lhs)]
        reshaped = TileAssignment.from_array(dot.output.tiles.array().reshape(shape))
        output = align_groups(group_on_dims(reshaped, dims[OUTPUT]), lhs)
        operands = [dot.lhs.per_group(lhs), dot.rhs.per_group(rhs)]
    else:
        operands = []
        for index in (LHS, RHS):
            operand = _reshard_to_output_batch(dot, index, output, may_reshard_groups)
            if operand is None:
                return False
            operands.append(operand)
    dot.partition(
        replace(
            dot,
            lhs=operands[LHS],
            rhs=operands[RHS],
            output=dot.output.per_group(output),
            device_count=dot.device_count // len(output.device_groups),
            trace=dot.trace.inside(output.device_groups),
        )
    )
    return dot.reshard_output(ungroup(output))


def _reshard_to_output_batch(
    dot: Dot, operand_index: int, output: GroupedSharding, may_reshard_groups: bool
) -> PartitionedValue | None:
    """An operand split along batch dimensions as the output is; None where its other tiles leave too few devices."""
    operand = dot.value(operand_index)
    if operand.tiles.is_replicated:
        dims = list(operand.dims)
        for dim, size in zip(dot.dimensions.batch, output.group_dim_sizes, strict=True):
            dims[dim[operand_index]] = -(-dims[dim[operand_index]] // size)
        return replace(operand, dims=tuple(dims), tiles=TileAssignment.replicated(len(dims)))
    shape = list(operand.tiles.shape)
    for dim, size in zip(dot.dimensions.batch, output.group_dim_sizes, strict=True):
        shape[dim[operand_index]] = size
    device_count = len(operand.tiles.devices)
    if math.prod(shape) > device_count:
        fewer = _fewer_tiles(dot, operand_index, shape, device_count)
        if fewer is None:
            return None
        shape = fewer
    if math.prod(shape) != device_count:
        return None
    batch = tuple(dim[operand_index] for dim in dot.dimensions.batch)
    reshaped = TileAssignment.from_array(operand.tiles.array().reshape(shape))
    grouped = align_groups(group_on_dims(reshaped, batch), output)
    wanted = ungroup(grouped)
    if not may_reshard_groups and not wanted.same_tiles(operand.tiles):
        return None
    reshard(dot.operand_trace(operand), operand.dims, operand.tiles, wanted)
    return operand.per_group(grouped)


def _fewer_tiles(dot: Dot, operand_index: int, shape: list[int], device_count: int) -> list[int] | None:
    """The shape without the tiles of other dimensions, or the replication, that batch dimensions now take."""
    dimensions = dot.dimensions
    own = (dimensions.lhs_non_contracting, dimensions.rhs_non_contracting)[operand_index]
    contracting = dot.partitions(operand_index, dimensions.contracting)
    other_contracting = dot.partitions(1 - operand_index, dimensions.contracting)
    ratio, rest = divmod(math.prod(shape), device_count)
    if rest:
        return None
    if dot.value(operand_index).tiles.is_partially_replicated and shape[-1] % ratio == 0:
        return [*shape[:-1], shape[-1] // ratio]
    if ratio == dot.partitions(operand_index, own) and (ratio != contracting or contracting == other_contracting):
        dropped = {dim[operand_index] for dim in own}
    elif ratio == contracting:
        dropped = {dim[operand_index] for dim in dimensions.contracting}
    else:
        return None
    return [1 if dim in dropped else count for dim, count in enumerate(shape)]
