"""What XLA's partitioner emits for a dot whose operands and result lie in given tiles.

It looks for dimensions that operands and result split alike (batch dimensions, then those of one operand, then contracted
ones), forms groups of devices along them, and does the same inside the groups: first as long as no device needs to
move, then with changes of tiles. What it finds no way for, it gathers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from hloom.sharding.spmd.changes import Trace, can_exchange, change, replicate
from hloom.sharding.spmd.tiles import (
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
    whole,
)


@dataclass(frozen=True, slots=True)
class Held:
    """A value: its dimensions, the bytes of an element, and how it lies."""

    dims: Counts
    width: int
    tiles: Tiles

    @property
    def bytes(self) -> int:
        """The bytes that one device holds."""
        return math.prod(self.tiles.local(self.dims)) * self.width


@dataclass(frozen=True, slots=True)
class Roles:
    """What the dimensions of a dot are: triples of left, right and result, -1 where there is none."""

    batch: tuple[tuple[int, int, int], ...]
    contracted: tuple[tuple[int, int, int], ...]
    left: tuple[tuple[int, int, int], ...]
    right: tuple[tuple[int, int, int], ...]

    def mirrored(self) -> Roles:
        """The same with the operands exchanged."""
        return Roles(*(tuple((r, l, o) for l, r, o in each) for each in (self.batch, self.contracted, self.right, self.left)))

    def places(self, source: int, target: int, rank: int) -> Counts:
        """For each dimension of one of left (0), right (1) and result (2) its place in another."""
        found = [-1] * rank
        for each in (*self.batch, *self.contracted, *self.left, *self.right):
            if each[source] >= 0:
                found[each[source]] = each[target]
        return tuple(found)


Create = Callable[[Held, Held], int]
"""Makes the dot on one device, combines what it must, and says how many elements come out."""


@dataclass(frozen=True, slots=True)
class Dot:
    """A dot inside of groups of so many devices, at some level of grouping."""

    roles: Roles
    left: Held
    right: Held
    result: Held
    devices: int
    trace: Trace
    create: Create

    def parts(self, side: int, role: tuple[tuple[int, int, int], ...]) -> int:
        """Into how many parts left, right or result is split along dimensions of a role."""
        held = (self.left, self.right, self.result)[side]
        return math.prod(held.tiles.counts[each[side]] for each in role if each[side] >= 0)

    def as_seen(self, source: int, target: int) -> Tiles | None:
        """The tiles of one value carried over to another; None where a dimension that is split has no place there."""
        held = (self.left, self.right, self.result)
        places = self.roles.places(source, target, len(held[source].dims))
        return moved(held[source].tiles, places, len(held[target].dims))

    def laid(self, side: int, tiles: Tiles) -> Dot:
        """The dot after an operand was changed to other tiles."""
        held = (self.left, self.right)[side]
        change(self.trace.of(held.width), held.dims, held.tiles, tiles)
        return self._with(side, replace(held, tiles=tiles))

    def gathered(self, side: int) -> Dot:
        """The dot after an operand was gathered."""
        held = (self.left, self.right)[side]
        return self._with(side, replace(held, tiles=replicate(self.trace.of(held.width), held.dims, held.tiles)))

    def _with(self, side: int, held: Held) -> Dot:
        return replace(self, left=held) if side == 0 else replace(self, right=held)

    def mirrored(self) -> Dot:
        """The same with the operands exchanged."""
        roles = self.roles.mirrored()
        return replace(
            self, roles=roles, left=self.right, right=self.left, create=lambda left, right: self.create(right, left)
        )

    def made(self) -> int:
        """Make the dot on each device."""
        return self.create(self.left, self.right)

    def settled(self, tiles: Tiles) -> bool:
        """Change the result from the tiles that it has to those that are asked."""
        settle(self.trace, self.result.dims, self.result.width, tiles, self.result.tiles)
        return True


def settle(trace: Trace, dims: Counts, width: int, have: Tiles, want: Tiles) -> None:
    """Change a value that was just made; where that only cuts what an all-reduce gave, part of it is a reduce-scatter."""
    count = len(trace.steps)
    change(trace.of(width), dims, have, want)
    if len(trace.steps) == count:
        trace.cut(want.parts // have.parts)


def contract(trace: Trace, roles: Roles, left: Held, right: Held, result: Held, devices: int) -> None:
    """Trace the collectives of a dot."""

    def create(left: Held, right: Held) -> int:
        a, b = left.tiles.local(left.dims), right.tiles.local(right.dims)
        own = math.prod(a[each[0]] for each in (*roles.batch, *roles.left))
        return own * math.prod(b[each[1]] for each in roles.right)

    _partition(Dot(roles, left, right, result, devices, trace, create))


def _partition(dot: Dot) -> None:
    for may_move in (False, True):
        for attempt in (_plainly, _by_batch, _by_own, _by_contracted, _without_copies, _plainly_changed):
            count = len(dot.trace.steps)
            if attempt(dot, may_move):
                return
            del dot.trace.steps[count:]
    for side in (0, 1):
        dot = dot.laid(side, _asked_by_result(dot, side))
    dot.made()


def _plainly(dot: Dot, may_move: bool) -> bool:
    return _base(dot, may_change=False)


def _plainly_changed(dot: Dot, may_move: bool) -> bool:
    return _base(dot, may_change=True)


def _base(dot: Dot, *, may_change: bool) -> bool:
    """All devices split one kind of dimension."""
    roles, devices, result = dot.roles, dot.devices, dot.result.tiles
    if result.is_partial:
        return False
    batch = [dot.parts(side, roles.batch) == devices for side in (0, 1, 2)]
    to_right = dot.as_seen(0, 1)
    if batch[0] and batch[1] and to_right is not None and to_right.same(dot.right.tiles):
        dot.made()
        made = dot.as_seen(0, 2)
        assert made is not None
        return dot.settled(made)
    for may_gather in (False, True):
        for each in (dot, dot.mirrored()):
            if _like_one_operand(each, may_gather=may_gather):
                return True
    contracted = [dot.parts(side, roles.contracted) == devices for side in (0, 1)]
    if all(contracted) and result.is_whole:
        smaller = int(_size(dot.left) >= _size(dot.right))
        return _reduced(dot, smaller)
    for each in (dot, dot.mirrored()):
        if _own_split(each):
            each.gathered(1).made()
            return True
    if may_change and _like_result(dot):
        return True
    if not result.is_whole:
        return False
    for side in (1, 0):
        other, own = (dot.left, dot.right)[1 - side], (dot.left, dot.right)[side]
        if contracted[side] and other.tiles.is_whole and math.prod(own.dims) > math.prod(dot.result.dims):
            return _reduced(dot, 1 - side)
    return False


def _size(held: Held) -> int:
    return math.prod(held.dims) * held.width


def _like_one_operand(dot: Dot, *, may_gather: bool) -> bool:
    """The left operand and the result are split alike, along batch dimensions only."""
    roles, devices = dot.roles, dot.devices
    if dot.parts(0, roles.batch) != devices or dot.parts(2, roles.batch) != devices:
        return False
    made, wanted = dot.as_seen(0, 2), dot.as_seen(0, 1)
    if made is None or wanted is None or not made.same(dot.result.tiles):
        return False
    if not may_gather and not can_exchange(dot.right.tiles, wanted):
        return False
    dot.laid(1, wanted).made()
    return True


def _own_split(dot: Dot) -> bool:
    """The left operand and the result are split alike, along the left's own dimensions only."""
    own = dot.roles.left
    made = dot.as_seen(0, 2)
    return (
        dot.parts(0, own) == dot.devices == dot.parts(2, own) and made is not None and made.same(dot.result.tiles)
    )


