"""Tile assignments: how many tiles each dimension is split into, and which devices hold which tile.

What XLA emits for a reshard depends on the order of devices, not on mesh axes. `TileAssignment` is XLA's class of that
name together with the replication that `HloSharding::ReplicateOnLastTileDim` keeps in its last dimension
(xla/hlo/ir/tile_assignment.h, hlo_sharding.h); the functions follow xla/hlo/utils/hlo_sharding_util.cc.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from hloom.ir import tile_indices

Dims = tuple[int, ...]
"""Sizes, tile counts or indices of dimensions."""


@dataclass(frozen=True, slots=True)
class TileAssignment:
    """Tiles per dimension, how many devices hold each tile, and the devices in the order of tiles.

    No devices are listed for a replicated value. `is_explicit` says that XLA holds a list of devices instead of a
    transposed iota: collectives then list their groups explicitly.
    """

    tile_counts: Dims
    replication: int = 1
    devices: Dims = ()
    is_explicit: bool = False

    @classmethod
    def replicated(cls, rank: int) -> TileAssignment:
        """Every device holds the whole value."""
        return cls((1,) * rank)

    @classmethod
    def from_array(cls, array: np.ndarray, *, is_explicit: bool = False) -> TileAssignment:
        """The assignment of an array of devices: a dimension per dimension of the value, then one of replication."""
        tile_counts, replication = array.shape[:-1], array.shape[-1]
        if math.prod(tile_counts) == 1:
            return cls.replicated(len(tile_counts))
        ordered = np.sort(array.reshape(-1, array.shape[-1]), axis=-1).reshape(array.shape)  # of 32 dimensions at most
        return cls(tuple(map(int, tile_counts)), int(replication), tuple(ordered.ravel().tolist()), is_explicit)

    @property
    def is_replicated(self) -> bool:
        """Whether every device holds the whole value (`HloSharding::IsReplicated`)."""
        return not self.devices

    @property
    def is_partially_replicated(self) -> bool:
        """Whether there are several tiles, and several devices for each (`HloSharding::ReplicateOnLastTileDim`)."""
        return self.replication > 1

    @property
    def tile_count(self) -> int:
        """How many tiles there are (`HloSharding::NumTiles`)."""
        return math.prod(self.tile_counts)

    @property
    def shape(self) -> Dims:
        """The tile counts, and the replication as the last dimension."""
        return (*self.tile_counts, self.replication)

    @property
    def is_iota(self) -> bool:
        """Whether the devices are in ascending order from 0."""
        return self.devices == tuple(range(len(self.devices)))

    def same_tiles(self, other: TileAssignment) -> bool:
        """Whether both put the same tiles on the same devices."""
        return self.tile_counts == other.tile_counts and self.devices == other.devices

    def array(self) -> np.ndarray:
        """The devices as an array of `shape`."""
        return np.array(self.devices).reshape(self.shape)

    def reshaped(self, shape: Sequence[int]) -> TileAssignment:
        """The same order of devices with other counts, the last of which is the replication."""
        return TileAssignment.from_array(self.array().reshape(shape), is_explicit=self.is_explicit)

    def shard_dims(self, dims: Sequence[int]) -> Dims:
        """The dimensions of one device's shard, with the last tile padded (`MakePartitionedShape`)."""
        return tuple(-(-size // count) for size, count in zip(dims, self.tile_counts, strict=True))

    def indices(self) -> np.ndarray:
        """The index of each device's tile: a row per device, a column per dimension of `shape`."""
        indices = tile_indices(self.array(), np.arange(len(self.devices)))
        assert indices is not None, "devices are numbered from 0"
        return indices.T


@lru_cache(1 << 16)
def replicate_on_dims(tiles: TileAssignment, dims: Dims) -> TileAssignment:
    """The same, replicated along some dimensions (`PartiallyReplicateTiledShardingOnDims`)."""
    dims = tuple(dim for dim in dims if dim < len(tiles.tile_counts))
    if tiles.is_replicated or all(tiles.tile_counts[dim] == 1 for dim in dims):
        return tiles
    array = tiles.array()
    kept = [dim for dim in range(array.ndim) if dim not in dims]
    replicated = array.transpose([*kept[:-1], *dims, kept[-1]])
    tile_counts = tuple(1 if dim in dims else count for dim, count in enumerate(tiles.tile_counts))
    return TileAssignment.from_array(replicated.reshape(*tile_counts, -1), is_explicit=tiles.is_explicit)


@lru_cache(1 << 16)
def transpose_dims(tiles: TileAssignment, to_target: Dims, rank: int) -> TileAssignment | None:
    """The tiles of a value of another rank, with each dimension moved as `to_target` says (-1: dropped).

    None if a split dimension is dropped (`TransposeShardingWithCollapsedDims`).
    """
    if tiles.is_replicated:
        return TileAssignment.replicated(rank)
    if any(target < 0 and count > 1 for target, count in zip(to_target, tiles.tile_counts, strict=True)):
        return None
    tile_counts = [1] * rank
    for target, count in zip(to_target, tiles.tile_counts, strict=True):
        if target >= 0:
            tile_counts[target] = count
    kept = sorted((dim for dim, target in enumerate(to_target) if target >= 0), key=lambda dim: to_target[dim])
    dropped = [dim for dim, target in enumerate(to_target) if target < 0]
    array = tiles.array().transpose([*kept, *dropped, len(to_target)])
    return TileAssignment.from_array(array.reshape(*tile_counts, tiles.replication), is_explicit=tiles.is_explicit)


@lru_cache(1 << 16)
def is_sub_tiling(tiles: TileAssignment, coarse: TileAssignment) -> bool:
    """Whether each device's tile is inside its tile of the coarser assignment (`IsSubTilingOrEqualSharding`)."""
    if coarse.is_replicated:
        return True
    pairs = list(zip(tiles.tile_counts, coarse.tile_counts, strict=True))
    if tiles.is_replicated or any(count % coarser for count, coarser in pairs):
        return False
    ratios = np.array([count // coarser for count, coarser in pairs])
    return bool((tiles.indices()[:, :-1] // ratios == coarse.indices()[:, :-1]).all())
