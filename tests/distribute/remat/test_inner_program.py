"""Loops and branches where the peak is: what their bodies compute is computed again there.

Covers `inner_program.py`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import hloom
from hloom.distribute.remat import remat_in_place, rematerialize
from hloom.distribute.remat.inner_program import as_program, computation_at_peak, put_back
from hloom.formats.hlo import parse, print_module
from hloom.ir import Module
from hloom.passes import canonicalize, dce
from hloom.runtime import memory
from hloom.testing import assert_equivalent

RANDOM = np.random.default_rng(0)
WEIGHTS = [(RANDOM.standard_normal((32, 32)) * 0.1).astype(np.float32) for _ in range(5)]
ROWS = RANDOM.standard_normal((4, 512, 32)).astype(np.float32)


def loss(weights: Any, x: Any) -> Any:
    for w in weights:
        x = jnp.sin(jnp.tanh(x @ w)) + x
    return (x * x).mean()


def sliced(weights: Any, rows: Any) -> Any:
    """Gradients summed over slices of a batch: forward and backward part are one iteration."""

    def add(total: Any, x: Any) -> Any:
        return jax.tree.map(jnp.add, total, jax.grad(loss)(weights, x)), None

    return lax.scan(add, jax.tree.map(jnp.zeros_like, weights), rows)[0]


def branching(weights: Any, rows: Any) -> Any:
    """The same in a branch, of one slice."""
    return lax.cond(rows[0, 0, 0] < 1e6, lambda w, x: jax.grad(loss)(w, x[0]), lambda w, x: w, weights, rows)


def nested(weights: Any, rows: Any) -> Any:
    """The loop over slices in a loop."""
    return lax.fori_loop(0, 2, lambda _, w: jax.tree.map(lambda a, g: a - 0.1 * g, w, sliced(w, rows)), weights)


@cache
def program(name: str) -> tuple[Module, int]:
    lowered = jax.jit({"sliced": sliced, "branching": branching, "nested": nested}[name]).lower(WEIGHTS, ROWS)
    module = parse(lowered.as_text("hlo"))
    return module, memory(print_module(module))["peak"]


@pytest.mark.parametrize("name", ["sliced", "branching", "nested"])
def test_the_numbers_stay_and_the_peak_falls(name: str):
    module, peak = program(name)
    made = rematerialize(module, int(0.85 * peak), check=lambda module: memory(print_module(module))["peak"])
    assert made.inside
    assert memory(print_module(made.module))["peak"] <= 0.85 * peak
    assert made.flops < 1.34 * made.original_flops
    assert_equivalent(module, made.module, [*WEIGHTS, ROWS])


def test_in_place_writes_the_same_program():
    module, peak = program("sliced")
    budget = int(0.85 * peak)
    copy = module.clone()
    report = remat_in_place(copy, budget, measure="model")
    assert hloom.equal(copy, rematerialize(module, budget).module)
    assert "values are computed again" in report.notes[0]


def test_what_is_taken_out_and_put_back_is_the_same():
    module, _ = program("sliced")
    canonical = canonicalize(module)
    dce(canonical)
    graph = computation_at_peak(canonical)
    assert graph is not None and graph.root.type is not None
    inner = as_program(canonical, graph)
    assert inner.entry.name == graph.name
    assert len(inner.attributes["input_output_alias"]) == len(list(graph.root.type.leaves()))
    copy = canonical.clone()
    put_back(copy, graph.name, inner)
    assert hloom.equal(copy, canonical)


def test_a_peak_in_the_entry_is_in_no_computation():
    step = jax.jit(jax.grad(loss)).lower(WEIGHTS, ROWS[0])
    assert computation_at_peak(parse(step.as_text("hlo"))) is None


def test_the_least_counts_what_is_inside():
    module, peak = program("sliced")
    with pytest.raises(hloom.HloomError, match="the smallest found takes") as caught:
        rematerialize(module, int(0.4 * peak))
    least = int(str(caught.value).split("the smallest found takes ")[1].split(", and")[0].replace(",", ""))
    assert least < 0.85 * peak
    assert rematerialize(module, least).peak <= least
