"""Fragments through every pass: texts with instructions missing end in a module that can be written and read back."""

from __future__ import annotations

from random import Random

import pytest

import hloom
import hloom.passes
import hloom.passes.fusion
import hloom.passes.saturation
from hloom.ir import Module, verify
from hloom.passes import PASSES, apply_in_place
from hloom.text import HloomError
from tests.corpus import handwritten

TEXTS = [text for text in handwritten().values() if len(text) < 20_000]
OTHERS = ("lower-mindir", "microbatch", "remat")  # of no HLO modules, or in need of an option
NAMES = [name for name in PASSES if not name.startswith("test-") and name not in OTHERS]


def fragment(random: Random) -> str:
    """A text of the corpus without some of its instructions, or cut off at a line."""
    lines = random.choice(TEXTS).split("\n")
    if random.random() < 0.3:
        start = random.randrange(len(lines))
        return "\n".join(lines[start : start + random.randint(1, 20)])
    removable = [number for number, line in enumerate(lines) if " = " in line and "ROOT" not in line]
    removed = set(random.sample(removable, min(len(removable), random.randint(1, 4))))
    return "\n".join(line for number, line in enumerate(lines) if number not in removed)


def check_readable(module: Module) -> None:
    """Assert that what is printed is read back as the same module."""
    text = hloom.print(module)
    again = hloom.parse(text)
    assert hloom.print(again) == text


@pytest.mark.parametrize("seed", range(16))
def test_every_pass_keeps_fragments_readable(seed: int):
    random = Random(seed)
    for _ in range(8):
        try:
            module = hloom.parse(fragment(random))
            check_readable(module)
        except (HloomError, AssertionError):
            continue  # what is not read, or not read back as it is, says nothing about passes
        for name in NAMES:
            changed = module.clone()
            try:
                apply_in_place(changed, name)
            except HloomError as error:
                assert error.message
                continue
            check_readable(changed)


UNDEFINED = "HloModule m\nENTRY e {{\n  x = s32[4] parameter(0)\n{}\n}}\n"


def test_an_undefined_operand_dies_with_its_last_use():
    module = hloom.parse(UNDEFINED.format("  n = s32[4] negate(gone)\n  z = s32[4] subtract(n, n)\n  ROOT r = s32[4] add(x, z)"))
    apply_in_place(module, "simplify")
    assert module.entry.root is module.entry["x"] and module.unresolved == []
    verify(module)


def test_the_output_never_becomes_an_undefined_value():
    module = hloom.parse(UNDEFINED.format("  a = s32[4] negate(gone)\n  ROOT b = s32[4] negate(a)"))
    report = apply_in_place(module, "simplify")
    assert not report.changed
    check_readable(module)


def test_verify_refuses_an_undefined_output():
    module = hloom.parse(UNDEFINED.format("  a = s32[4] negate(gone)\n  ROOT b = s32[4] negate(a)"))
    module.entry.set_output(module.entry.missing[0])
    with pytest.raises(HloomError, match="its output is gone, which nothing defines"):
        verify(module)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("text", [
    "c = (f32[], s32[]) parameter(0)\n  ROOT g = f32[] get-tuple-element(c)",
    "c = f32[] parameter(0)\n  ROOT w = f32[] while(c)",
    "c = f32[2] parameter(0)\n  ROOT t = f32[2] transpose(c)",
])  # fmt: skip
def test_a_missing_attribute_is_named(name: str, text: str):
    module = hloom.parse(f"ENTRY e {{\n  {text}\n}}")
    with pytest.raises(HloomError, match=r"has no attribute (index|condition|body|dimensions)"):
        apply_in_place(module, name)


@pytest.mark.parametrize("name", NAMES)
def test_parameters_of_any_numbers(name: str):
    """Numbers with gaps, in what is called and in the entry."""
    module = hloom.parse(
        "f { x = f32[] parameter(7)  ROOT y = f32[] parameter(1000000000) }\n"
        "ENTRY e { a = f32[] parameter(3)  b = f32[] parameter(9)  ROOT r = f32[] call(a, b), to_apply=f }"
    )
    apply_in_place(module, name)
    check_readable(module)
