"""Dots grouped on non-contracting dimensions of one operand, which the output splits equally.

Follows `PartitionDotGroupOnNonContractingDims` and `PartitionDotGroupOnNonContractingImpl` in
xla/service/spmd/dot_handler.cc.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from hloom.distribute.partitioner.dot import LHS, OUTPUT, RHS, DimNumbers, Dot, PartitionedValue
from hloom.distribute.partitioner.grouped_sharding import (
    DeviceGroups,
    GroupedSharding,
    align_groups,
    dims_matching_groups,
    group_on_dims,
    ungroup,
)
from hloom.distribute.partitioner.tile_assignment import (
    Dims,
    TileAssignment,
    is_sub_tiling,
    replicate_on_dims,
    transpose_dims,
)


def group_on_non_contracting_dims(dot: Dot, may_reshard_groups: bool) -> bool:
    """Partition a dot in groups along the non-contracting dimensions of one operand.

    If both operands match the output, the one that replicates less of the other is used
    (`LhsIsBestMatchForNonContractingPartitioning`).
    """
    lhs, rhs = dot.dimensions.lhs_non_contracting, dot.dimensions.rhs_non_contracting
    have = dot.partitions(LHS, lhs), dot.partitions(RHS, rhs)
    want = dot.partitions(OUTPUT, lhs), dot.partitions(OUTPUT, rhs)
    may_lhs, may_rhs = have[LHS] == want[LHS] > 1, have[RHS] == want[RHS] > 1
    if may_lhs or may_rhs:
        is_lhs = may_lhs and (not may_rhs or have[LHS] * dot.rhs.bytes < have[RHS] * dot.lhs.bytes)
        matching = dot if is_lhs else dot.swapped()
        return _group_on_lhs(matching, matching.dimensions.lhs_non_contracting, may_reshard_groups)
    for either, index in ((dot, LHS), (dot.swapped(), RHS)):
        if have[index] > 1 and want[index] > 1:
            counts, output_counts = either.lhs.tiles.tile_counts, either.output.tiles.tile_counts
            own = either.dimensions.lhs_non_contracting
            same = tuple(dim for dim in own if counts[dim.lhs] == output_counts[dim.output] > 1)
            return bool(same) and _group_on_lhs(either, same, may_reshard_groups)
    return False


def _group_on_lhs(dot: Dot, own: tuple[DimNumbers, ...], may_reshard_groups: bool) -> bool:
    """Group on some of the left operand's non-contracting dimensions, which the output splits equally."""
    output = group_on_dims(dot.output.tiles, tuple(dim.output for dim in own))
    matching = _matched_groups(dot, own, output)
    if not may_reshard_groups and not ungroup(matching).same_tiles(dot.lhs.tiles):
        return False
    other = _other_groups(dot, output)
    if other is None and not dot.rhs.tiles.is_replicated:
        count = len(dot.trace.collectives)
        resharded = dot.resharded(RHS, _inferred_rhs_tiles(dot))
        other = _other_groups(resharded, output)
        if other is None:
            del dot.trace.collectives[count:]
        else:
            dot = resharded
    if other is None:
        dot = dot.replicated(RHS)
    dot = dot.resharded(LHS, ungroup(matching))
    dot.partition(
        replace(
            dot,
            lhs=dot.lhs.per_group(matching),
            rhs=_reshard_rhs_to_groups(dot, other),
            output=dot.output.per_group(output),
            device_count=dot.device_count // len(output.device_groups),
            trace=dot.trace.inside(output.device_groups),
        )
    )
    return True


def _matched_groups(dot: Dot, own: tuple[DimNumbers, ...], output: GroupedSharding) -> GroupedSharding:
    """The left operand in the output's groups (`GetNonContractingPartitionGroupedShardingForMatchedOperand`)."""
    shape = list(dot.lhs.tiles.shape)
    for dim in own:
        shape[dim.lhs] = dot.output.tiles.tile_counts[dim.output]
    return align_groups(group_on_dims(dot.lhs.tiles.reshaped(shape), tuple(dim.lhs for dim in own)), output)


def _reshard_rhs_to_groups(dot: Dot, other: GroupedSharding | None) -> PartitionedValue:
    """The right operand as each group holds it, replicated along the dimensions that the groups split."""
    rhs = dot.rhs
    if other is None:
        return rhs
    if other.group_dims == (len(rhs.dims),):
        return replace(dot.resharded(RHS, ungroup(other)).rhs, tiles=other.tiles)
    if rhs.tiles.is_replicated:
        return rhs
    wanted = ungroup(other)
    groups = group_on_dims(wanted, other.group_dims).device_groups
    is_same = all(set(group) == set(asked) for group, asked in zip(groups, other.device_groups, strict=True))
    if not rhs.tiles.is_partially_replicated or not is_same:
        dot = dot.resharded(RHS, wanted)
    return replace(dot.resharded(RHS, replicate_on_dims(dot.rhs.tiles, other.group_dims)).rhs, tiles=other.tiles)


