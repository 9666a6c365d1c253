"""Reductions of one array that become one of several values (`reduce_merger.py`), before and after."""

from __future__ import annotations

import numpy as np
import pytest

import hloom
from hloom.ir import Module, verify
from hloom.passes import apply
from hloom.runtime import run

COMPUTATIONS = """
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
most { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] maximum(a, b) }
squares { a = f32[] parameter(0)  b = f32[] parameter(1)  s = f32[] multiply(b, b)  ROOT r = f32[] add(a, s) }
"""
SUM = "a = f32[5] reduce(x, z), dimensions={1}, to_apply=add"
MOST = "m = f32[] constant(-inf)\n b = f32[5] reduce(x, m), dimensions={1}, to_apply=most"
BOTH = "ROOT t = (f32[5], f32[5]) tuple(a, b)"
GPU = "merge-reduces(target=h100)"


def program(*lines: str) -> str:
    return COMPUTATIONS + "\n".join(["ENTRY e {", "x = f32[5,7] parameter(0)", "z = f32[] constant(0)", *lines, "}"])


def opcodes(module: Module) -> list[str]:
    return [node.opcode for node in module.entry.nodes if node.opcode not in ("parameter", "constant")]


def merged(text: str) -> Module:
    """The module after the pass, with the same numbers through XLA; again, it changes nothing."""
    before = hloom.parse(text)
    after, report = apply(before, GPU)
    verify(after)
    assert report.changed and not apply(after, GPU)[1].changed
    for one, other in zip(run(before, seed=1).outputs, run(after, seed=1).outputs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
    return after


def test_sum_and_maximum():
    module = merged(program(SUM, MOST, BOTH))
    assert opcodes(module) == ["reduce", "get-tuple-element", "get-tuple-element", "tuple"]
    [node] = [node for node in module.entry.nodes if node.opcode == "reduce"]
    computation = node.attributes["to_apply"]
    assert [part.opcode for part in computation.nodes if part.opcode != "parameter"] == ["add", "maximum", "tuple"]


def test_one_value_that_another_reduction_needs():
    """A sum of squares after a sum: neither needs the other."""
    text = program(
        SUM, "n = f32[5] negate(a)", "b = f32[5] reduce(x, z), dimensions={1}, to_apply=squares", "c = f32[5] add(n, b)",
        "ROOT t = (f32[5]) tuple(c)",
    )  # fmt: skip
    assert opcodes(merged(text)) == ["reduce", "get-tuple-element", "get-tuple-element", "negate", "add", "tuple"]


def test_at_most_eight():
    lines = [f"r{n} = f32[5] reduce(x, z), dimensions={{1}}, to_apply=add" for n in range(19)]
    types, names = ", ".join(["f32[5]"] * 19), ", ".join(f"r{n}" for n in range(19))
    module = merged(program(*lines, f"ROOT t = ({types}) tuple({names})"))
    assert sorted(len(node.operands) // 2 for node in module.entry.nodes if node.opcode == "reduce") == [3, 8, 8]


@pytest.mark.parametrize(
    "lines",
    [
        (SUM, "b = f32[7] reduce(x, z), dimensions={0}, to_apply=add", "ROOT t = (f32[5], f32[7]) tuple(a, b)"),
        (SUM, "y = f32[5,7] negate(x)", "b = f32[5] reduce(y, z), dimensions={1}, to_apply=add", BOTH),
        (SUM, "w = f32[] reduce(a, z), dimensions={0}, to_apply=add", "b = f32[5] reduce(x, w), dimensions={1}, to_apply=add", BOTH),
        (SUM, MOST + ", sharding={replicated}", BOTH),
        (SUM, MOST + ", control-predecessors={a}", BOTH),
        (SUM, "ROOT t = (f32[5]) tuple(a)"),
    ],
    ids=["other dimensions", "another array", "one begins with the other", "a sharding", "an order", "one alone"],
)
def test_what_stays(lines: tuple[str, ...]):
    module, report = apply(hloom.parse(program(*lines)), GPU)
    assert not report.changed and "tuple" in opcodes(module)


def test_not_on_a_cpu():
    for name in ("merge-reduces", "merge-reduces(target=cpu)"):
        _, report = apply(hloom.parse(program(SUM, MOST, BOTH)), name)
        assert not report.changed and "slower" in report.passes[0].notes[0]


def test_an_empty_module_and_a_device_that_nobody_knows():
    assert not apply(hloom.parse("ENTRY e { ROOT x = f32[] parameter(0) }"), GPU)[1].changed
    with pytest.raises(hloom.HloomError, match="no device is called 'abacus'"):
        apply(hloom.parse(program(SUM, MOST, BOTH)), "merge-reduces(target=abacus)")
