"""Wanda's scores, against the norms of inputs that jax computes. Covers `scores.py`, `weight_matrix.py`, `masks.py`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hloom
from hloom.compress.pruning.masks import model_masks, weight_mask
from hloom.compress.pruning.pattern import BlockPattern
from hloom.text import HloomError
from tests.compress.quantization.programs import lowered, normal


def test_wanda_of_a_dot():
    """Of what one output sums up, the lowest |w| * ||x|| go."""
    module, arrays = lowered("mlp")
    up, x = arrays[2], arrays[3]
    assert up.shape == (12, 20)
    made = hloom.prune(module, arrays, 0.5, method="wanda", calibration=[arrays, [*arrays[:3], 2 * x]])
    weight = next(weight for weight in made.weights if weight.type.dims == (12, 20))
    scores = np.abs(up) * np.sqrt(5 * np.square(x).sum(0))[:, None]
    expected = scores > np.sort(scores, axis=0)[5]
    assert (weight.mask == expected).all() and (weight.mask.sum(0) == 6).all()


def test_wanda_in_a_loop():
    """Every layer of a stack has the norms of its own inputs."""

    def layers(params, x):
        return jax.lax.scan(lambda h, w: (jnp.tanh(h @ w), h), x, params["w"])

    params, x = {"w": normal(3, 8, 8)}, normal(5, 8)
    module = hloom.load(jax.jit(layers).lower(params, x))
    made = hloom.prune(module, [params["w"], x], 0.25, method="wanda", calibration=[[params["w"], x]])
    inputs = np.asarray(layers(params, x)[1])
    scores = np.abs(params["w"]) * np.linalg.norm(inputs, axis=1)[:, :, None]
    assert (made.weights[0].mask == (scores > np.sort(scores, axis=1)[:, 1:2])).all()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"window_strides": (2, 1), "padding": ((1, 2), (0, 1))},
        {"padding": ((0, -1), (1, 0))},
        {"padding": ((0, 1), (1, 0)), "lhs_dilation": (2, 1), "rhs_dilation": (1, 2)},
        {"feature_group_count": 2},
    ],
    ids=str,
)
def test_norms_of_a_convolution(options: dict):
    """The norm of what an element of a kernel is multiplied with, by one-hot kernels."""
    groups = options.get("feature_group_count", 1)
    x, kernel = normal(2, 6, 7, 4), normal(3, 2, 4 // groups, 6)
    given = {"window_strides": (1, 1), "padding": "VALID", "dimension_numbers": ("NHWC", "HWIO", "NHWC"), **options}

    def convolve(params, x):
        return jax.lax.conv_general_dilated(x, params["k"], **given)

    module = hloom.load(jax.jit(convolve).lower({"k": kernel}, x))
    made = hloom.prune(
        module, [kernel, x], 0.5, method="wanda", calibration=[[kernel, x]], only=["params.k"], pattern=None
    )
    norms = np.zeros(kernel.shape)
    for position in np.ndindex(kernel.shape):
        one = np.zeros_like(kernel)
        one[position] = 1
        norms[position] = np.linalg.norm(np.asarray(convolve({"k": one}, x)))
    scores = (np.abs(kernel) * norms).reshape(-1, 6)
    limit = np.sort(scores, axis=0)[round(0.5 * len(scores)) - 1]
    assert (made.weights[0].mask.reshape(-1, 6) == (scores > limit)).all()


def test_activations_that_are_not_finite():
    module, arrays = lowered("mlp")
    broken = [*arrays[:3], np.full_like(arrays[3], np.nan)]
    with pytest.raises(HloomError, match="is NaN or infinite on the inputs of the calibration"):
        hloom.prune(module, arrays, method="wanda", calibration=[broken])


def test_tables_have_no_inputs():
    """Of a table that a dot reads too, the dot's inputs count."""
    module, arrays = lowered("language model")
    made = hloom.prune(module, arrays, 0.5, method="wanda", calibration=[arrays], opcodes=["dot", "gather"])
    assert len(made.weights) == 7


def test_blocks_of_zeros():
    assert weight_mask(np.zeros((1, 0, 3)), 0.5, BlockPattern(2, 2)).shape == (1, 0, 3)
    masks = model_masks([np.ones((1, 4, 4)), 2 * np.ones((1, 3, 2))], 0.5, BlockPattern(2, 2))
    assert [int(mask.sum()) for mask in masks] == [4, 6]
