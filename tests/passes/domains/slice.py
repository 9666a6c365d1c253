"""Random programs in which the rules for slices and reversals fire."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

from tests.passes.domains.shapes import (
    FLOATS,
    array_text,
    comma_separated,
    element,
    entry,
    part,
    parts,
    sizes,
    slices,
    taken,
    widened,
)

Part = tuple[int, int, int]


def everything(random: Random) -> str:
    name, dims = element(random), sizes(random, 0)
    return entry(_given(name, dims), _slice(name, [(0, size, 1) for size in dims]))


def two_slices(random: Random) -> str:
    name, dims = element(random), sizes(random, 1, 3, 1, 9)
    first = parts(random, dims)
    return entry(_given(name, dims), _slice(name, first, "a"), _slice(name, parts(random, taken(first)), "s", "a"))


def slice_and_pad(random: Random) -> str:
    name, dims = element(random), sizes(random, 1, 3)
    low, high = ([random.randint(0, 3) for _ in dims] for _ in range(2))
    inside = [[random.choice((0, 0, 2)), size] for size in dims]
    wide = [a + b + size + (size - 1) * gap for a, b, (gap, size) in zip(low, high, inside, strict=True)]
    choice = random.randrange(3)
    if choice == 0:
        result = parts(random, wide, (1,))
        result[0] = (0, low[0], 1) if low[0] else (wide[0] - high[0], wide[0], 1) if high[0] else result[0]
        if not low[0] and not high[0]:
            return slice_and_pad(random)
    elif choice == 1:
        result = [(a, size - b, gap + 1) for a, b, size, (gap, _) in zip(low, high, wide, inside, strict=True)]
    else:
        inside = [[0, size] for size in dims]
        wide = [a + b + size for a, b, size in zip(low, high, dims, strict=True)]
        result = [(a + start, a + limit, 1) for a, (start, limit, _) in zip(low, parts(random, dims), strict=True)]
    padding = "x".join(f"{a}_{b}_{gap}" for a, b, (gap, _) in zip(low, high, inside, strict=True))
    return entry(
        _given(name, dims),
        f"v = {name}[] parameter(1)",
        f"p = {array_text(name, wide)} pad(x, v), padding={padding}",
        _slice(name, result, "s", "p"),
    )


def slice_and_broadcast(random: Random) -> str:
    name, dims = element(random), sizes(random, 0, 2)
    wide, kept = widened(random, dims)
    return entry(
        _given(name, dims),
        f"b = {array_text(name, wide)} broadcast(x), dimensions={{{comma_separated(kept)}}}",
        _slice(name, parts(random, wide), "s", "b"),
    )


def slice_and_concatenate(random: Random) -> str:
    name, dims = element(random), sizes(random, 1, 3, 1, 4)
    along, pieces = random.randrange(len(dims)), [random.randint(1, 4) for _ in range(random.randint(2, 4))]
    lines = [f"x{n} = {array_text(name, _at(dims, along, size))} parameter({n})" for n, size in enumerate(pieces)]
    first = random.randrange(len(pieces))
    last = random.randrange(first, len(pieces) if first else len(pieces) - 1)
    front, end = sum(pieces[:first]), sum(pieces[: last + 1])
    result = parts(random, _at(dims, along, sum(pieces)))
    start = random.randrange(front, front + pieces[first])
    result[along] = (start, random.randint(max(start, end - pieces[last]) + 1, end), random.choice((1, 1, 2)))
    whole = array_text(name, _at(dims, along, sum(pieces)))
    names = ", ".join(f"x{n}" for n in range(len(pieces)))
    return entry(*lines, f"c = {whole} concatenate({names}), dimensions={{{along}}}", _slice(name, result, "s", "c"))


def slice_and_reshape(random: Random) -> str:
    name, rest = element(random), sizes(random, 0, 2)
    rows, size = random.randint(2, 5), random.randint(1, 4)
    source, made = (
        ([rows * size, *rest], [rows, size, *rest])
        if random.random() < 0.5
        else (
            [rows, math.prod([size, *rest])],
            [rows, size, *rest],
        )
    )
    first = random.randint(0, rows - 1)
    last = random.randint(first + 1, rows if first else rows - 1)
    result = [(first, last, 1), *((0, made_node, 1) for made_node in made[1:])]
    return entry(_given(name, source), f"r = {array_text(name, made)} reshape(x)", _slice(name, result, "s", "r"))


def slice_and_reverse(random: Random) -> str:
    name, dims = element(random), sizes(random, 1, 3, 1, 7)
    return entry(_given(name, dims), _reverse(random, name, dims), _slice(name, parts(random, dims), "s", "r"))


def slice_and_iota(random: Random) -> str:
    name, dims = random.choice((*FLOATS, "s32", "u8")), sizes(random, 1, 3)
    counted = random.randrange(len(dims))
    result = parts(random, dims)
    result[counted] = (0, random.randint(1, dims[counted]), 1)
    return entry(f"i = {array_text(name, dims)} iota(), iota_dimension={counted}", _slice(name, result, "s", "i"))


def idle_stride(random: Random) -> str:
    name, dims = element(random), sizes(random, 1, 3, 1, 6)
    result = parts(random, dims)
    dim = random.randrange(len(dims))
    start, limit, _ = part(random, dims[dim])
    result[dim] = (start, limit, limit - start + random.randint(1, 3))
    return entry(_given(name, dims), _slice(name, result))


def reverse_of_ones(random: Random) -> str:
    name, dims = element(random), sizes(random, 1, 3)
    dims.insert(random.randint(0, len(dims)), random.choice((0, 1, 1)))
    return entry(
        _given(name, dims),
        f"r = {array_text(name, dims)} reverse(x), dimensions={{{comma_separated(range(len(dims)))}}}",
    )


def two_reverses(random: Random) -> str:
    name, dims = element(random), sizes(random, 1, 3)
    return entry(_given(name, dims), _reverse(random, name, dims, "a"), _reverse(random, name, dims, "r", "a"))


def reverse_and_broadcast(random: Random) -> str:
    name, dims = element(random), sizes(random, 0, 2)
    wide, kept = widened(random, dims)
    return entry(
        _given(name, dims),
        f"b = {array_text(name, wide)} broadcast(x), dimensions={{{comma_separated(kept)}}}",
        _reverse(random, name, wide, "r", "b"),
    )


def reverse_and_iota(random: Random) -> str:
    name, dims = random.choice((*FLOATS, "s32", "u8")), sizes(random, 2, 3)
    counted = random.randrange(len(dims))
    others = [index for index in range(len(dims)) if index != counted]
    return entry(
        f"i = {array_text(name, dims)} iota(), iota_dimension={counted}",
        f"r = {array_text(name, dims)} reverse(i), dimensions={{{comma_separated(others)}}}",
    )


def reverse_and_add(random: Random) -> str:
    name, dims = random.choice(FLOATS), sizes(random, 1, 3)
    made, op = array_text(name, dims), random.choice(("add", "multiply", "subtract", "maximum", "divide"))
    return entry(
        _given(name, dims),
        f"c = {name}[] parameter(1)",
        f"b = {made} broadcast(c), dimensions={{}}",
        f"f = {made} {op}({random.choice(('x, b', 'b, x'))})",
        _reverse(random, name, dims, "r", "f"),
    )


def reverse_and_reshape(random: Random) -> str:
    name, dims = element(random), sizes(random, 0, 3)
    made = list(dims)
    for _ in range(random.randint(1, 2)):
        made.insert(random.randint(0, len(made)), 1)
    return entry(_given(name, dims), f"a = {array_text(name, made)} reshape(x)", _reverse(random, name, made, "r", "a"))


def _given(name: str, dims: list[int]) -> str:
    return f"x = {array_text(name, dims)} parameter(0)"


def _slice(name: str, result: list[Part], made: str = "s", operand: str = "x") -> str:
    return f"{made} = {array_text(name, taken(result))} slice({operand}), {slices(result)}"


def _reverse(random: Random, name: str, dims: list[int], made: str = "r", operand: str = "x") -> str:
    result = sorted(random.sample(range(len(dims)), random.randint(1, len(dims))))
    return f"{made} = {array_text(name, dims)} reverse({operand}), dimensions={{{comma_separated(result)}}}"


def _at(dims: list[int], index: int, size: int) -> list[int]:
    return [*dims[:index], size, *dims[index + 1 :]]


DOMAINS: dict[str, Callable[[Random], str]] = {
    "slice-of-everything": everything,
    "slice-of-slice": two_slices,
    "slice-of-pad": slice_and_pad,
    "slice-of-broadcast": slice_and_broadcast,
    "slice-of-concatenate": slice_and_concatenate,
    "slice-of-reshape": slice_and_reshape,
    "slice-of-reverse": slice_and_reverse,
    "slice-of-iota": slice_and_iota,
    "slice-with-idle-stride": idle_stride,
    "reverse-of-ones": reverse_of_ones,
    "reverse-of-reverse": two_reverses,
    "reverse-of-broadcast": reverse_and_broadcast,
    "reverse-of-iota": reverse_and_iota,
    "reverse-of-pointwise": reverse_and_add,
    "reverse-of-reshape": reverse_and_reshape,
}
