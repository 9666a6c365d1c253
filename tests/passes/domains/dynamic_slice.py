"""Random programs in which the rules for slices whose place is computed fire."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.passes.domains.shapes import (
    FLOATS,
    INDICES,
    array_text,
    comma_separated,
    element,
    entry,
    fitting_starts,
    order,
    sizes,
    slices,
    smaller,
    starts,
    taken,
    widened,
    with_ones,
)


def everything(random: Random) -> str:
    name, dims = element(random), sizes(random, 0)
    lines, names, _ = starts(random, len(dims), 1, random.choice(INDICES))
    return entry(_given(name, dims), *lines, _take(name, dims, "x", names))


def whole_dimension(random: Random) -> str:
    name, dims = element(random), sizes(random, 1, 4, 2)
    some = smaller(random, dims)
    dim = random.randrange(len(dims))
    some[dim] = dims[dim]
    which = random.choice(INDICES)
    lines, names, _ = starts(random, len(dims), 2, which)
    lines[dim] = f"i{dim} = {which}[] convert(z)"
    given = [_given(name, dims), "z = s32[] parameter(1)", *_renumbered(lines, 2)]
    if random.random() < 0.5:
        return entry(*given, _take(name, some, "x", names))
    number = sum("parameter" in line for line in given)
    return entry(
        *given,
        f"y = {array_text(name, some)} parameter({number})",
        f"d = {array_text(name, dims)} dynamic-update-slice(x, y, {names})",
    )


def of_broadcast(random: Random) -> str:
    name, dims = element(random), sizes(random, 0, 2)
    wide, kept = widened(random, dims)
    lines, names, _ = starts(random, len(wide), 1, random.choice(INDICES))
    return entry(
        _given(name, dims),
        *lines,
        f"b = {array_text(name, wide)} broadcast(x), dimensions={{{comma_separated(kept)}}}",
        _take(name, smaller(random, wide), "b", names),
    )


def of_reshape(random: Random) -> str:
    name, dims = element(random), sizes(random, 1, 3)
    made = with_ones(random, dims) or [1]
    lines, names, _ = starts(random, len(made), 1, random.choice(INDICES))
    return entry(
        _given(name, dims),
        *lines,
        f"r = {array_text(name, made)} reshape(x)",
        _take(name, smaller(random, made), "r", names),
    )


def of_transpose(random: Random) -> str:
    name, dims = element(random), sizes(random, 1, 4)
    result = order(random, len(dims))
    moved = [dims[index] for index in result]
    lines, names, _ = starts(random, len(dims), 1, random.choice(INDICES))
    return entry(
        _given(name, dims),
        *lines,
        f"t = {array_text(name, moved)} transpose(x), dimensions={{{comma_separated(result)}}}",
        _take(name, smaller(random, moved), "t", names),
    )


def at_constant(random: Random) -> str:
    name, dims = element(random), sizes(random, 1, 4)
    lines = [f"i{n} = s32[] constant({random.choice((0, 1, 2, 9, -3))})" for n in range(len(dims))]
    names = ", ".join(f"i{n}" for n in range(len(dims)))
    return entry(_given(name, dims), *lines, _take(name, smaller(random, dims, 0), "x", names))


def of_iota(random: Random) -> str:
    dims, which = sizes(random, 1, 3, 1, 6), random.choice(INDICES)
    counted, name = random.randrange(len(dims)), random.choice(("s32", "u32", "s8"))
    some = smaller(random, dims)
    some[counted] = random.choice((1, dims[counted]))
    lines, names, number = starts(random, len(dims), 0, which)
    made = array_text(name, dims)
    lines.append(f"c = {made} iota(), iota_dimension={counted}")
    if some[counted] == 1 and random.random() < 0.5:
        lines += [
            f"v = {name}[] parameter({number})",
            f"b = {made} broadcast(v), dimensions={{}}",
            f"m = {made} multiply(c, b)",
        ]
        return entry(*lines, _take(name, some, "m", names))
    return entry(*lines, _take(name, some, "c", names))


def of_floating_iota(random: Random) -> str:
    dims = sizes(random, 1, 3)
    name, counted, some = random.choice(FLOATS), random.randrange(len(dims)), smaller(random, dims)
    some[counted] = dims[counted]
    lines, names, _ = starts(random, len(dims), 0, "s32")
    return entry(
        *lines, f"c = {array_text(name, dims)} iota(), iota_dimension={counted}", _take(name, some, "c", names)
    )


def of_any_iota(random: Random) -> str:
    return random.choice((of_iota, of_iota, of_floating_iota))(random)


def of_progression(random: Random) -> str:
    name, count, step = random.choice(("s32", "u32", "s8")), random.randint(2, 6), random.choice((1, 3, 7))
    numbers = comma_separated(number * step for number in range(count))
    lines, names, _ = starts(random, 1, 0, random.choice(INDICES))
    return entry(*lines, f"c = {name}[{count}] constant({{{numbers}}})", _take(name, [1], "c", names))


def of_slice(random: Random) -> str:
    name, dims = element(random), sizes(random, 1, 3, 1, 7)
    result, some = [], []
    for size in dims:
        start = random.randint(0, size - 1)
        limit = random.randint(start + 1, size)
        cut = random.random() < 0.5
        result.append((start, limit, 1) if cut else (0, size, 1))
        some.append(limit - start)
    lines, names, _ = starts(random, len(dims), 1, random.choice(INDICES))
    return entry(
        _given(name, dims),
        *lines,
        f"s = {array_text(name, taken(result))} slice(x), {slices(result)}",
        _take(name, some, "s", names, "d"),
    )


def of_slice_at_once(random: Random) -> str:
    name, dims, which = element(random), sizes(random, 1, 3, 1, 7), random.choice(INDICES)
    first, second = [], []
    for size in dims:
        small = random.randint(1, size)
        first.append(size if random.random() < 0.5 else small)
        second.append(small)
    lines, names, number = starts(random, len(dims), 1, which)
    more, others, _ = starts(random, len(dims), number, which, "j")
    return entry(
        _given(name, dims), *lines, *more, _take(name, first, "x", names, "a"), _take(name, second, "a", others)
    )


def of_slice_by_sum(random: Random) -> str:
    name, dims = element(random), sizes(random, 1, 3, 2, 9)
    first = smaller(random, dims)
    second = smaller(random, first)
    which, other = random.choice(("s32", "u32", "s64")), random.choice(INDICES)
    lines, names, number = fitting_starts(random, _differences(dims, first), 1, which)
    more, others, _ = fitting_starts(random, _differences(first, second), number, other, "j")
    return entry(
        _given(name, dims), *lines, *more, _take(name, first, "x", names, "a"), _take(name, second, "a", others)
    )


def of_update(random: Random) -> str:
    name, dims = element(random), sizes(random, 1, 3)
    some = smaller(random, dims)
    lines, names, _ = starts(random, len(dims), 2, random.choice(INDICES))
    return entry(
        _given(name, dims),
        f"y = {array_text(name, some)} parameter(1)",
        *lines,
        f"d = {array_text(name, dims)} dynamic-update-slice(x, y, {names})",
        _take(name, some, "d", names),
    )


def _given(name: str, dims: list[int]) -> str:
    return f"x = {array_text(name, dims)} parameter(0)"


def _take(name: str, some: list[int], operand: str, names: str, made: str = "s") -> str:
    operands = f"{operand}, {names}" if names else operand
    return (
        f"{made} = {array_text(name, some)} dynamic-slice({operands}), dynamic_slice_sizes={{{comma_separated(some)}}}"
    )


def _differences(dims: list[int], some: list[int]) -> list[int]:
    return [size - part for size, part in zip(dims, some, strict=True)]


def _renumbered(lines: list[str], first: int) -> list[str]:
    result = []
    for line in lines:
        if "parameter(" in line:
            line = f"{line[: line.index('parameter(')]}parameter({first})"
            first += 1
        result.append(line)
    return result


DOMAINS: dict[str, Callable[[Random], str]] = {
    "dynamic-slice-of-everything": everything,
    "index-of-whole-dimension": whole_dimension,
    "dynamic-slice-of-broadcast": of_broadcast,
    "dynamic-slice-of-reshape": of_reshape,
    "dynamic-slice-of-transpose": of_transpose,
    "dynamic-slice-at-constant": at_constant,
    "dynamic-slice-of-iota": of_any_iota,
    "dynamic-slice-of-progression": of_progression,
    "dynamic-slice-of-slice": of_slice,
    "dynamic-slice-of-dynamic-slice": of_slice_at_once,
    "dynamic-slice-of-dynamic-slice-by-sum": of_slice_by_sum,
    "dynamic-slice-of-update": of_update,
}
