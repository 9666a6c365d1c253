"""Liberties of XLA's parser: what it takes beside what it prints, read strictly, and printed so that it reads again."""

import re
import warnings

import pytest

from hloom.formats.hlo import parse, print_module
from hloom.text import HloomError
from tests.corpus import handwritten
from tests.formats.hlo.xla import xla
from tests.helpers.properties import sample

ROOT = "{\n  ROOT x = f32[] parameter(0)\n}\n"
SIGNATURES = ["(x: f32[])", "(x f32[])", "(%x f32[])", "(%x: f32[])", "(x : f32[])", "(nan f32[])", "(nan: f32[])", "(f32[])"]
HEADERS = ["HloModule m", "HloModule m:", "HloModule %m", "HloModule %m:", "HloModule m :", "HloModule nan:", "HloModule nan"]
HEADLESS = [
    f"ENTRY e (x: f32[]) -> f32[] {ROOT}",
    f"ENTRY e {ROOT}f (x: f32[]) -> f32[] {ROOT}",
    f"f {ROOT}ENTRY e (x: f32[]) -> f32[] {ROOT}",
    f"f {ROOT}g (x: f32[]) -> f32[] {ROOT}",
    f"f (x: f32[]) -> f32[] {ROOT}",
    f"%f (x: f32[]) -> f32[] {ROOT}ENTRY e {ROOT}",
]
NAMES = ["e:", "%e:", "nan:", "f32:", "%nan"]
WINDOWS = [
    "ROOT y = f32[] reduce-window(x, x), window={}, to_apply=f",
    "ROOT y = f32[2] custom-call(x), window={}, custom_call_target=\"target\"",
    "ROOT y = f32[] select-and-scatter(x, x, x), window={}, select=g, scatter=f",
]
RANDOM = [", ".join(["x"] * count) for count in range(5)]
ADDED = "f { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }"
COMPARED = "g { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=GE }"
RESULTS = ["f32[]", "token[]", "(f32[], token[])", "(f32[], f32[])", "()", "(token[])", "opaque[]", "f32[2]", "((f32[]), token[])"]
ROOTS = [
    "ROOT x = token[] after-all()",
    "t = token[] after-all()\n ROOT x = (f32[], token[]) infeed(t)",
    "t = token[] after-all()\n ROOT x = (token[]) tuple(t)",
    "ROOT x = f32[] constant(1)",
    "ROOT x = () tuple()",
]
TEXTS = [
    *(f"{header}\nENTRY e {ROOT}" for header in HEADERS),
    *(f"HloModule m\nENTRY e {signature} -> f32[] {ROOT}" for signature in SIGNATURES),
    *HEADLESS,
    *(f"HloModule m\nENTRY {name} {ROOT}" for name in NAMES),
    *(f"HloModule m\n{ADDED}\n{COMPARED}\nENTRY e {{\n x = f32[] parameter(0)\n {line}\n}}\n" for line in WINDOWS),
    *(f"HloModule m\nENTRY e {{\n x = f32[] parameter(0)\n ROOT y = f32[8]{{0}} rng({operands}), distribution=rng_uniform\n}}\n" for operands in RANDOM),
    *(f"HloModule m\nENTRY e () -> {result} {{\n {root}\n}}\n" for result in RESULTS for root in ROOTS),
    "HloModule m\nENTRY e {\n a = f32[4] parameter(0), sharding={devices=[1,0]<=[0,4]T(0,1)}\n ROOT n = f32[4] negate(a)\n}\n",
]


@pytest.mark.parametrize("text", TEXTS)
def test_as_xla_reads(text: str):
    """Strictly read is what XLA accepts, and its print means the same to XLA."""
    answer = xla(text)
    try:
        printed = print_module(parse(text, strict=True))
    except HloomError:
        assert answer.verdict != "accepted", text
        return
    assert answer.verdict == "accepted", answer.message
    assert xla(printed).canonical == answer.canonical


NUMBER = re.compile(r"(?<![\w.\"-])[0-9]+(?![\w.\"])")
HUGE = ("9" * 25, "9" * 5_000, "-" + "9" * 5_000, "0" * 5_000, "1" + "0" * 400 + ".5", "1e999999")


@pytest.mark.parametrize("huge", HUGE, ids=[f"{text[:3]}({len(text)})" for text in HUGE])
def test_huge_numbers_everywhere(huge: str):
    """A number of thousands of digits in any place of any text is refused or read, without a foreign exception."""
    for text in sample(handwritten(), 3, HUGE.index(huge)).values():
        lines = text.splitlines(keepends=True)
        for number, line in enumerate(lines[:40]):
            for match in list(NUMBER.finditer(line))[:12]:
                changed = line[: match.start()] + huge + line[match.end() :]
                damaged = "".join([*lines[:number], changed, *lines[number + 1 :]])
                if len(damaged) < 20_000:
                    _read(damaged)


def _read(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for strict in (False, True):
            try:
                print_module(parse(text, strict=strict))
            except HloomError as error:
                assert error.message
