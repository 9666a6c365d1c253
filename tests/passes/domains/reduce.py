"""Random programs in which the rules on reductions fire."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from tests.passes.computations import program

FLOATS = ("f32", "f32", "f16", "bf16", "f64")
INTEGERS = ("s32", "u8", "s8", "s64", "u32")
IDENTITIES = {"add": "0", "multiply": "1", "or": "0"}
"""Where computations start, for those whose start is the same for all types."""


def shape(random: Random, least: int = 1, most: int = 4, largest: int = 5) -> list[int]:
    """The sizes of an array of a random rank."""
    return [random.randint(1, largest) for _ in range(random.randint(least, most))]


def some(random: Random, dims: list[int], least: int = 1) -> list[int]:
    """Some of the places, in order."""
    return sorted(random.sample(dims, random.randint(min(least, len(dims)), len(dims))))


def text(sizes: list[int]) -> str:
    """Sizes or places as HLO writes them."""
    return ",".join(map(str, sizes))


def without(sizes: list[int], dims: list[int]) -> list[int]:
    """The sizes that are left when some places are reduced."""
    return [size for index, size in enumerate(sizes) if index not in dims]


def started_at(op: str, element: str, random: Random) -> str:
    """A value that changes nothing, for the op and type."""
    if op in IDENTITIES:
        return "-0.0" if op == "add" and element in FLOATS and random.random() < 0.5 else IDENTITIES[op]
    if element in FLOATS:
        return {"maximum": "-inf", "minimum": "inf"}[op]
    bits = int(element[1:])
    if element[0] == "u":
        return {"maximum": "0", "minimum": str(2**bits - 1), "and": str(2**bits - 1)}[op]
    return {"maximum": str(-(2 ** (bits - 1))), "minimum": str(2 ** (bits - 1) - 1), "and": "-1"}[op]


def any_op(random: Random, *, exact: bool) -> tuple[str, str]:
    """An op and an element type; with `exact`, such that no order rounds."""
    if exact and random.random() < 0.4:
        return random.choice(("maximum", "minimum")), random.choice(FLOATS)
    if exact:
        return random.choice(("add", "multiply", "maximum", "minimum", "and", "or")), random.choice(INTEGERS)
    return random.choice(("add", "add", "multiply")), random.choice(FLOATS)


def reduced(op: str, element: str, sizes: list[int], dims: list[int], body: str, start: str) -> str:
    """A program that reduces `%x`, which the body makes, along some places."""
    left = without(sizes, dims)
    return program(
        f"{body}\n start = {element}[] constant({start})\n "
        f"ROOT r = {element}[{text(left)}] reduce(x, start), dimensions={{{text(dims)}}}, to_apply={op}_{element}"
    )


def parameter(element: str, sizes: list[int], name: str = "x", number: int = 0) -> str:
    """A parameter's line."""
    return f" {name} = {element}[{text(sizes)}] parameter({number})"


def of_nothing(random: Random) -> str:
    """Dimensions of size 0, reduced or not."""
    op, element = any_op(random, exact=random.random() < 0.5)
    sizes = shape(random)
    sizes[random.randrange(len(sizes))] = 0
    dims = some(random, list(range(len(sizes))))
    return reduced(op, element, sizes, dims, parameter(element, sizes), random.choice(("0", "1", "3")))


def of_single_elements(random: Random) -> str:
    """Dimensions of size 1, from an identity."""
    op, element = any_op(random, exact=random.random() < 0.5)
    sizes = shape(random)
    dims = some(random, list(range(len(sizes))))
    for index in dims:
        sizes[index] = 1
    return reduced(op, element, sizes, dims, parameter(element, sizes), started_at(op, element, random))


def of_transpose(random: Random, *, exact: bool) -> str:
    """A transpose below, of any order."""
    op, element = any_op(random, exact=exact)
    sizes = [random.randint(2, 5) for _ in range(random.randint(2, 4))]
    order = list(range(len(sizes)))
    while order == sorted(order):
        random.shuffle(order)
    exchanged = [sizes[index] for index in order]
    dims = some(random, list(range(len(sizes))))
    body = (
        parameter(element, sizes, "p")
        + f"\n x = {element}[{text(exchanged)}] transpose(p), dimensions={{{text(order)}}}"
    )
    return reduced(op, element, exchanged, dims, body, started_at(op, element, random))