def _reduced(dot: Dot, side: int) -> bool:
    """Lay an operand as the other one lies, and combine the partial results."""
    wanted = dot.as_seen(1 - side, side)
    assert wanted is not None
    dot = dot.laid(side, wanted)
    elements = dot.made()
    places = tuple(each[0] for each in dot.roles.contracted)
    _all_reduce(dot.trace.of(dot.result.width), elements, dot.left.tiles, places)
    return dot.settled(whole(len(dot.result.dims)))


def _all_reduce(trace: Trace, elements: int, tiles: Tiles, places: Counts) -> None:
    """All-reduces along dimensions (copies being the last), from the last to the first."""
    shape = (*tiles.counts, tiles.copies)
    for place in sorted(places, reverse=True):
        trace.add("all-reduce", shape[place], elements, tiles)


def _like_result(dot: Dot) -> bool:
    """Lay the operands as the result is split, where that is along one kind of dimension."""
    roles, devices = dot.roles, dot.devices
    if dot.parts(2, roles.batch) == devices:
        first, second = dot.as_seen(2, 0), dot.as_seen(2, 1)
        assert first is not None and second is not None
        dot.laid(0, first).laid(1, second).made()
        return True
    for each in (dot, dot.mirrored()):
        if each.parts(2, each.roles.left) == devices:
            wanted = each.as_seen(2, 0)
            assert wanted is not None
            each.laid(0, wanted).gathered(1).made()
            return True
    return False


