"""Random programs of what is joined, in which the rules of equality saturation fire."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from tests.passes.computations import program
from tests.passes.domains.explore import PLAIN, element, sizes


def joined(random: Random) -> tuple[str, str, str, int]:
    """Two shapes, that of both together, and along which dimension they are joined."""
    m, n, k = sizes(random, 3)
    return random.choice(
        ((f"[{m},{n}]", f"[{k},{n}]", f"[{m + k},{n}]", 0), (f"[{n},{m}]", f"[{n},{k}]", f"[{n},{m + k}]", 1))
    )


def of_elementwise(random: Random) -> str:
    first, second, both, along = joined(random)
    e = element(random)
    op, result = random.choice((("add", e), ("maximum", e), ("compare", "pred"), ("divide", e)))
    direction = ", direction=LT" if op == "compare" else ""
    number = random.random() < 0.5
    right = ("s", "t") if number else ("c", "d")
    return program(
        f"a = {e}{first} parameter(0)\nb = {e}{second} parameter(1)\nc = {e}{first} parameter(2)\n"
        f"d = {e}{second} parameter(3)\nx = {e}[] parameter(4)\ns = {e}{first} broadcast(x), dimensions={{}}\n"
        f"t = {e}{second} broadcast(x), dimensions={{}}\np = {result}{first} {op}(a, {right[0]}){direction}\n"
        f"q = {result}{second} {op}(b, {right[1]}){direction}\n"
        f"ROOT r = {result}{both} concatenate(p, q), dimensions={{{along}}}"
    )


def elementwise_of(random: Random) -> str:
    if random.random() < 0.3:
        return number_and_joined(random)
    first, second, both, along = joined(random)
    e = element(random)
    form = random.choice(("add(p, q)", "power(p, q)", "select(m, p, q)", "subtract(q, p)"))
    mask = "select" in form
    u, v = ("pred", "pred") if mask else (e, e)
    return program(
        f"a = {e}{first} parameter(0)\nb = {e}{second} parameter(1)\nc = {e}{first} parameter(2)\n"
        f"d = {e}{second} parameter(3)\ni = {u}{first} parameter(4)\nj = {v}{second} parameter(5)\n"
        f"m = {u}{both} concatenate(i, j), dimensions={{{along}}}\n"
        f"p = {e}{both} concatenate(a, b), dimensions={{{along}}}\n"
        f"q = {e}{both} concatenate(c, d), dimensions={{{along}}}\nROOT r = {e}{both} {form}"
    )


def number_and_joined(random: Random) -> str:
    m, n = sizes(random, 2)
    e = element(random)
    form = random.choice(("add(p, s)", "divide(s, p)", "maximum(p, s)"))
    return program(
        f"a = {e}[{m},{n}] parameter(0)\nb = {e}[{m},{n}] parameter(1)\nx = {e}[] parameter(2)\n"
        f"p = {e}[{m},{2 * n}] concatenate(a, b), dimensions={{1}}\ns = {e}[{m},{2 * n}] broadcast(x), dimensions={{}}\n"
        f"ROOT r = {e}[{m},{2 * n}] {form}"
    )


def of_transposes(random: Random) -> str:
    a, b, c, d = sizes(random, 4)
    e = element(random)
    return program(
        f"x = {e}[{a},{b},{c}] parameter(0)\ny = {e}[{a},{b},{d}] parameter(1)\n"
        f"p = {e}[{c},{a},{b}] transpose(x), dimensions={{2,0,1}}\n"
        f"q = {e}[{d},{a},{b}] transpose(y), dimensions={{2,0,1}}\n"
        f"ROOT r = {e}[{c + d},{a},{b}] concatenate(p, q), dimensions={{0}}"
    )


def of_windows(random: Random) -> str:
    m, n, k = sizes(random, 3)
    e, op = element(random), random.choice(("add", "maximum"))
    window = "window={size=1x3 pad=0_0x1_1}"
    return program(
        f"x = {e}[{m},{n}] parameter(0)\ny = {e}[{k},{n}] parameter(1)\nz = {e}[] constant(0)\n"
        f"p = {e}[{m},{n}] reduce-window(x, z), {window}, to_apply={op}_{e}\n"
        f"q = {e}[{k},{n}] reduce-window(y, z), {window}, to_apply={op}_{e}\n"
        f"ROOT r = {e}[{m + k},{n}] concatenate(p, q), dimensions={{0}}"
    )


def window_of(random: Random) -> str:
    m, n, k = sizes(random, 3)
    e, op = element(random), random.choice(("add", "maximum"))
    return program(
        f"x = {e}[{m},{n}] parameter(0)\ny = {e}[{k},{n}] parameter(1)\nz = {e}[] constant(0)\n"
        f"both = {e}[{m + k},{n}] concatenate(x, y), dimensions={{0}}\n"
        f"ROOT r = {e}[{m + k},{n}] reduce-window(both, z), window={{size=1x3 pad=0_0x1_1}}, to_apply={op}_{e}"
    )


def of_convolutions(random: Random) -> str:
    m, k, i, o = sizes(random, 4)
    e, groups = element(random), random.choice((1, 2))
    out = f"4,{o * groups}"
    rest = f"window={{size=3 pad=1_1}}, dim_labels=b0f_0io->b0f, feature_group_count={groups}"
    return program(
        f"x = {e}[{m},4,{i * groups}] parameter(0)\ny = {e}[{k},4,{i * groups}] parameter(1)\n"
        f"w = {e}[3,{i},{o * groups}] parameter(2)\np = {e}[{m},{out}] convolution(x, w), {rest}\n"
        f"q = {e}[{k},{out}] convolution(y, w), {rest}\nROOT r = {e}[{m + k},{out}] concatenate(p, q), dimensions={{0}}"
    )


def as_groups(random: Random) -> str:
    b, i, o = sizes(random, 3)
    e, groups, stride = element(random), random.choice((1, 2)), random.choice((1, 2))
    length = 5 if stride == 1 else 3
    out = f"{b},{length},"
    rest = f"window={{size=3 stride={stride} pad=1_1}}, dim_labels=b0f_0io->b0f, feature_group_count={groups}"
    return program(
        f"x = {e}[{b},5,{i * groups}] parameter(0)\ny = {e}[{b},5,{i * groups}] parameter(1)\n"
        f"w = {e}[3,{i},{o * groups}] parameter(2)\nv = {e}[3,{i},{o * groups}] parameter(3)\n"
        f"p = {e}[{out}{o * groups}] convolution(x, w), {rest}\nq = {e}[{out}{o * groups}] convolution(y, v), {rest}\n"
        f"ROOT r = {e}[{out}{2 * o * groups}] concatenate(p, q), dimensions={{2}}"
    )


def dots(random: Random, *, split: bool) -> str:
    m, k, j, n = sizes(random, 4)
    e = element(random)
    head = (
        f"a = {e}[{m},{k}] parameter(0)\nb = {e}[{k},{n}] parameter(1)\n"
        f"c = {e}[{m},{j}] parameter(2)\nd = {e}[{j},{n}] parameter(3)\n"
    )
    if split:
        return program(
            f"{head}p = {e}[{m},{k + j}] concatenate(a, c), dimensions={{1}}\n"
            f"q = {e}[{k + j},{n}] concatenate(b, d), dimensions={{0}}\nROOT r = {e}[{m},{n}] dot(p, q), {PLAIN}"
        )
    return program(
        f"{head}p = {e}[{m},{n}] dot(a, b), {PLAIN}\nq = {e}[{m},{n}] dot(c, d), {PLAIN}\n"
        f"ROOT r = {e}[{m},{n}] add(p, q)"
    )


def convolutions(random: Random, *, split: bool) -> str:
    b, i, j, o = sizes(random, 4)
    e, size = element(random), random.choice((1, 3))
    rest = f"window={{size={size} pad={size // 2}_{size // 2}}}, dim_labels=b0f_0io->b0f"
    head = (
        f"x = {e}[{b},4,{i}] parameter(0)\nw = {e}[{size},{i},{o}] parameter(1)\n"
        f"y = {e}[{b},4,{j}] parameter(2)\nv = {e}[{size},{j},{o}] parameter(3)\n"
    )
    if split:
        return program(
            f"{head}p = {e}[{b},4,{i + j}] concatenate(x, y), dimensions={{2}}\n"
            f"q = {e}[{size},{i + j},{o}] concatenate(w, v), dimensions={{1}}\n"
            f"ROOT r = {e}[{b},4,{o}] convolution(p, q), {rest}"
        )
    return program(
        f"{head}p = {e}[{b},4,{o}] convolution(x, w), {rest}\nq = {e}[{b},4,{o}] convolution(y, v), {rest}\n"
        f"ROOT r = {e}[{b},4,{o}] add(p, q)"
    )


DOMAINS: dict[str, Callable[[Random], str]] = {
    "concatenation-of-elementwise": of_elementwise,
    "elementwise-of-concatenations": elementwise_of,
    "concatenation-of-transposes": of_transposes,
    "concatenation-of-windows": of_windows,
    "window-of-concatenation": window_of,
    "concatenation-of-convolutions": of_convolutions,
    "convolutions-as-groups": as_groups,
    "sum-of-dots-joined": lambda random: dots(random, split=False),
    "dot-of-concatenations": lambda random: dots(random, split=True),
    "sum-of-convolutions-joined": lambda random: convolutions(random, split=False),
    "convolution-of-concatenations": lambda random: convolutions(random, split=True),
}
NARROWED: dict[str, Any] = {
    name: {"tolerance": 1e-3, "reason": "terms are combined in another order, and differences cancel"}
    for name in (
        "sum-of-dots-joined",
        "dot-of-concatenations",
        "sum-of-convolutions-joined",
        "convolution-of-concatenations",
    )
}
