"""Reports as JSON: keys by attribute, path and method; what is left out, merged, and not finite.

Covers `records.py`.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from hloom.text import Record, plain


class Colour(Enum):
    RED = "red"


@dataclass
class Size:
    bytes: int
    seconds: float = math.inf


class Part(NamedTuple):
    size: Size
    name: str
    json_keys = "**size label=name"


@dataclass
class Whole(Record):
    part: Part | None
    parts: tuple[Part, ...]
    note: str = ""

    def names(self) -> list[str]:
        """A method without arguments."""
        return [part.name for part in self.parts]


class Chosen(Whole):
    json_keys = "note? first=part.size.bytes labels=parts.name.upper names **part"


PART = Part(Size(8), "a")


def test_a_record_has_its_fields():
    one = {"bytes": 8, "seconds": None, "label": "a"}
    assert Whole(PART, (PART,)).to_json() == {"part": one, "parts": [one], "note": ""}


def test_keys_are_chosen():
    assert Chosen(PART, (PART,)).to_json() == {
        "first": 8, "labels": ["A"], "names": ["a"], "bytes": 8, "seconds": None, "label": "a"
    }  # fmt: skip


def test_a_path_through_none_is_none():
    assert Chosen(None, (), "note").to_json() == {"note": "note", "first": None, "labels": [], "names": []}


@pytest.mark.parametrize("value", [False, 0, 0.0])
def test_false_and_zero_are_not_empty(value: Any):
    class Optional(Record):
        json_keys = "kept?"
        kept = value

    assert Optional().to_json() == {"kept": value}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (math.nan, None),
        (-math.inf, None),
        (np.float32(0.5), 0.5),
        (np.arange(2), [0, 1]),
        (1 + 2j, [1.0, 2.0]),
        (Colour.RED, "red"),
        ({1: (2, 3)}, {"1": [2, 3]}),
        (Path("a/b"), "a/b"),
        ((n for n in "ab"), ["a", "b"]),
    ],
)
def test_plain_values(value: Any, expected: Any):
    assert plain(value) == expected
    json.dumps(plain(expected), allow_nan=False)
