"""Reshards that keep the number of tiles: a collective-permute of devices, and all-to-alls between dimensions.

Follows `PartitionedHlo::ReshardWithCollectivePermute`, `ReshardWithAllToAll` and `TryMultipleSourceTargetDims` in
xla/service/spmd/spmd_partitioner.cc, and `GetReshardAllToAllSourceTargetDims` in spmd_partitioner_util.cc.
"""

from __future__ import annotations

import math
from collections import defaultdict

from hloom.partitioner.tile_assignment import Dims, TileAssignment
from hloom.partitioner.trace import Trace

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
    """The elements that a device holds of a value, padded where it is to be split."""
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
