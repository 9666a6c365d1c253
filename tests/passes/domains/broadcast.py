"""Random programs in which the rules for broadcasts and iotas fire."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.passes.domains.shapes import (
    FLOATS,
    INTEGERS,
    array_text,
    comma_separated,
    element,
    entry,
    order,
    sizes,
    widened,
)

UNARY = ("negate", "abs", "floor", "sign", "is-finite")
BINARY = ("add", "multiply", "subtract", "maximum", "minimum", "divide")


def adds_nothing(random: Random) -> str:
    name, dims = element(random), sizes(random, 0, 3)
    wide, kept = widened(random, dims, 0)
    wide = [size if index in kept else 1 for index, size in enumerate(wide)]
    return entry(f"x = {array_text(name, dims)} parameter(0)", _broadcast(name, wide, kept))


def transposes(random: Random) -> str:
    name, dims = element(random), sizes(random, 2, 4)
    result = order(random, len(dims))
    if result == sorted(result):
        result.reverse()
    wide = [dims[result.index(index)] for index in range(len(dims))]
    return entry(f"x = {array_text(name, dims)} parameter(0)", _broadcast(name, wide, result))


def two_broadcasts(random: Random) -> str:
    name, dims = element(random), sizes(random, 0, 2)
    first, kept = widened(random, dims)
    second, further = widened(random, first)
    return entry(
        f"x = {array_text(name, dims)} parameter(0)",
        _broadcast(name, first, kept, "a"),
        _broadcast(name, second, further, "b", "a"),
    )


def ones_and_broadcast(random: Random) -> str:
    name, dims = element(random), sizes(random, 0, 2)
    middle = list(dims)
    for _ in range(random.randint(1, 2)):
        middle.insert(random.randint(0, len(middle)), 1)
    wide, kept = widened(random, middle)
    return entry(
        f"x = {array_text(name, dims)} parameter(0)",
        f"r = {array_text(name, middle)} reshape(x)",
        _broadcast(name, wide, kept, "b", "r"),
    )


def iota_and_broadcast(random: Random) -> str:
    name, dims = random.choice((*FLOATS, "s32", "u8")), sizes(random, 1, 3)
    wide, kept = widened(random, dims)
    return entry(
        f"i = {array_text(name, dims)} iota(), iota_dimension={random.randrange(len(dims))}",
        _broadcast(name, wide, kept, "b", "i"),
    )


def iota_of_one(random: Random) -> str:
    name, dims = random.choice((*FLOATS, *INTEGERS, "c64")), sizes(random)
    counted = random.randrange(len(dims))
    dims[counted] = random.choice((0, 1, 1, 1))
    return entry(f"i = {array_text(name, dims)} iota(), iota_dimension={counted}")


def broadcast_of_ones(random: Random) -> str:
    name, dims = element(random), sizes(random, 0, 2)
    dims.insert(random.randint(0, len(dims)), 1)
    wide, kept = widened(random, dims)
    return entry(f"x = {array_text(name, dims)} parameter(0)", _broadcast(name, wide, kept))


def computed_on_broadcasts(random: Random) -> str:
    name, dims = random.choice(FLOATS), sizes(random, 0, 2)
    wide, kept = widened(random, dims)
    made = array_text("pred" if (op := random.choice((*UNARY, *BINARY))) == "is-finite" else name, wide)
    lines = [f"x = {array_text(name, dims)} parameter(0)", _broadcast(name, wide, kept, "a")]
    if op in UNARY:
        return entry(*lines, f"f = {made} {op}(a)")
    if random.random() < 0.5:
        lines += [f"y = {name}[] parameter(1)", _broadcast(name, wide, [], "b", "y")]
    else:
        lines += [f"y = {array_text(name, dims)} parameter(1)", _broadcast(name, wide, kept, "b", "y")]
    return entry(*lines, f"f = {made} {op}({random.choice(('a, b', 'b, a'))})")


def _broadcast(name: str, wide: list[int], kept: list[int], made: str = "b", operand: str = "x") -> str:
    return f"{made} = {array_text(name, wide)} broadcast({operand}), dimensions={{{comma_separated(kept)}}}"


DOMAINS: dict[str, Callable[[Random], str]] = {
    "broadcast-that-adds-nothing": adds_nothing,
    "broadcast-that-transposes": transposes,
    "broadcast-of-broadcast": two_broadcasts,
    "broadcast-of-reshape": ones_and_broadcast,
    "broadcast-of-iota": iota_and_broadcast,
    "iota-of-one": iota_of_one,
    "broadcast-of-ones": broadcast_of_ones,
    "pointwise-of-broadcasts": computed_on_broadcasts,
}
