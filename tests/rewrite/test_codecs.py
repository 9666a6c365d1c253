"""Values of other packages inside saved rules: codecs by name."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pytest

from hloom.rewrite import RuleError, register_codec, register_dataclass, register_enum
from hloom.rewrite.codecs import decode_value, encode_value
from hloom.rewrite.type_text import type_from, type_text


@dataclass(frozen=True)
class Number:
    value: int
    unit: str = "m"
    parts: tuple[int, ...] = ()


class Colour(Enum):
    RED = 1
    BLUE = 2


class Range:
    def __init__(self, first: int, last: int) -> None:
        self.ends = (first, last)


def range_from(data: Any, path: str) -> Range:
    first, last = decode_value(data, path)
    return Range(first, last)


register_dataclass("codec-tests.number", Number)
register_enum("codec-tests.colour", Colour)
register_codec("codec-tests.range", Range, lambda item: list(item.ends), range_from)


def test_values_of_registered_classes():
    for value in (Number(3), Number(3, "s", (1, 2)), Colour.BLUE, (Number(1), Colour.RED)):
        assert decode_value(json.loads(json.dumps(encode_value(value))), "value") == value
    assert encode_value(Number(3)) == {"codec-tests.number": {"value": 3}}
    assert encode_value(Colour.BLUE) == {"codec-tests.colour": "BLUE"}
    assert decode_value(encode_value(Range(1, 5)), "value").ends == (1, 5)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"codec-tests.number": {"value": "x"}}, "v.codec-tests.number.value: 'x' is not what it must be: <class 'int'>"),
        ({"codec-tests.number": {"value": True}}, "v.codec-tests.number.value: True is not what it must be: <class 'int'>"),
        ({"codec-tests.number": {"size": 1}}, "v.codec-tests.number: Number has no 'size'"),
        ({"codec-tests.number": {}}, "v: {} is not a codec-tests.number: Number.__init__() missing 1 required positional "
         "argument: 'value'"),
        ({"codec-tests.colour": "GREEN"}, "v.codec-tests.colour: 'GREEN' is not one of RED, BLUE"),
        ({"codec-tests.range": [1]}, "v: [1] is not a codec-tests.range: not enough values to unpack (expected 2, got 1)"),
        ({"a": 1, "b": 2}, "v: {'a': 1, 'b': 2} is not a value"),
        ({"array": {"type": "f32[3]", "elements": [1]}}, "v.array: f32[3] has 3 elements, not 1"),
        ({"array": {"type": "f32[1]", "elements": ["x"]}}, "v.array.elements: they are not numbers"),
        ({"literal": {"type": "s8[]", "elements": [300]}}, "v: 300 does not fit into s8"),
        ({"dtype": "f99"}, "v.dtype: 'f99' is not an element type"),
        ({"float": "1e5"}, "v.float: '1e5' is not one of inf, -inf, nan"),
        (float("inf"), 'v: write {"float": "inf"} for numbers that are not finite'),
    ],
)  # fmt: skip
def test_what_is_refused(data: Any, message: str):
    with pytest.raises(RuleError) as caught:
        decode_value(data, "v")
    assert caught.value.message == message


def test_one_name_is_of_one_class():
    with pytest.raises(RuleError, match=r"a codec named 'codec-tests.colour' is registered already, for Colour"):
        register_dataclass("codec-tests.colour", Number)


@pytest.mark.parametrize("text", ["f32[]", "f32[2,3]{0,1}", "s32[<=4,2]", "(f32[2], (token[], pred[]))", "()"])
def test_types(text: str):
    assert type_text(type_from(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "f32",
        "f32[",
        "f32[x]",
        "f32[2]{1}",
        "(f32[]",
        "f32[] f32[]",
        "f32[]]",
        "(" * 100,
        "f32[99999999999999999999]",
    ],
)
def test_texts_that_are_no_types(text: str):
    with pytest.raises(RuleError):
        type_from(text)
