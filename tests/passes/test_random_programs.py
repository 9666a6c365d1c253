"""Passes on control flow and on stretches, each on random programs: sound, read back as printed, and the same bits.

Cluster is tried on the same programs in `tests/passes/fusion/test_cluster.py`.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hloom
from hloom.evaluator import LimitReached, evaluate
from hloom.ir import Module, verify
from hloom.passes import PassLike, apply
from hloom.passes.unroll import unrolled
from hloom.runtime import accepts, run
from tests.helpers.properties import examples
from tests.passes.random_modules import inputs_for
from tests.passes.random_programs import program_of
from tests.passes.rule_assertions import assert_same_numbers

SUBJECTS: dict[str, tuple[PassLike, ...]] = {
    "hoist": ("hoist(growth=1)", "hoist", "hoist(constants=1)", "hoist(inflation=1)"),
    "sink": ("sink",),
    "outline": ("outline",),
    "unroll": ("unroll", unrolled(2)),
    "inline": ("inline",),
    "loops": ("simplify-loops", "carry-concatenations"),
    "branches": ("move-into-branches", "move-out-of-branches", "conditional-to-select"),
    "borders": ("move-across-branches",),
}
"""The passes of a test, one after the other."""
STRUCTURES = {
    "hoist": ("loop", "loop", "called", "branches"),
    "outline": ("stretch", "stretch", "loop"),
    "unroll": ("loop", "loop", "branches"),
    "branches": ("branches", "branches", "loop"),
    "borders": ("branches", "branches", "called"),
}
"""What the programs of a test are made of; elsewhere of everything."""
LIMIT = 300_000
seeds = st.integers(0, 10**6)


def program(seed: int, name: str, *, tame: bool = False) -> tuple[Module, list[np.ndarray]]:
    """A random program as it is read, and inputs for it."""
    random = Random(seed)
    elements = {"elements": ("f32", "s32")} if tame else {}
    drawn = program_of(random, tame=tame, structures=STRUCTURES.get(name, ()), **elements)
    module = hloom.parse(hloom.print(drawn))
    verify(module)
    return module, inputs_for(module, random, special=not tame and seed % 2 == 1)


@pytest.mark.parametrize("name", SUBJECTS)
@given(seeds)
@examples(40, 3000)
def test_every_bit_stays(name: str, seed: int):
    module, inputs = program(seed, name)
    try:
        evaluate(module, inputs, limit=LIMIT)
    except LimitReached:
        return
    after = module
    for item in SUBJECTS[name]:
        after, _ = apply(after, item)
        verify(after)
        again = hloom.parse(hloom.print(after))
        assert hloom.equal(after, again)
        assert_same_numbers(module, again, inputs)


@pytest.mark.parametrize("name", SUBJECTS)
def test_through_xla(name: str):
    for seed in range(2):
        module, inputs = program(seed, name, tame=True)
        after, _ = apply(module, SUBJECTS[name])
        assert accepts(hloom.print(after)) is None
        for one, other in zip(run(module, inputs).outputs, run(after, inputs).outputs, strict=True):
            np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", SUBJECTS)
def test_there_is_something_to_do(name: str):
    """In a fair share of the programs, or the properties would say nothing."""
    changed = sum(apply(program(seed, name)[0], SUBJECTS[name][:1])[1].changed for seed in range(20))
    assert changed >= 5, f"{name} changed {changed} of 20 programs"
