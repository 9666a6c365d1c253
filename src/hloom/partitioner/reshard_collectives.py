"""Changes that keep all parts: permutes of devices, and all-to-alls between dimensions."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from hloom.partitioner.tile_assignment import Counts, Tiles, tiles_of
from hloom.partitioner.trace import Trace

Swaps = list[tuple[int, int]]


def permute(trace: Trace, dims: Counts, source: Tiles, target: Tiles) -> bool:
    """The same parts on other devices."""
    if target.is_whole or source.counts != target.counts:
        return False
    if not source.same(target):
        trace.permute(local_elements(dims, source), source, target)
    return True


def exchange(trace: Trace, dims: Counts, source: Tiles, target: Tiles) -> bool:
    """All-to-alls between dimensions that swap their counts."""
    swaps = _swaps(source, target)
    if swaps is None:
        return False
    _swap(trace, dims, source, target, swaps)
    return True


def can_exchange(source: Tiles, target: Tiles) -> bool:
    """Whether a change is a permute or all-to-alls."""
    if source.is_whole or target.is_whole:
        return False
    return (source.counts == target.counts and not source.same(target)) or _swaps(source, target) is not None


def _swap(trace: Trace, dims: Counts, source: Tiles, target: Tiles, swaps: Swaps) -> None:
    together = _disjoint(dims, source, target, swaps)
    if len(together) > 1:
        between = _swapped(source, together)
        minor = {b: source.counts[a] // source.counts[b] for a, b in together}
        trace.add("all-to-all", minor, _padded(dims, source, between, together), between)
        source, swaps = between, [swap for swap in swaps if swap not in together]
    for a, b in swaps:
        between = _swapped(source, [(a, b)])
        minor = {b: source.counts[a] // source.counts[b]}
        trace.add("all-to-all", minor, _padded(dims, source, between, [(a, b)]), between)
        source = between
    permute(trace, dims, source, target)


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


def local_elements(dims: Sequence[int], tiles: Tiles) -> int:
    return math.prod(tiles.local(dims))
