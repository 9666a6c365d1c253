"""What XLA's partitioner emits for a dot, or a convolution whose windows are whole, in given tiles.

It looks for dimensions that operands and result split alike (batch dimensions, then those of one operand, then
contracted ones), forms groups of devices along them, and does the same inside the groups: first as long as no device
needs to move, then with changes of tiles. What it finds no way for, it gathers.
"""

from __future__ import annotations

import math
from dataclasses import replace

from hloom.partitioner.dot import Dot, Held, Roles, asked_by_result
from hloom.partitioner.dot_base_case import split_one_way
from hloom.partitioner.dot_batch import by_batch
from hloom.partitioner.dot_contracting import by_contracted
from hloom.partitioner.dot_non_contracting import by_own
from hloom.partitioner.tile_assignment import group
from hloom.partitioner.trace import Trace


def contract(trace: Trace, roles: Roles, left: Held, right: Held, result: Held, devices: int) -> float:
    """Trace the collectives of a dot; the share of its work that one device is left with."""
    known = {each[2] for each in (*roles.batch, *roles.left, *roles.right)}
    windowed = math.prod(size for place, size in enumerate(result.dims) if place not in known)
    shares: list[float] = []

    def create(left: Held, right: Held) -> int:
        a, b = left.tiles.local(left.dims), right.tiles.local(right.dims)
        own = math.prod(b[each[1]] for each in roles.right)
        shares.append(own * math.prod(a[each[0]] for each in (*roles.batch, *roles.left, *roles.contracted)))
        return windowed * own * math.prod(a[each[0]] for each in (*roles.batch, *roles.left))

    _partition(Dot(roles, left, right, result, devices, trace, create, _partition))
    all_points = math.prod(left.dims[each[0]] for each in (*roles.batch, *roles.left, *roles.contracted))
    all_points *= math.prod(right.dims[each[1]] for each in roles.right)
    return shares[-1] / all_points if all_points else 1.0


def _partition(dot: Dot) -> None:
    for may_move in (False, True):
        for attempt in (_plainly, by_batch, by_own, by_contracted, _without_copies, _plainly_changed):
            count = len(dot.trace.steps)
            if attempt(dot, may_move):
                return
            del dot.trace.steps[count:]
    for side in (0, 1):
        dot = dot.laid(side, asked_by_result(dot, side))
    dot.made()


def _plainly(dot: Dot, may_move: bool) -> bool:
    return split_one_way(dot, may_change=False)


def _plainly_changed(dot: Dot, may_move: bool) -> bool:
    return split_one_way(dot, may_change=True)


def _without_copies(dot: Dot, may_move: bool) -> bool:
    """Whole operands, and a result of which there are copies: one of each."""
    if not (dot.left.tiles.is_whole and dot.right.tiles.is_whole and dot.result.tiles.is_partial):
        return False
    grouped = group(dot.result.tiles, (len(dot.result.dims),))
    inner = replace(dot.result, tiles=grouped.tiles)
    trace = dot.trace.inside(grouped.groups)
    _partition(replace(dot, result=inner, devices=dot.result.tiles.parts, trace=trace))
    return True
