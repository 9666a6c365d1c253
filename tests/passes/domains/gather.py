"""Random programs in which the rules for gathers fire."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.passes.domains.shapes import INDICES, array_text, comma_separated, element, entry, sizes, smaller


def from_nothing(random: Random) -> str:
    name, count = random.choice(("f32", "s32")), random.randint(1, 4)
    return entry(f"x = {name}[3,0] parameter(0)", _indices(random, [count], 1), _rows(name, count, 0, "x"))


def from_one(random: Random) -> str:
    name, count = element(random), random.randint(1, 5)
    return entry(f"x = {name}[1,1] parameter(0)", _indices(random, [count], 1), _rows(name, count, 1, "x"))


def from_broadcast(random: Random) -> str:
    name, count, width = element(random), random.randint(1, 5), random.randint(1, 4)
    return entry(
        f"v = {name}[] parameter(0)",
        f"b = {name}[{random.randint(1, 5)},{width}] broadcast(v), dimensions={{}}",
        _indices(random, [count], 1),
        _rows(name, count, width, "b"),
    )


def of_one_window(random: Random) -> str:
    name, dims = element(random), sizes(random, 1, 3)
    mapped = random.sample(range(len(dims)), random.randint(1, len(dims)))
    numbers = comma_separated(random.choice((0, 1, 2, 9, -3)) for _ in mapped)
    window = smaller(random, dims)
    gone = [index for index in range(len(dims)) if window[index] == 1 and random.random() < 0.5]
    kept = [window[index] for index in range(len(dims)) if index not in gone]
    batch = random.choice(([], [1]))
    indices = (
        f"i = s32[{comma_separated([*batch, len(mapped)])}] constant({{{'{' * len(batch)}{numbers}{'}' * len(batch)}}})"
    )
    offset = range(len(batch), len(batch) + len(kept))
    return entry(
        f"x = {array_text(name, dims)} parameter(0)",
        indices,
        f"g = {array_text(name, [*batch, *kept])} gather(x, i), offset_dims={{{comma_separated(offset)}}}, "
        f"collapsed_slice_dims={{{comma_separated(gone)}}}, start_index_map={{{comma_separated(mapped)}}}, "
        f"index_vector_dim={len(batch)}, slice_sizes={{{comma_separated(window)}}}",
    )


def of_rows(random: Random) -> str:
    name, dims = element(random), [random.randint(3, 8), *sizes(random, 0, 2)]
    along = random.randrange(len(dims))
    dims[0], dims[along] = dims[along], dims[0]
    stride = random.randint(1, 2)
    count = random.randint(2, (dims[along] - 1) // stride + 1)
    first = random.randint(0, dims[along] - 1 - (count - 1) * stride)
    rows = comma_separated(first + number * stride for number in range(count))
    others = [size for index, size in enumerate(dims) if index != along]
    batch = random.randint(0, len(others))
    made = [*others[:batch], count, *others[batch:]]
    offset = [index for index in range(len(made)) if index != batch]
    window = [1 if index == along else size for index, size in enumerate(dims)]
    return entry(
        f"x = {array_text(name, dims)} parameter(0)",
        f"i = s32[{count}] constant({{{rows}}})",
        f"g = {array_text(name, made)} gather(x, i), offset_dims={{{comma_separated(offset)}}}, collapsed_slice_dims={{{along}}}, "
        f"start_index_map={{{along}}}, index_vector_dim=1, slice_sizes={{{comma_separated(window)}}}",
    )


def of_few(random: Random) -> str:
    name, shape = element(random), sizes(random, 0, 2)
    return entry(
        f"x = {name}[{random.randint(1, 4)}] parameter(0)",
        f"i = {random.choice(INDICES)}[{comma_separated(shape)}] parameter(1)",
        f"g = {array_text(name, shape)} gather(x, i), offset_dims={{}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, "
        f"index_vector_dim={len(shape)}, slice_sizes={{1}}",
    )


def of_pad(random: Random) -> str:
    if random.random() < 0.4:
        return of_shared_pad(random)
    name, rows, width, count = element(random), random.randint(1, 5), random.randint(1, 4), random.randint(1, 4)
    low, high, gap = random.randint(0, 2), random.randint(1, 2), random.choice((0, 1))
    wide = width + low + high + (width - 1) * gap
    return entry(
        f"x = {name}[{rows},{width}] parameter(0)",
        f"v = {name}[] parameter(1)",
        f"p = {name}[{rows},{wide}] pad(x, v), padding=0_0x{low}_{high}_{gap}",
        _indices(random, [count], 2),
        _rows(name, count, wide, "p"),
    )


def of_shared_pad(random: Random) -> str:
    name, batch, rows, width, count = element(random), *(random.randint(1, 4) for _ in range(4))
    low, high = random.randint(0, 2), random.randint(1, 2)
    wide, all_ = width + 1, batch + low + high
    return entry(
        f"x = {name}[{batch},{rows},{width}] parameter(0)",
        f"v = {name}[] parameter(1)",
        f"p = {name}[{all_},{rows},{wide}] pad(x, v), padding={low}_{high}x0_0x0_1",
        f"j = s32[{batch},{count},1] parameter(2)",
        "z = s32[] parameter(3)",
        f"i = s32[{all_},{count},1] pad(j, z), padding={low}_{high}x0_0x0_0",
        f"g = {name}[{all_},{count},{wide}] gather(p, i), offset_dims={{2}}, collapsed_slice_dims={{1}}, "
        f"start_index_map={{1}}, operand_batching_dims={{0}}, start_indices_batching_dims={{0}}, index_vector_dim=2, "
        f"slice_sizes={{1,1,{wide}}}",
    )


def of_reshaped_pad(random: Random) -> str:
    name, first, second, width, count = element(random), *(random.randint(1, 4) for _ in range(4))
    wide = width + 2
    return entry(
        f"x = {name}[{first},{second},{width}] parameter(0)",
        f"v = {name}[] parameter(1)",
        f"p = {name}[{first},{second},{wide}] pad(x, v), padding=0_0x0_0x{random.choice(('1_1', '0_2', '2_0'))}",
        f"r = {name}[{first * second},{wide}] reshape(p)",
        _indices(random, [count], 2),
        _rows(name, count, wide, "r"),
    )


def _indices(random: Random, shape: list[int], number: int) -> str:
    return f"i = {random.choice(INDICES)}[{comma_separated(shape)},1] parameter({number})"


def _rows(name: str, count: int, width: int, operand: str) -> str:
    return (
        f"g = {name}[{count},{width}] gather({operand}, i), offset_dims={{1}}, collapsed_slice_dims={{0}}, "
        f"start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,{width}}}"
    )


DOMAINS: dict[str, Callable[[Random], str]] = {
    "gather-from-nothing": from_nothing,
    "gather-from-one": from_one,
    "gather-from-broadcast": from_broadcast,
    "gather-of-one-window": of_one_window,
    "gather-of-rows": of_rows,
    "gather-of-few": of_few,
    "gather-of-pad": of_pad,
    "gather-of-reshaped-pad": of_reshaped_pad,
}
