"""Grouped shardings: devices in groups along some dimensions, and the tile assignment inside of each group.

XLA partitions inside groups with devices renumbered. The functions follow `GroupedSharding` and its functions in
xla/hlo/utils/hlo_sharding_util.cc and xla/service/spmd/spmd_partitioner_util.cc.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from hloom.distribute.partitioner.tile_assignment import Dims, TileAssignment

DeviceGroups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class GroupedSharding:
    """Devices in groups along some dimensions (the replication counts as the last), and the tiles in each group."""

    device_groups: DeviceGroups
    group_dims: Dims
    group_dim_sizes: Dims
    tiles: TileAssignment

    def per_group_dims(self, dims: Sequence[int]) -> Dims:
        """The dimensions of one group's part of a value (`GetPerGroupBaseShape`)."""
        per_group = list(dims)
        for dim, size in zip(self.group_dims, self.group_dim_sizes, strict=True):
            if dim < len(per_group):
                per_group[dim] = -(-per_group[dim] // size)
        return tuple(per_group)


@lru_cache(1 << 16)
def group_on_dims(tiles: TileAssignment, dims: Dims, group_dim_shards: Dims = ()) -> GroupedSharding:
    """Groups of devices along dimensions; `group_dim_shards` are the tiles of each that stay inside a group, 1 each.

    Follows `GroupShardingOnDims`.
    """
    array = tiles.array()
    kept = {dim: group_dim_shards[number] if group_dim_shards else 1 for number, dim in enumerate(dims)}
    inner_shape = list(array.shape)
    for dim, count in kept.items():
        inner_shape[dim] = count
    sizes = tuple(array.shape[dim] // kept[dim] for dim in dims)
    shape: list[int] = []
    major: dict[int, int] = {}
    for dim, count in enumerate(array.shape):
        if dim in kept:
            major[dim] = len(shape)
            shape.append(count // kept[dim])
        shape.append(inner_shape[dim])
    outer = [major[dim] for dim in dims]
    order = outer + [dim for dim in range(len(shape)) if dim not in outer]
    groups = array.reshape(shape).transpose(order).reshape(math.prod(sizes), -1)
    inner = TileAssignment.from_array(np.arange(math.prod(inner_shape)).reshape(inner_shape))
    return GroupedSharding(tuple(map(tuple, groups.tolist())), dims, sizes, inner)


@lru_cache(1 << 16)
def ungroup(grouped: GroupedSharding) -> TileAssignment:
    """The tiles of all devices from those in the groups (`UngroupSharding`)."""
    rank = len(grouped.tiles.tile_counts)
    group_size = len(grouped.device_groups[0])
    replicated = np.arange(group_size).reshape(*(1,) * rank, group_size)
    inner = replicated if grouped.tiles.is_replicated else grouped.tiles.array()
    devices = np.array(grouped.device_groups)[:, inner]
    devices = devices.reshape(*grouped.group_dim_sizes, *inner.shape)
    group_rank = len(grouped.group_dims)
    order: list[int] = []
    shape: list[int] = []
    for dim in range(rank + 1):
        shape.append(inner.shape[dim])
        if dim in grouped.group_dims:
            order.append(grouped.group_dims.index(dim))
            shape[-1] *= grouped.group_dim_sizes[grouped.group_dims.index(dim)]
        order.append(group_rank + dim)
    is_explicit = not grouped.tiles.is_replicated and grouped.tiles.is_explicit
    return TileAssignment.from_array(devices.transpose(order).reshape(shape), is_explicit=is_explicit)


@lru_cache(1 << 16)
def align_groups(
    grouped: GroupedSharding, reference: GroupedSharding, *, ignore_group_order: bool = False
) -> GroupedSharding:
    """The same with the groups of a reference (`AlignGroupsWith`).

    Where the groups hold the same devices, the tiles inside are renumbered.
    """
    if grouped.device_groups == reference.device_groups:
        return grouped
    group_of = {device: number for number, group in enumerate(reference.device_groups) for device in group}
    met = [{group_of[device] for device in group} for group in grouped.device_groups]
    is_matching = all(
        len(numbers) == 1 and (ignore_group_order or numbers == {number}) for number, numbers in enumerate(met)
    )
    tiles = grouped.tiles
    if is_matching and not tiles.is_replicated:
        target = reference.device_groups[next(iter(met[0]))]
        position = {device: number for number, device in enumerate(target)}
        renumbered = [position[device] for device in grouped.device_groups[0]]
        tiles = TileAssignment.from_array(np.array(renumbered)[tiles.array()], is_explicit=True)
    return GroupedSharding(reference.device_groups, grouped.group_dims, grouped.group_dim_sizes, tiles)


@lru_cache(1 << 16)
def dims_matching_groups(tiles: TileAssignment, groups: DeviceGroups) -> Dims | None:
    """The dimensions (the replication being the last) along which tiles can be grouped to have these groups.

    The order of groups does not matter; None where there are no such dimensions
    (`FindMatchingPartitionedDimsForGrouping`).
    """
    if tiles.is_replicated or len(groups) < 2 or len(tiles.devices) != sum(map(len, groups)):
        return None
    if len(groups[0]) < 2:
        return tuple(dim for dim, count in enumerate(tiles.shape) if count > 1)
    index = tiles.indices()
    first, second = index[groups[0][0]], index[groups[0][1]]
    rank = len(tiles.shape) - (tiles.replication == 1)
    dims = tuple(dim for dim in range(rank) if first[dim] == second[dim])
    if math.prod(tiles.shape[dim] for dim in dims) != len(groups):
        return None
    for group in groups:
        rows = index[list(group)][:, list(dims)]
        if (rows != rows[0]).any():
            return None
    return dims
