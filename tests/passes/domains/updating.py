"""Random programs in which the rules for updates and scatters fire."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.passes.computations import program
from tests.passes.domains.shaping import INDICES, element, entry, fitting_starts, kind, places, sizes, smaller, starts


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
        f"y = {kind(name, smaller(random, dims))} parameter(1)",
        f"b = {kind(name, dims)} broadcast(v), dimensions={{}}",
        *lines,
        _put(name, dims, "b", "y", names),
    )


def by_what_is_there(random: Random) -> str:
    name, dims = element(random), sizes(random, 1, 3)
    some = smaller(random, dims)
    lines, names, _ = starts(random, len(dims), 1, random.choice(INDICES))
    return entry(
        f"x = {kind(name, dims)} parameter(0)",
        *lines,
        f"s = {kind(name, some)} dynamic-slice(x, {names}), dynamic_slice_sizes={{{places(some)}}}",
        _put(name, dims, "x", "s", names),
    )


def of_update(random: Random) -> str:
    name, dims = element(random), sizes(random, 1, 3)
    some = smaller(random, dims)
    lines, names, _ = starts(random, len(dims), 3, random.choice(INDICES))
    return entry(
        *_given(name, dims, some),
        f"z = {kind(name, some)} parameter(2)",
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
        f"s = {kind(name, middle)} dynamic-slice(x, {names}), dynamic_slice_sizes={{{places(middle)}}}",
        _put(name, middle, "s", "y", others, "u"),
        _put(name, dims, "x", "u", names),
    )


def scatter_of_nothing(random: Random) -> str:
    name, rows, width = random.choice(("f32", "s32")), random.randint(1, 5), random.randint(1, 4)
    return program(
        f"""
        x = {name}[{rows},{width}] parameter(0)
        i = s32[0,1] parameter(1)
        y = {name}[0,{width}] parameter(2)
        ROOT s = {name}[{rows},{width}] scatter(x, i, y), update_window_dims={{1}}, inserted_window_dims={{0}},
          scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=add_{name}
        """.replace(",\n          ", ", ")
    )


def scatter_over_everything(random: Random) -> str:
    name, dims = random.choice(("f32", "s32")), sizes(random)
    made = kind(name, dims)
    return program(
        f"""
        x = {made} parameter(0)
        i = s32[0] parameter(1)
        y = {made} parameter(2)
        ROOT s = {made} scatter(x, i, y), update_window_dims={{{places(range(len(dims)))}}}, inserted_window_dims={{}},
          scatter_dims_to_operand_dims={{}}, index_vector_dim=0, to_apply={random.choice(("add", "maximum"))}_{name}
        """.replace(",\n          ", ", ")
    )


def _given(name: str, dims: list[int], some: list[int]) -> tuple[str, str]:
    return f"x = {kind(name, dims)} parameter(0)", f"y = {kind(name, some)} parameter(1)"


def _put(name: str, dims: list[int], operand: str, update: str, names: str, made: str = "d") -> str:
    operands = ", ".join(each for each in (operand, update, names) if each)
    return f"{made} = {kind(name, dims)} dynamic-update-slice({operands})"


DOMAINS: dict[str, Callable[[Random], str]] = {
    "update-of-everything": everything,
    "update-of-nothing": nothing,
    "update-of-scalar": of_scalar,
    "update-by-what-is-there": by_what_is_there,
    "update-of-update": of_update,
    "update-of-updated-slice": of_updated_slice,
    "scatter-of-nothing": scatter_of_nothing,
    "scatter-over-everything": scatter_over_everything,
}
