"""Dots that all devices split along one kind of dimension: no groups are needed."""

from __future__ import annotations

import math

from hloom.partitioner.dot import Dot, Held, all_reduce
from hloom.partitioner.reshard_collectives import can_exchange
from hloom.partitioner.tile_assignment import whole


def split_one_way(dot: Dot, *, may_change: bool) -> bool:
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
    return dot.parts(0, own) == dot.devices == dot.parts(2, own) and made is not None and made.same(dot.result.tiles)


def _reduced(dot: Dot, side: int) -> bool:
    """Lay an operand as the other one lies, and combine the partial results."""
    wanted = dot.as_seen(1 - side, side)
    assert wanted is not None
    dot = dot.laid(side, wanted)
    elements = dot.made()
    places = tuple(each[0] for each in dot.roles.contracted)
    all_reduce(dot.trace.of(dot.result.width), elements, dot.left.tiles, places)
    return dot.settled(whole(len(dot.result.dims)))


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
