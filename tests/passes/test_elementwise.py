"""Every rule on elementwise ops, on random modules of its domain: it fires, and the numbers stay."""

from __future__ import annotations

from importlib import import_module
from random import Random

import numpy as np
import pytest

from hloom.ir import TensorType, verify
from hloom.passes.simplify import ELEMENTWISE, ELEMENTWISE_INEXACT, FAST_MATH
from hloom.rewrite import Family, Rule, rewrite
from tests.passes.forms import Domain
from tests.passes.rule_assertions import assert_same_numbers, module_of

_SPECIAL = (0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, np.nan, np.inf, -np.inf, 3e4, -3e4, 1e-3)
_TAME = (0.25, -0.25, 1.0, -1.0, 2.0, -2.0, 0.5, 1.5, 3.0)
ROUNDED = frozenset({"power-of-two", "power-of-minus-one", "power-of-one-half"})
"""Strict rules that change how one operation is rounded."""
_CASES = {
    (family, rule): domain
    for family in (*ELEMENTWISE, *ELEMENTWISE_INEXACT, FAST_MATH)
    for rule, domain in import_module(f"tests.passes.domains.{family.name.replace('-', '_')}").DOMAINS.items()
}


def test_every_rule_has_a_domain():
    for family in (*ELEMENTWISE, *ELEMENTWISE_INEXACT, FAST_MATH):
        assert {rule.name for rule in family} == {name for item, name in _CASES if item is family}


@pytest.mark.parametrize(
    ("family", "name", "domain"),
    [(*key, item) for key, item in _CASES.items()],
    ids=lambda item: item if isinstance(item, str) else "",
)
def test_numbers_stay(family: Family, name: str, domain: Domain):
    (rule,) = (item for item in family if item.name == name)
    for seed in range(20):
        _check(rule, domain(Random(f"{name}{seed}")), Random(seed), family in ELEMENTWISE)


def _check(rule: Rule, text: str, random: Random, is_strict: bool) -> None:
    before, after = module_of(text), module_of(text)
    report = rewrite(after, [rule])
    assert report.matched, f"{rule} did not fire in\n{text}"
    verify(after)
    types = [parameter.type for parameter in before.entry.parameters]
    inputs = [
        drawn(array_type, random, with_special=is_strict) for array_type in types if isinstance(array_type, TensorType)
    ]
    try:
        assert_same_numbers(before, after, inputs, exact=is_strict and rule.name not in ROUNDED)
    except AssertionError as error:
        raise AssertionError(f"{error}\nof {rule} in\n{text}of {inputs}") from error


def drawn(array_type: TensorType, random: Random, *, with_special: bool) -> np.ndarray:
    """Random elements; with special ones among them, or tame ones for rules that may lose those."""
    element, size = array_type.dtype, array_type.element_count
    if element.is_integer or element.name == "pred":
        bits = [
            random.getrandbits(element.bits) if random.random() < 0.7 else random.choice((0, 1)) for _ in range(size)
        ]
        if element.name == "pred":
            return np.array([bit & 1 for bit in bits], bool).reshape(array_type.dims)
        values = np.array(bits, np.uint64).astype(np.int64)
        signed = values - (values >> (element.bits - 1) << element.bits) if element.bits < 64 else values
        return (signed if element.name[0] == "s" else values).astype(element.numpy).reshape(array_type.dims)
    choices = _SPECIAL if with_special else _TAME
    parts = [random.choice(choices) if random.random() < 0.6 else random.gauss(0, 1) for _ in range(2 * size)]
    numbers = np.array(parts).reshape(2, -1)
    with np.errstate(all="ignore"):
        result = numbers[0] + 1j * numbers[1] if element.is_complex else numbers[0]
        return result.astype(element.numpy).reshape(array_type.dims)
