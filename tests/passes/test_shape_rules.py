"""The shaping rules together: each has programs in which it fires, they keep every bit, and they come to an end."""

from collections.abc import Callable
from importlib import import_module
from random import Random

import numpy as np
import pytest

import hloom
from hloom.ir import DTypeKind, Module, TensorType
from hloom.passes.simplify import SHAPE_RULES, SHAPE_RULES_AS_XLA
from hloom.rewrite import Rule, rewrite
from tests.passes.domains.shapes import (
    array_text,
    comma_separated,
    element,
    entry,
    order,
    parts,
    regrouped,
    sizes,
    slices,
    taken,
)
from tests.passes.rule_assertions import assert_same_numbers, module_of

SUBJECTS = "reshape transpose broadcast slice pad dynamic_slice dynamic_update_slice scatter gather tuple"
DOMAINS: dict[str, Callable[[Random], str]] = {}
WITHOUT_NUMBERS: dict[str, str] = {}
for subject in SUBJECTS.split():
    DOMAINS |= import_module(f"tests.passes.domains.{subject}").DOMAINS
    WITHOUT_NUMBERS |= getattr(import_module(f"tests.passes.domains.{subject}"), "WITHOUT_NUMBERS", {})
RULES: dict[str, Rule] = {rule.name: rule for family in (*SHAPE_RULES, *SHAPE_RULES_AS_XLA) for rule in family}
SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -1.0, 1e30, 1e-30)


def test_every_rule_has_programs():
    assert set(DOMAINS) | set(WITHOUT_NUMBERS) == set(RULES)


@pytest.mark.parametrize("name", DOMAINS)
def test_rule_keeps_every_bit(name: str):
    fired = 0
    for seed in range(6):
        text = DOMAINS[name](Random(f"{name} {seed}"))
        after = module_of(text)
        fired += rewrite(after, [RULES[name]]).matched > 0
        hloom.verify(after)
        _assert_same(module_of(text), after, seed)
    assert fired >= 5


@pytest.mark.parametrize("seed", range(20))
def test_all_rules_together_come_to_an_end(seed: int):
    text = chain(Random(seed))
    after = module_of(text)
    rewrite(after, RULES.values())
    hloom.verify(after)
    _assert_same(module_of(text), after, seed)
    assert not rewrite(after, RULES.values()).matched


def chain(random: Random) -> str:
    """A program of shaping ops, one upon another."""
    name, dims = element(random), sizes(random, 1, 3)
    lines = [f"x = {array_text(name, dims)} parameter(0)", f"v = {name}[] parameter(1)", "i = s32[] parameter(2)"]
    if random.random() < 0.5:
        lines.append(f"n0 = {array_text(name, dims)} broadcast(v), dimensions={{}}")
    else:
        lines.append(f"n0 = {array_text(name, dims)} copy(x)")
    for number in range(random.randint(3, 12)):
        step = random.choice(_STEPS)
        dims, text = step(random, name, dims, f"n{number}")
        lines.append(f"n{number + 1} = {array_text(name, dims)} {text}")
        if np.prod(dims) > 2000:
            break
    return entry(*lines)


def _reshape(random: Random, name: str, dims: list[int], operand: str) -> tuple[list[int], str]:
    return regrouped(random, dims), f"reshape({operand})"


def _transpose(random: Random, name: str, dims: list[int], operand: str) -> tuple[list[int], str]:
    result = order(random, len(dims))
    return [dims[index] for index in result], f"transpose({operand}), dimensions={{{comma_separated(result)}}}"


def _broadcast(random: Random, name: str, dims: list[int], operand: str) -> tuple[list[int], str]:
    dim = random.randint(0, len(dims))
    kept = [item for item in range(len(dims) + 1) if item != dim]
    wide = [*dims[:dim], random.randint(1, 3), *dims[dim:]]
    return wide, f"broadcast({operand}), dimensions={{{comma_separated(kept)}}}"


def _slice(random: Random, name: str, dims: list[int], operand: str) -> tuple[list[int], str]:
    result = parts(random, dims)
    return taken(result), f"slice({operand}), {slices(result)}"


def _pad(random: Random, name: str, dims: list[int], operand: str) -> tuple[list[int], str]:
    edges = [(random.choice((0, 0, 1)), random.choice((0, 2)), random.choice((0, 0, 1))) for _ in dims]
    wide = [size + a + b + max(size - 1, 0) * gap for size, (a, b, gap) in zip(dims, edges, strict=True)]
    if not dims:
        return dims, f"copy({operand})"
    return wide, f"pad({operand}, v), padding={'x'.join(f'{a}_{b}_{gap}' for a, b, gap in edges)}"


def _reverse(random: Random, name: str, dims: list[int], operand: str) -> tuple[list[int], str]:
    result = sorted(random.sample(range(len(dims)), random.randint(0, len(dims))))
    return dims, f"reverse({operand}), dimensions={{{comma_separated(result)}}}"


def _concatenate(random: Random, name: str, dims: list[int], operand: str) -> tuple[list[int], str]:
    if not dims:
        return dims, f"copy({operand})"
    along, times = random.randrange(len(dims)), random.randint(1, 3)
    wide = [size * times if index == along else size for index, size in enumerate(dims)]
    return wide, f"concatenate({', '.join([operand] * times)}), dimensions={{{along}}}"


def _dynamic_slice(random: Random, name: str, dims: list[int], operand: str) -> tuple[list[int], str]:
    some = [random.randint(min(1, size), size) for size in dims]
    operands = ", ".join([operand, *["i"] * len(dims)])
    return some, f"dynamic-slice({operands}), dynamic_slice_sizes={{{comma_separated(some)}}}"


_STEPS = (_reshape, _reshape, _transpose, _broadcast, _slice, _pad, _reverse, _concatenate, _dynamic_slice)


def _assert_same(before: Module, after: Module, seed: int) -> None:
    numbers = np.random.default_rng(seed)
    leaves = [leaf for parameter in before.entry.parameters if parameter.type for leaf in parameter.type.leaves()]
    assert_same_numbers(before, after, [_array(numbers, leaf) for leaf in leaves if isinstance(leaf, TensorType)])


def _array(numbers: np.random.Generator, made: TensorType) -> np.ndarray:
    if made.dtype.kind is DTypeKind.BOOLEAN:
        return numbers.integers(0, 2, made.dims).astype(np.bool_)
    if made.dtype.is_integer:
        low = 0 if made.dtype.kind is DTypeKind.UNSIGNED else -4
        return numbers.integers(low, 12, made.dims).astype(made.dtype.numpy)
    chosen = numbers.choice(np.array(SPECIAL), made.dims)
    with np.errstate(all="ignore"):
        return np.where(numbers.random(made.dims) < 0.3, chosen, numbers.standard_normal(made.dims)).astype(
            made.dtype.numpy
        )
