"""The models that quantisers are compared on, written once: for JAX, for flax and for ONNX.

A model is a function of its operations and its input. `JaxOperations` computes them; scripts/quantizer_peers.py has
those of flax's layers and of ONNX graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

WIDTH, HIDDEN, HEADS, ROWS, BATCH, CHANNELS, SIZE = 256, 1024, 4, 32, 8, 16, 16
EPSILON = 1e-5
Array = Any
"""A value of the operations: an array of JAX, or the name of one in an ONNX graph."""


class JaxOperations:
    """What models are made of. `dot` and `convolution` take the name of their weight, and are what peers replace."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        self.params = params

    def dot(self, x: Array, name: str) -> Array:
        return jnp.matmul(x, self.params[name])

    def convolution(self, x: Array, name: str, stride: int) -> Array:
        """Of images [batch, channels, height, width] and kernels [out, in, height, width], padded to the same size."""
        return jax.lax.conv_general_dilated(x, self.params[name], (stride, stride), ((1, 1), (1, 1)))

    def scaled(self, x: Array, name: str) -> Array:
        return x * self.params[name]

    def add(self, x: Array, y: Array) -> Array:
        return x + y

    def multiply(self, x: Array, y: Array) -> Array:
        return x * y

    def matmul(self, x: Array, y: Array) -> Array:
        return jnp.matmul(x, y)

    def mean(self, x: Array, axes: tuple[int, ...], *, keepdims: bool = True) -> Array:
        return jnp.mean(x, axes, keepdims=keepdims)

    def relu(self, x: Array) -> Array:
        return jax.nn.relu(x)

    def sigmoid(self, x: Array) -> Array:
        return jax.nn.sigmoid(x)

    def softmax(self, x: Array) -> Array:
        return jax.nn.softmax(x)

    def times(self, x: Array, factor: float) -> Array:
        return x * np.float32(factor)

    def root(self, x: Array) -> Array:
        return jnp.sqrt(x + np.float32(EPSILON))

    def divide(self, x: Array, y: Array) -> Array:
        return x / y

    def reshape(self, x: Array, dims: Sequence[int]) -> Array:
        return jnp.reshape(x, dims)

    def transpose(self, x: Array, order: Sequence[int]) -> Array:
        return jnp.transpose(x, order)


Network = Callable[[Any, Array], Array]


def perceptron(o: JaxOperations, x: Array) -> Array:
    """Two products with a relu between them."""
    return o.dot(o.relu(o.dot(x, "up")), "down")


def normalized(o: JaxOperations, x: Array) -> Array:
    """Of mean zero and variance one."""
    centred = o.add(x, o.times(o.mean(x, (2,)), -1))
    return o.divide(centred, o.root(o.mean(o.multiply(centred, centred), (2,))))


def block(o: JaxOperations, x: Array) -> Array:
    """A transformer block."""
    size = WIDTH // HEADS

    def heads(name: str) -> Array:
        return o.transpose(o.reshape(o.dot(normalized(o, x), name), (BATCH, ROWS, HEADS, size)), (0, 2, 1, 3))

    scores = o.softmax(o.times(o.matmul(heads("q"), o.transpose(heads("k"), (0, 1, 3, 2))), size**-0.5))
    mixed = o.reshape(o.transpose(o.matmul(scores, heads("v")), (0, 2, 1, 3)), (BATCH, ROWS, WIDTH))
    h = o.add(x, o.dot(mixed, "o"))
    return o.add(h, perceptron(o, normalized(o, h)))


def gated(o: JaxOperations, x: Array) -> Array:
    """Two layers with gates (SwiGLU), and norms by the root of the mean square, whose gains differ."""
    for layer in "01":
        h = o.scaled(o.divide(x, o.root(o.mean(o.multiply(x, x), (2,)))), f"gain{layer}")
        gate = o.dot(h, f"gate{layer}")
        h = o.multiply(o.multiply(gate, o.sigmoid(gate)), o.dot(h, f"up{layer}"))
        x = o.add(x, o.dot(h, f"down{layer}"))
    return x


