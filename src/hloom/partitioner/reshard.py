"""What XLA's partitioner emits where a value changes from one set of tiles to another.

It tries, in this order: a collective-permute, all-to-alls, cutting copies apart, gathering into copies, a way through a
split dimension or through tiles between, a change inside groups of devices; else it gathers everything and cuts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from hloom.partitioner.reshard_collectives import exchange, permute
from hloom.partitioner.tile_assignment import Counts, Tiles, align, copied_on, group, is_finer, tiles_of, ungroup, whole
from hloom.partitioner.trace import Trace


def change(trace: Trace, dims: Counts, source: Tiles, target: Tiles, *, may_gather: bool = True) -> Tiles:
    """Change a value's tiles; the tiles that came of it: others than asked only where it may not gather everything."""
    if source.same(target) or source.is_whole:
        return target
    for attempt in (permute, exchange, _cut, _gather):
        if attempt(trace, dims, source, target):
            return target
    if not target.is_whole:
        if _around(trace, dims, source, target):
            return target
        inner = _in_groups(trace, dims, source, target)
        if inner is not None:
            return change(trace, dims, inner, target, may_gather=may_gather)
        if not may_gather:
            return source
    replicate(trace, dims, source)
    return target


def _cut(trace: Trace, dims: Counts, source: Tiles, target: Tiles) -> bool:
    """Copies cut apart, which sends nothing but what puts the parts on the devices that are asked for."""
    if target.is_whole or not source.is_partial:
        return False
    between = _compatible(source, target)
    if between is not None:
        return permute(trace, dims, between, target)
    return _through_copies(trace, dims, source, target)


