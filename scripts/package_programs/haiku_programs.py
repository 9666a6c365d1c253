"""Models of haiku: a step of training each, with state where the model has any."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import haiku as hk  # pyright: ignore[reportMissingImports]
import jax
import jax.numpy as jnp

from .jax_calls import floats, integers, key, texts
from .registry import Call, Program, register

__all__ = ["PROGRAMS", "texts"]

PROGRAMS: dict[str, Program] = {}
program = partial(register, PROGRAMS)


def _gradient_step(network: Callable[..., Any], *inputs: Any) -> Call:
    """Gradients of the squares of what a network yields, and its new state."""
    model = hk.transform_with_state(network)
    weights, state = jax.eval_shape(lambda *inputs: model.init(key(), *inputs), *inputs)

    def step(weights: Any, state: Any, *inputs: Any) -> Any:
        def loss(weights: Any) -> Any:
            outputs, changed = model.apply(weights, state, key(), *inputs)
            return sum(jnp.mean(output**2) for output in jax.tree.leaves(outputs)), changed

        (value, changed), gradients = jax.value_and_grad(loss, has_aux=True)(weights)
        return jax.tree.map(lambda weight, gradient: weight - 0.1 * gradient, weights, gradients), changed, value

    return step, (weights, state, *inputs)


@program
def resnet_blocks() -> Call:
    def network(images: Any) -> Any:
        return hk.nets.ResNet(
            (1, 1, 1, 1), 5, bottleneck=False, channels_per_group=(4, 4, 8, 8), use_projection=(True, True, True, True)
        )(images, is_training=True)

    return _gradient_step(network, floats(2, 16, 16, 3))


@program
def mobilenet() -> Call:
    def network(images: Any) -> Any:
        model = hk.nets.MobileNetV1((1, 2), (8, 8), num_classes=4)
        return model(images, is_training=True)

    return _gradient_step(network, floats(2, 8, 8, 3))


@program
def vector_quantizer() -> Call:
    def network(inputs: Any) -> Any:
        encoded = hk.Conv2D(4, 3, 2)(inputs)
        quantizer = hk.nets.VectorQuantizerEMA(4, 8, commitment_cost=0.25, decay=0.99)
        result = quantizer(encoded, is_training=True)
        return hk.Conv2DTranspose(3, 3, 2)(result["quantize"]), result["loss"]

    return _gradient_step(network, floats(2, 8, 8, 3))


@program
def gru_with_resets() -> Call:
    def network(inputs: Any, resets: Any) -> Any:
        core = hk.ResetCore(hk.GRU(6))
        return hk.dynamic_unroll(core, (inputs, resets > 0), core.initial_state(2))[0]

    return _gradient_step(network, floats(5, 2, 3), integers(5, 2))


@program
def deep_rnn() -> Call:
    def network(inputs: Any) -> Any:
        core = hk.deep_rnn_with_skip_connections([hk.VanillaRNN(4), hk.LSTM(4)])
        return hk.static_unroll(core, inputs, core.initial_state(2))[0]

    return _gradient_step(network, floats(3, 2, 3))


@program
def attention_with_layer_stack() -> Call:
    def network(tokens: Any) -> Any:
        hidden = hk.Embed(13, 8)(tokens)

        def layer(hidden: Any) -> Any:
            attended = hk.MultiHeadAttention(2, 4, w_init=hk.initializers.VarianceScaling())(*[hidden] * 3)
            return hk.RMSNorm(-1)(hidden + hk.dropout(hk.next_rng_key(), 0.1, attended))

        return hk.experimental.layer_stack(3)(layer)(hidden)

    return _gradient_step(network, integers(2, 6))


@program
def bias_and_moments() -> Call:
    def network(inputs: Any) -> Any:
        hidden = hk.GroupNorm(2)(hk.Conv1D(4, 3, padding="VALID", with_bias=False)(inputs))
        hidden = hk.Bias(bias_dims=[-1])(hidden) + hk.ExponentialMovingAverage(0.9)(hidden.mean())
        return hk.max_pool(hidden, (1, 2, 1), (1, 1, 1), "SAME") - hk.InstanceNorm(True, True)(hidden)

    return _gradient_step(network, floats(2, 9, 3))