def convolutional(o: JaxOperations, x: Array) -> Array:
    """Three convolutions, the mean over the image, and a product."""
    x = o.relu(o.convolution(x, "first", 1))
    x = o.relu(o.convolution(x, "second", 2))
    x = o.relu(o.convolution(x, "third", 1))
    return o.dot(o.mean(x, (2, 3), keepdims=False), "head")


@dataclass(frozen=True, slots=True)
class Model:
    """A network, its weights and gains, and its inputs: those to calibrate with, and one more.

    `layers` are the products and `kernels` the convolutions, by the names of their weights.
    """

    network: Network
    params: dict[str, np.ndarray]
    batches: list[np.ndarray]

    @property
    def layers(self) -> list[str]:
        return [name for name, value in self.params.items() if value.ndim > 1]

    @property
    def kernels(self) -> list[str]:
        return [name for name, value in self.params.items() if value.ndim == 4]

    @property
    def exact(self) -> np.ndarray:
        """The outputs of the input that is not calibrated with."""
        return np.asarray(self.network(JaxOperations(self.params), self.batches[-1]))


DRAWS = {"perceptron": 2, "block": 2, "gated": 2, "convolutional": 24}
"""How often weights and inputs are drawn: means over an image leave so much to chance that one draw says nothing."""


def model(name: str, seed: int = 0) -> Model:
    """A model by name, its weights of Student's t with five degrees of freedom."""
    generator = np.random.default_rng([0, seed])

    def draw(*shape: int) -> np.ndarray:
        summed = shape[0] if len(shape) == 2 else shape[1] * shape[2] * shape[3]
        return (generator.standard_t(5, shape) / np.sqrt(summed)).astype(np.float32)

    def gain() -> np.ndarray:
        return np.exp(generator.standard_normal(WIDTH)).astype(np.float32)

    if name == "convolutional":
        kernels = {"first": draw(32, CHANNELS, 3, 3), "second": draw(64, 32, 3, 3), "third": draw(64, 64, 3, 3)}
        images = _batches((BATCH, CHANNELS, SIZE, SIZE), 1, seed)
        return Model(convolutional, {**kernels, "head": draw(64, 32)}, images)
    rows = _batches((BATCH, ROWS, WIDTH), 2, seed)
    if name == "gated":
        params: dict[str, np.ndarray] = {}
        for layer in "01":
            gates = {
                f"gain{layer}": gain(),
                f"gate{layer}": draw(WIDTH, 2 * WIDTH),
                f"up{layer}": draw(WIDTH, 2 * WIDTH),
            }
            params |= {**gates, f"down{layer}": draw(2 * WIDTH, WIDTH)}
        return Model(gated, params, rows)
    ends = {"up": draw(WIDTH, HIDDEN), "down": draw(HIDDEN, WIDTH)}
    if name == "perceptron":
        return Model(perceptron, ends, rows)
    return Model(block, {**{head: draw(WIDTH, WIDTH) for head in "qkvo"}, **ends}, rows)


def _batches(shape: tuple[int, ...], channel: int, seed: int) -> list[np.ndarray]:
    """Eight to calibrate with, and one more; three channels are eight times as large."""
    generator = np.random.default_rng([1, seed])
    scale = np.exp(0.5 * generator.standard_normal(shape[channel]))
    scale[generator.choice(shape[channel], 3, False)] *= 8
    wide = scale.reshape([-1 if dim == channel else 1 for dim in range(len(shape))])
    return [(generator.standard_normal(shape) * wide).astype(np.float32) for _ in range(9)]


def relative(made: Any, exact: np.ndarray) -> float:
    """The norm of the difference over that of the exact values."""
    return float(np.linalg.norm(np.asarray(made) - exact) / np.linalg.norm(exact))
