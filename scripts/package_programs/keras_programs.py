"""Models and operations of Keras on jax."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

os.environ["KERAS_BACKEND"] = "jax"

import jax
import jax.numpy as jnp
import keras  # pyright: ignore[reportMissingImports]
from keras import layers, ops  # pyright: ignore[reportMissingImports]

from .jax_calls import floats, integers, texts
from .registry import Call, Program, register

__all__ = ["PROGRAMS", "texts"]

PROGRAMS: dict[str, Program] = {}
program = partial(register, PROGRAMS)


def _specs(variables: Any) -> list[Any]:
    return [jax.ShapeDtypeStruct(variable.shape, variable.dtype) for variable in variables]


def _inference(model: Any, *inputs: Any) -> Call:
    def apply(trained: Any, rest: Any, *inputs: Any) -> Any:
        return model.stateless_call(trained, rest, inputs[0] if len(inputs) == 1 else list(inputs))[0]

    return apply, (_specs(model.trainable_variables), _specs(model.non_trainable_variables), *inputs)


def _trained(model: Any, optimizer: Any, inputs: Any, targets: Any) -> Call:
    optimizer.build(model.trainable_variables)

    def step(trained: Any, rest: Any, state: Any, inputs: Any, targets: Any) -> Any:
        def loss(trained: Any) -> Any:
            outputs, changed = model.stateless_call(trained, rest, inputs, training=True)
            return jnp.mean(keras.losses.mean_squared_error(targets, outputs)), changed

        (value, changed), gradients = jax.value_and_grad(loss, has_aux=True)(trained)
        return value, changed, optimizer.stateless_apply(state, gradients, trained)

    variables = model.trainable_variables, model.non_trainable_variables, optimizer.variables
    return step, (*map(_specs, variables), inputs, targets)


@program
def convolutional_lstm() -> Call:
    model = keras.Sequential([keras.Input((3, 6, 6, 2)), layers.ConvLSTM2D(3, 3), layers.GroupNormalization(3)])
    return _trained(model, keras.optimizers.Adam(1e-3), floats(2, 3, 6, 6, 2), floats(2, 4, 4, 3))


@program
def gru_masked() -> Call:
    model = keras.Sequential(
        [keras.Input((6,), dtype="int32"), layers.Embedding(9, 4, mask_zero=True), layers.GRU(5), layers.Dense(2)]
    )
    return _trained(model, keras.optimizers.Nadam(1e-3), integers(2, 6), floats(2, 2))


@program
def volumes() -> Call:
    model = keras.Sequential(
        [
            keras.Input((6, 6, 6, 1)),
            layers.Conv3D(2, 3),
            layers.PReLU(),
            layers.MaxPooling3D(2),
            layers.UpSampling3D(2),
            layers.Cropping3D(1),
        ]
    )
    return _trained(model, keras.optimizers.Lamb(1e-3), floats(1, 6, 6, 6, 1), floats(1, 2, 2, 2, 2))


@program
def mobilenet_v3() -> Call:
    model = keras.applications.MobileNetV3Small((32, 32, 3), alpha=0.35, weights=None, classes=3, minimalistic=True)
    return _inference(model, floats(1, 32, 32, 3))


@program
def densenet_block() -> Call:
    image = keras.Input((8, 8, 4))
    hidden = image
    for _ in range(3):
        new = layers.Conv2D(4, 3, padding="same", kernel_regularizer="l2")(layers.Activation("selu")(hidden))
        hidden = layers.Concatenate()([hidden, layers.SpatialDropout2D(0.2, seed=1)(new)])
    model = keras.Model(image, layers.GlobalMaxPooling2D()(layers.DepthwiseConv2D(3, depth_multiplier=2)(hidden)))
    return _trained(model, keras.optimizers.Adadelta(1e-2), floats(2, 8, 8, 4), floats(2, 32))


@program
def grouped_query_attention() -> Call:
    query, value = keras.Input((5, 8)), keras.Input((7, 8))
    attended = layers.GroupQueryAttention(4, 4, 2)(query, value)
    model = keras.Model([query, value], layers.EinsumDense("abc,cd->abd", (None, 6), bias_axes="d")(attended))
    return _inference(model, floats(2, 5, 8), floats(2, 7, 8))


@program
def random_preprocessing() -> Call:
    steps = [
        layers.Rescaling(1 / 255),
        layers.CenterCrop(6, 6),
        layers.Normalization(mean=0.4, variance=0.2),
        layers.Discretization([0.0, 0.5]),
    ]
    model = keras.Sequential([keras.Input((8, 8, 3)), *steps])
    return _inference(model, floats(2, 8, 8, 3))


@program
def operations() -> Call:
    def apply(x: Any, labels: Any) -> Any:
        return (
            ops.segment_max(x, labels, num_segments=4), ops.extract_sequences(x, 4, 2), ops.in_top_k(labels, x, 2),
            ops.image.extract_patches(x[None, :, :, None], (2, 2), padding="same"), ops.moveaxis(ops.tril(x), 0, 1),
            ops.linalg.lu_factor(x[:, :6]), ops.ctc_decode(x[None], jnp.array([6]))[1],
            ops.one_hot(labels, 5), ops.top_k(x, 3), ops.histogram(x[0], 5), ops.fft((x, x)),
            ops.image.gaussian_blur(x[None, :, :, None]),
        )  # fmt: skip

    return apply, (floats(6, 8), integers(6))


@program
def map_coordinates_gradient() -> Call:
    def loss(image: Any, coordinates: Any) -> Any:
        return ops.sum(ops.image.map_coordinates(image, coordinates, 1, "mirror") ** 2)

    return jax.value_and_grad(loss, (0, 1)), (floats(6, 6), floats(2, 9))
