"""Random programs in which the rules for reshapes, bitcasts and copies fire."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

from tests.passes.domains.shapes import (
    FLOATS,
    INDICES,
    array_text,
    comma_separated,
    element,
    entry,
    regrouped,
    sizes,
    smaller,
    starts,
    widened,
    with_ones,
)


def same_shape(random: Random) -> str:
    made = array_text(element(random), sizes(random, 0))
    return entry(f"x = {made} parameter(0)", f"r = {made} reshape(x)")


def without_elements(random: Random) -> str:
    name, dims = element(random), [*sizes(random, 0, 2), 0]
    return entry(
        f"x = {array_text(name, dims)} parameter(0)", f"r = {array_text(name, regrouped(random, dims))} reshape(x)"
    )


def two_reshapes(random: Random) -> str:
    name, dims = element(random), sizes(random, 0)
    first, second = array_text(name, regrouped(random, dims)), array_text(name, regrouped(random, dims))
    return entry(f"x = {array_text(name, dims)} parameter(0)", f"a = {first} reshape(x)", f"b = {second} reshape(a)")


def broadcast_and_reshape(random: Random) -> str:
    name, dims = element(random), sizes(random, 0, 3)
    wide, kept = widened(random, dims)
    after: list[int] = []
    for index, size in enumerate(wide):
        after += [size] if index in kept else with_ones(random, regrouped(random, [size]))
    return entry(
        f"x = {array_text(name, dims)} parameter(0)",
        f"b = {array_text(name, wide)} broadcast(x), dimensions={{{comma_separated(kept)}}}",
        f"r = {array_text(name, after)} reshape(b)",
    )


def iota_and_reshape(random: Random) -> str:
    front, back, size = sizes(random, 0, 2), sizes(random, 0, 2), random.randint(2, 6)
    name, before = random.choice((*FLOATS, "s32", "u8")), [*front, size, *back]
    after = [*regrouped(random, front), size, *regrouped(random, back)]
    return entry(
        f"i = {array_text(name, before)} iota(), iota_dimension={len(front)}",
        f"r = {array_text(name, after)} reshape(i)",
    )


def iota_and_split(random: Random) -> str:
    front, back = sizes(random, 0, 2), sizes(random, 0, 2)
    digits = [random.randint(2, 4) for _ in range(random.randint(2, 3))]
    name = random.choice((*FLOATS, "s32", "u8", "s8"))
    size = digits[0] * digits[1] * (digits[2] if len(digits) == 3 else 1)
    after = [*regrouped(random, front), *digits, *regrouped(random, back)]
    return entry(
        f"i = {array_text(name, [*front, size, *back])} iota(), iota_dimension={len(front)}",
        f"r = {array_text(name, after)} reshape(i)",
    )


def update_and_reshape(random: Random) -> str:
    name, dims = element(random), [*sizes(random, 0, 2), random.randint(2, 5), *sizes(random, 0, 1)]
    update = smaller(random, dims)
    lines, names, _ = starts(random, len(dims), 2, random.choice(INDICES))
    return entry(
        f"x = {array_text(name, dims)} parameter(0)",
        f"y = {array_text(name, update)} parameter(1)",
        *lines,
        f"d = {array_text(name, dims)} dynamic-update-slice(x, y, {names})",
        f"r = {array_text(name, with_ones(random, dims))} reshape(d)",
    )


def one_copy(random: Random) -> str:
    made = array_text(element(random), sizes(random, 0))
    return entry(f"x = {made} parameter(0)", f"c = {made} copy(x)")


def two_copies(random: Random) -> str:
    made = array_text(element(random), sizes(random, 0))
    return entry(f"x = {made} parameter(0)", f"c = {made} copy(x)", f"d = {made} copy(c)")


def copied_there_and_back(random: Random) -> str:
    name, dims = element(random), [random.randint(2, 4), random.randint(2, 4), *sizes(random, 0, 2)]
    flat, order = math.prod(dims), ",".join(map(str, range(len(dims))))
    lines = [f"x = {array_text(name, dims)} parameter(0)", f"c = {array_text(name, dims)}{{{order}}} copy(x)"]
    if random.random() < 0.5:
        return entry(*lines, f"r = {name}[{flat}] reshape(c)")
    return entry(*lines, f"r = {name}[1,{flat}]{{0,1}} reshape(c)", f"d = {name}[1,{flat}]{{1,0}} copy(r)")


def two_bitcasts(random: Random) -> str:
    return two_reshapes(random).replace("reshape", "bitcast")


def same_bitcast(random: Random) -> str:
    return same_shape(random).replace("reshape", "bitcast")


def bitcast_and_reshape(random: Random) -> str:
    return two_reshapes(random).replace("reshape(a)", "bitcast(a)")


def bitcast_and_scalar(random: Random) -> str:
    name, dims = element(random), sizes(random, 0)
    return entry(
        f"x = {name}[] parameter(0)",
        f"b = {array_text(name, dims)} broadcast(x), dimensions={{}}",
        f"r = {array_text(name, regrouped(random, dims))} bitcast(b)",
    )


def unary_between_bitcasts(random: Random) -> str:
    name, dims = random.choice(FLOATS), sizes(random, 0)
    middle, after = array_text(name, regrouped(random, dims)), array_text(name, regrouped(random, dims))
    return entry(
        f"x = {array_text(name, dims)} parameter(0)",
        f"a = {middle} bitcast(x)",
        f"f = {middle} {random.choice(('negate', 'abs', 'floor', 'sign'))}(a)",
        f"b = {after} bitcast(f)",
    )


WITHOUT_NUMBERS = {"placing-of-random-numbers": "other random numbers are drawn"}
"""Rules of which no numbers can be compared, and why."""


def between_layouts(random: Random) -> str:
    name, (rows, columns) = element(random), (random.randint(2, 4), random.randint(2, 4))
    return entry(
        f"x = {name}[{rows},{columns}]{{1,0}} parameter(0)",
        f"t = {name}[{columns},{rows}]{{0,1}} transpose(x), dimensions={{1,0}}",
        f"r = {name}[{columns},{rows}]{{1,0}} reshape(t)",
        f"b = {name}[{columns},{rows}]{{1,0}} broadcast(r), dimensions={{0,1}}",
    )


DOMAINS: dict[str, Callable[[Random], str]] = {
    "reshape-between-layouts": between_layouts,
    "reshape-to-same-shape": same_shape,
    "reshape-without-elements": without_elements,
    "reshape-of-reshape": two_reshapes,
    "reshape-of-broadcast": broadcast_and_reshape,
    "reshape-of-iota": iota_and_reshape,
    "reshape-of-iota-by-digits": iota_and_split,
    "reshape-of-dynamic-update-slice": update_and_reshape,
    "copy-that-changes-nothing": one_copy,
    "copy-of-copy": two_copies,
    "copied-there-and-back": copied_there_and_back,
    "bitcast-of-bitcast": two_bitcasts,
    "bitcast-to-same-type": same_bitcast,
    "bitcast-of-reshape": bitcast_and_reshape,
    "bitcast-of-broadcast": bitcast_and_scalar,
    "bitcast-of-unary-of-bitcast": unary_between_bitcasts,
}
