"""All passes on random modules: sound, with the same numbers, and nothing left to do when run again.

Modules are drawn from nothing, and around the programs in which single rules fire. Where no rule may round, every bit
must stay, whatever the inputs; elsewhere numbers that a small change of the inputs hardly moves must stay close.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import hloom
from hloom.evaluator import LimitReached, evaluate
from hloom.ir import Module, TensorType, TupleType, verify
from hloom.ops import OPS
from hloom.passes import PASSES, apply_in_place, fixpoint, rules_pass
from tests.passes.random_modules import inputs_for, module_around, module_of, text_of
from tests.passes.rule_assertions import assert_same_numbers
from tests.passes.rule_assertions import module_of as parsed
from tests.passes.test_equivalence import DOMAINS

ROUNDED = frozenset(
    ("power-of-two", "power-of-minus-one", "power-of-one-half", "transpose-of-dot", "reduce-of-fewer",
     "reduce-window-of-whole", "reduce-before-broadcast")
)  # fmt: skip
"""Strict rules after which an operation is rounded in another way, or terms are summed up in another order."""
EXACT_RULES = rules_pass("exact rules", [rule for rule in PASSES["simplify"].rules if rule.name not in ROUNDED])
NEIGHBOURS = (
    "sink-slices",
    "move-converts",
    "simplify-loops",
    "sink-reshapes",
    "carry-concatenations",
    "move-into-branches",
    "move-out-of-branches",
    "move-across-branches",
    "conditional-to-select",
    "fold-transposes",
    "hoist-slices(unary=1)",
    "inline(once=1)",
    "dce(collectives=1)",
    "propagate-constants",
    "canonical-broadcasts",
    "canonical-gathers",
    "simplify-tuples",
    "eliminate-dead-updates",
)
"""What XLA runs beside its simplifier, and rounds nothing in another way."""
STRICT = {
    "exact rules": [fixpoint("exact", [EXACT_RULES, "dce"])],
    "one by one": ["cse", "dce", "fold", "inline", "unroll", "hoist", "sink", *NEIGHBOURS, "outline"],
    "loops first": [
        "sink",
        "cse",
        "unroll",
        "outline",
        "hoist",
        "inline",
        "cse",
        fixpoint("exact", [EXACT_RULES, "dce"]),
    ],
    "outline first": ["outline", "cse", "hoist", "sink", "fold", "dce"],
}
ROUNDING = {
    "simplify": ["simplify"],
    "simplify-xla": ["simplify-xla"],
    "products": ["merge-dots", "sink-slices", "dce"],
    "all": ["inline", "hoist", "simplify", "cse", "sink", "unroll", "fold", "dce"],
}
SETTLING = ("exact rules", "simplify", "simplify-xla")
"""Pipelines that find nothing to change in what they made."""
NOT_RUN = ("all-", "reduce-scatter", "collective", "custom-call", "partition-id", "replica-id", "rng", "<=")
NOT_DRAWN = ("reduce-of-fewer", "reduction-of-one-in-tuple")
"""Rules whose programs start reductions with any number: relaxed rules take it for neutral."""
LIMIT = 2_000_000
SEEDS = range(0, 300, 75)
MANY = range(1000, 9000, 200)


def text_drawn(seed: int, *, tame: bool) -> str:
    """A random module: every second one is drawn around a program of some rule."""
    random = Random(seed)
    if seed % 2:
        return text_of(module_of(random, tame=tame), random)
    while True:
        rule = random.choice(list(DOMAINS))
        if tame and rule in NOT_DRAWN:
            continue
        text = hloom.print(parsed(DOMAINS[rule](random)))
        if len(text) < 20_000 and not any(item in text for item in NOT_RUN):
            return text_of(module_around(random, text, tame=tame), random)


def changed(text: str, name: str, passes: list) -> Module:
    """The module after passes, printed and read again; sound, and settled where it should be."""
    module = hloom.parse(text)
    verify(module)
    apply_in_place(module, passes)
    verify(module)
    again = hloom.parse(hloom.print(module))
    verify(again)
    if name in SETTLING:
        assert not apply_in_place(module, passes).changed, f"{name} changes what it made itself"
    return again


def check_exact(seed: int, name: str) -> None:
    text = text_drawn(seed, tame=False)
    before, after = hloom.parse(text), changed(text, name, STRICT[name])
    for special in (True, False):
        inputs = inputs_for(before, Random(seed), special=special)
        try:
            evaluate(before, inputs, limit=LIMIT)
        except LimitReached:
            continue
        assert_same_numbers(before, after, inputs)


def check_rounding(seed: int, name: str) -> bool:
    """Whether there was a number to compare."""
    text = text_drawn(seed, tame=True)
    before, after = hloom.parse(text), changed(text, name, ROUNDING[name])
    inputs = inputs_for(before, Random(seed), special=False)
    tolerance = sensitivity(before, inputs, Random(seed))
    if tolerance is None:
        return False
    for left, right in zip(evaluate(before, inputs), evaluate(after, inputs), strict=True):
        if left.dtype.kind in "biu":
            np.testing.assert_array_equal(left, right)
        else:
            np.testing.assert_allclose(wide(left), wide(right), rtol=0, atol=tolerance)
    return True


def sensitivity(module: Module, inputs: list[np.ndarray], random: Random) -> float | None:
    """How far results may differ; None for a module that is too sensitive to compare, or not finite on the way."""
    values = [item for item in evaluate(with_all_values(module), inputs) if item.size]
    floats = [wide(value) for value in values if value.dtype.kind not in "biu"]
    if not floats:
        return 0.0
    if not all(np.isfinite(item).all() and (np.abs(item) < 1e4).all() for item in floats):
        return None
    greatest = max(1.0, *(float(np.abs(item).max()) for item in floats))
    sizes = {value.dtype.itemsize for value in values if value.dtype.kind not in "biu"}
    unit = 0.2 if 1 in sizes else 1e-2 if 2 in sizes else 1e-5
    for direction in (1, -1):
        moved = [_moved(operand, direction * unit, random) for operand in inputs]
        for one, other in zip(values, [v for v in evaluate(with_all_values(module), moved) if v.size], strict=True):
            if one.dtype.kind in "biu":
                if not np.array_equal(one, other):
                    return None
            elif not (np.abs(wide(one) - wide(other)) < 50 * unit * greatest).all():
                return None
    return 20 * unit * greatest


def with_all_values(module: Module) -> Module:
    """The module, yielding every array that its entry computes."""
    copy = module.clone()
    graph = copy.entry
    computed = [node for node in graph.nodes if isinstance(node.type, TensorType) and not _is_constant(node)]
    types = [node.type for node in computed if node.type]
    graph.set_output(graph.add_apply(OPS["tuple"], computed, TupleType(types)))
    return copy


def _is_constant(node) -> bool:
    return node.opcode == "constant" or (node.opcode == "broadcast" and node.operands[0].opcode == "constant")


def wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _moved(array: np.ndarray, unit: float, random: Random) -> np.ndarray:
    if array.dtype.kind in "biu":
        return array
    signs = np.array([random.choice((-1, 1)) for _ in range(array.size)]).reshape(array.shape)
    return (wide(array) * (1 + unit * signs) + unit * random.choice((-1, 1))).astype(array.dtype)


@pytest.mark.parametrize("first", [*SEEDS, *(pytest.param(seed, marks=pytest.mark.long) for seed in MANY)])
def test_every_bit_stays(first: int):
    for seed in range(first, first + (15 if first < 1000 else 200)):
        for name in STRICT:
            check_exact(seed, name)


@pytest.mark.parametrize("first", [*SEEDS, *(pytest.param(seed, marks=pytest.mark.long) for seed in MANY)])
def test_numbers_stay_close(first: int):
    count = 0
    for seed in range(first, first + (15 if first < 1000 else 200)):
        for name in ROUNDING:
            count += check_rounding(seed, name)
    assert count > 15
