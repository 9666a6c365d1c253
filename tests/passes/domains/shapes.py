"""What programs for the shaping rules are drawn from: sizes, element types, regroupings, slices."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from random import Random

ELEMENTS = ("f32", "f32", "s32", "f16", "bf16", "u8", "pred", "c64", "f64", "s8", "u32")
FLOATS = ("f32", "f32", "f16", "bf16", "f64")
INTEGERS = ("s32", "u8", "s8", "u32", "s64")
INDICES = ("s32", "s32", "u32", "s64", "s8")


def entry(*lines: str) -> str:
    """A module whose entry has these lines; the last is the root."""
    return "ENTRY e {\n  " + "\n  ".join((*lines[:-1], f"ROOT {lines[-1]}")) + "\n}\n"


def element(random: Random) -> str:
    """An element type."""
    return random.choice(ELEMENTS)


def sizes(random: Random, least: int = 1, most: int = 4, smallest: int = 1, largest: int = 5) -> list[int]:
    """The sizes of an array of a random rank."""
    return [random.randint(smallest, largest) for _ in range(random.randint(least, most))]


def array_text(name: str, dims: Iterable[int] = ()) -> str:
    """A type as HLO writes it."""
    return f"{name}[{comma_separated(dims)}]"


def comma_separated(numbers: Iterable[int]) -> str:
    """Numbers as HLO writes them."""
    return ",".join(map(str, numbers))


def order(random: Random, rank: int) -> list[int]:
    """A permutation."""
    return random.sample(range(rank), rank)


def regrouped(random: Random, dims: Sequence[int]) -> list[int]:
    """Other sizes of as many elements."""
    if 0 in dims:
        return [0, random.randint(1, 3)]
    result = [1] * random.randint(0 if math.prod(dims) == 1 else 1, 3)
    for prime in _primes(math.prod(dims)):
        result[random.randrange(len(result))] *= prime
    return result


def with_ones(random: Random, dims: Sequence[int]) -> list[int]:
    """The same sizes with ones put between them and taken from them."""
    result: list[int] = []
    for size in dims:
        result += [1] * random.choice((0, 0, 1, 2))
        if size != 1 or random.random() < 0.5:
            result.append(size)
    return result + [1] * random.choice((0, 1))


def widened(random: Random, dims: Sequence[int], least: int = 1) -> tuple[list[int], list[int]]:
    """Sizes with others put between them, and where the first ones stand."""
    count = len(dims) + random.randint(least, least + 1)
    kept = sorted(random.sample(range(count), len(dims)))
    given = iter(dims)
    return [next(given) if index in kept else random.randint(1, 4) for index in range(count)], kept


def part(random: Random, size: int, strides: Sequence[int] = (1, 1, 2, 3)) -> tuple[int, int, int]:
    """A slice of a dimension that takes at least one element, where there is one."""
    start = random.randint(0, max(size - 1, 0))
    return start, random.randint(min(start + 1, size), size), random.choice(strides)


def parts(random: Random, dims: Sequence[int], strides: Sequence[int] = (1, 1, 2, 3)) -> list[tuple[int, int, int]]:
    """A slice of an array."""
    return [part(random, size, strides) for size in dims]


def taken(result: Iterable[tuple[int, int, int]]) -> list[int]:
    """The sizes of what a slice takes."""
    return [-(-(limit - start) // stride) for start, limit, stride in result]


def slices(result: Iterable[tuple[int, int, int]]) -> str:
    """A slice as HLO writes it."""
    return "slice={" + ", ".join(f"[{start}:{limit}:{stride}]" for start, limit, stride in result) + "}"


def smaller(random: Random, dims: Iterable[int], least: int = 1) -> list[int]:
    """Sizes that are at most these."""
    return [random.randint(min(least, size), size) for size in dims]


def index(random: Random, number: int, name: str, which: str) -> str:
    """A scalar that says where something begins: a constant, or a parameter of this number."""
    if random.random() < 0.3:
        return f"{name} = {which}[] constant({random.randint(-2 if which[0] == 's' else 0, 7)})"
    return f"{name} = {which}[] parameter({number})"


def starts(random: Random, rank: int, first: int, which: str, prefix: str = "i") -> tuple[list[str], str, int]:
    """The lines that make starts, their names, and the number of the next parameter."""
    lines, names = [], []
    for number in range(rank):
        name = f"{prefix}{number}"
        line = index(random, first, name, which)
        first += "parameter" in line
        lines.append(line)
        names.append(name)
    return lines, ", ".join(names), first


def fitting_starts(
    random: Random, lasts: Sequence[int], first: int, which: str, prefix: str = "i"
) -> tuple[list[str], str, int]:
    """Starts that are in their places as they are: 0 to a last one each, brought there by a clamp.

    Where others stand, XLA's own simplifier goes wrong on slices of slices: it forgets that the outer one moves.
    """
    lines, names = [f"{prefix}low = {which}[] constant(0)"], []
    for number, last in enumerate(lasts):
        if random.random() < 0.3:
            lines.append(f"{prefix}{number} = {which}[] constant({random.randint(0, last)})")
        else:
            lines += [
                f"{prefix}given{number} = {which}[] parameter({first})",
                f"{prefix}high{number} = {which}[] constant({last})",
                f"{prefix}{number} = {which}[] clamp({prefix}low, {prefix}given{number}, {prefix}high{number})",
            ]
            first += 1
        names.append(f"{prefix}{number}")
    return lines, ", ".join(names), first


def _primes(number: int) -> list[int]:
    result, divisor = [], 2
    while number > 1:
        while number % divisor == 0:
            result.append(divisor)
            number //= divisor
        divisor += 1
    return result
