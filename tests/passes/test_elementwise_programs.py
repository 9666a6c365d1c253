"""All rules on elementwise ops together, on random programs: they come to an end, and the numbers stay."""

from __future__ import annotations

from random import Random

import pytest

from hloom.ir import Module, TensorType, verify
from hloom.passes.simplify import ELEMENTWISE, ELEMENTWISE_INEXACT, FAST_MATH
from hloom.rewrite import RuleIndex, rewrite
from tests.passes.forms import form
from tests.passes.rule_assertions import assert_same_numbers, module_of
from tests.passes.test_elementwise import ROUNDED, drawn

STRICT = RuleIndex([rule for family in ELEMENTWISE for rule in family])
EVERY = RuleIndex([rule for family in (*ELEMENTWISE, *ELEMENTWISE_INEXACT, FAST_MATH) for rule in family])

_DIRECTIONS = ("EQ", "NE", "LT", "LE", "GT", "GE")
_ARITHMETIC = ("add", "subtract", "multiply", "divide", "remainder", "maximum", "minimum", "power")
_BITS = ("and", "or", "xor", "shift-left", "shift-right-logical", "shift-right-arithmetic")
_FLOAT = ("negate", "abs", "sign", "floor", "ceil", "sqrt", "rsqrt", "exponential", "log", "tanh")
_KINDS = {
    "s": (("negate", "abs", "sign", "not"), (*_ARITHMETIC, *_BITS), ("0", "1", "-1", "2", "8"), ("s64", "s16")),
    "u": (("negate", "not"), (*_ARITHMETIC, *_BITS), ("0", "1", "2", "8"), ("u64", "u16")),
    "f": (_FLOAT, _ARITHMETIC, ("0", "-0.0", "1", "-1", "2", "0.5", "inf"), ("f64", "f16")),
}
"""By kind of element: ops of one operand, ops of two, constants, and other element types to go by."""


def program(random: Random) -> str:
    """The text of a random program of elementwise ops."""
    element = random.choice(("s8", "s32", "u8", "u32", "f32", "f16", "bf16"))
    unary, binary, constants, others = _KINDS["f" if element == "bf16" else element[0]]
    lines: list[str] = []
    values, truths = ["x", "y", "z"], ["p"]

    def value() -> str:
        return random.choice([*values[-4:], "x", "y"]) if random.random() < 0.75 else f"#{random.choice(constants)}"

    def truth() -> str:
        return random.choice(truths)

    for number in range(random.randint(3, 14)):
        is_truth = random.random() < 0.2
        between = random.choice(others)
        text = random.choice(
            (
                f"pred[$D] compare({value()}, {value()}), direction={random.choice(_DIRECTIONS)}",
                f"pred[$D] {random.choice(('and', 'or', 'xor'))}({truth()}, {truth()})",
                f"pred[$D] not({truth()})",
            )
            if is_truth
            else (
                *(f"$T {random.choice(binary)}({value()}, {value()})" for _ in range(4)),
                *(f"$T {random.choice(unary)}({value()})" for _ in range(2)),
                f"$T select({truth()}, {value()}, {value()})",
                f"$T clamp({value()}, {value()}, {value()})",
                f"$T convert({truth()})",
                f"$T convert({between}[$D] convert({value()}))",
            )
        )
        lines.append(f"v{number} = {text}")
        (truths if is_truth else values).append(f"v{number}")
    outputs = [*values[-5:], *truths[-2:]]
    types = ", ".join("pred[$D]" if output in truths else "$T" for output in outputs)
    lines.append(f"({types}) tuple({', '.join(outputs)})")
    return form("\n".join(lines), f"{element}[{random.choice(('', '5', '2,3'))}]", parameters="xyzp")


def inputs_of(module: Module, random: Random) -> list:
    """Random inputs, special numbers among them."""
    types = [parameter.type for parameter in module.entry.parameters]
    return [drawn(array_type, random, with_special=True) for array_type in types if isinstance(array_type, TensorType)]


@pytest.mark.parametrize("seed", range(0, 600, 20))
def test_strict_rules_keep_every_number(seed: int):
    for item in range(seed, seed + 20):
        text = program(Random(item))
        before, after = module_of(text), module_of(text)
        report = rewrite(after, STRICT)
        verify(after)
        if not ROUNDED & {step.rule for step in report.steps}:
            assert_same_numbers(before, after, inputs_of(before, Random(item)))


@pytest.mark.parametrize("seed", range(0, 600, 20))
def test_all_rules_come_to_an_end_and_keep_integers(seed: int):
    for item in range(seed, seed + 20):
        text = program(Random(item))
        before, after = module_of(text), module_of(text)
        rewrite(after, EVERY)
        verify(after)
        array_type = before.entry.parameters[0].type
        if isinstance(array_type, TensorType) and array_type.dtype.is_integer:
            assert_same_numbers(before, after, inputs_of(before, Random(item)))
