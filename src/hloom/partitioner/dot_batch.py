"""Dots whose operands and result split batch dimensions: groups of devices along them."""

from __future__ import annotations

import math
from dataclasses import replace

from hloom.partitioner.dot import Dot, Held, inside
from hloom.partitioner.reshard import change
from hloom.partitioner.tile_assignment import Grouped, align, group, tiles_of, ungroup, whole


def by_batch(dot: Dot, may_move: bool) -> bool:
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
        operands = [inside(dot.left, first), inside(dot.right, second)]
    else:
        operands = []
        for side in (0, 1):
            found = _laid_by_batch(dot, side, result, may_move)
            if found is None:
                return False
            operands.append(found)
    inner = replace(dot.result, dims=result.base(dot.result.dims), tiles=result.tiles)
    devices = dot.devices // len(result.groups)
    trace = dot.trace.inside(result.groups)
    dot.again(replace(dot, left=operands[0], right=operands[1], result=inner, devices=devices, trace=trace))
    return dot.settled(ungroup(result))


def _laid_by_batch(dot: Dot, side: int, result: Grouped, may_move: bool) -> Held | None:
    """An operand split along batch dimensions as the result is; None where its other parts are in the way."""
    held = (dot.left, dot.right)[side]
    if held.tiles.is_whole:
        dims = list(held.dims)
        for each, size in zip(dot.roles.batch, result.sizes, strict=True):
            dims[each[side]] = -(-dims[each[side]] // size)
        return replace(held, dims=tuple(dims), tiles=whole(len(dims)))
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
    change(dot.moving(held), held.dims, held.tiles, wanted)
    return inside(held, grouped)
