"""What XLA's partitioner emits where a value changes from one set of tiles to another.

It tries, in this order: a collective-permute, all-to-alls, cutting copies apart, gathering into copies, a way through a
split dimension or through tiles between, a change inside groups of devices; else it gathers everything and cuts.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from hloom.sharding.collective import Step
from hloom.sharding.spmd.tiles import Counts, Tiles, align, copied_on, group, is_finer, tiles_of, ungroup, whole

Swaps = list[tuple[int, int]]


@dataclass(slots=True)
class Trace:
    """The collectives so far, their sizes in bytes; values have elements of `width` bytes.

    Groups of devices in another order than the mesh's are charged as if they were all devices, as the judge of plans
    does, unless they are formed inside of groups (`is_inner`) or listed one by one.
    """

    everyone: int
    width: int = 1
    is_inner: bool = False
    steps: list[Step] = field(default_factory=list)

    def inside(self) -> Trace:
        """The same trace, inside of groups."""
        return Trace(self.everyone, self.width, is_inner=True, steps=self.steps)

    def of(self, width: int) -> Trace:
        """The same trace, for a value whose elements are so wide."""
        return self if width == self.width else Trace(self.everyone, width, self.is_inner, self.steps)

    def add(self, kind: str, group: int, elements: int, tiles: Tiles) -> None:
        """A collective whose groups are formed from tiles."""
        if group > 1:
            is_plain = self.is_inner or tiles.is_whole or tiles.is_listed or tiles.is_ordered
            self.steps.append(Step(kind, group if is_plain else self.everyone, elements * self.width))

    def cut(self, parts: int) -> None:
        """What an all-reduce was the last step of is cut into parts: so much of it is a reduce-scatter."""
        if parts < 2 or not self.steps or self.steps[-1].kind != "all-reduce":
            return
        last = self.steps.pop()
        scattered = math.gcd(last.group, parts)
        if scattered > 1:
            self.steps.append(Step("reduce-scatter", scattered, last.elements))
        if last.group > scattered:
            self.steps.append(Step("all-reduce", last.group // scattered, last.elements // scattered))


def change(trace: Trace, dims: Counts, source: Tiles, target: Tiles, *, may_gather: bool = True) -> Tiles:
    """Change a value's tiles; the tiles that came of it: others than asked only where it may not gather everything."""
    if source.same(target) or source.is_whole:
        return target
    for attempt in (_permute, _exchange, _cut, _gather):
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


def can_exchange(source: Tiles, target: Tiles) -> bool:
    """Whether a change is a permute or all-to-alls."""
    if source.is_whole or target.is_whole:
        return False
    return (source.counts == target.counts and not source.same(target)) or _swaps(source, target) is not None


def _local(dims: Sequence[int], tiles: Tiles) -> int:
    return math.prod(tiles.local(dims))


def _permute(trace: Trace, dims: Counts, source: Tiles, target: Tiles) -> bool:
    """The same parts on other devices."""
    if target.is_whole or source.counts != target.counts:
        return False
    if not source.same(target):
        trace.steps.append(Step("collective-permute", 2, _local(dims, source) * trace.width))
    return True


def _exchange(trace: Trace, dims: Counts, source: Tiles, target: Tiles) -> bool:
    """All-to-alls between dimensions that swap their counts."""
    swaps = _swaps(source, target)
    if swaps is None:
        return False
    _swap(trace, dims, source, target, swaps)
    return True


