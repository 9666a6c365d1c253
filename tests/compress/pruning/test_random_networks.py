"""Random networks without some of their positions: what the original computes with zeros, in float64.

Covers `dimension_dependency.py`, `structured.py`, `removed_values.py`.
"""

from __future__ import annotations

import re
from random import Random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hloom
from hloom.compress.pruning import AXES
from hloom.text import HloomError
from tests.compress.pruning.random_networks import BLOCKS, Network, random_network
from tests.compress.pruning.test_structured import roles

REFUSED = re.compile("has no axis to prune|the program does not say which")


def by_xla(module: hloom.Module, arrays: list[np.ndarray]) -> Any:
    return hloom.run(module, arrays).outputs


def pruned(network: Network, sparsity: float, run: Any = by_xla, **options: Any) -> Any:
    """Prune a network, and compare with it with zeros; HloomError where there is nothing to remove.

    In float64: norms of norms amplify rounding, and float32 overflows in some.
    """
    with jax.enable_x64(True):
        module = hloom.load(jax.jit(network.function, keep_unused=True).lower(network.params, network.x))
    leaves = [np.asarray(leaf) for leaf in jax.tree_util.tree_leaves(network.params)]
    weights = {parameter.name: array for parameter, array in zip(module.entry.parameters, leaves, strict=False)}
    made = hloom.prune_structured(module, weights, sparsity, **options)
    arrays = [*leaves, network.x]
    expected = run(module, made.zeroed(arrays))
    outputs = run(made.module, made.convert(arrays))
    assert all(np.isfinite(output).all() for output in expected)
    assert not hloom.compare(outputs, expected, rtol=1e-6, atol=1e-9)
    return made


@settings(max_examples=20, deadline=None)
@given(
    random=st.randoms(use_true_random=False),
    sparsity=st.sampled_from([0.25, 0.5, 0.8]),
    axes=st.lists(st.sampled_from(AXES), min_size=1, unique=True),
    pad_outputs=st.booleans(),
)
def test_random_networks(random: Random, sparsity: float, axes: list[str], pad_outputs: bool):
    """By numpy, which takes a tenth of the time."""
    try:
        pruned(random_network(random), sparsity, hloom.evaluate, axes=axes, pad_outputs=pad_outputs)
    except HloomError as error:
        assert REFUSED.search(error.message)


@pytest.mark.long
@pytest.mark.parametrize("start", range(0, 500, 50))
def test_many_random_networks(start: int):
    """Through XLA; of most there is something to remove."""
    count = 0
    for seed in range(start, start + 50):
        random = Random(seed)
        network = random_network(random)
        axes = random.sample(AXES, random.randint(1, len(AXES)))
        try:
            pruned(network, random.choice([0.25, 0.5, 0.8]), axes=axes, pad_outputs=random.random() < 0.6)
        except HloomError as error:
            assert REFUSED.search(error.message)
        else:
            count += 1
    assert count >= 30


@pytest.mark.parametrize("name", [*BLOCKS])
def test_every_block_of_random_networks(name: str):
    """Between an embedding and a head every one loses something."""
    random = Random(3)

    class Weights:
        def __call__(self, *shape: int) -> np.ndarray:
            return np.random.default_rng(shape).standard_normal(shape) / np.sqrt(shape[-2] if len(shape) > 1 else 1)

    params, block = BLOCKS[name](random, Weights())  # pyright: ignore[reportArgumentType]
    weights = Weights()
    params = {"embed": weights(4, 12), "block": params, "head": weights(12, 3)}

    def function(p: Any, x: Any) -> Any:
        return block(p["block"], jnp.tanh(x @ p["embed"])) @ p["head"]

    made = pruned(Network(function, params, weights(5, 4), (name,)), 0.5, hloom.evaluate, axes=AXES)
    assert made.axes


