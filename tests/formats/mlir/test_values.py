"""Attribute values: read, compared and printed as MLIR does.

Covers `value_reader.py`, `floats.py`.
"""

from __future__ import annotations

import random
import re

import pytest

from hloom.formats.mlir import (
    UNIT,
    Dense,
    OpaqueValue,
    Symbol,
    TypedArray,
    TypedNumber,
    TypeValue,
    parse_value,
    print_value,
)
from hloom.ir import Attributes
from hloom.text import HloomError, ParseError, Unsupported

VALUES = [
    ("2 : si32", TypedNumber(2, "si32")),
    ("-3 : i64", TypedNumber(-3, "i64")),
    ("1.500000e+00 : f32", TypedNumber(1.5, "f32")),
    ("true", True),
    ("unit", UNIT),
    ('"a\\22b\\0A\\C3\\A9"', 'a"b\né'),
    ("[1, 2 : si64, 2.500000e-01, 1.000000e+00 : f32]", (TypedNumber(1), TypedNumber(2, "si64"), TypedNumber(0.25, "f64"), TypedNumber(1.0, "f32"))),
    ('{a, "b c" = {d = 1 : i64}}', Attributes(a=UNIT, **{"b c": Attributes(d=TypedNumber(1))})),
    ('@a::@"b c"', Symbol(("a", "b c"))),
    ("array<i32: 1, 2>", TypedArray((1, 2), "i32")),
    ("array<i1: true, false>", TypedArray((True, False), "i1")),
    ("dense<[1, 2]> : tensor<2xi32>", Dense((1, 2), "tensor<2xi32>")),
    ("dense<1> : vector<3xi32>", Dense(1, "vector<3xi32>")),
    ("tensor<2x?xf32>", TypeValue("tensor<2x?xf32>")),
    ("(f32, i1) -> (f32, f32)", TypeValue("(f32, i1) -> (f32, f32)")),
    ("#sbp.parallel<[] -> [[#sbp.B]]>", OpaqueValue("#sbp.parallel<[] -> [[#sbp.B]]>")),
    ("0x7F800001 : f32", OpaqueValue("0x7F800001 : f32")),
]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), VALUES, ids=[text for text, _ in VALUES])
def test_a_text_is_a_value_and_back(text, value):
    assert parse_value(text) == value
    assert print_value(value) == text
    assert hash(parse_value(text)) == hash(value)


@pytest.mark.parametrize(
    ("written", "printed"),
    [("3", "3 : i64"), ("1.5", "1.500000e+00 : f64"), ("200 : i8", "-56 : i8"), ("0xFF : i32", "255 : i32"), ("1 : i1", "true"), ("{b = 1, a = 2}", "{a = 2 : i64, b = 1 : i64}"), ("1.0e-5 : f32", "9.99999974E-6 : f32"), ("0x3F800000 : f32", "1.000000e+00 : f32"), ("0.1 : bf16", "1.000980e-01 : bf16"), ("1234567.0 : f32", "0x4996B438 : f32"), ("(f32)->f32", "(f32) -> f32"), ('"\\n\\t\\""', '"\\0A\\09\\22"')],
)  # fmt: skip
def test_other_spellings_print_as_mlir_prints_them(written, printed):
    assert print_value(parse_value(written)) == printed


def test_numbers_are_equal_when_type_and_bits_are():
    assert TypedNumber(1, "i32") != TypedNumber(1, "si32")
    assert TypedNumber(0.0, "f32") != TypedNumber(-0.0, "f32")
    assert TypedNumber(float("nan"), "f32") == TypedNumber(float("nan"), "f32")
    assert TypedNumber(1, "i32") != 1
    assert TypedNumber(0.1, "f64").value == 0.1


def test_numbers_are_rounded_to_their_type():
    assert print_value(TypedNumber(1 / (1 - 0.7), "f32")) == print_value(parse_value("3.3333333333333330 : f32"))
    assert TypedNumber(1, "f32").value == 1.0
    assert TypedNumber(2**80, "i128").value == 2**80


def test_what_a_rule_computes_with_is_the_value():
    assert [parse_value(text).value for text in ("2 : si32", "unit", "array<i32: 1, 2>", "dense<3> : vector<2xi32>")] == [2, True, (1, 2), 3]  # fmt: skip


REFUSED = [
    ("1 : f32", "'1' is not a number of type f32: write '1.0'"),
    ("300 : i8", "300 does not fit into i8"),
    ("-1 : ui8", "-1 does not fit into ui8"),
    ("1.5 : i32", "'1.5' is not a number of type i32"),
    ("0x1FFFFFFFF : f32", "'0x1FFFFFFFF' has more bits than f32"),
    ("1" * 1001, "a number of 1001 digits is too long"),
    ("[1, 2", "expected ']' after the values, found the end of the text"),
    ("{a = 1, a = 2}", "the attribute 'a' is given twice"),
    ('"\\q"', "unknown escape '\\q'"),
    ("#a", "the alias '#a' is not defined"),
    ("!a", "the type alias '!a' is not defined"),
    ("tensor<2xf32", "'<' is never closed"),
    ("#a.b<(]>", "']' closes nothing"),
    ("wrong", "expected a type, found 'wrong'"),
    ("array<index: x>", "expected a number of type index, found 'x'"),
    ("array<none>", "an array holds integers or floats, not none"),
    ("1 2", "expected the end, found '2'"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_is_no_value_is_refused(text, message):
    with pytest.raises(ParseError, match=re.escape(message)):
        parse_value(text)


@pytest.mark.parametrize("opening", ["[", "{a = ", "dense<" + "[", "(() -> "])
def test_nesting_has_a_limit(opening):
    with pytest.raises(HloomError, match=r"nested deeper than 100 levels|never closed|expected"):
        parse_value(opening * 100_000)


def test_nesting_up_to_the_limit_is_read():
    text = "[" * 99 + "]" * 99
    assert print_value(parse_value(text)) == text
    with pytest.raises(Unsupported, match="nested deeper than 100 levels"):
        parse_value("[" * 101 + "]" * 101)
    with pytest.raises(Unsupported, match="nested deeper than 100 levels"):
        parse_value("dense<" + "[" * 101 + "]" * 101 + "> : tensor<0xi32>")


def test_what_mlir_has_no_attribute_for_is_not_printed():
    with pytest.raises(Unsupported, match=re.escape("1 cannot be an attribute in MLIR")):
        print_value(1)


@pytest.mark.parametrize(
    ("type_text", "bits"),
    [("f32", 32), ("f64", 64), ("f16", 16), ("bf16", 16), ("f8E4M3FN", 8), ("f8E5M2", 8), ("f8E4M3B11FNUZ", 8)],
)
def test_floats_print_as_mlir_prints_them(type_text, bits):
    ir = pytest.importorskip("jaxlib.mlir.ir")
    choose = random.Random(bits)
    texts = [f"0x{choose.getrandbits(bits):X} : {type_text}" for _ in range(400)]
    texts += [
        f"{choose.choice([1, 3, 7, 123, 99999, 1234567])}.{choose.choice([0, 5, 25, 1])}e{choose.randrange(-9, 9)} : {type_text}"
        for _ in range(400)
    ]
    with ir.Context():
        for text in texts:
            assert print_value(parse_value(text)) == str(ir.Attribute.parse(text))