def _other_groups(dot: Dot, output: GroupedSharding) -> GroupedSharding | None:
    """How the right operand can be grouped as the output is; None where it has to be replicated.

    Follows `GetNonContractingPartitionGroupedShardingForOtherOperand`.
    """
    tiles, group_count = dot.rhs.tiles, len(output.device_groups)
    rank = len(tiles.tile_counts)
    if tiles.is_replicated:
        return None
    last = rank if tiles.is_partially_replicated else rank - 1
    if tiles.is_partially_replicated and tiles.replication % group_count == 0:
        for dim in reversed(range(rank + 1)):
            if tiles.shape[dim] % group_count == 0:
                assigned = _assigned_groups(np.swapaxes(tiles.array(), dim, rank), output.device_groups)
                if assigned is not None:
                    return assigned
        dims: Dims | None = (rank,)
    else:
        dims = _dims_to_group(dot, output)
    if dims is None:
        return None
    shards = (tiles.shape[last] // group_count,) if dims == (last,) else ()
    return align_groups(group_on_dims(tiles, dims, shards), output, ignore_group_order=True)


def _dims_to_group(dot: Dot, output: GroupedSharding) -> Dims | None:
    """The dimensions of the right operand to group on: those whose groups match, else those to replicate."""
    matching = dims_matching_groups(dot.rhs.tiles, output.device_groups)
    if matching is not None:
        return matching
    dimensions, group_count = dot.dimensions, len(output.device_groups)
    lhs_contracting, contracting = (dot.partitions(index, dimensions.contracting) for index in (LHS, RHS))
    own, asked = (dot.partitions(index, dimensions.rhs_non_contracting) for index in (RHS, OUTPUT))
    may_replicate_contracting = contracting == group_count and own == asked
    may_replicate_own = group_count == own and lhs_contracting == contracting
    if may_replicate_contracting and (not may_replicate_own or dot.rhs.bytes <= dot.output.bytes):
        return tuple(dim.rhs for dim in dimensions.contracting)
    if may_replicate_own:
        return tuple(dim.rhs for dim in dimensions.rhs_non_contracting)
    return None


def _assigned_groups(array: np.ndarray, groups: DeviceGroups) -> GroupedSharding | None:
    """The replication in the last dimension, assigned to the given groups so that all have the same tiles inside.

    None if that is impossible. Follows `hlo_sharding_util::PartialReplicatedGroupShardingWithAssignedDeviceGroups`.
    """
    group_count = len(groups)
    if array.shape[-1] % group_count:
        return None
    share = array.shape[-1] // group_count
    tile_of = {int(device): index[:-1] for index, device in np.ndenumerate(array)}
    inner: np.ndarray | None = None
    for group in groups:
        numbers = np.empty((*array.shape[:-1], share), dtype=int)
        filled: dict[tuple[int, ...], int] = {}
        for number, device in enumerate(group):
            tile = tile_of[device]
            position = filled.get(tile, 0)
            if position == share:
                return None
            numbers[(*tile, position)] = number
            filled[tile] = position + 1
        if inner is not None and (inner != numbers).any():
            return None
        inner = numbers
    assert inner is not None
    tiles = TileAssignment.from_array(inner, is_explicit=True)
    return GroupedSharding(groups, (array.ndim - 1,), (group_count,), tiles)


def _inferred_rhs_tiles(dot: Dot) -> TileAssignment:
    """The tiles of the right operand that match both output and left operand (`InferDotOperandSharding`)."""
    from_output = dot.inferred_tiles(RHS)
    replicated = replicate_on_dims(dot.lhs.tiles, tuple(dim.lhs for dim in dot.dimensions.lhs_non_contracting))
    mapping = dot.dimensions.index_mapping(LHS, RHS, len(dot.lhs.dims))
    from_lhs = transpose_dims(replicated, mapping, len(dot.rhs.dims))
    assert from_lhs is not None
    return _merge_tiles(from_output, from_lhs)


def _merge_tiles(first: TileAssignment, second: TileAssignment) -> TileAssignment:
    """Tiles finer than both; the first where there are none (`hlo_sharding_util::MergeShardingIfCompatible`)."""
    if first.is_replicated or second.is_replicated:
        return second if first.is_replicated else first
    pairs = zip(first.tile_counts, second.tile_counts, strict=True)
    tile_counts = tuple(count if other == 1 else other for count, other in pairs)
    device_count, tile_count = len(first.devices), math.prod(tile_counts)
    if tile_count > device_count or device_count % tile_count:
        return first
    from_second = [count > 1 for count in second.tile_counts]
    index = np.where(from_second, second.indices()[:, :-1], first.indices()[:, :-1])
    holders: dict[tuple[int, ...], list[int]] = {}
    for device in range(device_count):
        holders.setdefault(tuple(index[device].tolist()), []).append(device)
    replication = device_count // tile_count
    if len(holders) != tile_count or any(len(devices) != replication for devices in holders.values()):
        return first
    array = np.array([holders[tile] for tile in np.ndindex(*tile_counts)]).reshape(*tile_counts, replication)
    tiles = TileAssignment.from_array(array)
    return tiles if is_sub_tiling(tiles, first) and is_sub_tiling(tiles, second) else first
