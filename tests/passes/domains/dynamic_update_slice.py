"""Random programs in which the rules on dynamic-update-slice fire."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.passes.domains.shapes import (
    INDICES,
    array_text,
    comma_separated,
    element,
    entry,
    fitting_starts,
    sizes,
    smaller,
    starts,
)


def everything(random: Random) -> str:
    name, dims = element(random), sizes(random, 0)
    lines, names, _ = starts(random, len(dims), 2, random.choice(INDICES))
    return entry(*_given(name, dims, dims), *lines, _put(name, dims, "x", "y", names))


def nothing(random: Random) -> str:
    name, dims = element(random), sizes(random)
    some = smaller(random, dims, 0)
    some[random.randrange(len(dims))] = 0
    lines, names, _ = starts(random, len(dims), 2, random.choice(INDICES))
    return entry(*_given(name, dims, some), *lines, _put(name, dims, "x", "y", names))


def of_scalar(random: Random) -> str:
    name, dims = element(random), sizes(random, 1, 3)
    lines = [f"i{n} = s32[] constant({random.choice((0, 1, 2, 9, -3))})" for n in range(len(dims))]
    names = ", ".join(f"i{n}" for n in range(len(dims)))
    return entry(
        f"v = {name}[] parameter(0)",
        f"y = {array_text(name, smaller(random, dims))} parameter(1)",
        f"b = {array_text(name, dims)} broadcast(v), dimensions={{}}",
        *lines,
        _put(name, dims, "b", "y", names),
    )


def by_what_is_there(random: Random) -> str:
    name, dims = element(random), sizes(random, 1, 3)
    some = smaller(random, dims)
    lines, names, _ = starts(random, len(dims), 1, random.choice(INDICES))
    return entry(
        f"x = {array_text(name, dims)} parameter(0)",
        *lines,
        f"s = {array_text(name, some)} dynamic-slice(x, {names}), dynamic_slice_sizes={{{comma_separated(some)}}}",
        _put(name, dims, "x", "s", names),
    )


def of_update(random: Random) -> str:
    name, dims = element(random), sizes(random, 1, 3)
    some = smaller(random, dims)
    lines, names, _ = starts(random, len(dims), 3, random.choice(INDICES))
    return entry(
        *_given(name, dims, some),
        f"z = {array_text(name, some)} parameter(2)",
        *lines,
        _put(name, dims, "x", "y", names, "a"),
        _put(name, dims, "a", "z", names),
    )


def of_updated_slice(random: Random) -> str:
    name, dims = element(random), sizes(random, 1, 3, 2, 8)
    middle = smaller(random, dims)
    small = smaller(random, middle)
    outer = [size - part for size, part in zip(dims, middle, strict=True)]
    inner = [size - part for size, part in zip(middle, small, strict=True)]
    lines, names, number = fitting_starts(random, outer, 2, random.choice(INDICES))
    more, others, _ = fitting_starts(random, inner, number, random.choice(("s32", "u32", "s64")), "j")
    return entry(
        *_given(name, dims, small),
        *lines,
        *more,
        f"s = {array_text(name, middle)} dynamic-slice(x, {names}), dynamic_slice_sizes={{{comma_separated(middle)}}}",
        _put(name, middle, "s", "y", others, "u"),
        _put(name, dims, "x", "u", names),
    )


def _given(name: str, dims: list[int], some: list[int]) -> tuple[str, str]:
    return f"x = {array_text(name, dims)} parameter(0)", f"y = {array_text(name, some)} parameter(1)"


def _put(name: str, dims: list[int], operand: str, update: str, names: str, made: str = "d") -> str:
    operands = ", ".join(item for item in (operand, update, names) if item)
    return f"{made} = {array_text(name, dims)} dynamic-update-slice({operands})"


def slice_of_update(random: Random) -> str:
    """A slice of an array that is updated somewhere: mostly of the update, else wherever."""
    name, dims = element(random), sizes(random, 1, 2)
    dims = [size + 4 for size in dims]
    some = [random.randint(1, 3) for _ in dims]
    starts = [random.choice((0, 0, 1, 2, 9, -3)) for _ in dims]
    lines = [f"i{n} = s32[] constant({start})" for n, start in enumerate(starts)]
    bounds = [sorted(random.sample(range(size + 1), 2)) for size in dims]
    if random.random() < 0.7:
        offsets = [min(max(start, 0), size - part) for start, size, part in zip(starts, dims, some, strict=True)]
        bounds = [
            sorted(offset + at for at in random.sample(range(part + 1), 2))
            for offset, part in zip(offsets, some, strict=True)
        ]
    cut = ", ".join(f"[{start}:{end}:{random.choice((1, 1, 2))}]" for start, end in bounds)
    steps = [int(part.split(":")[2].rstrip("]")) for part in cut.split(", ")]
    made = [-(-(end - start) // step) for (start, end), step in zip(bounds, steps, strict=True)]
    return entry(
        *_given(name, dims, some), *lines, _put(name, dims, "x", "y", ", ".join(f"i{n}" for n in range(len(dims))), "d"),
        f"s = {array_text(name, made)} slice(d), slice={{{cut}}}",
    )  # fmt: skip


DOMAINS: dict[str, Callable[[Random], str]] = {
    "slice-of-update": slice_of_update,
    "update-of-everything": everything,
    "update-of-nothing": nothing,
    "update-of-scalar": of_scalar,
    "update-by-what-is-there": by_what_is_there,
    "update-of-update": of_update,
    "update-of-updated-slice": of_updated_slice,
}
