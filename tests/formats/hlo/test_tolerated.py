"""What tolerant reading takes is printed so that it reads back as an equal module, as text and as a proto.

Covers `instruction_reader.py`, `reader_state.py`, `literal_reader.py`, `value_reader.py`.
"""

from __future__ import annotations

import warnings

import pytest

from hloom.formats.hlo import parse, print_module, read_proto, write_proto
from hloom.ir import Module, difference
from hloom.text import HloomError, HloomWarning, ParseError

HEADER = "HloModule m\n\nENTRY e {\n  p = f32[4] parameter(0)\n"
TOLERATED = {
    "a parameter without a type": "x = parameter(0)",
    "an operand without a type": "y = f32[2] add(a, f32[2] b)",
    "operands of an op that infers no type": "y = tuple(a, b)",
    "an operand beside a parameter of the text": "p = f32[] parameter(0)\ny = f32[] add(p, q)",
    "operands around a parameter that comes later": "y = f32[] add(q, r)\np = f32[] parameter(1)\nz = f32[] add(p, y)",
    "a parameter that is not the first": "f32[] parameter(3)",
    "a computation of parameters without types": "f { x = parameter(0)  ROOT y = negate(x) }",
    "a gap in the numbers": "f { x = f32[] parameter(0)  y = f32[] parameter(5)  ROOT z = f32[] add(x, y) }",
    "a scalar whose value was left out": f"{HEADER}  ROOT c = f32[] constant({{...}})\n}}",
    "an array of many empty rows": f"{HEADER}  ROOT c = f32[1000000000,0] constant({{...}})\n}}",
    "the padding of a scalar": "f { s = f32[] constant(1)\n  ROOT c = f32[] pad(s, s), padding=\n}",
    "a call of what comes later": "f { a = f32[] parameter(0) ROOT b = f32[] call(a), to_apply=g }\ng { ROOT a = f32[] parameter(0) }",
}


def read(text: str) -> Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HloomWarning)
        return parse(text)


@pytest.mark.parametrize("name", list(TOLERATED))
def test_the_print_reads_back(name: str):
    module = read(TOLERATED[name])
    printed = print_module(module)
    again = read(printed)
    assert difference(module, again) is None
    assert print_module(again) == printed


@pytest.mark.parametrize("name", [name for name in TOLERATED if "call" not in name and "empty rows" not in name])
def test_strict_reading_refuses_it(name: str):
    with pytest.raises(ParseError):
        parse(TOLERATED[name], strict=True)


@pytest.mark.parametrize("name", ["a parameter that is not the first", "a gap in the numbers", "the padding of a scalar"])
def test_its_proto_reads_back(name: str):
    module = read(TOLERATED[name])
    assert difference(module.entry, read_proto(write_proto(module)).entry) is None


def test_numbers_of_parameters_that_operands_became_are_free_ones():
    module = read(TOLERATED["operands around a parameter that comes later"])
    assert {parameter.name: parameter.number for parameter in module.entry.parameters} == {"q": 0, "p": 1, "r": 2}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("get-tuple-element(t)", "x = get-tuple-element: get-tuple-element lacks the attribute index"),
        ("call(p)", "x = call: call lacks the attribute to_apply"),
        ("fusion(p), kind=kLoop", "x = fusion: fusion lacks the attribute calls"),
        ("compare(p, p)", "x = compare: compare lacks the attribute direction"),
    ],
)
def test_a_proto_invents_no_attribute(line: str, problem: str):
    text = f"{HEADER}  t = (f32[4]) tuple(p)\n  ROOT x = f32[4] {line}\n}}"
    with pytest.raises(HloomError, match=problem):
        write_proto(read(text))


def test_a_proto_has_no_number_twice():
    module = read("f { a = f32[] parameter(0)  b = f32[] parameter(0)  ROOT c = f32[] add(a, b) }")
    with pytest.raises(HloomError, match="f: a and b are both parameter 0"):
        write_proto(module)
