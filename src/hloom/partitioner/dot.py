"""A dot at some level of grouping: its operands and result as they lie, and the roles of their dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from hloom.partitioner.reshard import change, replicate
from hloom.partitioner.tile_assignment import Counts, Grouped, Tiles, copied_on, moved
from hloom.partitioner.trace import Trace

Role = tuple[tuple[int, int, int], ...]
"""Dimensions as triples of left, right and result, -1 where there is none."""


@dataclass(frozen=True, slots=True)
class Held:
    """A value: its dimensions, the bytes of an element, how it lies, and which operand (or result) it is."""

    dims: Counts
    width: int
    tiles: Tiles
    side: int

    @property
    def bytes(self) -> int:
        """The bytes that one device holds."""
        return math.prod(self.tiles.local(self.dims)) * self.width


@dataclass(frozen=True, slots=True)
class Roles:
    """What the dimensions of a dot are: the batch, what is contracted, and what left and right have alone."""

    batch: Role
    contracted: Role
    left: Role
    right: Role

    def mirrored(self) -> Roles:
        """The same with the operands exchanged."""
        return Roles(
            *(
                tuple((right, left, result) for left, right, result in each)
                for each in (self.batch, self.contracted, self.right, self.left)
            )
        )

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
    """A dot inside of groups of so many devices, at some level of grouping; `again` partitions a dot further inside."""

    roles: Roles
    left: Held
    right: Held
    result: Held
    devices: int
    trace: Trace
    create: Create
    again: Callable[[Dot], None]

    def parts(self, side: int, role: Role) -> int:
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
        change(self.moving(held), held.dims, held.tiles, tiles)
        return self._with(side, replace(held, tiles=tiles))

    def gathered(self, side: int) -> Dot:
        """The dot after an operand was gathered."""
        held = (self.left, self.right)[side]
        return self._with(side, replace(held, tiles=replicate(self.moving(held), held.dims, held.tiles)))

    def moving(self, held: Held) -> Trace:
        """The trace of an operand's change to other tiles."""
        return self.trace.moving(held.side, held.width)

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
    """Change a value that was just made; where that only cuts an all-reduce, part of it is a reduce-scatter.

    Uneven parts are cut from what is padded first, which leaves the all-reduce whole.
    """
    count = len(trace.steps)
    change(trace.of(width), dims, have, want)
    made = trace.steps[count:]
    if any(step.kind != "collective-permute" for step in made) or want.parts <= have.parts:
        return
    if math.prod(want.local(dims)) * want.parts != math.prod(have.local(dims)) * have.parts:
        return
    del trace.steps[count:]
    trace.cut(want.parts // have.parts)
    trace.steps += made


def inside(held: Held, grouped: Grouped) -> Held:
    return replace(held, dims=grouped.base(held.dims), tiles=grouped.tiles)


def all_reduce(trace: Trace, elements: int, tiles: Tiles, places: Counts) -> None:
    """All-reduces along dimensions (copies being the last), from the last to the first."""
    shape = (*tiles.counts, tiles.copies)
    for place in sorted(places, reverse=True):
        trace.add("all-reduce", {place: shape[place]}, elements, tiles)


def asked_by_result(dot: Dot, side: int) -> Tiles:
    """The tiles of an operand that the result's are carried over to."""
    theirs = (dot.roles.right, dot.roles.left)[side]
    copied = copied_on(dot.result.tiles, tuple(each[2] for each in theirs))
    held = (dot.left, dot.right)[side]
    found = moved(copied, dot.roles.places(2, side, len(dot.result.dims)), len(held.dims))
    assert found is not None
    return found