def of_reduce(random: Random, *, exact: bool) -> str:
    """A reduction of a reduction by the same op."""
    op, element = any_op(random, exact=exact)
    sizes = shape(random, 2)
    inner = some(random, list(range(len(sizes))))[: len(sizes) - 1]
    left = without(sizes, inner)
    outer = some(random, list(range(len(left))))
    start = started_at(op, element, random)
    body = (
        f"{parameter(element, sizes, 'p')}\n s = {element}[] constant({start})\n x = {element}[{text(left)}] "
        f"reduce(p, s), dimensions={{{text(inner)}}}, to_apply={op}_{element}"
    )
    return reduced(op, element, left, outer, body, start)


def of_reshape(random: Random) -> str:
    """A reshape that merges neighbours, either all reduced or none, beside one that is neither."""
    op, element = any_op(random, exact=random.random() < 0.5)
    a, b, c = (random.randint(2, 4) for _ in range(3))
    if random.random() < 0.5:
        source, sizes = [a, b, c], [a * b, c]
    else:
        source, sizes = [a * b, c], [a, b, c]
    merged = list(range(len(sizes) - 1))
    dims = random.choice((merged, [len(sizes) - 1]))
    body = parameter(element, source, "p") + f"\n x = {element}[{text(sizes)}] reshape(p)"
    return reduced(op, element, sizes, dims, body, started_at(op, element, random))


def of_concatenate(random: Random, *, exact: bool) -> str:
    """A concatenation along a dimension that is reduced."""
    op, element = any_op(random, exact=exact)
    sizes = shape(random)
    along = random.randrange(len(sizes))
    parts = [[*sizes[:along], random.randint(1, 4), *sizes[along + 1 :]] for _ in range(random.randint(2, 3))]
    whole = [*sizes[:along], sum(part[along] for part in parts), *sizes[along + 1 :]]
    dims = sorted({along, *some(random, list(range(len(sizes))), 0)})
    lines = [parameter(element, part, f"p{number}", number) for number, part in enumerate(parts)]
    names = ", ".join(f"p{number}" for number in range(len(parts)))
    lines.append(f" x = {element}[{text(whole)}] concatenate({names}), dimensions={{{along}}}")
    return reduced(op, element, whole, dims, "\n".join(lines), started_at(op, element, random))


def of_pad(random: Random, *, exact: bool) -> str:
    """Padding with what changes nothing, along what is reduced."""
    op, element = any_op(random, exact=exact) if exact else ("add", random.choice(FLOATS))
    filler = started_at(op, element, random) if exact else "0"
    sizes = shape(random)
    dims = some(random, list(range(len(sizes))))
    padding = [[random.randint(0, 2), random.randint(0, 2), random.randint(0, 1)] for _ in sizes]
    padding = [part if index in dims else [0, 0, 0] for index, part in enumerate(padding)]
    whole = [n + low + high + (n - 1) * inner for n, (low, high, inner) in zip(sizes, padding, strict=True)]
    parts = "x".join("_".join(map(str, part)) for part in padding)
    body = (
        f"{parameter(element, sizes, 'p')}\n f = {element}[] constant({filler})\n "
        f"x = {element}[{text(whole)}] pad(p, f), padding={parts}"
    )
    return reduced(op, element, whole, dims, body, started_at(op, element, random))


def of_broadcast(random: Random, ops: tuple[str, ...], elements: tuple[str, ...], *, repeated: bool) -> str:
    """A broadcast, reduced along what it repeats, or along what it does not."""
    op, element = random.choice(ops), random.choice(elements)
    whole = shape(random, 2, 4)
    kept = some(random, list(range(len(whole))), 0 if repeated else 1)[: len(whole) - 1]
    added = [index for index in range(len(whole)) if index not in kept]
    dims = some(random, added if repeated else kept)
    body = (
        f"{parameter(element, [whole[index] for index in kept], 'p')}\n "
        f"x = {element}[{text(whole)}] broadcast(p), dimensions={{{text(kept)}}}"
    )
    return reduced(op, element, whole, dims, body, started_at(op, element, random))


def of_turned_broadcast(random: Random) -> str:
    """A broadcast that turns what is reduced."""
    element = random.choice(FLOATS)
    a, b, c = (random.randint(2, 4) for _ in range(3))
    body = parameter(element, [a, b], "p") + f"\n x = {element}[{c},{b},{a}] broadcast(p), dimensions={{2,1}}"
    return reduced("add", element, [c, b, a], [1, 2], body, "0")