def _by_batch(dot: Dot, may_move: bool) -> bool:
    """Groups along batch dimensions."""
    roles = dot.roles
    asked = dot.parts(2, roles.batch)
    if asked == 1 or asked not in (dot.parts(0, roles.batch), dot.parts(1, roles.batch)):
        return False
    places = [tuple(each[side] for each in roles.batch) for side in (0, 1, 2)]
    result = group(dot.result.tiles, places[2])
    alike = all(dot.left.tiles.counts[a] == dot.right.tiles.counts[b] for a, b, _ in roles.batch)
    if alike and not may_move:
        first, second = group(dot.left.tiles, places[0]), group(dot.right.tiles, places[1])
        alike = ungroup(align(second, first)).same(dot.right.tiles)
    if alike:
        first, second = group(dot.left.tiles, places[0]), group(dot.right.tiles, places[1])
        if dot.left.bytes > dot.right.bytes:
            second = align(second, first)
            dot = dot.laid(1, ungroup(second))
        else:
            first = align(first, second)
            dot = dot.laid(0, ungroup(first))
        counts = list(dot.result.tiles.counts)
        for a, _, o in roles.batch:
            counts[o] = first.sizes[places[0].index(a)]
        shape = (*counts, dot.result.tiles.copies)
        result = align(group(tiles_of(dot.result.tiles.array().reshape(shape)), places[2]), first)
        operands = [_inside(dot.left, first), _inside(dot.right, second)]
    else:
        operands = []
        for side in (0, 1):
            found = _laid_by_batch(dot, side, result, may_move)
            if found is None:
                return False
            operands.append(found)
    inner = replace(dot.result, dims=result.base(dot.result.dims), tiles=result.tiles)
    devices = dot.devices // len(result.groups)
    _partition(replace(dot, left=operands[0], right=operands[1], result=inner, devices=devices, trace=dot.trace.inside()))
    return dot.settled(ungroup(result))


def _inside(held: Held, grouped: Grouped) -> Held:
    return Held(grouped.base(held.dims), held.width, grouped.tiles)


