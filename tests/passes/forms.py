"""Elementwise programs written short: parameters, constants and types are filled in.

    form("add(x, #3)", "s32[4]")

stands for an entry of one parameter x, a scalar constant 3, its broadcast, and the sum. In a form, `x`, `y`, `z` and
`w` are parameters of the given type, `p` and `q` of pred and the same dimensions, `s` and `t` scalars of its element
type. `#3` is a constant in every element, `$T` the type, `$E` its element type, `$D` its dimensions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any

from hloom.rewrite import Rule
from tests.passes.rule_assertions import assert_keeps, assert_rewrites

Domain = Callable[[Random], str]

_SPLAT = re.compile(r"#(-?[\w.+-]+|\([^)]*\))")
_NAMES = "xyzwpqst"

INTEGERS = ("s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64", "s4", "u4")
SIGNED = ("s8", "s16", "s32", "s64", "s4")
UNSIGNED = ("u8", "u16", "u32", "u64", "u4")
FLOATS = ("f16", "bf16", "f32", "f64")
COMPLEX = ("c64", "c128")
SHAPES = ("", "5", "3,4", "2,1,3", "0", "7")


def form(text: str, array_text: str, *, parameters: str | None = None) -> str:
    """The text of a module; its parameters are those that the form names, or that are given, in the order xyzwpqst."""
    element, dims = array_text.rstrip("]").split("[")
    for mark, value in (("$T", array_text), ("$E", element), ("$D", dims)):
        text = text.replace(mark, value)
    lines: list[str] = []
    known: dict[str, str] = {}
    text = _SPLAT.sub(lambda result: _constant(result[1], element, dims, known, lines), text)
    body = [line.strip() for line in text.strip().split("\n")]
    named = parameters if parameters is not None else named_in(text)
    types = (
        dict.fromkeys("xyzw", array_text) | dict.fromkeys("pq", f"pred[{dims}]") | dict.fromkeys("st", f"{element}[]")
    )
    declared = [f"{name} = {types[name]} parameter({number})" for number, name in enumerate(named)]
    root = body[-1]
    if re.fullmatch(r"[\w.]+", root):
        body = [f"ROOT {line}" if line.startswith(f"{root} =") else line for line in (*declared, *lines, *body[:-1])]
    else:
        body = [*declared, *lines, *body[:-1], f"ROOT result = {root}"]
    return "HloModule form\n\nENTRY e {\n  " + "\n  ".join(body) + "\n}\n"


def becomes(rules: Iterable[Rule] | Rule, array_text: str, before: str, after: str) -> None:
    """Assert that rules make one form of another, over the parameters of the first."""
    assert_rewrites(rules, form(before, array_text), form(after, array_text, parameters=named_in(before)))


def stays(rules: Iterable[Rule] | Rule, array_text: str, text: str) -> None:
    """Assert that no rule fires."""
    assert_keeps(rules, form(text, array_text))


def named_in(text: str) -> str:
    """The parameters that a form names, in their order."""
    return "".join(name for name in _NAMES if re.search(rf"(?<![\w#$.]){name}(?![\w.=]| =)", text))


def domain(elements: Sequence[str], *texts: str, **draws: Any) -> Domain:
    """Modules of one of these forms, of a random type.

    `draws` give what stands for `{name}` in the form: functions of a Random. `shapes` are the dimensions to choose
    from, if not SHAPES.
    """
    shapes: Sequence[str] = draws.pop("shapes", SHAPES)

    def made(random: Random) -> str:
        array_text = f"{random.choice(elements)}[{random.choice(shapes)}]"
        text = random.choice(texts)
        for name, draw in draws.items():
            text = text.replace(f"{{{name}}}", draw(random))
        return form(text, array_text)

    return made


def numbers(low: int, high: int) -> Domain:
    """A random integer of a range, ends included."""
    return lambda random: str(random.randint(low, high))


def one_of(*texts: str) -> Domain:
    """One of these texts."""
    return lambda random: random.choice(texts)


def _constant(value: str, element: str, dims: str, known: dict[str, str], lines: list[str]) -> str:
    """The name of a constant in every element, one per value; its lines are added."""
    if value in known:
        return known[value]
    number = len(known)
    lines.append(f"constant.{number} = {element}[] constant({value})")
    known[value] = f"constant.{number}"
    if dims:
        lines.append(f"broadcast.{number} = {element}[{dims}] broadcast(constant.{number}), dimensions={{}}")
        known[value] = f"broadcast.{number}"
    return known[value]
