"""Passes that change loops, one upon another, on random loops: sound, and the same bits."""

from random import Random

import numpy as np
import pytest

import hloom
from hloom.ir import Module, TensorType, verify
from hloom.passes import apply
from hloom.passes.rules.branching import BRANCHING
from hloom.passes.rules.looping import LOOPING
from hloom.passes.unroll import unrolled
from tests.passes.domains.looping import Element, elements, loop
from tests.passes.rewriting import assert_same_numbers

SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -1.0, 1e30, 1e-30, 2.5)
PIPELINES = (
    ["hoist"], ["sink"], ["unroll"], [LOOPING], [unrolled(2)], ["hoist", LOOPING, "cse", "dce"],
    ["sink", "hoist", "unroll"], [unrolled(3), LOOPING, "fold"], ["hoist", "sink", "fold", LOOPING, BRANCHING, "cse"],
)  # fmt: skip


def random_loop(random: Random) -> str:
    """A loop with elements of all sorts: counted, unchanged, repeated, dead, and computed from unchanged ones."""
    listed = elements(random, random.randrange(1, 4))
    place = len(listed) + 1
    begin = random.choice(["a", "b", "f32[3] constant({1,2,3})"])
    listed += [
        Element("f32[3]", "a", f"{{{place}}}", random.random() < 0.5),
        Element("f32[3]", begin, f"{{{place + 1}}}", random.random() < 0.5),
        Element("f32[3]", "y", f"add({{{place + 2}}}, {random.choice(['h1', 'h2', 'h3'])})"),
        Element("f32[3]", "y", random.choice([f"{{{place + 2}}}", "h3", "h1"]), random.random() < 0.5),
    ]
    lines = f"  h1 = f32[3] multiply(g{place}, g{place + 1})\n  h2 = f32[3] tanh(h1)\n  h3 = f32[3] add(h2, h1)"
    config = random.choice(
        ["", ', backend_config={"known_induction_variable":{"tuple_index":"0"}}', ", sharding={replicated}"]
    )
    rounds = random.choice([0, 1, 2, 3, 4, 6])
    return loop(random, listed, rounds, start=random.randrange(-3, 3), effect=lines, config=config)


def special_inputs(module: Module, random: Random) -> list[np.ndarray]:
    made: list[np.ndarray] = []
    for parameter in module.entry.parameters:
        kind = parameter.type
        assert isinstance(kind, TensorType), f"{parameter!r} is no array"
        numbers = SPECIAL if kind.dtype.is_float else range(2 if kind.dtype.name == "pred" else 6)
        flat = [random.choice(numbers) for _ in range(kind.element_count)]
        made.append(np.array(flat).reshape(kind.dims).astype(kind.dtype.numpy))
    return made


@pytest.mark.parametrize("pipeline", PIPELINES, ids=lambda each: "+".join(getattr(p, "name", p) for p in each))
def test_random_loops(pipeline):
    changed = 0
    for seed in range(20):
        random = Random(seed)
        module = hloom.parse(random_loop(random))
        found, report = apply(module, pipeline)
        verify(found)
        verify(hloom.parse(hloom.print(found)))
        assert_same_numbers(module, found, special_inputs(module, random))
        changed += report.changed
    assert changed
