"""Random programs in which the rules on collectives fire; all of them run on one device."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.passes.computations import program
from tests.passes.domains.reduce import FLOATS, INTEGERS, shape, text


def of_one(random: Random) -> str:
    """Groups of one device."""
    element = random.choice(FLOATS + INTEGERS)
    array_text = f"{element}[{text(shape(random))}]"
    last = random.choice(
        (
            f"all-reduce(x), replica_groups={{{{0}}}}, to_apply=add_{element}",
            "all-gather(x), replica_groups={{0}}, dimensions={0}",
            f"reduce-scatter(x), replica_groups={{{{0}}}}, dimensions={{0}}, to_apply=add_{element}",
            "all-to-all(x), replica_groups={{0}}, dimensions={0}",
        )
    )
    return program(f"x = {array_text} parameter(0)\nROOT r = {array_text} {last}")


def of_splat(random: Random, elements: tuple[str, ...], ops: tuple[str, ...]) -> str:
    """One number in every element."""
    element = random.choice(elements)
    array_text = f"{element}[{text(shape(random))}]"
    last = random.choice(ops).replace("{e}", element)
    number = random.randint(0, 5)
    return program(
        f"c = {element}[] constant({number})\nx = {array_text} broadcast(c), dimensions={{}}\nROOT r = {array_text} {last}"
    )


def after(random: Random) -> str:
    """Tokens awaited twice, or just one."""
    names = random.choice(("t", "t, t", "t, u, t", "u, u, u"))
    return program(
        f"x = f32[2] parameter(0)\nt = token[] after-all()\nu = token[] after-all()\na = token[] after-all({names})\n"
        "ROOT r = (f32[2], token[]) tuple(x, a)"
    )


def asynchronous(random: Random) -> str:
    """What a collective of one device has left of an asynchronous computation, of several operands."""
    names = [f"p{number}" for number in range(random.randint(1, 3))]
    types = [f"{random.choice(FLOATS + INTEGERS)}[{text(shape(random))}]" for _ in names]
    which = random.randrange(len(names))
    parameters = "\n".join(f"  {n} = {t} parameter({i})" for i, (n, t) in enumerate(zip(names, types, strict=True)))
    kept = parameters.replace(f"  {names[which]} =", f"  ROOT {names[which]} =")
    state = f"(({', '.join(types)}), {types[which]}, u32[])"
    last = f"  s = {state} async-start({', '.join(names)}), calls=f\n  ROOT d = {types[which]} async-done(s), calls=f"
    return f"f {{\n{kept}\n}}\nENTRY e {{\n{parameters}\n{last}\n}}\n"


_GATHERS = (
    "all-gather(x), replica_groups={{0}}, dimensions={0}",
    "all-to-all(x), replica_groups={{0}}, dimensions={0}",
)
_SUM = "all-reduce(x), replica_groups={{0}}, to_apply=add_{e}"
_MAXIMUM = "all-reduce(x), replica_groups={{0}}, to_apply=maximum_{e}"

DOMAINS: dict[str, Callable[[Random], str]] = {
    "collective-of-one": of_one,
    "gather-of-splat": lambda random: of_splat(random, FLOATS + INTEGERS, _GATHERS),
    "reduction-of-splat": lambda random: of_splat(random, INTEGERS, (_SUM, _MAXIMUM)),
    "sum-of-splat": lambda random: of_splat(random, FLOATS, (_SUM,)),
    "after-one": after,
    "asynchronous-nothing": asynchronous,
}
"""Per rule, a program in which it fires, of random shapes and types."""
