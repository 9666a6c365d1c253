"""Random loops in which the rules of looping.py fire."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

Domain = Callable[[Random], str]
_TYPES = ("f32[3]", "f32[2,2]", "s32[4]", "f32[]", "s64[2]", "pred[3]", "bf16[4]")


@dataclass
class Element:
    """One element of a loop's state: its type, what it begins as, and what a round makes of it.

    `begin` is an operand's name or an expression; `after` an expression in which `{k}` is element k before the round.
    """

    array_text: str
    begin: str
    after: str
    used: bool = True
    outside: str = ""


def loop(
    random: Random,
    elements: Sequence[Element],
    rounds: int,
    *,
    limit: str | None = None,
    start: int = 0,
    step: int = 1,
    effect: str = "",
    config: str = "",
) -> str:
    """A module of one loop; element 0 counts from `start` in steps, the others are as given.

    With `limit`, an element's number, the condition compares with that element of the state.
    """  # fmt: skip
    counter = Element("s32[]", f"s32[] constant({start})", "add({0}, one)", random.random() < 0.5)
    state = [counter, *elements]
    types = f"({', '.join(item.array_text for item in state)})"
    begins = [f"  i{n} = {item.begin}" for n, item in enumerate(state) if "(" in item.begin]
    names = [f"i{n}" if "(" in item.begin else item.begin for n, item in enumerate(state)]
    parameters = sorted({(item.begin, item.array_text) for item in state if "(" not in item.begin})
    gets = [f"  g{n} = {item.array_text} get-tuple-element(s), index={n}" for n, item in enumerate(state)]
    yielded, lines = [], []
    for n, item in enumerate(state):
        text = item.after.format(*[f"g{k}" for k in range(len(state))])
        if "(" in text:
            lines.append(f"  r{n} = {item.array_text} {text}")
            yielded.append(f"r{n}")
        else:
            yielded.append(text)
    bound = f"l = s32[] constant({start + rounds * step})"
    if limit is not None:
        bound = f"l = s32[] get-tuple-element(s), index={limit}"
    used = [n for n, item in enumerate(state) if item.used] or [0]
    return "\n".join([
        "HloModule m\n",
        f"cond {{\n  s = {types} parameter(0)\n  c = s32[] get-tuple-element(s), index=0\n  {bound}",
        "  ROOT p = pred[] compare(c, l), direction=LT\n}\n",
        f"body {{\n  s = {types} parameter(0)", *gets, f"  one = s32[] constant({step})", effect, *lines,
        f"  ROOT t = {types} tuple({', '.join(yielded)})\n}}\n",
        "ENTRY e {",
        *[f"  {name} = {array_text} parameter({n})" for n, (name, array_text) in enumerate(parameters)],
        *[f"  {item.outside}" for item in state if item.outside], *begins,
        f"  t = {types} tuple({', '.join(names)})",
        f"  w = {types} while(t), condition=cond, body=body{config}",
        *[f"  o{n} = {state[n].array_text} get-tuple-element(w), index={n}" for n in used],
        f"  ROOT o = ({', '.join(state[n].array_text for n in used)}) tuple({', '.join(f'o{n}' for n in used)})\n}}\n",
    ])  # fmt: skip


def elements(random: Random, count: int, *, first: int = 1) -> list[Element]:
    """Random elements, numbered from `first` on, each made of itself and of others of its type."""
    types = [random.choice(_TYPES) for _ in range(count)]
    return [
        Element(array_text, f"x{number}", _after(random, array_text, number, types, first), random.random() < 0.7)
        for number, array_text in enumerate(types, first)
    ]


def _after(random: Random, array_text: str, number: int, types: list[str], first: int) -> str:
    same_type = [index for index, item in enumerate(types, first) if item == array_text]
    mine, other = f"{{{number}}}", f"{{{random.choice(same_type)}}}"
    if array_text.startswith("pred"):
        return random.choice([f"xor({mine}, {other})", f"and({mine}, {other})", mine])
    forms = [
        f"add({mine}, {other})",
        f"maximum({mine}, {other})",
        f"subtract({mine}, {other})",
        mine,
        f"negate({other})",
    ]
    return random.choice(forms)


def _dead(random: Random) -> str:
    listed = elements(random, random.randrange(1, 5))
    dim = len(listed) + 1
    listed.append(Element("f32[3]", "d", f"add({{{dim}}}, {{{dim}}})", used=False))
    listed[random.randrange(len(listed) - 1)].used = True
    return loop(random, listed, random.randrange(0, 5))


def _repeated(random: Random) -> str:
    listed = elements(random, random.randrange(1, 4))
    dim = len(listed) + 1
    if random.random() < 0.5:
        listed += [Element("f32[3]", "d", f"{{{dim}}}"), Element("f32[3]", "d", f"{{{dim + 1}}}")]
        listed.append(Element("f32[3]", "y", f"multiply({{{dim}}}, {{{dim + 1}}})"))
    else:
        listed += [Element("f32[3]", "d", f"r{dim + 2}"), Element("f32[3]", "d", f"r{dim + 2}")]
        listed.append(Element("f32[3]", "y", f"add({{{dim}}}, {{{dim + 1}}})"))
        # r<place + 2> is defined after its uses as names only: the tuple comes last
    return loop(random, listed, random.randrange(2, 6))


def _constant(random: Random) -> str:
    listed = elements(random, random.randrange(1, 4))
    dim = len(listed) + 1
    array_text, value = random.choice([("f32[3]", "{1, 2.5, -0}"), ("f32[]", "nan"), ("s32[4]", "{1, 2, 3, 4}")])
    listed.append(Element(array_text, f"{array_text} constant({value})", f"{{{dim}}}", random.random() < 0.5))
    listed.append(Element(array_text, "y", f"subtract({{{dim + 1}}}, {{{dim}}})"))
    return loop(random, listed, random.randrange(2, 6))


def _bound(random: Random) -> str:
    listed = [Element("s32[]", "s32[] constant(4)", "{1}"), Element("f32[3]", "x", "add({2}, {2})")]
    return loop(random, listed, 0, limit="1", config=', backend_config={"known_trip_count":{"n":"4"}}')


def _cheap(random: Random) -> str:
    listed = elements(random, random.randrange(1, 4))
    dim = len(listed) + 1
    outside = "k = f32[] constant(1.5)"
    begin = random.choice(["f32[3] broadcast(k), dimensions={}", "f32[3] iota(), iota_dimension=0"])
    listed.append(Element("f32[3]", begin, f"{{{dim}}}", outside=outside))
    listed.append(Element("f32[3]", "y", f"multiply({{{dim + 1}}}, {{{dim}}})"))
    return loop(random, listed, random.randrange(2, 6))


def _either(*choices: Domain) -> Domain:
    return lambda random: random.choice(choices)(random)


def _never(random: Random) -> str:
    return loop(
        random, elements(random, random.randrange(1, 5)), random.randrange(-3, 1), start=random.randrange(-5, 5)
    )


def _once(random: Random) -> str:
    step = random.randrange(1, 4)
    return loop(random, elements(random, random.randrange(1, 5)), 1, start=random.randrange(-5, 5), step=step)


def _passed_on(random: Random) -> str:
    listed = [*elements(random, random.randrange(1, 4)), Element("f32[3]", "d", "")]
    listed[-1].after = f"{{{len(listed)}}}"
    return loop(random, listed, random.randrange(2, 5))


DOMAINS: dict[str, Domain] = {
    "element-that-a-loop-passes-on": _passed_on,
    "loop-that-never-runs": _never,
    "loop-that-runs-once": _once,
    "dead-elements": _dead,
    "repeated-elements": _repeated,
    "constant-elements": _either(_constant, _bound),
    "cheap-elements": _either(_cheap, _constant),
}
