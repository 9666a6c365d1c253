"""Random programs in which the rules for transposes fire."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.passes.domains.shaping import FLOATS, element, entry, kind, order, places, sizes, widened, with_ones


def nothing_moves(random: Random) -> str:
    name, dims = element(random), sizes(random, 0)
    return entry(_given(name, dims), _transposed(name, dims, list(range(len(dims)))))


def two_transposes(random: Random) -> str:
    name, dims = element(random), sizes(random)
    first, second = order(random, len(dims)), order(random, len(dims))
    moved = [dims[place] for place in first]
    return entry(
        _given(name, dims), _transposed(name, dims, first, "a"), _transposed(name, moved, second, "t", "a")
    )


def ones_move(random: Random) -> str:
    name, dims = element(random), with_ones(random, sizes(random, 0, 3, 2))
    dims.insert(random.randint(0, len(dims)), 1)
    large = iter([place for place, size in enumerate(dims) if size != 1])
    ones = [place for place, size in enumerate(dims) if size == 1]
    random.shuffle(ones)
    where = set(random.sample(range(len(dims)), len(ones)))
    found = [ones.pop() if place in where else next(large) for place in range(len(dims))]
    return entry(_given(name, dims), _transposed(name, dims, found))


def broadcast_and_transpose(random: Random) -> str:
    name, dims = element(random), sizes(random, 0, 2)
    wide, kept = widened(random, dims, 2)
    rest = [place for place in range(len(wide)) if place not in kept]
    random.shuffle(rest)
    where = set(random.sample(range(len(wide)), len(kept)))
    ordered = iter(kept)
    found = [next(ordered) if place in where else rest.pop() for place in range(len(wide))]
    return entry(
        _given(name, dims),
        f"b = {kind(name, wide)} broadcast(x), dimensions={{{places(kept)}}}",
        _transposed(name, wide, found, "t", "b"),
    )


def iota_and_transpose(random: Random) -> str:
    name, dims = random.choice((*FLOATS, "s32", "u8")), sizes(random)
    counted = random.randrange(len(dims))
    return entry(
        f"i = {kind(name, dims)} iota(), iota_dimension={counted}",
        _transposed(name, dims, order(random, len(dims)), "t", "i"),
    )


def there_and_back(random: Random) -> str:
    name, dims = element(random), sizes(random, 1, 3, 2)
    first = order(random, len(dims))
    moved = [dims[place] for place in first]
    between = with_ones(random, moved)
    large = [place for place, size in enumerate(between) if size != 1]
    ones = [place for place, size in enumerate(between) if size == 1]
    back = [large[first.index(place)] for place in range(len(dims))]
    for place in ones:
        back.insert(random.randint(0, len(back)), place)
    return entry(
        _given(name, dims),
        _transposed(name, dims, first, "a"),
        f"b = {kind(name, between)} reshape(a)",
        _transposed(name, between, back, "t", "b"),
    )


def depth_to_space(random: Random) -> str:
    name, dims = element(random), sizes(random, 2, 4, 2)
    place = random.randrange(1, len(dims))
    target = random.randrange(1, place + 1)
    chunks, size = random.randint(2, 5), dims[place]
    dims[place] *= chunks
    split = [*dims[:place], chunks, size, *dims[place + 1 :]]
    rest = [each for each in range(len(split)) if each != place]
    found = [*rest[:target], place, *rest[target:]]
    if target == place:
        return depth_to_space(random)
    after = list(dims)
    after[place], after[target - 1] = size, after[target - 1] * chunks
    return entry(
        _given(name, dims),
        f"a = {kind(name, split)} reshape(x)",
        _transposed(name, split, found, "t", "a"),
        f"r = {kind(name, after)} reshape(t)",
    )


def _given(name: str, dims: list[int]) -> str:
    return f"x = {kind(name, dims)} parameter(0)"


def _transposed(name: str, dims: list[int], found: list[int], made: str = "t", operand: str = "x") -> str:
    moved = [dims[place] for place in found]
    return f"{made} = {kind(name, moved)} transpose({operand}), dimensions={{{places(found)}}}"


DOMAINS: dict[str, Callable[[Random], str]] = {
    "transpose-that-moves-nothing": nothing_moves,
    "transpose-of-transpose": two_transposes,
    "transpose-of-ones": ones_move,
    "transpose-of-broadcast": broadcast_and_transpose,
    "transpose-of-iota": iota_and_transpose,
    "transpose-that-undoes-another": there_and_back,
    "depth-to-space-of-slices": depth_to_space,
}
