"""How XLA's partitioner sees a spec: parts per dimension, copies, and which device holds which part.

What XLA does where a spec changes depends on the order of devices, not on axes, and it forms groups of devices and goes
on inside them, numbered anew. So here are its notions: `Tiles` is its tile assignment, `Grouped` its grouped sharding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

Counts = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tiles:
    """Parts per dimension, copies of each part, and the devices in the order of parts; none where all is copied.

    `is_listed` says that the devices are a list and no transposed range: collectives then name their groups one by one.
    """

    counts: Counts
    copies: int = 1
    devices: tuple[int, ...] = ()
    is_listed: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether every device holds everything."""
        return not self.devices

    @property
    def is_partial(self) -> bool:
        """Whether there are parts, and several devices hold the same."""
        return self.copies > 1

    @property
    def parts(self) -> int:
        """How many parts there are."""
        return math.prod(self.counts)

    @property
    def is_ordered(self) -> bool:
        """Whether the devices stand in their own order."""
        return self.devices == tuple(range(len(self.devices)))

    def same(self, other: Tiles) -> bool:
        """Whether both put the same parts on the same devices."""
        return self.counts == other.counts and self.devices == other.devices

    def array(self) -> np.ndarray:
        """The devices as an array: a dimension for each of the value's and one for copies."""
        return np.array(self.devices).reshape(*self.counts, self.copies)

    def local(self, dims: Sequence[int]) -> Counts:
        """The dimensions of what one device holds."""
        return tuple(-(-size // count) for size, count in zip(dims, self.counts, strict=True))


@dataclass(frozen=True, slots=True)
class Grouped:
    """Devices in groups along some dimensions (or the copies, which count as the last), and the tiles in each."""

    groups: tuple[tuple[int, ...], ...]
    dims: Counts
    sizes: Counts
    tiles: Tiles

    def base(self, dims: Sequence[int]) -> Counts:
        """The dimensions of what one group holds of a value."""
        found = list(dims)
        for place, size in zip(self.dims, self.sizes, strict=True):
            if place < len(found):
                found[place] = -(-found[place] // size)
        return tuple(found)


def whole(rank: int) -> Tiles:
    """Everything everywhere."""
    return Tiles((1,) * rank)


def tiles_of(array: np.ndarray, *, is_listed: bool = False) -> Tiles:
    """Tiles from an array of devices whose last dimension is copies."""
    counts, copies = array.shape[:-1], array.shape[-1]
    if math.prod(counts) == 1:
        return whole(len(counts))
    ordered = np.sort(array, axis=-1)
    return Tiles(tuple(map(int, counts)), int(copies), tuple(ordered.ravel().tolist()), is_listed)


@lru_cache(1 << 16)
def group(tiles: Tiles, dims: Counts, inner: Counts = ()) -> Grouped:
    """Groups of devices along dimensions; `inner` is how many parts of each stay inside a group."""
    array = tiles.array()
    kept = {place: inner[number] if inner else 1 for number, place in enumerate(dims)}
    inside_counts = list(array.shape)
    for place, count in kept.items():
        inside_counts[place] = count
    sizes = tuple(array.shape[place] // kept[place] for place in dims)
    shape: list[int] = []
    major: dict[int, int] = {}
    for place, count in enumerate(array.shape):
        if place in kept:
            major[place] = len(shape)
            shape.append(count // kept[place])
        shape.append(inside_counts[place])
    first = [major[place] for place in dims]
    order = first + [place for place in range(len(shape)) if place not in first]
    split = array.reshape(shape).transpose(order).reshape(math.prod(sizes), -1)
    inside = tiles_of(np.arange(math.prod(inside_counts)).reshape(inside_counts))
    return Grouped(tuple(map(tuple, split.tolist())), dims, sizes, inside)


@lru_cache(1 << 16)
def ungroup(grouped: Grouped) -> Tiles:
    """The tiles of all devices from those in the groups."""
    rank = len(grouped.tiles.counts)
    size = len(grouped.groups[0])
    nothing_split = np.arange(size).reshape(*(1,) * rank, size)
    inside = nothing_split if grouped.tiles.is_whole else grouped.tiles.array()
    found = np.array(grouped.groups)[:, inside]
    found = found.reshape(*grouped.sizes, *inside.shape)
    count = len(grouped.dims)
    order: list[int] = []
    shape: list[int] = []
    for place in range(rank + 1):
        shape.append(inside.shape[place])
        if place in grouped.dims:
            order.append(grouped.dims.index(place))
            shape[-1] *= grouped.sizes[grouped.dims.index(place)]
        order.append(count + place)
    return tiles_of(found.transpose(order).reshape(shape), is_listed=_is_listed(grouped))


def _is_listed(grouped: Grouped) -> bool:
    return not grouped.tiles.is_whole and grouped.tiles.is_listed


@lru_cache(1 << 16)
def align(grouped: Grouped, reference: Grouped, *, in_any_order: bool = False) -> Grouped:
    """The same with the groups of a reference; the tiles are renumbered where the groups hold the same devices."""
    if grouped.groups == reference.groups:
        return grouped
    where = {device: number for number, each in enumerate(reference.groups) for device in each}
    found = [{where[device] for device in each} for each in grouped.groups]
    is_matching = all(len(each) == 1 and (in_any_order or each == {number}) for number, each in enumerate(found))
    tiles = grouped.tiles
    if is_matching and not tiles.is_whole:
        target = reference.groups[next(iter(found[0]))]
        places = {device: place for place, device in enumerate(target)}
        renumbered = [places[device] for device in grouped.groups[0]]
        tiles = tiles_of(np.array(renumbered)[tiles.array()], is_listed=True)
    return Grouped(reference.groups, grouped.dims, grouped.sizes, tiles)


@lru_cache(1 << 16)
def copied_on(tiles: Tiles, dims: Counts) -> Tiles:
    """The same, but copied along some dimensions."""
    dims = tuple(place for place in dims if place < len(tiles.counts))
    if tiles.is_whole or all(tiles.counts[place] == 1 for place in dims):
        return tiles
    array = tiles.array()
    kept = [place for place in range(array.ndim) if place not in dims]
    moved = array.transpose([*kept[:-1], *dims, kept[-1]])
    shape = tuple(1 if place in dims else count for place, count in enumerate(tiles.counts))
    return tiles_of(moved.reshape(*shape, -1), is_listed=tiles.is_listed)


@lru_cache(1 << 16)
def moved(tiles: Tiles, target: Counts, rank: int) -> Tiles | None:
    """The tiles of a value whose dimensions are these, each in its `target` place (-1: none, and it must be whole)."""
    if tiles.is_whole:
        return whole(rank)
    if any(place < 0 and count > 1 for place, count in zip(target, tiles.counts, strict=True)):
        return None
    shape = [1] * rank
    for place, count in zip(target, tiles.counts, strict=True):
        if place >= 0:
            shape[place] = count
    order = sorted((p for p in range(len(target)) if target[p] >= 0), key=lambda p: target[p])
    gone = [p for p in range(len(target)) if target[p] < 0]
    array = tiles.array().transpose([*order, *gone, len(target)])
    return tiles_of(array.reshape(*shape, tiles.copies), is_listed=tiles.is_listed)


@lru_cache(1 << 16)
def is_finer(tiles: Tiles, coarse: Tiles) -> bool:
    """Whether each device's part lies inside its part of the coarser tiles."""
    if coarse.is_whole:
        return True
    if tiles.is_whole or any(a % b for a, b in zip(tiles.counts, coarse.counts, strict=True)):
        return False
    have, want = _places(tiles), _places(coarse)
    ratios = np.array([a // b for a, b in zip(tiles.counts, coarse.counts, strict=True)])
    return bool((have // ratios == want).all())


def _places(tiles: Tiles) -> np.ndarray:
    """Per device the place of its part."""
    found = np.empty((len(tiles.devices), len(tiles.counts)), dtype=int)
    index = np.indices((*tiles.counts, tiles.copies)).reshape(len(tiles.counts) + 1, -1)[:-1]
    found[np.array(tiles.devices)] = index.T
    return found


@lru_cache(1 << 16)
def dims_of_groups(tiles: Tiles, groups: tuple[tuple[int, ...], ...]) -> Counts | None:
    """The dimensions (copies being the last) along which tiles can be grouped to have these groups, in any order."""
    if tiles.is_whole or len(groups) < 2 or len(tiles.devices) != sum(map(len, groups)):
        return None
    array = tiles.array()
    if len(groups[0]) < 2:
        return tuple(place for place, count in enumerate(array.shape) if count > 1)
    index = np.empty((len(tiles.devices), array.ndim), dtype=int)
    index[array.ravel()] = np.indices(array.shape).reshape(array.ndim, -1).T
    first, second = index[groups[0][0]], index[groups[0][1]]
    dims = tuple(place for place in range(array.ndim - (tiles.copies == 1)) if first[place] == second[place])
    if math.prod(array.shape[place] for place in dims) != len(groups):
        return None
    for each in groups:
        rows = index[list(each)][:, list(dims)]
        if (rows != rows[0]).any():
            return None
    return dims
