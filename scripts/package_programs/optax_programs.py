"""Optimizers, losses and projections of optax."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax  # pyright: ignore[reportMissingImports]

from .jax_calls import floats, integers, texts, train_step
from .registry import Call, Program, register

__all__ = ["PROGRAMS", "texts"]

PROGRAMS: dict[str, Program] = {}
program = partial(register, PROGRAMS)


def _loss(weights: Any, x: Any, y: Any) -> Any:
    hidden = jax.nn.relu(x @ weights["first"] + weights["bias"])
    return jnp.mean((hidden @ weights["second"] - y) ** 2)


def _trained(optimizer: Any) -> Call:
    weights = {"first": floats(6, 8), "bias": floats(8), "second": floats(8, 2)}
    return train_step(_loss, optimizer, weights, floats(5, 6), floats(5, 2))


@program
def lbfgs_with_line_search() -> Call:
    optimizer = optax.lbfgs(memory_size=3, linesearch=optax.scale_by_zoom_linesearch(max_linesearch_steps=4))
    weights = {"first": floats(6, 8), "bias": floats(8), "second": floats(8, 2)}
    state = jax.eval_shape(optimizer.init, weights)

    def step(weights: Any, state: Any, x: Any, y: Any) -> Any:
        function = partial(_loss, x=x, y=y)
        value, gradients = optax.value_and_grad_from_state(function)(weights, state=state)
        updates, state = optimizer.update(gradients, state, weights, value=value, grad=gradients, value_fn=function)
        return optax.apply_updates(weights, updates), state

    return step, (weights, state, floats(5, 6), floats(5, 2))


@program
def schedule_free() -> Call:
    return _trained(optax.contrib.schedule_free_adamw(1e-2, warmup_steps=5))


@program
def prodigy() -> Call:
    return _trained(optax.contrib.prodigy(1.0))


@program
def adan_with_decay_mask() -> Call:
    masked = optax.masked(optax.add_decayed_weights(1e-2), {"first": True, "bias": False, "second": True})
    return _trained(optax.chain(optax.adaptive_grad_clip(0.1), masked, optax.adan(1e-2)))


@program
def partitioned_optimizers() -> Call:
    labels = {"first": "fast", "bias": "still", "second": "slow"}
    parts = {"fast": optax.adabelief(1e-2), "slow": optax.rprop(1e-3), "still": optax.set_to_zero()}
    return _trained(optax.multi_transform(parts, labels))


@program
def ema_and_centralized() -> Call:
    restarts = optax.sgdr_schedule([{"init_value": 0.0, "peak_value": 0.1, "decay_steps": 10, "warmup_steps": 3}] * 2)
    steps = optax.chain(optax.centralize(), optax.trace(0.9), optax.scale_by_schedule(restarts), optax.ema(0.99))
    return _trained(optax.chain(optax.zero_nans(), optax.clip(1.0), steps))


@program
def sharpness_aware() -> Call:
    return _trained(
        optax.contrib.sam(optax.sgd(0.1), optax.chain(optax.contrib.normalize(), optax.sgd(0.05)), sync_period=2)
    )


@program
def connectionist_temporal_loss() -> Call:
    def loss(logits: Any, labels: Any) -> Any:
        paddings = jnp.zeros(logits.shape[:2]), jnp.zeros(labels.shape)
        return optax.ctc_loss(logits, paddings[0], labels, paddings[1]).sum()

    return jax.value_and_grad(loss), (floats(2, 8, 5), integers(2, 3))


@program
def losses() -> Call:
    def total(logits: Any, targets: Any, labels: Any) -> Any:
        return (
            optax.losses.poly_loss_cross_entropy(logits, jax.nn.softmax(targets)).sum()
            + optax.sigmoid_focal_loss(logits, jax.nn.sigmoid(targets)).sum() + optax.huber_loss(logits, targets).sum()
            + optax.cosine_distance(logits, targets).sum() + optax.hinge_loss(logits, jnp.sign(targets)).sum()
            + optax.losses.ranking_softmax_loss(logits, targets).sum() + optax.log_cosh(logits, targets).sum()
            + optax.losses.multiclass_hinge_loss(logits, labels).sum()
            + optax.losses.triplet_margin_loss(logits, targets, -targets).sum()
            + optax.losses.sparsemax_loss(logits, jax.nn.sigmoid(targets)).sum()
        )  # fmt: skip

    return jax.value_and_grad(total), (floats(4, 6), floats(4, 6), integers(4))


@program
def projections() -> Call:
    def project(x: Any) -> Any:
        return (
            optax.projections.projection_simplex(x), optax.projections.projection_l1_ball(x, 2.0),
            optax.projections.projection_l2_sphere(x), optax.projections.projection_hypercube(x),
        )  # fmt: skip

    return project, (floats(7),)


@program
def assignment() -> Call:
    return optax.assignment.hungarian_algorithm, (floats(4, 5),)
