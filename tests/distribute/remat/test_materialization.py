"""Values that are stored once, where kernels would compute them again from much more.

Covers `materialization.py`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hloom
from hloom.distribute.remat import rematerialize
from hloom.distribute.remat.materialization import find_shared, materialize
from hloom.distribute.remat.stored_values import find_stored_values
from hloom.ir import Module
from hloom.passes import canonicalize_in_place, cse, dce
from hloom.runtime import memory
from hloom.targets.cpu import simulate_buffers
from hloom.testing import assert_equivalent

LAYERS, WIDTH = 6, 32


def residual_chain(weights: Any, x: Any) -> Any:
    for up, down in weights:
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred * jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-6)
        x = x + jnp.tanh(scaled @ up) @ down
    return (x * x).mean()


def residual_step() -> Module:
    shape = jax.ShapeDtypeStruct((WIDTH, WIDTH), jnp.float32)
    rows = jax.ShapeDtypeStruct((8, 64, WIDTH), jnp.float32)
    return hloom.load(jax.jit(jax.grad(residual_chain)).lower([(shape, shape)] * LAYERS, rows))


def prepared(module: Module) -> Module:
    canonicalize_in_place(module)
    cse(module)
    dce(module)
    module.index_users()
    return module


def test_sums_that_later_kernels_would_compute_again_are_stored():
    module = prepared(residual_step())
    before = simulate_buffers(module.clone()).peak
    names = find_shared(find_stored_values(module))
    assert len(names) >= LAYERS - 2
    materialize(module.entry, names)
    assert hloom.verify(module).level.name == "HLO"
    after = simulate_buffers(module.clone()).peak
    assert after < before
    assert memory(hloom.print(module))["peak"] == pytest.approx(after, rel=0.01)
    assert_equivalent(module, residual_step(), rtol=1e-4, atol=1e-5)


def test_what_is_stored_keeps_every_bit():
    text = """HloModule m
    ENTRY main { x = f32[8] parameter(0)
                 ROOT y = f32[8] copy(x) }"""
    module = hloom.parse(text)
    module.index_users()
    materialize(module.entry, ["y"])
    odd = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-38, -3.5, 3e38], np.float32)
    (kept,) = hloom.run(module, [odd]).outputs
    assert np.asarray(kept).tobytes() == odd.tobytes()


def test_a_value_that_one_kernel_reads_is_left_as_it_is():
    module = hloom.parse("""HloModule m
    ENTRY main { x = f32[512,512] parameter(0)
                 s = f32[512,512] add(x, x)
                 ROOT t = f32[512,512] tanh(s) }""")
    module.index_users()
    assert find_shared(find_stored_values(module)) == []


def test_an_empty_choice_writes_nothing():
    module = prepared(residual_step())
    before = hloom.print(module)
    materialize(module.entry, [])
    assert hloom.print(module) == before


def test_a_budget_that_stored_sums_meet_costs_no_products():
    module = residual_step()
    peak = memory(hloom.print(module))["peak"]
    made = rematerialize(module, int(0.97 * peak), check=lambda made: memory(hloom.print(made))["peak"])
    assert made.materialized
    assert made.assigned is not None and made.assigned <= 0.97 * peak
    again, _ = hloom.opt(module, [f"remat(budget={int(0.97 * peak)})"])
    assert memory(hloom.print(again))["peak"] <= 0.97 * peak
    assert_equivalent(again, residual_step(), rtol=1e-4, atol=1e-5)