def _laid_by_batch(dot: Dot, side: int, result: Grouped, may_move: bool) -> Held | None:
    """An operand split along batch dimensions as the result is; None where its other parts are in the way."""
    held = (dot.left, dot.right)[side]
    if held.tiles.is_whole:
        dims = list(held.dims)
        for each, size in zip(dot.roles.batch, result.sizes, strict=True):
            dims[each[side]] = -(-dims[each[side]] // size)
        return Held(tuple(dims), held.width, whole(len(dims)))
    counts = [*held.tiles.counts, held.tiles.copies]
    for each, size in zip(dot.roles.batch, result.sizes, strict=True):
        counts[each[side]] = size
    have = len(held.tiles.devices)
    if math.prod(counts) > have:
        own = (dot.roles.left, dot.roles.right)[side]
        mine, others = dot.parts(side, dot.roles.contracted), dot.parts(1 - side, dot.roles.contracted)
        ratio, left = divmod(math.prod(counts), have)
        if left:
            return None
        if held.tiles.is_partial and counts[-1] % ratio == 0:
            counts[-1] //= ratio
        elif ratio == dot.parts(side, own) and (ratio != mine or mine == others):
            counts = [1 if place in {each[side] for each in own} else count for place, count in enumerate(counts)]
        elif ratio == mine:
            gone = {each[side] for each in dot.roles.contracted}
            counts = [1 if place in gone else count for place, count in enumerate(counts)]
        else:
            return None
    if math.prod(counts) != have:
        return None
    places = tuple(each[side] for each in dot.roles.batch)
    grouped = align(group(tiles_of(held.tiles.array().reshape(counts)), places), result)
    wanted = ungroup(grouped)
    if not may_move and not wanted.same(held.tiles):
        return None
    change(dot.trace.of(held.width), held.dims, held.tiles, wanted)
    return _inside(held, grouped)


def _by_own(dot: Dot, may_move: bool) -> bool:
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


def _by_left(dot: Dot, own: tuple[tuple[int, int, int], ...], may_move: bool) -> bool:
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
    first = _inside(dot.left, matching)
    _partition(replace(dot, left=first, right=second, result=inner, devices=devices, trace=dot.trace.inside()))
    return True


def _other_groups(dot: Dot, own: tuple[tuple[int, int, int], ...], result: Grouped) -> Grouped | None:
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


def _asked_by_result(dot: Dot, side: int) -> Tiles:
    """The tiles of an operand that the result's are carried over to."""
    theirs = (dot.roles.right, dot.roles.left)[side]
    copied = copied_on(dot.result.tiles, tuple(each[2] for each in theirs))
    held = (dot.left, dot.right)[side]
    found = moved(copied, dot.roles.places(2, side, len(dot.result.dims)), len(held.dims))
    assert found is not None
    return found


def _expected(dot: Dot) -> Tiles:
    """The tiles of the right operand that the result and the left operand ask for together."""
    asked = _asked_by_result(dot, 1)
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


def _by_contracted(dot: Dot, may_move: bool) -> bool:
    """Groups along contracted dimensions, whose results are combined."""
    contracted = dot.roles.contracted
    have = dot.parts(0, contracted), dot.parts(1, contracted)
    if have[0] == have[1] > 1 and _reducing(dot, contracted, may_move):
        return True
    if min(have) == 1:
        return False
    same = tuple(d for d in contracted if dot.left.tiles.counts[d[0]] == dot.right.tiles.counts[d[1]] > 1)
    return bool(same) and _reducing(dot, same, may_move)


def _reducing(dot: Dot, contracted: tuple[tuple[int, int, int], ...], may_move: bool) -> bool:
    places = [tuple(each[side] for each in contracted) for side in (0, 1)]
    count = math.prod(dot.left.tiles.counts[place] for place in places[0])
    larger = 0 if dot.left.bytes > dot.right.bytes else 1
    held = (dot.left, dot.right)
    counts = [*held[1 - larger].tiles.counts, held[1 - larger].tiles.copies]
    for a, b in zip(places[larger], places[1 - larger], strict=True):
        counts[b] = held[larger].tiles.counts[a]
    reference = group(held[larger].tiles, places[larger])
    reshaped = tiles_of(held[1 - larger].tiles.array().reshape(counts), is_listed=held[1 - larger].tiles.is_listed)
    smaller = align(group(reshaped, places[1 - larger]), reference)
    if not may_move and not ungroup(smaller).same(held[1 - larger].tiles):
        return False
    dot = dot.laid(1 - larger, ungroup(smaller))
    first, second = (reference, smaller) if larger == 0 else (smaller, reference)
    inner, outer, slices, scattered = _scattering(dot, first, second, count)
    base = dot.result.dims
    is_copied = len(base) in slices
    slices = tuple(place for place in slices if place < len(base))
    if slices:
        kept = copied_on(scattered, tuple(place for place in range(len(base)) if place not in slices))
        base = kept.local(base)
    trace, tiles = dot.trace.of(dot.result.width), dot.left.tiles

    def create(left: Held, right: Held) -> int:
        elements = dot.create(left, right)
        if not slices:
            _all_reduce(trace, elements, tiles, places[0])
            return elements
        _all_reduce(trace, elements, outer, slices)
        parts = math.prod(outer.counts[place] for place in slices)
        trace.cut(parts)
        if is_copied:
            _all_reduce(trace, elements // parts, outer, (len(outer.counts),))
        return elements // parts

    _partition(
        Dot(
            dot.roles,
            _inside(dot.left, first),
            _inside(dot.right, second),
            replace(dot.result, dims=base, tiles=inner),
            dot.devices // count,
            dot.trace.inside(),
            create,
        )
    )
    return dot.settled(outer)


def _scattering(dot: Dot, first: Grouped, second: Grouped, count: int) -> tuple[Tiles, Tiles, Counts, Tiles]:
    """How partial results are combined: tiles inside the groups, tiles of all, the dimensions that are scattered."""
    result, rank, roles = dot.result.tiles, len(dot.result.dims), dot.roles
    if not result.is_whole and (not result.is_partial or result.copies % count):
        result = _subtiled(dot, first, second)
    if result.is_partial and result.copies % count == 0:
        grouped = align(group(result, (rank,), (result.copies // count,)), first, in_any_order=True)
        return grouped.tiles, ungroup(grouped), (), result
    found = dims_of_groups(result, first.groups)
    if found is not None:
        if not found:
            return whole(rank), whole(rank), (), result
        return group(result, found).tiles, result, found, result
    if not result.is_whole:
        for role in (roles.left, roles.right, roles.batch):
            if dot.parts(2, role) == count:
                slices = tuple(each[2] for each in role)
                grouped = align(group(result, slices), first)
                return grouped.tiles, ungroup(grouped), slices, result
    return whole(rank), whole(rank), (), result


def _subtiled(dot: Dot, first: Grouped, second: Grouped) -> Tiles:
    """The result's tiles, or coarser ones that an operand's own parts give it."""
    result = dot.result.tiles
    if first.tiles.is_whole == second.tiles.is_whole:
        return result
    side = 1 if first.tiles.is_whole else 0
    operand = ungroup((first, second)[side])
    operand = copied_on(operand, tuple(each[side] for each in dot.roles.contracted))
    rank = len((dot.left, dot.right)[side].dims)
    given = moved(operand, dot.roles.places(side, 2, rank), len(dot.result.dims))
    return given if given is not None and is_finer(result, given) else result


def _without_copies(dot: Dot, may_move: bool) -> bool:
    """Whole operands, and a result of which there are copies: one of each."""
    if not (dot.left.tiles.is_whole and dot.right.tiles.is_whole and dot.result.tiles.is_partial):
        return False
    grouped = group(dot.result.tiles, (len(dot.result.dims),))
    inner = replace(dot.result, tiles=grouped.tiles)
    _partition(replace(dot, result=inner, devices=dot.result.tiles.parts, trace=dot.trace.inside()))
    return True
