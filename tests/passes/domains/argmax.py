"""Random programs in which the rules on searches for the greatest or least element fire."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.passes.computations import computation
from tests.passes.domains.reduce import some, text, without


def search(direction: str) -> str:
    """A computation that prefers the greater or lesser of two elements, and of equal ones the first."""
    return f"""search {{
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  better = pred[] compare(a, b), direction={direction}
  nan = pred[] compare(a, a), direction=NE
  first = pred[] or(better, nan)
  value = f32[] select(first, a, b)
  same = pred[] compare(a, b), direction=EQ
  earlier = pred[] compare(i, j), direction=LT
  tie = pred[] and(same, earlier)
  any = pred[] or(first, tie)
  place = s32[] select(any, i, j)
  ROOT both = (f32[], s32[]) tuple(value, place)
}}
"""


def searched(random: Random, *, splat: bool) -> str:
    """A search, of one number everywhere or beside the plain reduction."""
    greatest = random.random() < 0.5
    sizes = [random.randint(1, 4) for _ in range(random.randint(1, 3))]
    along = random.randrange(len(sizes))
    dims = sorted({along, *some(random, list(range(len(sizes))), 0)}) if splat else [along]
    left = text(without(sizes, dims))
    start, op = ("-inf", "maximum") if greatest else ("inf", "minimum")
    number = random.choice(("7", "nan", "-inf", "inf", "-0.0"))
    operand = f"c = f32[] constant({number})\nx = f32[{text(sizes)}] broadcast(c), dimensions={{}}"
    lines = [
        operand if splat else f"x = f32[{text(sizes)}] parameter(0)",
        f"i = s32[{text(sizes)}] iota(), iota_dimension={along}",
        f"start = f32[] constant({start})\nzero = s32[] constant(0)",
        f"s = (f32[{left}], s32[{left}]) reduce(x, i, start, zero), dimensions={{{text(dims)}}}, to_apply=search",
    ]
    if splat:
        lines[-1] = "ROOT " + lines[-1]
    else:
        lines.append(f"r = f32[{left}] reduce(x, start), dimensions={{{text(dims)}}}, to_apply={op}_f32")
        lines.append(f"ROOT t = ((f32[{left}], s32[{left}]), f32[{left}]) tuple(s, r)")
    head = search("GT" if greatest else "LT") + ("" if splat else computation(op, "f32"))
    return head + "ENTRY e {\n" + "\n".join(lines) + "\n}\n"


DOMAINS: dict[str, Callable[[Random], str]] = {
    "search-of-splat": lambda random: searched(random, splat=True),
    "plain-beside-search": lambda random: searched(random, splat=False),
}
"""Per rule, a program in which it fires, of random shapes and types."""
