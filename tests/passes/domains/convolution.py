"""Random programs in which the rules on convolutions fire."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

from tests.passes.computations import program
from tests.passes.domains.reduce import text
from tests.passes.domains.reduce_window import cross

Part = tuple[int, int, int]


class Shape(NamedTuple):
    """A convolution: the sizes of the image and of the kernel, by label, and its window, one part per digit."""

    batch: int
    features: int
    outputs: int
    image: list[int]
    kernel: list[int]
    pads: list[tuple[int, int]]
    strides: list[int]
    base: list[int]
    taps: list[int]

    @property
    def places(self) -> list[int]:
        """How often the window fits."""
        result = []
        for size, kernel, (low, high), stride, base, taps in zip(
            self.image, self.kernel, self.pads, self.strides, self.base, self.taps, strict=True
        ):
            result.append((low + high + (size - 1) * base + 1 - (kernel - 1) * taps - 1) // stride + 1)
        return result

    @property
    def window(self) -> str:
        """The window's text."""
        pads = cross([f"{low}_{high}" for low, high in self.pads])
        return (
            f"{{size={cross(self.kernel)} stride={cross(self.strides)} pad={pads} "
            f"lhs_dilate={cross(self.base)} rhs_dilate={cross(self.taps)}}}"
        )


def sized(labels: str, values: dict[str, int]) -> list[int]:
    """The sizes in the order of the labels."""
    return [values[label] for label in labels]


def labels_of(random: Random, rank: int) -> tuple[str, str, str]:
    """Labels of image, kernel and result, in any order."""
    digits = [str(number) for number in range(rank)]
    result = []
    for letters in ("bf", "io", "bf"):
        order = [*letters, *digits]
        random.shuffle(order)
        result.append("".join(order))
    return result[0], result[1], result[2]


def plain(random: Random, rank: int) -> Shape:
    """A convolution with padding, strides and dilations now and then."""
    return Shape(
        random.randint(1, 2),
        random.randint(1, 3),
        random.randint(1, 3),
        [random.randint(4, 6) for _ in range(rank)],
        [random.randint(1, 2) for _ in range(rank)],
        [(random.randint(0, 1), random.randint(0, 1)) for _ in range(rank)],
        [random.randint(1, 2) for _ in range(rank)],
        [1] * rank,
        [1] * rank,
    )


def lines(
    item: Shape, labels: tuple[str, str, str], element: str, image: str = "", kernel: str = "", more: str = ""
) -> str:
    """The lines of a convolution of `x` and `y`, parameters unless their lines are given."""
    spatial = [{str(n): size for n, size in enumerate(sizes)} for sizes in (item.image, item.kernel, item.places)]
    left = text(sized(labels[0], {"b": item.batch, "f": item.features, **spatial[0]}))
    right = text(sized(labels[1], {"i": 1 if more else item.features, "o": item.outputs, **spatial[1]}))
    result = text(sized(labels[2], {"b": item.batch, "f": item.outputs, **spatial[2]}))
    return program(
        f"{image or f'x = {element}[{left}] parameter(0)'}\n{kernel or f'y = {element}[{right}] parameter(1)'}\n"
        f"ROOT c = {element}[{result}] convolution(x, y), window={item.window}, "
        f"dim_labels={labels[0]}_{labels[1]}->{labels[2]}{more}"
    )


def padded(name: str, element: str, sizes: Sequence[int], parts: Sequence[Part], number: int) -> str:
    """The lines of a pad with zeros."""
    whole = [size + low + high + (size - 1) * inner for size, (low, high, inner) in zip(sizes, parts, strict=True)]
    return (
        f"p = {element}[{text(list(sizes))}] parameter({number})\nz = {element}[] constant(0)\n"
        f"{name} = {element}[{text(whole)}] pad(p, z), padding={cross(['_'.join(map(str, part)) for part in parts])}"
    )


def of_nothing(random: Random) -> str:
    """No features, so that each sum is of nothing."""
    item = plain(random, random.randint(1, 2))._replace(features=0)
    return lines(item, labels_of(random, len(item.image)), random.choice(("f32", "s32")))


