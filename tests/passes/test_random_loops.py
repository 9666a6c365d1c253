"""Passes that change loops, one upon another, on random loops: sound, and the same bits."""

from random import Random

import numpy as np
import pytest

import hloom
from hloom.ir import Module, TensorType, verify
from hloom.passes import apply
from hloom.passes.rules.conditional import CONDITIONAL
from hloom.passes.rules.while_loop import WHILE_LOOP
from hloom.passes.unroll import unrolled
from tests.passes.domains.while_loop import Element, elements, loop
from tests.passes.rule_assertions import assert_same_numbers

SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -1.0, 1e30, 1e-30, 2.5)
PIPELINES = (
    ["hoist"], ["simplify-loops"], ["hoist(constants=1)", "simplify-loops"], ["sink"], ["unroll"], [WHILE_LOOP], [unrolled(2)], ["hoist", WHILE_LOOP, "cse", "dce"],
    ["sink", "hoist", "unroll"], [unrolled(3), WHILE_LOOP, "fold"], ["hoist", "sink", "fold", WHILE_LOOP, CONDITIONAL, "cse"],
)  # fmt: skip


def random_loop(random: Random) -> str:
    """A loop with elements of all sorts: counted, unchanged, repeated, dead, and computed from unchanged ones."""
    listed = elements(random, random.randrange(1, 4))
    dim = len(listed) + 1
    begin = random.choice(["a", "b", "f32[3] constant({1,2,3})"])
    listed += [
        Element("f32[3]", "a", f"{{{dim}}}", random.random() < 0.5),
        Element("f32[3]", begin, f"{{{dim + 1}}}", random.random() < 0.5),
        Element("f32[3]", "y", f"add({{{dim + 2}}}, {random.choice(['h1', 'h2', 'h3'])})"),
        Element("f32[3]", "y", random.choice([f"{{{dim + 2}}}", "h3", "h1"]), random.random() < 0.5),
    ]
    lines = f"  h1 = f32[3] multiply(g{dim}, g{dim + 1})\n  h2 = f32[3] tanh(h1)\n  h3 = f32[3] add(h2, h1)"
    config = random.choice(
        ["", ', backend_config={"known_induction_variable":{"tuple_index":"0"}}', ", sharding={replicated}"]
    )
    rounds = random.choice([0, 1, 2, 3, 4, 6])
    return loop(random, listed, rounds, start=random.randrange(-3, 3), effect=lines, config=config)


def special_inputs(module: Module, random: Random) -> list[np.ndarray]:
    made: list[np.ndarray] = []
    for parameter in module.entry.parameters:
        array_type = parameter.type
        assert isinstance(array_type, TensorType), f"{parameter!r} is not an array"
        numbers = SPECIAL if array_type.dtype.is_float else range(2 if array_type.dtype.name == "pred" else 6)
        flat = [random.choice(numbers) for _ in range(array_type.element_count)]
        made.append(np.array(flat).reshape(array_type.dims).astype(array_type.dtype.numpy))
    return made


@pytest.mark.parametrize("pipeline", PIPELINES, ids=lambda item: "+".join(getattr(p, "name", p) for p in item))
def test_random_loops(pipeline):
    changed = 0
    for seed in range(20):
        random = Random(seed)
        module = hloom.parse(random_loop(random))
        result, report = apply(module, pipeline)
        verify(result)
        verify(hloom.parse(hloom.print(result)))
        assert_same_numbers(module, result, special_inputs(module, random))
        changed += report.changed
    assert changed