def of_negate(random: Random) -> str:
    """A sum of negated numbers."""
    element = random.choice(FLOATS)
    sizes = shape(random)
    body = parameter(element, sizes, "p") + f"\n x = {element}[{text(sizes)}] negate(p)"
    return reduced("add", element, sizes, some(random, list(range(len(sizes)))), body, "0")


def precision(random: Random, *, again: bool) -> str:
    """A reduction of precision to what the type has, or twice."""
    element, (exponent, mantissa) = random.choice(
        [("f32", (8, 23)), ("bf16", (8, 7)), ("f16", (5, 10)), ("f64", (11, 52))]
    )
    sizes = text(shape(random))
    if not again:
        line = f"ROOT r = {element}[{sizes}] reduce-precision(x), exponent_bits={exponent}, mantissa_bits={mantissa}"
        return f"ENTRY e {{\n x = {element}[{sizes}] parameter(0)\n {line}\n}}"
    few = random.randint(2, exponent), random.randint(0, mantissa)
    more = random.randint(few[0], exponent), random.randint(few[1], mantissa)
    return (
        f"ENTRY e {{\n x = {element}[{sizes}] parameter(0)\n"
        f" y = {element}[{sizes}] reduce-precision(x), exponent_bits={few[0]}, mantissa_bits={few[1]}\n"
        f" ROOT r = {element}[{sizes}] reduce-precision(y), exponent_bits={more[0]}, mantissa_bits={more[1]}\n}}"
    )


IDEMPOTENT = ("maximum", "minimum")

DOMAINS: dict[str, Callable[[Random], str]] = {
    "reduce-of-nothing": of_nothing,
    "reduce-of-single-elements": of_single_elements,
    "reduce-of-transpose": lambda random: of_transpose(random, exact=True),
    "reduce-of-reduce": lambda random: of_reduce(random, exact=True),
    "reduce-of-reshape": of_reshape,
    "reduce-of-concatenate": lambda random: of_concatenate(random, exact=True),
    "reduce-of-pad": lambda random: of_pad(random, exact=True),
    "reduce-of-repeated": lambda random: of_broadcast(random, IDEMPOTENT, FLOATS + INTEGERS, repeated=True),
    "reduce-before-broadcast": lambda random: of_broadcast(random, ("add", "maximum"), FLOATS, repeated=False),
    "integer-sum-of-repeated": lambda random: of_broadcast(random, ("add",), INTEGERS, repeated=True),
    "reduce-precision-to-own": lambda random: precision(random, again=False),
    "reduce-precision-again": lambda random: precision(random, again=True),
    "reduce-as-reshape": of_single_elements,
    "sum-of-negated": of_negate,
    "reduce-of-any-transpose": lambda random: of_transpose(random, exact=False),
    "reduce-before-turning-broadcast": of_turned_broadcast,
    "reduce-of-equal-reduce": lambda random: of_reduce(random, exact=False),
    "sum-of-concatenate": lambda random: of_concatenate(random, exact=False),
    "sum-of-pad": lambda random: of_pad(random, exact=False),
    "sum-of-repeated-floats": lambda random: of_broadcast(random, ("add",), FLOATS, repeated=True),
}
"""Per rule, a program in which it fires, of random shapes and types."""

_COARSE = {"tolerance": 0.05, "finite": True, "reason": "partial sums are rounded to the 8 bits of bf16"}

NARROWED: dict[str, dict[str, Any]] = {
    "reduce-of-pad": {"finite": True, "reason": "XLA's CPU client loses NaN in some minima of f16, by their shape"},
    "reduce-of-any-transpose": _COARSE,
    "reduce-of-equal-reduce": _COARSE,
    "reduce-before-turning-broadcast": _COARSE,
    "sum-of-concatenate": _COARSE,
    "sum-of-pad": _COARSE,
    "sum-of-repeated-floats": _COARSE,
    "reduce-of-reshape": {"finite": True, "reason": "XLA adds up in another order, so sums overflow elsewhere"},
    "reduce-before-broadcast": {"finite": True, "reason": "XLA adds up in another order, so sums overflow elsewhere"},
}
"""What is narrower in the tests of some rules, and why."""
