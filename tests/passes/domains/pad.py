"""Random programs in which the rules for pads and concatenations fire."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from random import Random

from tests.passes.domains.shapes import array_text, comma_separated, element, entry, sizes, slices, taken, widened

Padding = list[tuple[int, int, int]]


def by_nothing(random: Random) -> str:
    name, dims = element(random), sizes(random)
    return entry(*_given(name, dims), _pad(name, dims, [(0, 0, 0)] * len(dims)))


def of_no_elements(random: Random) -> str:
    name, dims = element(random), sizes(random, 0, 2)
    dims.insert(random.randint(0, len(dims)), 0)
    return entry(*_given(name, dims), _pad(name, dims, _edges(random, dims)))


def between_one(random: Random) -> str:
    name, dims = element(random), sizes(random, 0, 2)
    padding = _edges(random, dims)
    dim = random.randint(0, len(dims))
    dims.insert(dim, 1)
    padding.insert(dim, (random.randint(0, 2), random.randint(0, 2), random.randint(1, 3)))
    return entry(*_given(name, dims), _pad(name, dims, padding))


def by_less(random: Random) -> str:
    name, dims = element(random), sizes(random, 1, 3, 3, 6)
    padding = _edges(random, dims)
    dim = random.randrange(len(dims))
    padding[dim] = (-1, random.choice((-1, 0, 2)), random.choice((0, 0, 2)))
    return entry(*_given(name, dims), _pad(name, dims, padding))


def with_the_same(random: Random) -> str:
    name, dims = element(random), sizes(random)
    return entry(
        f"v = {name}[] parameter(0)",
        f"x = {array_text(name, dims)} broadcast(v), dimensions={{}}",
        _pad(name, dims, _edges(random, dims)),
    )


def two_pads(random: Random) -> str:
    name, dims = element(random), sizes(random, 1, 3)
    first = _edges(random, dims, (0, 0, 2))
    wide = _padded(dims, first)
    return entry(
        *_given(name, dims), _pad(name, dims, first, "a"), _pad(name, wide, _edges(random, wide, (0,)), "p", "a")
    )


def broadcast_and_pad(random: Random) -> str:
    name, dims = element(random), sizes(random, 1, 2)
    wide, kept = widened(random, dims, 1)
    idle = random.choice([index for index in range(len(wide)) if index not in kept])
    padding = [
        (0, 0, 0) if index == idle or (index not in kept and random.random() < 0.5) else
        (random.randint(0, 2), random.randint(1, 2), random.choice((0, 1)))
        for index in range(len(wide))
    ]  # fmt: skip
    return entry(
        *_given(name, dims),
        f"b = {array_text(name, wide)} broadcast(x), dimensions={{{comma_separated(kept)}}}",
        _pad(name, wide, padding, "p", "b"),
    )


def of_one(random: Random) -> str:
    name, dims = element(random), sizes(random)
    along = random.randrange(len(dims))
    return entry(f"x = {array_text(name, dims)} parameter(0)", _join(name, dims, along, [("x", dims[along])]))


def of_nothing(random: Random) -> str:
    name, dims = element(random), sizes(random)
    along, pieces = random.randrange(len(dims)), [random.randint(1, 3) for _ in range(random.randint(1, 2))]
    pieces.insert(random.randint(0, len(pieces)), 0)
    lines = [f"x{n} = {array_text(name, _at(dims, along, size))} parameter({n})" for n, size in enumerate(pieces)]
    return entry(*lines, _join(name, dims, along, [(f"x{n}", size) for n, size in enumerate(pieces)]))


def of_concatenate(random: Random) -> str:
    name, dims = element(random), sizes(random)
    along, pieces = random.randrange(len(dims)), [random.randint(1, 3) for _ in range(3)]
    lines = [f"x{n} = {array_text(name, _at(dims, along, size))} parameter({n})" for n, size in enumerate(pieces)]
    inner = _join(name, dims, along, [("x0", pieces[0]), ("x1", pieces[1])], "a")
    operands = [("a", pieces[0] + pieces[1]), ("x2", pieces[2])]
    random.shuffle(operands)
    return entry(*lines, inner, _join(name, dims, along, operands))


def of_neighbours(random: Random) -> str:
    name, dims = element(random), sizes(random, 1, 3, 3, 8)
    along = random.randrange(len(dims))
    cuts = sorted(random.sample(range(dims[along] + 1), random.randint(3, min(4, dims[along] + 1))))
    parts = [(0, random.randint(1, size), 1) for size in dims]
    lines, operands = [f"x = {array_text(name, dims)} parameter(0)"], []
    for number, (start, limit) in enumerate(pairwise(cuts)):
        parts[along] = (start, limit, 1)
        lines.append(f"part{number} = {array_text(name, taken(parts))} slice(x), {slices(parts)}")
        operands.append((f"part{number}", limit - start))
    if random.random() < 0.5:
        lines.append(f"y = {array_text(name, _at(taken(parts), along, 2))} parameter(1)")
        operands.insert(random.choice((0, len(operands))), ("y", 2))
    return entry(*lines, _join(name, taken(parts), along, operands))


def of_one_scalar(random: Random) -> str:
    name, dims = element(random), sizes(random)
    along, pieces = random.randrange(len(dims)), [random.randint(1, 3) for _ in range(random.randint(2, 3))]
    lines = [f"v = {name}[] parameter(0)"]
    lines += [
        f"b{n} = {array_text(name, _at(dims, along, size))} broadcast(v), dimensions={{}}"
        for n, size in enumerate(pieces)
    ]
    return entry(*lines, _join(name, dims, along, [(f"b{n}", size) for n, size in enumerate(pieces)]))


def scalar_at_edge(random: Random) -> str:
    name, dims = element(random), sizes(random)
    along, size = random.randrange(len(dims)), random.randint(1, 3)
    operands = [("b", size), ("x", dims[along])]
    random.shuffle(operands)
    return entry(
        *_given(name, dims),
        f"b = {array_text(name, _at(dims, along, size))} broadcast(v), dimensions={{}}",
        _join(name, dims, along, operands),
    )


def of_the_same(random: Random) -> str:
    name, dims = element(random), sizes(random, 0, 2)
    along = random.randint(0, len(dims))
    dims.insert(along, 1)
    operands = [("x", 1)] * random.randint(2, 4)
    return entry(f"x = {array_text(name, dims)} parameter(0)", _join(name, dims, along, list(operands)))


def _given(name: str, dims: list[int]) -> tuple[str, str]:
    return f"x = {array_text(name, dims)} parameter(0)", f"v = {name}[] parameter(1)"


def _edges(random: Random, dims: list[int], gaps: tuple[int, ...] = (0, 0, 1)) -> Padding:
    return [(random.randint(0, 2), random.randint(0, 2), random.choice(gaps)) for _ in dims]


def _padded(dims: list[int], padding: Padding) -> list[int]:
    return [size + a + b + max(size - 1, 0) * gap for size, (a, b, gap) in zip(dims, padding, strict=True)]


def _pad(name: str, dims: list[int], padding: Padding, made: str = "p", operand: str = "x") -> str:
    text = "x".join(f"{a}_{b}_{gap}" for a, b, gap in padding)
    return f"{made} = {array_text(name, _padded(dims, padding))} pad({operand}, v), padding={text}"


def _join(name: str, dims: list[int], along: int, operands: list[tuple[str, int]], made: str = "c") -> str:
    total = sum(size for _, size in operands)
    names = ", ".join(operand for operand, _ in operands)
    return f"{made} = {array_text(name, _at(dims, along, total))} concatenate({names}), dimensions={{{along}}}"


def _at(dims: list[int], index: int, size: int) -> list[int]:
    return [*dims[:index], size, *dims[index + 1 :]]


DOMAINS: dict[str, Callable[[Random], str]] = {
    "pad-by-nothing": by_nothing,
    "pad-of-no-elements": of_no_elements,
    "pad-between-one": between_one,
    "pad-by-less": by_less,
    "pad-with-the-same": with_the_same,
    "pad-of-pad": two_pads,
    "pad-of-broadcast": broadcast_and_pad,
    "concatenate-of-one": of_one,
    "concatenate-of-nothing": of_nothing,
    "concatenate-of-concatenate": of_concatenate,
    "concatenate-of-neighbours": of_neighbours,
    "concatenate-of-one-scalar": of_one_scalar,
    "concatenate-of-scalar-at-edge": scalar_at_edge,
    "concatenate-of-the-same": of_the_same,
}
