"""What a function captures is compared before each run: names, and the contents of what they mean.

Covers `functions/captured.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import hloom

ITEMS, NAMED, ARRAY, MEMBERS, NAMESPACE = [1, 2], {"a": 1.0}, np.array([1.0, 2.0]), {1, 2}, SimpleNamespace(k=1.0)


@dataclass
class Settings:
    factor: float


SETTINGS = Settings(3.0)


class Scaled:
    rate = 2.0

    def __init__(self) -> None:
        self.start = 1.0

    def at(self, x: float) -> float:
        return x * self.start * self.rate


SCALED = Scaled()


@hloom.function
def everything(x):
    return (
        x + ITEMS[0], len(ITEMS), x * NAMED["a"], x * ARRAY, 3 in MEMBERS, x * NAMESPACE.k, x * SETTINGS.factor,
        SCALED.at(x),
    )  # fmt: skip


def setting(owner: Any, name: str, value: Any) -> Callable[[], None]:
    return lambda: setattr(owner, name, value)


CHANGES: dict[str, Callable[[], Any]] = {
    "an item of a list": lambda: ITEMS.__setitem__(0, 7),
    "the length of a list": lambda: ITEMS.append(3),
    "an item of a dict": lambda: NAMED.__setitem__("a", 5.0),
    "an element of an array": lambda: ARRAY.__setitem__(0, 9.0),
    "a member of a set": lambda: MEMBERS.add(3),
    "an attribute of a namespace": setting(NAMESPACE, "k", 4.0),
    "a field of a dataclass": setting(SETTINGS, "factor", 8.0),
    "an attribute of an instance": setting(SCALED, "start", 6.0),
    "an attribute of a class": setting(Scaled, "rate", 5.0),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_what_a_name_means_is_seen(change: str):
    original = everything.hloom_function
    before = everything(2.0)
    np.testing.assert_equal(before, original(2.0))
    CHANGES[change]()
    after = everything(2.0)
    np.testing.assert_equal(after, original(2.0))
    assert repr(after) != repr(before)


def test_a_program_whose_captures_are_as_they_were_is_kept():
    everything(2.0)
    program = everything.program(2.0)
    everything(3.0)
    assert everything.program(3.0) is program


def test_the_object_of_a_bound_method_is_compared():
    scaled = Scaled()
    compiled = hloom.function(scaled.at)
    first = compiled(2.0)
    scaled.start = 3.0
    assert compiled(2.0) == 3 * first


@pytest.mark.parametrize("elements", [np.zeros(20_000), np.zeros((300, 200), np.complex64).T, np.zeros(70_000, bool)])
def test_an_element_of_a_large_array(elements: np.ndarray):
    run = hloom.function(lambda: np.sum(elements))
    assert run() == 0
    elements[-1] = 3
    assert run() == np.sum(elements) != 0