def of_pad(random: Random, element: str) -> str:
    """A padded image."""
    rank = random.randint(1, 2)
    item, labels = plain(random, rank), labels_of(random, rank)
    inner = [random.choice((0, 0, 1)) for _ in range(rank)]
    item = item._replace(
        pads=[(0, 0) if inside else pad for pad, inside in zip(item.pads, inner, strict=True)],
    )
    parts: dict[str, Part] = {
        str(n): (random.randint(0, 2), random.randint(1, 2), inside) for n, inside in enumerate(inner)
    }
    source = sized(labels[0], {"b": item.batch, "f": item.features, **{str(n): s for n, s in enumerate(item.image)}})
    pad = padded("x", element, source, [parts.get(label, (0, 0, 0)) for label in labels[0]], 0)
    grown = [
        size + parts[str(n)][0] + parts[str(n)][1] + (size - 1) * parts[str(n)][2] for n, size in enumerate(item.image)
    ]
    return lines(item._replace(image=grown), labels, element, image=pad)


def with_pad(random: Random, element: str) -> str:
    """A kernel padded inside."""
    rank = random.randint(1, 2)
    item, labels = plain(random, rank), labels_of(random, rank)
    item = item._replace(kernel=[2] * rank, image=[random.randint(5, 7) for _ in range(rank)])
    parts: dict[str, Part] = {str(n): (0, 0, 1 if n == 0 else random.randint(0, 1)) for n in range(rank)}
    source = sized(labels[1], {"i": item.features, "o": item.outputs, **{str(n): 2 for n in range(rank)}})
    pad = padded("y", element, source, [parts.get(label, (0, 0, 0)) for label in labels[1]], 1)
    return lines(item._replace(kernel=[2 + parts[str(n)][2] for n in range(rank)]), labels, element, kernel=pad)


def of_small(random: Random) -> str:
    """A kernel larger than the image."""
    rank = random.randint(1, 2)
    image, kernel = [random.randint(1, 3) for _ in range(rank)], [random.randint(4, 6) for _ in range(rank)]
    pads = [(size + random.randint(0, 1), size + random.randint(0, 1)) for size in kernel]
    base = [random.randint(1, 2) for _ in range(rank)]
    item = Shape(2, 3, 2, image, kernel, pads, [random.randint(1, 2) for _ in range(rank)], base, [1] * rank)
    return lines(item, labels_of(random, rank), "f32")


def per_channel(random: Random) -> str:
    """One channel per group, and a kernel of one element or as large as the image."""
    rank = random.randint(1, 2)
    image = [random.randint(2, 4) for _ in range(rank)]
    kernel = [random.choice((1, size)) for size in image]
    groups = random.randint(1, 4)
    ones = [1] * rank
    item = Shape(random.randint(1, 3), groups, groups, image, kernel, [(0, 0)] * rank, ones, ones, ones)
    return lines(item, labels_of(random, rank), "f32", more=f", feature_group_count={groups}")


def of_points(random: Random) -> str:
    """A kernel of one element, the features last."""
    rank = random.randint(1, 2)
    front = ["b", *(str(n) for n in range(rank))]
    random.shuffle(front)
    outer = "".join(front) + "f"
    letters = ["i", "o", *(str(n) for n in range(rank))]
    while True:
        random.shuffle(letters)
        if letters.index("i") < letters.index("o"):
            break
    ones = [1] * rank
    image = [random.randint(2, 4) for _ in range(rank)]
    item = Shape(
        random.randint(1, 3), random.randint(2, 3), random.randint(2, 4), image, ones, [(0, 0)] * rank, ones, ones, ones
    )
    return lines(item, (outer, "".join(letters), outer), "f32")


DOMAINS: dict[str, Callable[[Random], str]] = {
    "convolution-of-nothing": of_nothing,
    "integer-convolution-of-pad": lambda random: of_pad(random, "s32"),
    "integer-convolution-with-pad": lambda random: with_pad(random, "s32"),
    "convolution-of-pad": lambda random: of_pad(random, "f32"),
    "convolution-with-pad": lambda random: with_pad(random, "f32"),
    "convolution-of-small": of_small,
    "convolution-per-channel": per_channel,
    "convolution-of-points": of_points,
}
"""Per rule, a program in which it fires, of random shapes and types."""
