"""Random programs in which the rules for transposes fire."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.passes.domains.shapes import (
    FLOATS,
    array_text,
    comma_separated,
    element,
    entry,
    order,
    sizes,
    widened,
    with_ones,
)


def nothing_moves(random: Random) -> str:
    name, dims = element(random), sizes(random, 0)
    return entry(_given(name, dims), _transposed(name, dims, list(range(len(dims)))))


def two_transposes(random: Random) -> str:
    name, dims = element(random), sizes(random)
    first, second = order(random, len(dims)), order(random, len(dims))
    moved = [dims[index] for index in first]
    return entry(_given(name, dims), _transposed(name, dims, first, "a"), _transposed(name, moved, second, "t", "a"))


def ones_move(random: Random) -> str:
    name, dims = element(random), with_ones(random, sizes(random, 0, 3, 2))
    dims.insert(random.randint(0, len(dims)), 1)
    large = iter([index for index, size in enumerate(dims) if size != 1])
    ones = [index for index, size in enumerate(dims) if size == 1]
    random.shuffle(ones)
    where = set(random.sample(range(len(dims)), len(ones)))
    result = [ones.pop() if index in where else next(large) for index in range(len(dims))]
    return entry(_given(name, dims), _transposed(name, dims, result))


def broadcast_and_transpose(random: Random) -> str:
    name, dims = element(random), sizes(random, 0, 2)
    wide, kept = widened(random, dims, 2)
    rest = [index for index in range(len(wide)) if index not in kept]
    random.shuffle(rest)
    where = set(random.sample(range(len(wide)), len(kept)))
    ordered = iter(kept)
    result = [next(ordered) if index in where else rest.pop() for index in range(len(wide))]
    return entry(
        _given(name, dims),
        f"b = {array_text(name, wide)} broadcast(x), dimensions={{{comma_separated(kept)}}}",
        _transposed(name, wide, result, "t", "b"),
    )


def iota_and_transpose(random: Random) -> str:
    name, dims = random.choice((*FLOATS, "s32", "u8")), sizes(random)
    counted = random.randrange(len(dims))
    return entry(
        f"i = {array_text(name, dims)} iota(), iota_dimension={counted}",
        _transposed(name, dims, order(random, len(dims)), "t", "i"),
    )


def there_and_back(random: Random) -> str:
    name, dims = element(random), sizes(random, 1, 3, 2)
    first = order(random, len(dims))
    moved = [dims[index] for index in first]
    between = with_ones(random, moved)
    large = [index for index, size in enumerate(between) if size != 1]
    ones = [index for index, size in enumerate(between) if size == 1]
    back = [large[first.index(index)] for index in range(len(dims))]
    for index in ones:
        back.insert(random.randint(0, len(back)), index)
    return entry(
        _given(name, dims),
        _transposed(name, dims, first, "a"),
        f"b = {array_text(name, between)} reshape(a)",
        _transposed(name, between, back, "t", "b"),
    )


def depth_to_space(random: Random) -> str:
    name, dims = element(random), sizes(random, 2, 4, 2)
    dim = random.randrange(1, len(dims))
    target = random.randrange(1, dim + 1)
    chunks, size = random.randint(2, 5), dims[dim]
    dims[dim] *= chunks
    split = [*dims[:dim], chunks, size, *dims[dim + 1 :]]
    rest = [item for item in range(len(split)) if item != dim]
    result = [*rest[:target], dim, *rest[target:]]
    if target == dim:
        return depth_to_space(random)
    after = list(dims)
    after[dim], after[target - 1] = size, after[target - 1] * chunks
    return entry(
        _given(name, dims),
        f"a = {array_text(name, split)} reshape(x)",
        _transposed(name, split, result, "t", "a"),
        f"r = {array_text(name, after)} reshape(t)",
    )


def _given(name: str, dims: list[int]) -> str:
    return f"x = {array_text(name, dims)} parameter(0)"


def _transposed(name: str, dims: list[int], result: list[int], made: str = "t", operand: str = "x") -> str:
    moved = [dims[index] for index in result]
    return f"{made} = {array_text(name, moved)} transpose({operand}), dimensions={{{comma_separated(result)}}}"


DOMAINS: dict[str, Callable[[Random], str]] = {
    "transpose-that-moves-nothing": nothing_moves,
    "transpose-of-transpose": two_transposes,
    "transpose-of-ones": ones_move,
    "transpose-of-broadcast": broadcast_and_transpose,
    "transpose-of-iota": iota_and_transpose,
    "transpose-that-undoes-another": there_and_back,
    "depth-to-space-of-slices": depth_to_space,
}