def test_a_value_is_not_kept_whole_for_one_operand_and_cut_for_another():
    """Keys of one weight for queries by groups: what the product needs whole is cut where it is made."""

    def attention(params: Any, x: Any) -> Any:
        q, k, v = jnp.split(x @ params["qkv"] + params["bias"], [12, 15], axis=-1)
        scores = jnp.einsum("tghk,sgk->ghts", q.reshape(5, 1, 4, 3), k.reshape(5, 1, 3))
        mixed = jnp.einsum("ghts,sgk->tghk", jax.nn.softmax(scores), v.reshape(5, 1, 3))
        return mixed.reshape(5, 12) @ params["o"]

    random = np.random.default_rng(0)
    params = {"qkv": random.standard_normal((12, 18)), "bias": random.standard_normal(18)}
    params["o"] = random.standard_normal((12, 3))
    made = pruned(Network(attention, params, random.standard_normal((5, 12)), ()), 0.5, axes=AXES)
    assert {role for role, _, _ in roles(made)} <= set(AXES) and made.axes


def test_a_table_that_is_embedding_and_head():
    """A projection's columns and the table's: the product of both reads either whole, not both at once."""

    def network(params: Any, x: Any) -> Any:
        h = jax.nn.softmax(x @ params["embed"])
        y = h @ params["up"]
        return (y * jnp.tanh(jnp.max(y, -1, keepdims=True))) @ params["embed"].T

    random = np.random.default_rng(0)
    params = {"embed": random.standard_normal((4, 12)), "up": random.standard_normal((12, 12))}
    made = pruned(Network(network, params, random.standard_normal((5, 4)), ()), 0.5, axes=AXES)
    dims = [dim for axis in made.axes for dim in axis.dims]
    assert len(dims) == len(set(dims))
    reasons = [left.reason for left in made.exclusions]
    assert any("is read at the positions that another axis keeps" in reason for reason in reasons)


def test_networks_that_amplify_rounding():
    """What differs in float32, because float32 loses all digits, agrees in float64."""

    def length(a: Any) -> Any:
        return jnp.linalg.norm(a, axis=-1, keepdims=True)

    def network(params: Any, x: Any) -> Any:
        h = x @ params["embed"]
        y = h * jnp.tanh(jnp.exp(h - h.mean(-1, keepdims=True)).sum(-1, keepdims=True))
        for _ in range(2):
            y = (y - y.mean(-1, keepdims=True)) / (jnp.abs(y.var(-1, keepdims=True) - length(y)) + 1)
        h = h + jnp.tanh(y @ params["up"]) @ params["down"]
        h = jnp.maximum(h, length(h)) * 1e3
        return jnp.exp(h - h.max(-1, keepdims=True)).sum(-1)

    random = np.random.default_rng(0)
    params = {"embed": random.standard_normal((4, 12)), "up": random.standard_normal((12, 6))}
    params["down"] = random.standard_normal((6, 12))
    made = pruned(Network(network, params, random.standard_normal((3, 4)), ()), 0.8, axes=["residual", "channels"])
    assert made.axes


def test_what_overflows_only_where_nothing_reads_it():
    """Zero times infinity is NaN in the original with zeros; the pruned program does not compute it."""

    def network(params: Any, x: Any) -> Any:
        return jnp.exp(1000 * jnp.exp(x @ params["up"])) @ params["down"]

    params = {"up": np.ones((4, 2)), "down": np.ones((2, 3))}
    params["up"][:, 0] = 0
    x = np.ones((3, 4))
    with jax.enable_x64(True):
        module = hloom.load(jax.jit(network).lower(params, x))
    weights = {p.name: a for p, a in zip(module.entry.parameters, [params["down"], params["up"]], strict=False)}
    made = hloom.prune_structured(module, weights, 0.5)
    arrays = [params["down"], params["up"], x]
    assert np.isnan(hloom.run(module, made.zeroed(arrays)).outputs[0]).all()
    assert np.isinf(hloom.run(made.module, made.convert(arrays)).outputs[0]).all()