def _gather(trace: Trace, dims: Counts, source: Tiles, target: Tiles) -> bool:
    """Parts gathered into copies, after a permute where other devices hold the copies."""
    if not target.is_partial:
        return False
    between = _compatible(target, source)
    if between is None:
        return _through_copies(trace, dims, source, target)
    permute(trace, dims, source, between)
    held = list(between.local(dims))
    for place in reversed(range(len(dims))):
        size = between.counts[place] // target.counts[place]
        held[place] *= size
        trace.add("all-gather", {place: size}, math.prod(held), between, is_inner=True)
        held[place] = min(held[place], -(-dims[place] // target.counts[place]))
    return True


def _compatible(coarse: Tiles, fine: Tiles) -> Tiles | None:
    """Tiles with the finer one's counts that come of cutting the coarser one's copies; the finer itself if it does."""
    if any(b % a for a, b in zip(coarse.counts, fine.counts, strict=True)):
        return None
    if is_finer(fine, coarse):
        return fine
    ratios = [b // a for a, b in zip(coarse.counts, fine.counts, strict=True)]
    grown = [place for place, ratio in enumerate(ratios) if ratio > 1]
    rank = len(ratios)
    array = coarse.array().reshape(*coarse.counts, *(ratios[place] for place in grown), fine.copies)
    order: list[int] = []
    for place in range(rank):
        order += [place, rank + grown.index(place)] if place in grown else [place]
    return tiles_of(array.transpose([*order, rank + len(grown)]).reshape(*fine.counts, fine.copies))


def _through_copies(trace: Trace, dims: Counts, source: Tiles, target: Tiles) -> bool:
    """Between tiles without copies and tiles with them where every count stands one dimension further on."""
    copied, tiled = (source, target) if source.is_partial else (target, source)
    if not copied.is_partial or tiled.is_partial or tiled.is_whole or copied.counts[0] != 1:
        return False
    shifted = (*copied.counts[1:], copied.copies)
    last = max(place for place, count in enumerate(tiled.counts) if count > 1)
    if shifted != tiled.counts or tiled.counts[last] != copied.copies or copied.devices != tiled.devices:
        return False
    array = tiled.array()
    shape = tuple(1 if place == last else count for place, count in enumerate(tiled.counts))
    between = tiles_of(array.reshape(*shape, copied.copies))
    if copied is source:
        return exchange(trace, dims, source, between) and change(trace, dims, between, target) is target
    change(trace, dims, source, between)
    return exchange(trace, dims, between, target)


def _around(trace: Trace, dims: Counts, source: Tiles, target: Tiles) -> bool:
    """Through a dimension that is split in two, or through tiles between; nothing is sent where that does not go."""
    start = len(trace.steps)
    split = _split_place(dims, source, target)
    if split is not None:
        if _through_split(trace, dims, source, target, *split):
            return True
        del trace.steps[start:]
        return False
    for between in _between(source, target):
        now = change(trace, dims, source, between)
        if change(trace, dims, now, target, may_gather=False).same(target):
            return True
        del trace.steps[start:]
        return False
    return False


def _split_place(dims: Counts, source: Tiles, target: Tiles) -> tuple[int, int] | None:
    """A dimension whose count is to be split, and how many major parts it keeps."""
    if source.copies != target.copies:
        return None
    pairs = list(zip(source.counts, target.counts, strict=True))
    single = [p for p, (a, b) in enumerate(pairs) if a != b and min(a, b) == 1]
    several = [p for p, (a, b) in enumerate(pairs) if a != b and min(a, b) > 1 and _is_even(dims[p], a, b)]
    for p in several:
        for q in single:
            if pairs[p][0] * pairs[q][0] == pairs[p][1] * pairs[q][1]:
                return p, min(pairs[p])
    for p in several:
        if pairs[p][0] > pairs[p][1]:
            return p, pairs[p][1]
    return None


def _is_even(size: int, a: int, b: int) -> bool:
    """Whether one count divides the other, and the parts of the coarser split by the finer one."""
    few, many = sorted((a, b))
    return many % few == 0 and -(-size // few) * few % many == 0


def _through_split(trace: Trace, dims: Counts, source: Tiles, target: Tiles, place: int, major: int) -> bool:
    before, after = _split(source, place, major), _split(target, place, major)
    local = source.local(dims)[place]
    minor = local * before.counts[place + 1]
    inner = (*dims[:place], dims[place] // minor, minor, *dims[place + 1 :])
    now = change(trace, inner, before, after, may_gather=False)
    if not now.same(after):
        return False
    merged = _merge(now, place)
    return change(trace, dims, merged, target, may_gather=False).same(target)


def _split(tiles: Tiles, place: int, major: int) -> Tiles:
    counts = (*tiles.counts[:place], major, tiles.counts[place] // major, *tiles.counts[place + 1 :])
    return Tiles(counts, tiles.copies, tiles.devices, tiles.is_listed)


def _merge(tiles: Tiles, place: int) -> Tiles:
    counts = (*tiles.counts[:place], tiles.counts[place] * tiles.counts[place + 1], *tiles.counts[place + 2 :])
    return Tiles(counts, tiles.copies, tiles.devices, tiles.is_listed)


def _between(source: Tiles, target: Tiles) -> Iterator[Tiles]:
    """Tiles from which the rest may go plainly: a dimension gathered, or the copies moved to where parts are asked."""
    if target.is_partial:
        for place, count in enumerate(source.counts):
            if count > 1 and count * source.copies == target.copies:
                yield copied_on(source, (place,))
                return
    if source.is_partial and not target.is_partial:
        for place, (a, b) in enumerate(zip(source.counts, target.counts, strict=True)):
            if a == 1 and b > 1 and b % source.copies == 0:
                array = np.swapaxes(source.array(), place, len(source.counts))
                yield tiles_of(array, is_listed=source.is_listed)
                return


def _in_groups(trace: Trace, dims: Counts, source: Tiles, target: Tiles) -> Tiles | None:
    """A change inside groups of devices along the dimensions that both split equally; the tiles that come of it."""
    equal = tuple(p for p, (a, b) in enumerate(zip(source.counts, target.counts, strict=True)) if a == b > 1)
    if not equal:
        return None
    have = group(source, equal)
    want = align(group(target, equal), have)
    local = source.local(dims)
    inner = tuple(local[p] if p in equal else size for p, size in enumerate(dims))
    change(trace.inside(have.groups), inner, have.tiles, want.tiles)
    return ungroup(want)


def replicate(trace: Trace, dims: Counts, source: Tiles) -> Tiles:
    """Gather everything, from the last dimension to the first."""
    held = list(source.local(dims))
    for place in reversed(range(len(dims))):
        held[place] *= source.counts[place]
        trace.add("all-gather", {place: source.counts[place]}, math.prod(held), source)
        held[place] = dims[place]
    return whole(len(dims))
