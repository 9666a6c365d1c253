"""Reshards: the collectives that take a value from one tile assignment to another.

Follows `PartitionedHlo::ReshardNoCache` and its callees in xla/service/spmd/spmd_partitioner.cc. Tried in this order: a
collective-permute, all-to-alls, slicing a partially replicated value, all-gathers into a partially replicated value, a
detour through a split dimension or through intermediate tiles, a reshard inside groups of devices; otherwise the value
is replicated and sliced.

Reshards that keep the number of tiles follow `PartitionedHlo::ReshardWithCollectivePermute`, `ReshardWithAllToAll` and
`TryMultipleSourceTargetDims`, and `GetReshardAllToAllSourceTargetDims` in spmd_partitioner_util.cc.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from hloom.distribute.partitioner.grouped_sharding import align_groups, group_on_dims, ungroup
from hloom.distribute.partitioner.tile_assignment import Dims, TileAssignment, is_sub_tiling, replicate_on_dims
from hloom.distribute.partitioner.trace import Trace


def reshard(
    trace: Trace, dims: Dims, source: TileAssignment, target: TileAssignment, *, allow_full_replication: bool = True
) -> TileAssignment:
    """Reshard a value, and return the tiles that it then has.

    They are the target's, unless the reshard would replicate the value and that is not allowed.
    """
    if source.same_tiles(target) or source.is_replicated:
        return target
    for attempt in (
        reshard_with_collective_permute,
        reshard_with_all_to_all,
        _reshard_from_partial_replicate,
        _reshard_to_partial_replicate,
    ):
        if attempt(trace, dims, source, target):
            return target
    if not target.is_replicated:
        if _try_complex_reshard(trace, dims, source, target):
            return target
        grouped = _reshard_in_groups(trace, dims, source, target)
        if grouped is not None:
            return reshard(trace, dims, grouped, target, allow_full_replication=allow_full_replication)
        if not allow_full_replication:
            return source
    replicate(trace, dims, source)
    return target


def replicate(trace: Trace, dims: Dims, source: TileAssignment) -> TileAssignment:
    """All-gather a value along every dimension, from the last to the first (`PartitionedHlo::ReplicatePartial`)."""
    gathered = list(source.shard_dims(dims))
    for dim in reversed(range(len(dims))):
        gathered[dim] *= source.tile_counts[dim]
        trace.add("all-gather", {dim: source.tile_counts[dim]}, math.prod(gathered), source)
        gathered[dim] = dims[dim]
    return TileAssignment.replicated(len(dims))


def _reshard_from_partial_replicate(trace: Trace, dims: Dims, source: TileAssignment, target: TileAssignment) -> bool:
    """Slice the tiles of a partially replicated value; only a permute to the target's devices sends anything.

    Follows `ReshardFromPartialReplicateWithDynamicSlice`, then `ReshardPartialReplicateWithAllToAll`.
    """
    if target.is_replicated or not source.is_partially_replicated:
        return False
    compatible = _compatible_tiles(source, target)
    if compatible is not None:
        return reshard_with_collective_permute(trace, dims, compatible, target)
    return _reshard_partial_replicate_with_all_to_all(trace, dims, source, target)


def _reshard_to_partial_replicate(trace: Trace, dims: Dims, source: TileAssignment, target: TileAssignment) -> bool:
    """All-gather tiles into partially replicated ones, after a permute if other devices should hold them.

    Follows `ReshardToPartialReplicateWithAllGather`, then `ReshardPartialReplicateWithAllToAll`.
    """
    if not target.is_partially_replicated:
        return False
    compatible = _compatible_tiles(target, source)
    if compatible is None:
        return _reshard_partial_replicate_with_all_to_all(trace, dims, source, target)
    reshard_with_collective_permute(trace, dims, source, compatible)
    gathered = list(compatible.shard_dims(dims))
    for dim in reversed(range(len(dims))):
        factor = compatible.tile_counts[dim] // target.tile_counts[dim]
        gathered[dim] *= factor
        trace.add("all-gather", {dim: factor}, math.prod(gathered), compatible, is_inner=True)
        gathered[dim] = min(gathered[dim], -(-dims[dim] // target.tile_counts[dim]))
    return True


def _compatible_tiles(partial: TileAssignment, tiles: TileAssignment) -> TileAssignment | None:
    """Tiles with the counts of `tiles` that slicing the partially replicated ones gives; `tiles` itself where it can.

    Follows `PartialReplicateReshardCompatibleSharding`.
    """
    if any(count % partial_count for partial_count, count in zip(partial.tile_counts, tiles.tile_counts, strict=True)):
        return None
    if is_sub_tiling(tiles, partial):
        return tiles
    pairs = zip(partial.tile_counts, tiles.tile_counts, strict=True)
    factors = [count // partial_count for partial_count, count in pairs]
    sliced = [dim for dim, factor in enumerate(factors) if factor > 1]
    rank = len(factors)
    array = partial.array().reshape(*partial.tile_counts, *(factors[dim] for dim in sliced), tiles.replication)
    order: list[int] = []
    for dim in range(rank):
        order += [dim, rank + sliced.index(dim)] if dim in sliced else [dim]
    return TileAssignment.from_array(array.transpose([*order, rank + len(sliced)]).reshape(tiles.shape))


def _reshard_partial_replicate_with_all_to_all(
    trace: Trace, dims: Dims, source: TileAssignment, target: TileAssignment
) -> bool:
    """Between tiles without replication and partially replicated ones whose counts are moved on by one dimension.

    {devices=[1,2,3]0,1,2,3,4,5 last_tile_dim_replicate}   <->   {devices=[2,3]0,1,2,3,4,5}
    """
    partial, tiled = (source, target) if source.is_partially_replicated else (target, source)
    is_tiled = not tiled.is_partially_replicated and not tiled.is_replicated
    if not partial.is_partially_replicated or not is_tiled or partial.tile_counts[0] != 1:
        return False
    last = max(dim for dim, count in enumerate(tiled.tile_counts) if count > 1)
    if partial.shape[1:] != tiled.tile_counts or tiled.tile_counts[last] != partial.replication:
        return False
    if partial.devices != tiled.devices:
        return False
    counts = tuple(1 if dim == last else count for dim, count in enumerate(tiled.tile_counts))
    between = TileAssignment.from_array(tiled.array().reshape(*counts, partial.replication))
    if partial is source:
        return reshard_with_all_to_all(trace, dims, source, between) and reshard(trace, dims, between, target) is target
    reshard(trace, dims, source, between)
    return reshard_with_all_to_all(trace, dims, between, target)


def _try_complex_reshard(trace: Trace, dims: Dims, source: TileAssignment, target: TileAssignment) -> bool:
    """Detour over a dimension split in two, or over tiles between; nothing is emitted where that fails.

    Follows `TryComplexReshardHandling`.
    """
    start = len(trace.collectives)
    split = _dim_to_split(dims, source, target)
    if split is not None:
        if _reshard_over_split(trace, dims, source, target, *split):
            return True
        del trace.collectives[start:]
        return False
    for between in _tiles_between(source, target):
        reached = reshard(trace, dims, source, between)
        if reshard(trace, dims, reached, target, allow_full_replication=False).same_tiles(target):
            return True
        del trace.collectives[start:]
        return False
    return False


def _dim_to_split(dims: Dims, source: TileAssignment, target: TileAssignment) -> tuple[int, int] | None:
    """A dimension whose tile count is to be split, and how many major tiles it keeps.

    Follows `PatternMatchMergeOrSplitSharding`.
    """
    if source.replication != target.replication:
        return None
    pairs = list(zip(source.tile_counts, target.tile_counts, strict=True))
    single = [dim for dim, (have, want) in enumerate(pairs) if have != want and min(have, want) == 1]
    several = [
        dim
        for dim, (have, want) in enumerate(pairs)
        if have != want and min(have, want) > 1 and _splits_evenly(dims[dim], have, want)
    ]
    for dim in several:
        for other in single:
            if pairs[dim][0] * pairs[other][0] == pairs[dim][1] * pairs[other][1]:
                return dim, min(pairs[dim])
    for dim in several:
        if pairs[dim][0] > pairs[dim][1]:
            return dim, pairs[dim][1]
    return None


def _splits_evenly(size: int, have: int, want: int) -> bool:
    """Whether one count divides the other, and the finer one splits the padded tiles of the coarser evenly."""
    few, many = sorted((have, want))
    return many % few == 0 and -(-size // few) * few % many == 0


def _reshard_over_split(
    trace: Trace, dims: Dims, source: TileAssignment, target: TileAssignment, dim: int, major: int
) -> bool:
    """Reshard with a dimension split in two (`SplitReshapeHelper`), merge it again, and reshard to the target."""
    before, after = _split_dim(source, dim, major), _split_dim(target, dim, major)
    minor_size = source.shard_dims(dims)[dim] * before.tile_counts[dim + 1]
    split_dims = (*dims[:dim], dims[dim] // minor_size, minor_size, *dims[dim + 1 :])
    reached = reshard(trace, split_dims, before, after, allow_full_replication=False)
    if not reached.same_tiles(after):
        return False
    merged = _merge_dim(reached, dim)
    return reshard(trace, dims, merged, target, allow_full_replication=False).same_tiles(target)


def _split_dim(tiles: TileAssignment, dim: int, major: int) -> TileAssignment:
    """A dimension's tiles as two dimensions (`hlo_sharding_util::SplitShardingDimension`)."""
    counts = (*tiles.tile_counts[:dim], major, tiles.tile_counts[dim] // major, *tiles.tile_counts[dim + 1 :])
    return TileAssignment(counts, tiles.replication, tiles.devices, tiles.is_explicit)


def _merge_dim(tiles: TileAssignment, dim: int) -> TileAssignment:
    """Two dimensions' tiles as one (`hlo_sharding_util::MergeShardingDimension`)."""
    merged = tiles.tile_counts[dim] * tiles.tile_counts[dim + 1]
    counts = (*tiles.tile_counts[:dim], merged, *tiles.tile_counts[dim + 2 :])
    return TileAssignment(counts, tiles.replication, tiles.devices, tiles.is_explicit)


def _tiles_between(source: TileAssignment, target: TileAssignment) -> Iterator[TileAssignment]:
    """Tiles from which the target is a direct reshard.

    A dimension replicated (`PatternMatchPartiallyReplicateDim`), or the replication put where the target has tiles.
    """
    if target.is_partially_replicated:
        for dim, count in enumerate(source.tile_counts):
            if count > 1 and count * source.replication == target.replication:
                yield replicate_on_dims(source, (dim,))
                return
    if source.is_partially_replicated and not target.is_partially_replicated:
        for dim, (have, want) in enumerate(zip(source.tile_counts, target.tile_counts, strict=True)):
            if have == 1 and want > 1 and want % source.replication == 0:
                array = np.swapaxes(source.array(), dim, len(source.tile_counts))
                yield TileAssignment.from_array(array, is_explicit=source.is_explicit)
                return


def _reshard_in_groups(
    trace: Trace, dims: Dims, source: TileAssignment, target: TileAssignment
) -> TileAssignment | None:
    """Reshard inside of groups of devices along the dimensions that both split equally; the tiles that result."""
    pairs = zip(source.tile_counts, target.tile_counts, strict=True)
    equal = tuple(dim for dim, (have, want) in enumerate(pairs) if have == want > 1)
    if not equal:
        return None
    grouped = group_on_dims(source, equal)
    grouped_target = align_groups(group_on_dims(target, equal), grouped)
    local = source.shard_dims(dims)
    inner_dims = tuple(local[dim] if dim in equal else size for dim, size in enumerate(dims))
    reshard(trace.inside(grouped.device_groups), inner_dims, grouped.tiles, grouped_target.tiles)
    return ungroup(grouped_target)


DimPairs = list[tuple[int, int]]
"""Pairs of a source and a target dimension: tiles of the source dimension become tiles of the target dimension."""


def reshard_with_collective_permute(trace: Trace, dims: Dims, source: TileAssignment, target: TileAssignment) -> bool:
    """Put the same tiles on other devices; False where the tile counts differ."""
    if target.is_replicated or source.tile_counts != target.tile_counts:
        return False
    if not source.same_tiles(target):
        trace.add_permute(math.prod(source.shard_dims(dims)), source, target)
    return True


def reshard_with_all_to_all(trace: Trace, dims: Dims, source: TileAssignment, target: TileAssignment) -> bool:
    """Exchange the tile counts of pairs of dimensions; False where that does not give the target's."""
    pairs = _source_target_dims(source, target)
    if pairs is None:
        return False
    together = _independent_pairs(dims, source, target, pairs)
    if len(together) > 1:
        source = _all_to_all(trace, dims, source, together)
        pairs = [pair for pair in pairs if pair not in together]
    for pair in pairs:
        source = _all_to_all(trace, dims, source, [pair])
    reshard_with_collective_permute(trace, dims, source, target)
    return True


def can_reshard_directly(source: TileAssignment, target: TileAssignment) -> bool:
    """Whether a reshard is a collective-permute or all-to-alls alone."""
    if source.is_replicated or target.is_replicated:
        return False
    is_permute = source.tile_counts == target.tile_counts and not source.same_tiles(target)
    return is_permute or _source_target_dims(source, target) is not None


def _all_to_all(trace: Trace, dims: Dims, source: TileAssignment, pairs: DimPairs) -> TileAssignment:
    """Emit one all-to-all, and return the tiles that it gives."""
    target = _exchanged(source, pairs)
    group_counts = {to: source.tile_counts[of] // source.tile_counts[to] for of, to in pairs}
    trace.add("all-to-all", group_counts, _padded_elements(dims, source, target, pairs), target)
    return target


def _padded_elements(dims: Dims, source: TileAssignment, target: TileAssignment, pairs: DimPairs) -> int:
    """The elements of a device's part of a value, padded along the dimension to be split."""
    padded = list(source.shard_dims(dims))
    for _, to in pairs:
        count = target.tile_counts[to]
        padded[to] += -(-dims[to] // count) * count - padded[to] * source.tile_counts[to]
    return math.prod(padded)


def _independent_pairs(dims: Dims, source: TileAssignment, target: TileAssignment, pairs: DimPairs) -> DimPairs:
    """The pairs that one all-to-all can exchange: evenly split, and of dimensions that are in no other pair.

    Follows `TryMultipleSourceTargetDims`.
    """
    seen: set[int] = set()
    independent: DimPairs = []
    for of, to in sorted(pairs, key=lambda pair: pair[1]):
        is_even = dims[of] % source.tile_counts[of] == 0 and dims[to] % target.tile_counts[to] == 0
        if is_even and not seen & {of, to}:
            independent.append((of, to))
            seen |= {of, to}
    return independent


def _exchanged(tiles: TileAssignment, pairs: DimPairs) -> TileAssignment:
    """The minor tiles of each source dimension moved to its target dimension (`GetAllToAllSharding`)."""
    array = tiles.array()
    for of, to in pairs:
        ratio = array.shape[of] // array.shape[to]
        shape = [*array.shape]
        split: list[int] = []
        for dim, count in enumerate(shape):
            split += [array.shape[to], ratio] if dim == of else [count, 1] if dim == to else [count]
        first, second = sorted((of, to))
        minor = {first: first + 1, second: second + 2}
        order = list(range(len(split)))
        order[minor[of]], order[minor[to]] = order[minor[to]], order[minor[of]]
        shape[of], shape[to] = shape[to], shape[of]
        array = array.reshape(split).transpose(order).reshape(shape)
    return TileAssignment.from_array(array, is_explicit=tiles.is_explicit)


def _source_target_dims(source: TileAssignment, target: TileAssignment) -> DimPairs | None:
    """Pairs of dimensions that, exchanged one after the other, give the target's tile counts.

    Follows `GetReshardAllToAllSourceTargetDims`.
    """
    if target.is_replicated or source.tile_count != target.tile_count:
        return None
    by_count: dict[int, list[int]] = defaultdict(list)
    by_target_count: dict[int, list[int]] = defaultdict(list)
    for dim, (have, want) in enumerate(zip(source.tile_counts, target.tile_counts, strict=True)):
        if have != want:
            by_count[have].append(dim)
            by_target_count[want].append(dim)
    if not by_count or _lengths(by_count) != _lengths(by_target_count):
        return None
    pairs: DimPairs = []
    while by_count:
        count = min(by_count)
        dim = by_count[count][-1]
        wanted = target.tile_counts[dim]
        if wanted == count:
            _remove(by_count, count, dim)
            continue
        candidates = by_count[wanted]
        if count == 1:
            other = next((dim for dim in candidates if target.tile_counts[dim] != 1), candidates[-1])
        elif wanted % count == 0:
            other = next((dim for dim in candidates if target.tile_counts[dim] == count), candidates[-1])
        else:
            return None
        pairs.append((other, dim))
        by_count[count][-1] = other
        _remove(by_count, wanted, other)
    return pairs


def _lengths(by_count: dict[int, list[int]]) -> dict[int, int]:
    return {count: len(dims) for count, dims in by_count.items()}


def _remove(by_count: dict[int, list[int]], count: int, dim: int) -> None:
    by_count[count].remove(dim)
    if not by_count[count]:
        del by_count[count]
