"""Computations nested deeply: the transformation does not recurse over them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import hloom
from hloom.autodiff import linearize
from hloom.text import HloomError

STATE = "(s32[], f64[])"
POINT, STEP = np.array(0.7), 1e-6


def fusions(depth: int) -> str:
    lines = ["level0 { x = f64[] parameter(0) ROOT y = f64[] sine(x) }"]
    lines.extend(
        f"level{level} {{ x = f64[] parameter(0) h = f64[] constant(0.999) m = f64[] multiply(x, h) "
        f"ROOT y = f64[] fusion(m), kind=kLoop, calls=level{level - 1} }}"
        for level in range(1, depth)
    )
    lines.append(f"ENTRY e {{ x = f64[] parameter(0) ROOT y = f64[] fusion(x), kind=kLoop, calls=level{depth - 1} }}")
    return "\n".join(lines)


def conditionals(depth: int) -> str:
    lines = [
        "level0 { x = f64[] parameter(0) ROOT y = f64[] sine(x) }",
        "other { x = f64[] parameter(0) ROOT y = f64[] cosine(x) }",
    ]
    lines.extend(
        f"level{level} {{ x = f64[] parameter(0) h = f64[] constant(0.999) m = f64[] multiply(x, h) "
        f"z = f64[] constant(0) p = pred[] compare(m, z), direction=GT "
        f"ROOT y = f64[] conditional(p, m, x), true_computation=level{level - 1}, false_computation=other }}"
        for level in range(1, depth)
    )
    lines.append(
        f"ENTRY e {{ x = f64[] parameter(0) z = f64[] constant(0) p = pred[] compare(x, z), direction=GT "
        f"ROOT y = f64[] conditional(p, x, x), true_computation=level{depth - 1}, false_computation=other }}"
    )
    return "\n".join(lines)


def loops(depth: int) -> str:
    """Loops that run once."""
    lines = [
        f"below {{ s = {STATE} parameter(0) i = s32[] get-tuple-element(s), index=0 one = s32[] constant(1) "
        "ROOT p = pred[] compare(i, one), direction=LT }",
        f"level0 {{ s = {STATE} parameter(0) i = s32[] get-tuple-element(s), index=0 "
        "x = f64[] get-tuple-element(s), index=1 one = s32[] constant(1) j = s32[] add(i, one) y = f64[] sine(x) "
        f"ROOT t = {STATE} tuple(j, y) }}",
    ]
    lines.extend(
        f"level{level} {{ s = {STATE} parameter(0) i = s32[] get-tuple-element(s), index=0 "
        "x = f64[] get-tuple-element(s), index=1 one = s32[] constant(1) j = s32[] add(i, one) "
        "h = f64[] constant(0.999) m = f64[] multiply(x, h) z = s32[] constant(0) "
        f"u = {STATE} tuple(z, m) w = {STATE} while(u), condition=below, body=level{level - 1} "
        f"y = f64[] get-tuple-element(w), index=1 ROOT t = {STATE} tuple(j, y) }}"
        for level in range(1, depth)
    )
    lines.append(
        f"ENTRY e {{ x = f64[] parameter(0) z = s32[] constant(0) u = {STATE} tuple(z, x) "
        f"w = {STATE} while(u), condition=below, body=level{depth - 1} ROOT y = f64[] get-tuple-element(w), index=1 }}"
    )
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("program", "depth"),
    [
        (fusions, 1000),
        (conditionals, 120),
        (loops, 40),
        pytest.param(conditionals, 1000, marks=pytest.mark.long),
        pytest.param(loops, 1000, marks=pytest.mark.long),
    ],
)
def test_the_gradient_of_nested_computations(program: Callable[[int], str], depth: int):
    module = hloom.parse(f"HloModule nested\n{program(depth)}")
    (gradient,) = hloom.evaluate(hloom.grad(module), [POINT])
    assert gradient == pytest.approx(slope(module), rel=1e-6)


@pytest.mark.parametrize("program", [fusions, conditionals, loops])
def test_forward_mode_of_deeply_nested_computations(program: Callable[[int], str]):
    module = hloom.parse(f"HloModule nested\n{program(600)}")
    _, tangent = hloom.evaluate(hloom.jvp(module), [POINT, np.array(1.0)])
    assert tangent == pytest.approx(slope(module), rel=1e-6)


def doubled(opcode: str, more: str = "") -> hloom.Module:
    """Computations that call the one below twice, so that instructions and residuals double with each level."""
    how = {"call": "to_apply=", "fusion": "kind=kLoop, calls="}[opcode]
    lines = ["level0 { x = f64[] parameter(0) ROOT y = f64[] sine(x) }"]
    lines += [
        f"level{n} {{ x0 = f64[] parameter(0) {more} a = f64[] {opcode}(x{70 if more else 0}), {how}level{n - 1} "
        f"ROOT y = f64[] {opcode}(a), {how}level{n - 1} }}"
        for n in range(1, 40)
    ]
    lines.append(f"ENTRY e {{ x = f64[] parameter(0) ROOT y = f64[] {opcode}(x), {how}level39 }}")
    return hloom.parse("\n".join(lines))


LONG = " ".join(f"x{n + 1} = f64[] cosine(x{n})" for n in range(70))


@pytest.mark.parametrize(
    ("opcode", "more", "message"),
    [
        ("call", "", "more than 100,000 values would be kept for its backward pass"),
        ("fusion", "", "more than 100,000 instructions would be differentiated"),
        ("call", LONG, r"more than [23]\d,\d{3} values would be kept for its backward pass"),
    ],
)
def test_computations_that_multiply_without_end_are_refused(
    opcode: str, more: str, message: str, monkeypatch: pytest.MonkeyPatch
):
    if more:  # as many as a tenth of what a module of so many instructions may have, to be refused sooner
        monkeypatch.setattr(linearize, "LEAST_COPIES", 1000)
        monkeypatch.setattr(linearize, "COPIES_FOR_A_NODE", 10)
    with pytest.raises(HloomError, match=message):
        hloom.grad(doubled(opcode, more))


def slope(module: hloom.Module) -> float:
    (above,), (below,) = (hloom.evaluate(module, [POINT + step]) for step in (STEP, -STEP))
    return float(above - below) / (2 * STEP)
