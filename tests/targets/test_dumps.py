"""Programs as the compilers of five targets optimised them: every part of hloom reads them.

dumps/PROGRAM.before.hlo.gz is a small program as jax 0.10.2 lowered it, PROGRAM.TARGET.hlo.gz what `hloom compile` gave
(libtpu 0.0.42, the CUDA plugin of the same jax without autotuning).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from random import Random

import numpy as np
import pytest

import hloom
from hloom.analysis import memory_model
from hloom.evaluator import CannotEvaluate, evaluate
from hloom.ir import Module
from tests.passes.random_modules import inputs_for

DUMPS = Path(__file__).parent / "dumps"
TARGETS = ("v5e", "v5p", "v6e", "h100", "a100")
NAMES = sorted(path.name.partition(".")[0] for path in DUMPS.glob("*.before.hlo.gz"))
PARALLEL = ("data_parallel", "tensor_parallel")
"""Programs for four devices, whose collectives the evaluator does not run."""
LIBRARY_CALLS = (("convolution", "h100"), ("convolution", "a100"))
"""Programs and targets that call cuDNN there, which the evaluator refuses."""
PRECISION = {"recurrent": 0.06}
"""The largest error relative to the largest value, 0.02 unless given: compilers for TPUs keep products' operands in
bf16, and `recurrent` has twelve in a row."""


@cache
def program(name: str, stage: str) -> Module:
    return hloom.load(DUMPS / f"{name}.{stage}.hlo.gz")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", NAMES)
def test_it_is_read_verified_printed_drawn_and_costed(name: str, target: str):
    module = program(name, target)
    assert module.is_scheduled
    hloom.verify(module)
    assert hloom.equal(module, hloom.parse(hloom.print(module)))
    assert hloom.to_dot(module).startswith("digraph")
    device = {"v5e": "tpu-v5e", "v5p": "tpu-v5p", "v6e": "tpu-v6e", "h100": "h100", "a100": "a100-80"}[target]
    assert hloom.roofline(module, device).seconds > 0
    assert hloom.timeline(module, device).seconds > 0
    assert hloom.cost(module).total.bytes_accessed > 0
    assert memory_model(module).target.partition(" ")[0] == ("gpu" if target in ("h100", "a100") else "tpu")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", [name for name in NAMES if name not in PARALLEL])
def test_its_numbers_are_those_of_the_program(name: str, target: str):
    before, after = program(name, "before"), program(name, target)
    inputs = inputs_for(before, Random(0), special=False)
    if (name, target) in LIBRARY_CALLS:
        with pytest.raises(CannotEvaluate, match="only the backend knows"):
            evaluate(after, inputs)
        return
    for one, other in zip(evaluate(before, inputs), evaluate(after, inputs), strict=True):
        one, other = (np.asarray(value, np.float64) for value in (one, other))
        assert np.abs(one - other).max() <= PRECISION.get(name, 0.02) * np.abs(one).max()
