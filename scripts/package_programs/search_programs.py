"""Reinforcement learning, tree search, graphs and Monte Carlo: rlax, mctx, jraph, blackjax."""

from __future__ import annotations

from functools import partial
from typing import Any

import blackjax  # pyright: ignore[reportMissingImports]
import jax
import jax.numpy as jnp
import jraph  # pyright: ignore[reportMissingImports]
import mctx  # pyright: ignore[reportMissingImports]
import rlax  # pyright: ignore[reportMissingImports]
from blackjax.smc import resampling  # pyright: ignore[reportMissingImports]

from .jax_calls import floats, integers, key, texts
from .registry import Call, Program, register

__all__ = ["PROGRAMS", "texts"]

PROGRAMS: dict[str, Program] = {}
program = partial(register, PROGRAMS)


def _density(x: Any) -> Any:
    return -0.5 * jnp.sum(x**2) - jnp.sum(jnp.cos(3 * x))


@program
def gumbel_muzero() -> Call:
    def policy(logits: Any, values: Any, weights: Any, key: Any) -> Any:
        def recurrent(weights: Any, key: Any, action: Any, embedding: Any) -> Any:
            embedding = jnp.tanh(embedding @ weights + action[:, None])
            output = mctx.RecurrentFnOutput(
                reward=embedding[:, 0], discount=jnp.full(2, 0.9), prior_logits=embedding[:, :4], value=embedding[:, 1]
            )
            return output, embedding

        root = mctx.RootFnOutput(prior_logits=logits, value=values, embedding=jnp.ones((2, 5)))
        result = mctx.gumbel_muzero_policy(
            weights, key, root, recurrent, num_simulations=6, max_num_considered_actions=4
        )
        return result.action, result.action_weights

    return policy, (floats(2, 4), floats(2), floats(5, 5), key())


@program
def actor_critic_losses() -> Call:
    def loss(logits: Any, values: Any, actions: Any, rewards: Any) -> Any:
        discounts = jnp.full_like(rewards, 0.9)
        advantages = rlax.truncated_generalized_advantage_estimation(rewards, discounts, 0.95, values)
        ratios = jnp.exp(rlax.softmax().logprob(actions, logits))
        clipped = rlax.clipped_surrogate_pg_loss(ratios, jax.lax.stop_gradient(advantages), 0.2)
        traces = rlax.vtrace_td_error_and_advantage(values[:-1], values[1:], rewards, discounts, ratios)
        return clipped + rlax.entropy_loss(logits, jnp.ones(8)) + jnp.mean(traces.errors**2)

    return jax.value_and_grad(loss, (0, 1)), (floats(8, 3), floats(9), integers(8), floats(8))


@program
def categorical_and_quantile_learning() -> Call:
    def loss(first: Any, second: Any, action: Any, reward: Any) -> Any:
        atoms = jnp.linspace(-1.0, 1.0, 11)
        categorical = rlax.categorical_q_learning(atoms, first, action, reward, 0.9, atoms, second)
        quantiles = jnp.linspace(0.05, 0.95, 11)
        return categorical + rlax.quantile_q_learning(first.T, quantiles, action, reward, 0.9, second.T, second.T, 1.0)

    return jax.value_and_grad(loss), (floats(3, 11), floats(3, 11), integers(), floats())


@program
def graph_attention() -> Call:
    def loss(weights: Any, nodes: Any, senders: Any, receivers: Any) -> Any:
        graph = jraph.GraphsTuple(
            nodes=nodes, edges=jnp.ones((12, 1)), senders=senders, receivers=receivers, globals=jnp.ones((1, 2)),
            n_node=jnp.array([7]), n_edge=jnp.array([12]),
        )  # fmt: skip
        network = jraph.GraphNetwork(
            update_edge_fn=lambda edges, sent, received, _: jnp.tanh((sent + received) @ weights) * edges,
            update_node_fn=lambda nodes, sent, received, _: nodes + sent + received,
            update_global_fn=lambda nodes, edges, globals_: globals_ + nodes.sum() + edges.sum(),
            attention_logit_fn=lambda edges, sent, received, _: (sent * received).sum(-1, keepdims=True),
            attention_reduce_fn=lambda edges, weights: edges * weights,
        )
        return jnp.sum(network(graph).nodes ** 2)

    return jax.value_and_grad(loss), (floats(4, 4), floats(7, 4), integers(12), integers(12))


def _transition(algorithm: Any) -> Call:
    state = jax.eval_shape(
        lambda x, key: algorithm.init(x, key) if algorithm_needs_key(algorithm) else algorithm.init(x), floats(3), key()
    )
    return algorithm.step, (key(), state)


def algorithm_needs_key(algorithm: Any) -> bool:
    """Whether the first state of a sampler takes a key."""
    try:
        jax.eval_shape(algorithm.init, floats(3))
    except TypeError:
        return True
    return False


@program
def metropolis_adjusted_langevin() -> Call:
    return _transition(blackjax.mala(_density, 0.1))


@program
def generalized_hmc() -> Call:
    return _transition(blackjax.ghmc(_density, 0.1, jnp.ones(3), 0.3, 0.1))


@program
def microcanonical() -> Call:
    return _transition(blackjax.mclmc(_density, L=1.0, step_size=0.1))


@program
def elliptical_slice() -> Call:
    return _transition(blackjax.elliptical_slice(_density, mean=jnp.zeros(3), cov=jnp.eye(3)))


@program
def riemannian_hmc() -> Call:
    return _transition(blackjax.rmhmc(_density, 0.1, lambda x: jnp.exp(0.1 * jnp.cos(x)), 3))


@program
def sequential_monte_carlo() -> Call:
    def step(key: Any, particles: Any) -> Any:
        kernel, move = blackjax.rmh.build_kernel(), blackjax.mcmc.random_walk.normal(jnp.ones(3) * 0.3)
        algorithm = blackjax.adaptive_tempered_smc(
            _density, lambda x: -jnp.sum(jnp.abs(x)),
            lambda key, state, density, **_: kernel(key, state, density, move),
            blackjax.rmh.init, {}, resampling.systematic, 0.5, num_mcmc_steps=2,
        )  # fmt: skip
        return algorithm.step(key, algorithm.init(particles))[0].particles

    return step, (key(), floats(8, 3))
