"""Dots whose result is split as one operand's own dimensions are: groups of devices along these."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from hloom.partitioner.dot import Dot, Role, asked_by_result, inside
from hloom.partitioner.tile_assignment import (
    Counts,
    Grouped,
    Tiles,
    align,
    copied_on,
    dims_of_groups,
    group,
    is_finer,
    moved,
    tiles_of,
    ungroup,
)


def by_own(dot: Dot, may_move: bool) -> bool:
    """Groups along the own dimensions of one operand."""
    left, right = dot.roles.left, dot.roles.right
    have, want = (dot.parts(0, left), dot.parts(1, right)), (dot.parts(2, left), dot.parts(2, right))
    may_left, may_right = have[0] == want[0] > 1, have[1] == want[1] > 1
    if may_left or may_right:
        is_left = may_left and (not may_right or have[0] * dot.right.bytes < have[1] * dot.left.bytes)
        return _by_left(dot if is_left else dot.mirrored(), left if is_left else dot.mirrored().roles.left, may_move)
    for each, side in ((dot, 0), (dot.mirrored(), 1)):
        if have[side] > 1 and want[side] > 1:
            own = each.roles.left
            same = tuple(d for d in own if each.left.tiles.counts[d[0]] == each.result.tiles.counts[d[2]] > 1)
            return bool(same) and _by_left(each, same, may_move)
    return False


def _by_left(dot: Dot, own: Role, may_move: bool) -> bool:
    """Groups along some of the left operand's own dimensions, which the result splits alike."""
    result = group(dot.result.tiles, tuple(each[2] for each in own))
    counts = [*dot.left.tiles.counts, dot.left.tiles.copies]
    for each in own:
        counts[each[0]] = dot.result.tiles.counts[each[2]]
    places = tuple(each[0] for each in own)
    reshaped = tiles_of(dot.left.tiles.array().reshape(counts), is_listed=dot.left.tiles.is_listed)
    matching = align(group(reshaped, places), result)
    if not may_move and not ungroup(matching).same(dot.left.tiles):
        return False
    other = _other_groups(dot, own, result)
    if other is None and not dot.right.tiles.is_whole:
        count = len(dot.trace.steps)
        changed = dot.laid(1, _expected(dot))
        other = _other_groups(changed, own, result)
        if other is None:
            del dot.trace.steps[count:]
        else:
            dot = changed
    if other is None:
        dot = dot.gathered(1)
    dot = dot.laid(0, ungroup(matching))
    second = dot.right
    if other is not None and other.dims == (len(second.dims),):
        second = replace(dot.laid(1, ungroup(other)).right, tiles=other.tiles)
    elif other is not None and not second.tiles.is_whole:
        wanted = ungroup(other)
        formed = group(wanted, other.dims).groups
        is_same = all(set(a) == set(b) for a, b in zip(formed, other.groups, strict=True))
        if not second.tiles.is_partial or not is_same:
            dot = dot.laid(1, wanted)
        second = replace(dot.laid(1, copied_on(dot.right.tiles, other.dims)).right, tiles=other.tiles)
    inner = replace(dot.result, dims=result.base(dot.result.dims), tiles=result.tiles)
    devices = dot.devices // len(result.groups)
    first = inside(dot.left, matching)
    trace = dot.trace.inside(result.groups)
    dot.again(replace(dot, left=first, right=second, result=inner, devices=devices, trace=trace))
    return True


def _other_groups(dot: Dot, own: Role, result: Grouped) -> Grouped | None:
    """How the right operand can be grouped beside a left one; None where it has to be gathered."""
    tiles, count = dot.right.tiles, len(result.groups)
    rank = len(tiles.counts)
    if tiles.is_whole:
        return None
    last = rank if tiles.is_partial else rank - 1
    dims: Counts = ()
    if tiles.is_partial and tiles.copies % count == 0:
        shape = (*tiles.counts, tiles.copies)
        for place in reversed(range(rank + 1)):
            if shape[place] % count == 0:
                found = _assigned(np.swapaxes(tiles.array(), place, rank), result.groups)
                if found is not None:
                    return found
        dims = (rank,)
    if not dims:
        roles = dot.roles
        theirs, mine = dot.parts(1, roles.contracted), dot.parts(0, roles.contracted)
        free, asked = dot.parts(1, roles.right), dot.parts(2, roles.right)
        may_contracted = theirs == count and free == asked
        may_own = count == free and mine == theirs
        found_dims = dims_of_groups(tiles, result.groups)
        if found_dims is not None:
            dims = found_dims
        elif may_contracted and (not may_own or dot.right.bytes <= dot.result.bytes):
            dims = tuple(each[1] for each in roles.contracted)
        elif may_own:
            dims = tuple(each[1] for each in roles.right)
        else:
            return None
    if dims == (last,):
        shape = (*tiles.counts, tiles.copies)
        return align(group(tiles, dims, (shape[last] // count,)), result, in_any_order=True)
    return align(group(tiles, dims), result, in_any_order=True)


def _assigned(array: np.ndarray, groups: tuple[tuple[int, ...], ...]) -> Grouped | None:
    """Copies dealt out to given groups, so that all have the same tiles inside; None where that does not go."""
    count = len(groups)
    if array.shape[-1] % count:
        return None
    share = array.shape[-1] // count
    place = {int(device): index[:-1] for index, device in np.ndenumerate(array)}
    inner: np.ndarray | None = None
    for each in groups:
        found = np.empty((*array.shape[:-1], share), dtype=int)
        seen: dict[tuple[int, ...], int] = {}
        for number, device in enumerate(each):
            position = seen.get(place[device], 0)
            if position == share:
                return None
            found[(*place[device], position)] = number
            seen[place[device]] = position + 1
        if inner is not None and (inner != found).any():
            return None
        inner = found
    assert inner is not None
    return Grouped(groups, (array.ndim - 1,), (count,), tiles_of(inner, is_listed=True))


def _expected(dot: Dot) -> Tiles:
    """The tiles of the right operand that the result and the left operand ask for together."""
    asked = asked_by_result(dot, 1)
    copied = copied_on(dot.left.tiles, tuple(each[0] for each in dot.roles.left))
    beside = moved(copied, dot.roles.places(0, 1, len(dot.left.dims)), len(dot.right.dims))
    assert beside is not None
    return _merged(asked, beside)


def _merged(first: Tiles, second: Tiles) -> Tiles:
    """Tiles finer than both; the first where there are none."""
    if first.is_whole or second.is_whole:
        return second if first.is_whole else first
    counts = tuple(a if b == 1 else b for a, b in zip(first.counts, second.counts, strict=True))
    if math.prod(counts) > len(first.devices) or len(first.devices) % math.prod(counts):
        return first
    where = [dict(_places(tiles)) for tiles in (first, second)]
    found: dict[tuple[int, ...], list[int]] = {}
    for device in sorted(first.devices):
        index = zip(where[0][device], where[1][device], first.counts, second.counts, strict=True)
        found.setdefault(tuple(b if theirs > 1 else a for a, b, _, theirs in index), []).append(device)
    copies = len(first.devices) // math.prod(counts)
    if len(found) != math.prod(counts) or any(len(each) != copies for each in found.values()):
        return first
    array = np.array([found[index] for index in np.ndindex(*counts)]).reshape(*counts, copies)
    tiles = tiles_of(array)
    return tiles if is_finer(tiles, first) and is_finer(tiles, second) else first


def _places(tiles: Tiles) -> list[tuple[int, tuple[int, ...]]]:
    return [(int(device), index[:-1]) for index, device in np.ndenumerate(tiles.array())]
