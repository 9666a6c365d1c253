"""Dots whose operands split contracted dimensions alike: groups of devices along them, whose results are combined."""

from __future__ import annotations

import math
from dataclasses import replace

from hloom.partitioner.dot import Dot, Held, Role, all_reduce, inside
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
    whole,
)


def by_contracted(dot: Dot, may_move: bool) -> bool:
    """Groups along contracted dimensions, whose results are combined."""
    contracted = dot.roles.contracted
    have = dot.parts(0, contracted), dot.parts(1, contracted)
    if have[0] == have[1] > 1 and _reducing(dot, contracted, may_move):
        return True
    if min(have) == 1:
        return False
    same = tuple(d for d in contracted if dot.left.tiles.counts[d[0]] == dot.right.tiles.counts[d[1]] > 1)
    return bool(same) and _reducing(dot, same, may_move)


def _reducing(dot: Dot, contracted: Role, may_move: bool) -> bool:
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
            all_reduce(trace, elements, tiles, places[0])
            return elements
        all_reduce(trace, elements, outer, slices)
        parts = math.prod(outer.counts[place] for place in slices)
        if all(dot.result.dims[place] % outer.counts[place] == 0 for place in slices):
            trace.cut(parts)
        if is_copied:
            all_reduce(trace, elements // parts, outer, (len(outer.counts),))
        return elements // parts

    dot.again(
        replace(
            dot,
            left=inside(dot.left, first),
            right=inside(dot.right, second),
            result=replace(dot.result, dims=base, tiles=inner),
            devices=dot.devices // count,
            trace=dot.trace.inside(first.groups),
            create=create,
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
