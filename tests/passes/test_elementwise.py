"""Every rule on elementwise ops, on random modules of its domain: it fires, and the numbers stay."""

from __future__ import annotations

from importlib import import_module
from random import Random

import numpy as np
import pytest

from hloom.ir import TensorType, verify
from hloom.passes.rules.elementwise import ELEMENTWISE, ELEMENTWISE_RELAXED, FAST_MATH
from hloom.rewrite import Family, Rule, rewrite
from tests.passes.forms import Domain
from tests.passes.rewriting import assert_same_numbers, module_of

_SPECIAL = (0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, np.nan, np.inf, -np.inf, 3e4, -3e4, 1e-3)
_TAME = (0.25, -0.25, 1.0, -1.0, 2.0, -2.0, 0.5, 1.5, 3.0)
ROUNDED = frozenset({"power-of-two", "power-of-minus-one", "power-of-one-half"})
"""Strict rules that change how one operation is rounded."""
_CASES = {
    (family, rule): domain
    for family in (*ELEMENTWISE, *ELEMENTWISE_RELAXED, FAST_MATH)
    for rule, domain in import_module(f"tests.passes.domains.{family.name.replace('-', '_')}").DOMAINS.items()
}


def test_every_rule_has_a_domain():
    for family in (*ELEMENTWISE, *ELEMENTWISE_RELAXED, FAST_MATH):
        assert {rule.name for rule in family} == {name for each, name in _CASES if each is family}


@pytest.mark.parametrize(("family", "name", "domain"), [(*key, each) for key, each in _CASES.items()], ids=lambda each: each if isinstance(each, str) else "")
def test_numbers_stay(family: Family, name: str, domain: Domain):
    (rule,) = (each for each in family if each.name == name)
    for seed in range(20):
        _check(rule, domain(Random(f"{name}{seed}")), Random(seed), family in ELEMENTWISE)


def _check(rule: Rule, text: str, random: Random, is_strict: bool) -> None:
    before, after = module_of(text), module_of(text)
    report = rewrite(after, [rule])
    assert report.matched, f"{rule} did not fire in\n{text}"
    verify(after)
    kinds = [each.type for each in before.entry.parameters]
    inputs = [drawn(kind, random, with_special=is_strict) for kind in kinds if isinstance(kind, TensorType)]
    try:
        assert_same_numbers(before, after, inputs, exact=is_strict and rule.name not in ROUNDED)
    except AssertionError as error:
        raise AssertionError(f"{error}\nof {rule} in\n{text}of {inputs}") from error


def drawn(kind: TensorType, random: Random, *, with_special: bool) -> np.ndarray:
    """Random elements; with special ones among them, or tame ones for rules that may lose those."""
    element, size = kind.dtype, kind.element_count
    if element.is_integer or element.name == "pred":
        bits = [random.getrandbits(element.bits) if random.random() < 0.7 else random.choice((0, 1)) for _ in range(size)]
        if element.name == "pred":
            return np.array([each & 1 for each in bits], bool).reshape(kind.dims)
        values = np.array(bits, np.uint64).astype(np.int64)
        signed = values - (values >> (element.bits - 1) << element.bits) if element.bits < 64 else values
        return (signed if element.name[0] == "s" else values).astype(element.numpy).reshape(kind.dims)
    choices = _SPECIAL if with_special else _TAME
    parts = [random.choice(choices) if random.random() < 0.6 else random.gauss(0, 1) for _ in range(2 * size)]
    numbers = np.array(parts).reshape(2, -1)
    with np.errstate(all="ignore"):
        found = numbers[0] + 1j * numbers[1] if element.is_complex else numbers[0]
        return found.astype(element.numpy).reshape(kind.dims)
