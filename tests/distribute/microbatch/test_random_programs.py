"""Random programs over a batch keep their numbers when they are cut into slices, or are refused.

Covers `batch_propagation.py`, `loop.py`, `phases.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jax import lax

import hloom
from hloom import microbatch
from hloom.distribute.microbatch import MixedExamples
from hloom.formats.hlo import parse
from hloom.ir import Module

BATCH, WIDTH = 4, 3
RANDOM = np.random.default_rng(0)
VALUES = [
    RANDOM.standard_normal((BATCH, WIDTH)).astype(np.float32),
    RANDOM.standard_normal((WIDTH, WIDTH)).astype(np.float32),
    RANDOM.integers(0, WIDTH, (BATCH,)).astype(np.int32),
]

Step = Callable[[Any, Any, Any], Any]
"""A value of [batch, width], the weights, and one number for each example; another value of that shape."""


def _weighted(x: Any, w: Any, _: Any) -> Any:
    """The gradient of the weights, which sums over the batch, used for each example."""
    return x @ jax.grad(lambda w: jnp.sum(jnp.tanh(x @ w)))(w)


def _loop(x: Any, w: Any, _: Any) -> Any:
    return lax.fori_loop(0, 3, lambda i, y: jnp.sin(y @ w) + i, x)


def _scan_of_examples(x: Any, w: Any, _: Any) -> Any:
    return lax.scan(lambda carried, row: (carried, jnp.tanh(row @ carried)), w, x)[1]


PER_EXAMPLE: dict[str, Step] = {
    "sine": lambda x, w, i: jnp.sin(x),
    "dot": lambda x, w, i: x @ w,
    "softmax": lambda x, w, i: jax.nn.softmax(x, -1),
    "cumulative": lambda x, w, i: jnp.cumsum(x, 1),
    "reverse": lambda x, w, i: x[:, ::-1],
    "roll": lambda x, w, i: jnp.roll(x, 1, 1),
    "lookup": lambda x, w, i: x + w[i],
    "take": lambda x, w, i: x + jnp.take_along_axis(x, i[:, None], 1),
    "one_hot": lambda x, w, i: x * jax.nn.one_hot(i, WIDTH),
    "update": lambda x, w, i: x.at[:, 1].multiply(2.0),
    "sort": lambda x, w, i: jnp.sort(x, 1),
    "outer": lambda x, w, i: jnp.einsum("bi,bj->bij", x, jnp.cos(x)).sum(1),
    "transposed": lambda x, w, i: (w @ x.T).T,
    "reshaped": lambda x, w, i: (x.reshape(-1) * 2).reshape(x.shape),
    "vmap": lambda x, w, i: jax.vmap(lambda row, k: row.at[k].add(1.0) @ w)(x, i),
    "loop": _loop,
    "branch": lambda x, w, i: lax.cond(w.sum() > 0, jnp.sin, jnp.cos, x),
    "convolution": lambda x, w, i: jax.vmap(lambda row: jnp.convolve(row, w[0], mode="same"))(x),
}
COMBINING: dict[str, Step] = {
    "mean": lambda x, w, i: x - x.mean(0),
    "maximum": lambda x, w, i: x / (1 + jnp.abs(x).max()),
    "weights": _weighted,
    "cumulative": lambda x, w, i: jnp.cumsum(x, 0),
    "neighbour": lambda x, w, i: x + jnp.roll(x, 1, 0),
    "sort": lambda x, w, i: jnp.sort(x, 0),
    "permuted": lambda x, w, i: x[i],
    "segments": lambda x, w, i: x + jax.ops.segment_sum(x, i, WIDTH).sum(0),
    "gram": lambda x, w, i: (x @ x.T) @ x,
    "reverse": lambda x, w, i: x[::-1],
    "scan": _scan_of_examples,
}
RESULTS: dict[str, Step] = {
    "examples": lambda x, w, i: x,
    "sum": lambda x, w, i: x.sum(),
    "mean": lambda x, w, i: jnp.mean(x**2),
    "maximum": lambda x, w, i: x.max(0),
    "gradient": lambda x, w, i: x.T @ x,
    "segments": lambda x, w, i: jax.ops.segment_sum(x, i, WIDTH),
    "both": lambda x, w, i: (x.sum(0), x * 2),
    "root": lambda x, w, i: jnp.sqrt((x**2).sum()) + w.sum(),
    "any": lambda x, w, i: (x > 1).any(),
}


def program(steps: list[Step], result: Step) -> Module:
    def run(x: Any, w: Any, i: Any) -> Any:
        for step in steps:
            x = step(x, w, i)
        return result(x, w, i)

    return parse(jax.jit(run, keep_unused=True).lower(*VALUES).as_text("hlo"))


@given(
    st.lists(st.sampled_from(sorted(PER_EXAMPLE)), max_size=4),
    st.sampled_from([None, None, *sorted(COMBINING)]),
    st.sampled_from(sorted(RESULTS)),
    st.sampled_from([2, 4]),
)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_numbers_are_kept(steps, combining, result, count):
    chosen = [PER_EXAMPLE[name] for name in steps]
    if combining is not None:
        chosen.insert(len(chosen) // 2, COMBINING[combining])
    module = program(chosen, RESULTS[result])
    x, _, i = [parameter.name for parameter in module.entry.parameters]
    try:
        sliced = microbatch(module, count, batch={x: 0, i: 0})
    except MixedExamples:
        assert combining is not None, "what is per example, and then summed, is cut"
        return
    for ours, theirs in zip(hloom.run(sliced, VALUES).outputs, hloom.run(module, VALUES).outputs, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=1e-5)