def _swap(trace: Trace, dims: Counts, source: Tiles, target: Tiles, swaps: Swaps) -> None:
    together = _disjoint(dims, source, target, swaps)
    if len(together) > 1:
        between = _swapped(source, together)
        size = math.prod(source.counts[a] // source.counts[b] for a, b in together)
        trace.add("all-to-all", size, _padded(dims, source, between, together), between)
        source, swaps = between, [swap for swap in swaps if swap not in together]
    for a, b in swaps:
        between = _swapped(source, [(a, b)])
        size = source.counts[a] // source.counts[b]
        trace.add("all-to-all", size, _padded(dims, source, between, [(a, b)]), between)
        source = between
    _permute(trace, dims, source, target)


def _padded(dims: Counts, source: Tiles, target: Tiles, swaps: Swaps) -> int:
    """The elements that a device holds of a value, padded where it is to be split."""
    held = list(source.local(dims))
    for _, b in swaps:
        count = target.counts[b]
        held[b] += -(-dims[b] // count) * count - held[b] * source.counts[b]
    return math.prod(held)


def _disjoint(dims: Counts, source: Tiles, target: Tiles, swaps: Swaps) -> Swaps:
    """The swaps that one all-to-all can do: of dimensions that are not in others, evenly split."""
    seen: set[int] = set()
    found: Swaps = []
    for a, b in sorted(swaps, key=lambda swap: swap[1]):
        is_even = dims[a] % source.counts[a] == 0 and dims[b] % target.counts[b] == 0
        if is_even and not seen & {a, b}:
            found.append((a, b))
            seen |= {a, b}
    return found


def _swapped(tiles: Tiles, swaps: Swaps) -> Tiles:
    """The minor parts of one dimension's devices moved to another, for each swap."""
    array = tiles.array()
    for a, b in swaps:
        ratio = array.shape[a] // array.shape[b]
        shape = [*array.shape]
        split: list[int] = []
        for place, count in enumerate(shape):
            split += [array.shape[b], ratio] if place == a else [count, 1] if place == b else [count]
        first, second = sorted((a, b))
        minor = {first: first + 1, second: second + 2}
        order = list(range(len(split)))
        order[minor[a]], order[minor[b]] = order[minor[b]], order[minor[a]]
        shape[a], shape[b] = shape[b], shape[a]
        array = array.reshape(split).transpose(order).reshape(shape)
    return tiles_of(array, is_listed=tiles.is_listed)


def _swaps(source: Tiles, target: Tiles) -> Swaps | None:
    """Pairs of dimensions that, swapped one after the other, give the target's counts."""
    if target.is_whole or source.parts != target.parts:
        return None
    have: dict[int, list[int]] = defaultdict(list)
    want: dict[int, list[int]] = defaultdict(list)
    for place, (a, b) in enumerate(zip(source.counts, target.counts, strict=True)):
        if a != b:
            have[a].append(place)
            want[b].append(place)
    if not have or {size: len(each) for size, each in have.items()} != {s: len(each) for s, each in want.items()}:
        return None
    found: Swaps = []
    while have:
        size = min(have)
        place = have[size][-1]
        wanted = target.counts[place]
        if wanted == size:
            _remove(have, size, place)
            continue
        places = have[wanted]
        if size == 1:
            other = next((p for p in places if target.counts[p] != 1), places[-1])
        elif wanted % size == 0:
            other = next((p for p in places if target.counts[p] == size), places[-1])
        else:
            return None
        found.append((other, place))
        have[size][-1] = other
        _remove(have, wanted, other)
    return found


def _remove(places: dict[int, list[int]], size: int, place: int) -> None:
    places[size].remove(place)
    if not places[size]:
        del places[size]


def _cut(trace: Trace, dims: Counts, source: Tiles, target: Tiles) -> bool:
    """Copies cut apart, which sends nothing but what puts the parts on the devices that are asked for."""
    if target.is_whole or not source.is_partial:
        return False
    between = _compatible(source, target)
    if between is not None:
        return _permute(trace, dims, between, target)
    return _through_copies(trace, dims, source, target)


def _gather(trace: Trace, dims: Counts, source: Tiles, target: Tiles) -> bool:
    """Parts gathered into copies, after a permute where other devices hold the copies."""
    if not target.is_partial:
        return False
    between = _compatible(target, source)
    if between is None:
        return _through_copies(trace, dims, source, target)
    _permute(trace, dims, source, between)
    held = list(between.local(dims))
    for place in reversed(range(len(dims))):
        size = between.counts[place] // target.counts[place]
        held[place] *= size
        trace.inside().add("all-gather", size, math.prod(held), between)
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
        return _exchange(trace, dims, source, between) and change(trace, dims, between, target) is target
    change(trace, dims, source, between)
    return _exchange(trace, dims, between, target)


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
    several = [
        p
        for p, (a, b) in enumerate(pairs)
        if a != b and min(a, b) > 1 and max(a, b) % min(a, b) == 0 and -(-dims[p] // min(a, b)) * min(a, b) % max(a, b) == 0
    ]
    for p in several:
        for q in single:
            if pairs[p][0] * pairs[q][0] == pairs[p][1] * pairs[q][1]:
                return p, min(pairs[p])
    for p in several:
        if pairs[p][0] > pairs[p][1]:
            return p, pairs[p][1]
    return None


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
    inner = tuple(local if p in equal else size for p, (size, local) in enumerate(zip(dims, source.local(dims), strict=True)))
    change(trace.inside(), inner, have.tiles, want.tiles)
    return ungroup(want)


def replicate(trace: Trace, dims: Counts, source: Tiles) -> Tiles:
    """Gather everything, from the last dimension to the first."""
    held = list(source.local(dims))
    for place in reversed(range(len(dims))):
        held[place] *= source.counts[place]
        trace.add("all-gather", source.counts[place], math.prod(held), source)
        held[place] = dims[place]
    return whole(len(dims))
