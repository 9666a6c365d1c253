"""Random programs in which the rules on windows fire."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from tests.passes.computations import program
from tests.passes.domains.reduce import FLOATS, INTEGERS, any_op, shape, started_at, text


def windowed(random: Random, body: str, op: str, element: str, result: Sequence[int], window: str, start: str) -> str:
    """A program that slides a window over `%x`, which the body makes."""
    return program(
        f"{body}\nstart = {element}[] constant({start})\nROOT r = {element}[{text(list(result))}] "
        f"reduce-window(x, start), window={{{window}}}, to_apply={op}_{element}"
    )


def cross(numbers: Sequence[object]) -> str:
    """Numbers as windows have them."""
    return "x".join(map(str, numbers))


def of_nothing(random: Random) -> str:
    """A dimension of size 0, or none left for the window."""
    op, element = any_op(random, exact=random.random() < 0.5)
    sizes = shape(random)
    dim = random.randrange(len(sizes))
    sizes[dim] = 0
    low = random.randint(0, 2)
    pads = [f"{low}_1" if n == dim else "0_0" for n in range(len(sizes))]
    result = [low + 1 if n == dim else size for n, size in enumerate(sizes)]
    window = f"size={cross([1] * len(sizes))} pad={cross(pads)}"
    body = f"x = {element}[{text(sizes)}] parameter(0)"
    return windowed(random, body, op, element, result, window, random.choice(("0", "1", "3")))


def of_single_elements(random: Random) -> str:
    """A window of one element, padded or not."""
    op, element = any_op(random, exact=random.random() < 0.5)
    sizes = shape(random)
    pads = [(random.randint(0, 2), random.randint(0, 2)) for _ in sizes]
    result = [size + low + high for size, (low, high) in zip(sizes, pads, strict=True)]
    window = f"size={cross([1] * len(sizes))} pad={cross([f'{low}_{high}' for low, high in pads])}"
    body = f"x = {element}[{text(sizes)}] parameter(0)"
    return windowed(random, body, op, element, result, window, started_at(op, element, random))


def of_whole(random: Random) -> str:
    """A window as large as some dimensions."""
    op, element = any_op(random, exact=random.random() < 0.5)
    sizes = [random.randint(2, 4) for _ in range(random.randint(1, 3))]
    dims = random.sample(range(len(sizes)), random.randint(1, len(sizes)))
    window = f"size={cross([size if index in dims else 1 for index, size in enumerate(sizes)])}"
    result = [1 if index in dims else size for index, size in enumerate(sizes)]
    body = f"x = {element}[{text(sizes)}] parameter(0)"
    return windowed(random, body, op, element, result, window, started_at(op, element, random))


def padded(random: Random, element: str, sizes: Sequence[int], pads: Sequence[Sequence[int]], start: str) -> str:
    """The lines of a pad, converted or not; it yields `%x`."""
    whole = text([size + low + high + (size - 1) * inner for size, (low, high, inner) in zip(sizes, pads, strict=True)])
    narrow = "bf16" if element == "f32" and random.random() < 0.4 and abs(float(start)) in (0, 1) else element
    last = "p" if narrow != element else "x"
    parts = cross(["_".join(map(str, pad)) for pad in pads])
    lines = (
        f"y = {narrow}[{text(list(sizes))}] parameter(0)\nf = {narrow}[] constant({start})\n"
        f"{last} = {narrow}[{whole}] pad(y, f), padding={parts}"
    )
    return lines if last == "x" else f"{lines}\nx = {element}[{whole}] convert(p)"


def of_pad(random: Random) -> str:
    """A pad below a window that pads as well, or dilates."""
    op, element = any_op(random, exact=random.random() < 0.5)
    start = started_at(op, element, random)
    sizes = [random.randint(2, 4) for _ in range(random.randint(2, 3))]
    pads = [(random.randint(0, 2), random.randint(1, 2), random.choice((0, 0, 1))) for _ in sizes]
    window = [random.randint(1, 2) for _ in sizes]
    own = [(random.randint(0, 2), random.randint(0, 2)) for _ in sizes]
    dilations = [1 if pad[2] else random.randint(1, 2) for pad in pads]
    strides = [random.randint(1, 2) for _ in sizes]
    result = []
    for size, pad, taps, (low, high), dilation, stride in zip(
        sizes, pads, window, own, dilations, strides, strict=True
    ):
        whole = size + pad[0] + pad[1] + (size - 1) * pad[2]
        result.append((low + high + (whole - 1) * dilation + 1 - taps) // stride + 1)
    text_of = (
        f"size={cross(window)} stride={cross(strides)} pad={cross([f'{low}_{high}' for low, high in own])} "
        f"lhs_dilate={cross(dilations)}"
    )
    return windowed(random, padded(random, element, sizes, pads, start), op, element, result, text_of, start)


def of_lone(random: Random) -> str:
    """Each window holds one element of what is padded."""
    op, element = any_op(random, exact=random.random() < 0.5)
    start = started_at(op, element, random)
    if op == "add" and element in FLOATS:
        start = "-0.0"
    sizes = [1, random.randint(2, 4)] if random.random() < 0.5 else [random.randint(1, 3), 1, 1]
    counts = [random.randint(1, 3) if size == 1 else 0 for size in sizes]
    pads = [(count, count, 0) for count in counts]
    window = [count + 1 for count in counts]
    result = [size if size != 1 else count + 1 for size, count in zip(sizes, counts, strict=True)]
    body = padded(random, element, sizes, pads, start)
    return windowed(random, body, op, element, result, f"size={cross(window)}", start)


def of_scalar(random: Random) -> str:
    """A window over a scalar."""
    op, element = any_op(random, exact=random.random() < 0.5)
    start = started_at(op, element, random)
    return program(
        f"x = {element}[] parameter(0)\nstart = {element}[] constant({start})\n"
        f"ROOT r = {element}[] reduce-window(x, start), to_apply={op}_{element}"
    )


def running_sum(random: Random, elements: Sequence[str]) -> str:
    """A running sum of one number."""
    element = random.choice(elements)
    sizes = [random.randint(2, 5) for _ in range(random.randint(1, 3))]
    dim = random.randrange(len(sizes))
    window = [size if n == dim else 1 for n, size in enumerate(sizes)]
    pads = [f"{size - 1}_0" if n == dim else "0_0" for n, size in enumerate(sizes)]
    body = (
        f"c = {element}[] constant({random.randint(0, 3)})\nx = {element}[{text(sizes)}] broadcast(c), dimensions={{}}"
    )
    return windowed(random, body, "add", element, sizes, f"size={cross(window)} pad={cross(pads)}", "0")


def scattering(random: Random, *, empty: bool) -> str:
    """A select-and-scatter with a window of one element, or with nothing to scatter."""
    element = random.choice(FLOATS[:2])
    sizes = shape(random, 1, 3)
    source = list(sizes)
    window = [1] * len(sizes)
    if empty:
        window[0] = sizes[0] + 1
        source[0] = 0
    return program(
        f"x = {element}[{text(sizes)}] parameter(0)\ny = {element}[{text(source)}] parameter(1)\n"
        f"start = {element}[] constant(0)\nROOT r = {element}[{text(sizes)}] select-and-scatter(x, y, start), "
        f"window={{size={cross(window)}}}, select=ge_{element}, scatter=add_{element}"
    )


def several_of_nothing(random: Random) -> str:
    """Two empty arrays, padded, under one window of one element."""
    size, low = random.randint(1, 3), random.randint(0, 2)
    result = f"f32[{size},{low + 1}]"
    return (
        "both {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  c = f32[] parameter(2)\n  d = f32[] parameter(3)\n"
        "  e = f32[] add(a, c)\n  f = f32[] maximum(b, d)\n  ROOT t = (f32[], f32[]) tuple(e, f)\n}\n"
        f"ENTRY e {{\n  x = f32[{size},0] parameter(0)\n  s = f32[] parameter(1)\n  z = f32[] constant(0)\n"
        f"  ROOT r = ({result}, {result}) reduce-window(x, x, z, s), window={{size=1x1 pad=0_0x{low}_1}}, to_apply=both\n}}\n"
    )


def last_of_running(random: Random) -> str:
    """The last place of a window that holds all before each place, along one dimension or two."""
    op, element = any_op(random, exact=random.random() < 0.5)
    sizes = [random.randint(2, 4) for _ in range(random.randint(1, 3))]
    dims = random.sample(range(len(sizes)), random.randint(1, min(2, len(sizes))))
    window = [size if index in dims else 1 for index, size in enumerate(sizes)]
    pads = [f"{size - 1}_0" for size in window]
    parts = [f"[{size - 1 if index in dims else 0}:{size}]" for index, size in enumerate(sizes)]
    left = [1 if index in dims else size for index, size in enumerate(sizes)]
    whole = f"{element}[{text(sizes)}]"
    start = {"add": "0", "multiply": "1"}.get(op) or started_at(op, element, random)
    return program(
        f"x = {whole} parameter(0)\nstart = {element}[] constant({start})\n"
        f"w = {whole} reduce-window(x, start), window={{size={cross(window)} pad={cross(pads)}}}, to_apply={op}_{element}\n"
        f"ROOT s = {element}[{text(left)}] slice(w), slice={{{', '.join(parts)}}}"
    )


DOMAINS: dict[str, Callable[[Random], str]] = {
    "reduce-window-of-nothing": of_nothing,
    "reduce-window-of-single-elements": of_single_elements,
    "reduce-window-of-whole": of_whole,
    "reduce-window-of-pad": of_pad,
    "reduce-window-of-lone-elements": of_lone,
    "integer-running-sum-of-splat": lambda random: running_sum(random, INTEGERS),
    "select-and-scatter-of-nothing": lambda random: scattering(random, empty=True),
    "select-and-scatter-of-single-elements": lambda random: scattering(random, empty=False),
    "reduce-windows-of-nothing": several_of_nothing,
    "reduce-window-of-any-pad": of_pad,
    "reduce-window-of-scalar": of_scalar,
    "last-of-running": last_of_running,
    "reduce-window-of-any-lone-elements": of_lone,
    "running-sum-of-same": lambda random: running_sum(random, FLOATS),
}
"""Per rule, a program in which it fires, of random shapes and types."""

NARROWED: dict[str, dict[str, Any]] = {
    "reduce-window-of-whole": {"finite": True, "reason": "XLA adds up in another order, so sums overflow elsewhere"},
    "reduce-window-of-pad": {"finite": True, "reason": "XLA adds up in another order, so sums overflow elsewhere"},
}
"""What is narrower in the tests of some rules, and why."""
