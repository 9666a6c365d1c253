"""Derivatives of optax's losses and of its projections with rules: those that jax gives, to second order.

Covers `runtime/derivative_rules.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hloom
from tests.runtime.derivatives_in_jax import assert_close, has_forward_mode, in_jax, scalar
from tests.runtime.jax_derivatives import Row

optax = pytest.importorskip("optax")
pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore:The function:DeprecationWarning")]

LOGITS = np.array([[0.7, -1.2, 2.1], [0.3, 1.4, -0.6], [-0.2, 0.1, 0.5], [1.9, -0.8, 0.4]])
OTHERS = np.cos(np.arange(12.0)).reshape(4, 3)
PROBABILITIES = np.exp(OTHERS) / np.exp(OTHERS).sum(1, keepdims=True)
LABELS = np.array([0, 2, 1, 1])
ONE_HOT = np.eye(3)[LABELS]
SIGNS = 2 * ONE_HOT - 1
ROWS: dict[str, Row] = {}


def row(name: str, *arrays: Any, fixed: tuple[Any, ...] = (), **keywords: Any) -> None:
    """A loss of arrays that are differentiated, before those that are `fixed`."""
    function = getattr(optax.losses, name)
    ROWS[name] = Row(lambda *moving: function(*moving, *fixed, **keywords), arrays)


for loss in ("l2_loss", "squared_error", "huber_loss", "log_cosh", "cosine_similarity", "cosine_distance"):
    row(loss, LOGITS, OTHERS)
for loss in ("softmax_cross_entropy", "safe_softmax_cross_entropy", "poly_loss_cross_entropy", "ranking_softmax_loss"):
    row(loss, LOGITS, PROBABILITIES)
for loss in ("kl_divergence", "generalized_kl_divergence", "convex_kl_divergence"):
    row(loss, np.log(PROBABILITIES[::-1]), PROBABILITIES)
for loss in ("softmax_cross_entropy_with_integer_labels", "multiclass_hinge_loss", "multiclass_perceptron_loss",
             "multiclass_sparsemax_loss"):  # fmt: skip
    row(loss, LOGITS, fixed=(LABELS,))
for loss in ("hinge_loss", "perceptron_loss"):
    row(loss, LOGITS, fixed=(SIGNS,))
row("kl_divergence_with_log_targets", np.log(PROBABILITIES[::-1]), np.log(PROBABILITIES))
row("sigmoid_binary_cross_entropy", LOGITS, PROBABILITIES)
row("sigmoid_focal_loss", LOGITS, PROBABILITIES, alpha=0.3)
row("smooth_labels", PROBABILITIES, fixed=(0.1,))
row("sparsemax_loss", LOGITS, fixed=(ONE_HOT,))
row("triplet_margin_loss", LOGITS, OTHERS, PROBABILITIES)
row("ntxent", LOGITS, fixed=(np.array([0, 1, 0, 1]),), temperature=0.5)
row("ctc_loss", np.stack([LOGITS, OTHERS]), fixed=(np.zeros((2, 4)), np.array([[1, 2], [2, 1]]), np.zeros((2, 2))))
row("ctc_loss_with_forward_probs", np.stack([LOGITS, OTHERS]),
    fixed=(np.zeros((2, 4)), np.array([[1, 2], [2, 1]]), np.zeros((2, 2))))  # fmt: skip
row("binary_dice_loss", LOGITS, fixed=(ONE_HOT,))
row("dice_loss", LOGITS, fixed=(ONE_HOT,))
row("multiclass_generalized_dice_loss", LOGITS, fixed=(ONE_HOT,))
ROWS["make_fenchel_young_loss"] = Row(
    lambda scores, targets: optax.losses.make_fenchel_young_loss(jax.nn.logsumexp)(scores[0], targets[0]),
    (LOGITS, PROBABILITIES),
)
ROWS["projection_simplex"] = Row(lambda x: optax.projections.projection_simplex(x) ** 2, (LOGITS[0],))
ROWS["projection_l1_ball"] = Row(lambda x: optax.projections.projection_l1_ball(x) ** 2, (LOGITS[0],))
ROWS["projection_l2_ball"] = Row(lambda x: optax.projections.projection_l2_ball(x) ** 2, (LOGITS[0],))
ROWS["safe_norm"] = Row(lambda x: optax.safe_norm(x, 0.1), (LOGITS,))
ROWS["adam"] = Row(lambda x: optax.adam(0.1).update(x, optax.adam(0.1).init(x))[0], (LOGITS,))
ROWS["implicit differentiation"] = Row(
    lambda x: jax.lax.custom_root(
        lambda y: optax.losses.l2_loss(y - x) + y**3 - x, jnp.ones_like(x),
        lambda f, y: jax.lax.fori_loop(0, 30, lambda _, z: z - f(z) / (z - x + 3 * z * z), y),
        lambda g, y: y / g(jnp.ones_like(y))),
    (np.array([1.5, 2.5]),),
)  # fmt: skip


def test_every_loss_has_a_row():
    public = {name for name in dir(optax.losses) if not name.startswith("_") and callable(getattr(optax.losses, name))}
    assert public - set(ROWS) == set()


@pytest.mark.parametrize("name", ROWS)
def test_a_loss(name: str):
    row = ROWS[name]
    function: Callable[..., Any] = scalar(row.function)
    with jax.enable_x64(True):
        has_tangents = has_forward_mode(function, row)
        expected = in_jax(function, row, has_tangents)
        given = in_jax(hloom.differentiable(function), row, has_tangents)
        for result, wanted in zip(given[:2], expected[:2], strict=True):
            assert_close(name, result, wanted)
        if has_tangents:
            assert_close(name, given[2:], expected[2:])
