"""Arrays that are updated in place are copied where something may read them later; the numbers through jax.jit."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import hloom
import hloom.passes.fusion
from hloom.ir import Module, verify
from hloom.passes import apply_in_place
from hloom.runtime.in_place_copies import insert_copies

HEAD = "x = f32[8] parameter(0) i = s32[] parameter(1) y = f32[2] parameter(2) a = f32[8] negate(x)\n"
UPDATE = "u = f32[8] dynamic-update-slice({array}, {update}, i){waits}\n"
SLICE = "d = f32[2] dynamic-slice(a, i), dynamic_slice_sizes={2}\n"


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        (UPDATE.format(array="a", update="y", waits="") + "ROOT r = f32[8] tanh(u)", 0),
        (SLICE + UPDATE.format(array="a", update="d", waits="") + "ROOT r = f32[8] tanh(u)", 0),
        (SLICE + UPDATE.format(array="a", update="y", waits=", control-predecessors={d}") + "ROOT t = (f32[8], f32[2]) tuple(u, d)", 0),
        (SLICE + UPDATE.format(array="a", update="y", waits="") + "ROOT t = (f32[8], f32[2]) tuple(u, d)", 1),
        (UPDATE.format(array="a", update="y", waits="") + "b = f32[4,2] bitcast(a)\n s = f32[4,2] sine(b)\n ROOT t = (f32[8], f32[4,2]) tuple(u, s)", 1),
        (UPDATE.format(array="a", update="y", waits="") + "ROOT t = (f32[8], f32[8]) tuple(u, a)", 1),
        (UPDATE.format(array="x", update="y", waits="") + "ROOT r = f32[8] tanh(u)", 1),
        (UPDATE.format(array="a", update="y", waits="") + "v = f32[8] dynamic-update-slice(a, y, i)\n ROOT t = (f32[8], f32[8]) tuple(u, v)", 2),
    ],
    ids=["no reader", "a reader before", "a reader that is waited for", "a reader at any time", "through a view", "a result",
         "a parameter", "two updates"],
)  # fmt: skip
def test_where_an_update_needs_a_copy(lines: str, count: int):
    module = hloom.parse("ENTRY e {\n" + HEAD + lines + "\n}")
    assert insert_copies(module) == count
    verify(module)
    assert insert_copies(module) == 0 or count == 2  # the copies of two updates read the same array


def drawn(seed: int) -> Callable[..., Any]:
    """A random function of updates, and of what reads the arrays that they update."""

    def function(x: Any, i: Any, j: Any) -> Any:
        generator = random.Random(seed)
        arrays, parts = [jnp.sin(x)], [x[:4] * 1.5]
        for _ in range(12):
            array, part, other = generator.choice(arrays[-3:]), generator.choice(parts), generator.choice(parts)
            index, form = generator.choice((i, j, 0)), generator.randrange(6)
            if form == 0:
                arrays.append(lax.dynamic_update_slice(array, part, (index,)))
            elif form == 1:
                arrays.append(jnp.tanh(array))
            elif form < 4:
                parts.append(lax.dynamic_slice(array, (index,), (4,)))
            else:
                parts.append(part + other if form == 4 else part[::-1])
        return lax.dynamic_update_slice(arrays[-1], parts[-1], (i,)), generator.choice(arrays), parts

    return function


def clustered(module: Module) -> None:
    apply_in_place(module, ["inline-fusions", "cluster(least=1)"])


@pytest.mark.parametrize(
    "seeds", [(16, 23, 26, 46), pytest.param(range(100), marks=pytest.mark.long)], ids=["few", "many"]
)
def test_kernels_made_at_the_end_of_the_pipeline_read_what_they_should(seeds: range):
    x = jnp.linspace(0, 1, 16).astype(jnp.float32)
    for seed in seeds:
        arguments = x, jnp.int32(seed % 9), jnp.int32((seed * 5 + 2) % 11)
        wanted = jax.tree.leaves(jax.jit(drawn(seed))(*arguments))
        with hloom.inside_jit(clustered):
            result = jax.tree.leaves(jax.jit(drawn(seed))(*arguments))
        for one, other in zip(wanted, result, strict=True):
            np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-5, atol=1e-6)
