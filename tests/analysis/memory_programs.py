"""Programs whose memory is measured: each holds a megabyte or more, and each leans on other rules of sharing.

Imports jax, so it runs in a process of its own; see `memory_corpus`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

Array = jax.Array


@dataclass(frozen=True, slots=True)
class Program:
    """A function, the shapes it is lowered with, and which arguments it is given for good."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    donated: tuple[int, ...] = field(default=())


PROGRAMS: dict[str, Program] = {}


def program(*arguments: Any, donated: tuple[int, ...] = (), name: str = "") -> Callable[[Callable], Callable]:
    """Declare the program of this name: the function's own, unless another is given."""

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS[name or function.__name__] = Program(function, arguments, donated)
        return function

    return declare


def f32(*dims: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(dims, jnp.float32)


def bf16(*dims: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(dims, jnp.bfloat16)


def s32(*dims: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(dims, jnp.int32)


def pred(*dims: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(dims, jnp.bool_)


def descend(parameters: Any, gradients: Any) -> Any:
    return jax.tree.map(lambda parameter, gradient: parameter - 0.1 * gradient, parameters, gradients)


# Training steps


def perceptron(weights, x):
    for weight in weights:
        x = jnp.tanh(x @ weight)
    return jnp.sum(x**2)


PERCEPTRON = [f32(512, 1024), f32(1024, 512), f32(512, 256)]


@program(PERCEPTRON, f32(256, 512))
def mlp_forward(weights, x):
    return perceptron(weights, x)


@program(PERCEPTRON, f32(256, 512), name="mlp_step")
@program(PERCEPTRON, f32(256, 512), donated=(0,), name="mlp_step_donated")
def mlp_step(weights, x):
    return descend(weights, jax.grad(perceptron)(weights, x))


@program([bf16(512, 1024), bf16(1024, 512)], bf16(256, 512), donated=(0,))
def mlp_step_bf16(weights, x):
    return descend(weights, jax.grad(perceptron)(weights, x))


@program((PERCEPTRON, PERCEPTRON, PERCEPTRON), f32(256, 512), name="mlp_adam")
@program((PERCEPTRON, PERCEPTRON, PERCEPTRON), f32(256, 512), donated=(0,), name="mlp_adam_donated")
def mlp_adam(state, x):
    weights, first, second = state
    gradients = jax.grad(perceptron)(weights, x)
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradients)
    weights = jax.tree.map(lambda w, m, v: w - 0.01 * m / (jnp.sqrt(v) + 1e-8), weights, first, second)
    return weights, first, second


def layer_norm(x, scale):
    return (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-6) * scale


def attend(x, layer, heads=4):
    batch, length, width = x.shape
    query, key, value = jnp.split((x @ layer["qkv"]).reshape(batch, length, heads, -1), 3, axis=-1)
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) / jnp.sqrt(width / heads)
    scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), value)
    return mixed.reshape(batch, length, width) @ layer["out"]


def block(x, layer):
    x = x + attend(layer_norm(x, layer["norm"]), layer)
    return x + jax.nn.gelu(layer_norm(x, layer["norm"]) @ layer["up"]) @ layer["down"]


def layer_shapes(*leading: int, dtype: Any = jnp.float32, width: int = 128) -> dict[str, jax.ShapeDtypeStruct]:
    dims = {
        "norm": (width,), "qkv": (width, 3 * width), "out": (width, width), "up": (width, 4 * width),
        "down": (4 * width, width),
    }  # fmt: skip
    return {name: jax.ShapeDtypeStruct((*leading, *shape), dtype) for name, shape in dims.items()}


def token_loss(table, x, tokens):
    picked = jnp.take_along_axis(jax.nn.log_softmax(x @ table.T), tokens[..., None], -1)
    return -jnp.mean(picked)


def transformer_loss(table, layers, tokens):
    x = table[tokens]
    for layer in layers:
        x = block(x, layer)
    return token_loss(table, x, tokens)


@program(f32(1000, 128), [layer_shapes()] * 2, s32(4, 64))
def transformer_forward(table, layers, tokens):
    return transformer_loss(table, layers, tokens)


@program(f32(1000, 128), [layer_shapes()] * 2, s32(4, 64), name="transformer_step")
@program(f32(1000, 128), [layer_shapes()] * 2, s32(4, 64), donated=(0, 1), name="transformer_step_donated")
@program(f32(1000, 128), [layer_shapes()] * 4, s32(4, 64), donated=(0, 1), name="transformer_four_layers")
def transformer_step(table, layers, tokens):
    return descend((table, layers), jax.grad(transformer_loss, (0, 1))(table, layers, tokens))


def scanned_loss(table, layers, tokens, wrap=lambda function: function):
    step = wrap(lambda x, layer: (block(x, layer).astype(x.dtype), None))
    return token_loss(table, lax.scan(step, table[tokens], layers)[0], tokens)


@program(f32(1000, 128), layer_shapes(4), s32(4, 64), name="transformer_scan")
@program(f32(1000, 128), layer_shapes(4), s32(4, 64), donated=(0, 1), name="transformer_scan_donated")
def transformer_scan(table, layers, tokens):
    return descend((table, layers), jax.grad(scanned_loss, (0, 1))(table, layers, tokens))


@program(f32(1000, 128), layer_shapes(4), s32(4, 64), donated=(0, 1))
def transformer_scan_remat(table, layers, tokens):
    def loss(table, layers):
        return scanned_loss(table, layers, tokens, jax.checkpoint)

    return descend((table, layers), jax.grad(loss, (0, 1))(table, layers))


@program(bf16(1000, 128), layer_shapes(4, dtype=jnp.bfloat16), s32(4, 64))
def transformer_scan_remat_bf16(table, layers, tokens):
    return jax.grad(lambda t, ls: scanned_loss(t, ls, tokens, jax.checkpoint), (0, 1))(table, layers)


@program(f32(4, 256, 64), f32(4, 256, 64), f32(4, 256, 64))
def attention(query, key, value):
    weights = jax.nn.softmax(jnp.einsum("bqd,bkd->bqk", query, key))
    return jnp.einsum("bqk,bkd->bqd", weights, value)


@program(f32(4, 256, 64), f32(4, 256, 64), f32(4, 256, 64))
def attention_gradient(query, key, value):
    def loss(query, key, value):
        weights = jax.nn.softmax(jnp.einsum("bqd,bkd->bqk", query, key))
        return jnp.sum(jnp.einsum("bqk,bkd->bqd", weights, value) ** 2)

    return jax.grad(loss, (0, 1, 2))(query, key, value)


@program(f32(4, 8, 512, 32), f32(4, 8, 512, 32), f32(4, 1, 32), f32(4, 1, 32), s32(), donated=(0, 1))
def decode_with_cache(keys, values, key, value, position):
    heads = jnp.broadcast_to(key[:, None], (4, 8, 1, 32))
    keys = lax.dynamic_update_slice(keys, heads, (0, 0, position, 0))
    values = lax.dynamic_update_slice(values, jnp.broadcast_to(value[:, None], (4, 8, 1, 32)), (0, 0, position, 0))
    weights = jax.nn.softmax(jnp.einsum("bhkd,bhd->bhk", keys, heads[:, :, 0]))
    return keys, values, jnp.einsum("bhk,bhkd->bhd", weights, values)


def convolve(x, kernel):
    return lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def convolutional_loss(kernels, x):
    for kernel in kernels:
        x = jax.nn.relu(convolve(x, kernel))
    return jnp.mean(x**2)


KERNELS = [f32(3, 3, 8, 32), f32(3, 3, 32, 32), f32(3, 3, 32, 16)]


@program(KERNELS, f32(4, 32, 32, 8))
def convolution_forward(kernels, x):
    return convolutional_loss(kernels, x)


@program(KERNELS, f32(4, 32, 32, 8), name="convolution_step")
@program(KERNELS, f32(4, 32, 32, 8), donated=(0,), name="convolution_step_donated")
def convolution_step(kernels, x):
    return descend(kernels, jax.grad(convolutional_loss)(kernels, x))


@program(f32(8, 64, 64, 16), f32(3, 3, 16, 32))
def convolution_pooled(x, kernel):
    x = jax.nn.relu(convolve(x, kernel))
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


@program(f32(8, 64, 64, 16))
def pooling_gradient(x):
    return jax.grad(lambda x: jnp.sum(lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")))(x)


@program(f32(8, 64, 64, 16), f32(16), f32(16))
def batch_norm(x, scale, offset):
    mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
    return (x - mean) * lax.rsqrt(variance + 1e-5) * scale + offset


def lstm_cell(weights, carry, x):
    hidden, cell = carry
    gates = jnp.concatenate([x, hidden], -1) @ weights
    i, f, g, o = jnp.split(gates, 4, -1)
    cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
    hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
    return (hidden, cell), hidden


def lstm_loss(weights, x):
    start = jnp.zeros((x.shape[1], 128))
    _, outputs = lax.scan(lambda carry, element: lstm_cell(weights, carry, element), (start, start), x)
    return jnp.mean(outputs**2)


@program(f32(256, 512), f32(32, 32, 128))
def lstm_forward(weights, x):
    return lstm_loss(weights, x)


@program(f32(256, 512), f32(32, 32, 128), name="lstm_step")
@program(f32(256, 512), f32(32, 32, 128), donated=(0,), name="lstm_step_donated")
def lstm_step(weights, x):
    return weights - 0.1 * jax.grad(lstm_loss)(weights, x)


# Loops and branches


@program(f32(512, 512), f32(512, 512), name="while_large_carry")
@program(f32(512, 512), f32(512, 512), donated=(0,), name="while_large_carry_donated")
def while_large_carry(x, w):
    return lax.fori_loop(0, 10, lambda i, x: jnp.tanh(x @ w), x)


@program(f32(512, 512), f32(512, 512), f32(512, 512))
def while_swaps(x, y, z):
    return lax.fori_loop(0, 7, lambda i, state: (state[1], state[2], state[0] + 1.0), (x, y, z))


@program(f32(512, 512), f32(512, 512), f32())
def while_unknown_length(x, y, limit):
    def body(state):
        x, y = state
        return x * 0.5 + y, y

    return lax.while_loop(lambda state: jnp.sum(state[0]) > limit, body, (x, y))[0]


@program(f32(64, 256), f32(256, 256))
def scan_stacks_outputs(x, w):
    return lax.scan(lambda carry, _: (jnp.tanh(carry @ w), carry), x, None, length=32)


@program(f32(32, 64, 256), f32(256, 256))
def scan_over_inputs(x, w):
    return lax.scan(lambda carry, element: (carry + element @ w, jnp.sin(carry)), jnp.zeros((64, 256)), x)


@program(f32(64, 128, 128))
def scan_in_scan(x):
    def outer(carry, matrix):
        inner = lax.fori_loop(0, 4, lambda i, a: jnp.sin(a @ matrix), carry)
        return inner, inner.sum(0)

    return lax.scan(outer, jnp.zeros((128, 128)), x)


@program(f32(32, 64, 256), f32(256, 256), name="scan_gradient")
def scan_gradient(x, w):
    def loss(w):
        carry, _ = lax.scan(lambda c, element: (jnp.tanh(c @ w + element), None), jnp.zeros((64, 256)), x)
        return carry.sum()

    return jax.grad(loss)(w)


@program(f32(32, 64, 256), f32(256, 256))
def scan_gradient_remat(x, w):
    def loss(w):
        step = jax.checkpoint(lambda c, element: (jnp.tanh(jnp.tanh(c @ w) @ w + element), None))
        carry, _ = lax.scan(step, jnp.zeros((64, 256)), x)
        return carry.sum()

    return jax.grad(loss)(w)


@program(pred(), f32(512, 512), f32(512, 512))
def conditional(which, x, y):
    return lax.cond(which, lambda a, b: a @ b, lambda a, b: jnp.sin(a) + b, x, y)


@program(s32(), f32(512, 512))
def switch(which, x):
    branches = [lambda a: a @ a, lambda a: jnp.sort(a), lambda a: jnp.sin(a @ a.T) @ a]
    return lax.switch(which, branches, x) * 2.0


@program(f32(512, 512), s32(8))
def conditional_in_scan(x, which):
    def step(carry, element):
        return lax.cond(element > 0, lambda a: jnp.tanh(a @ a), lambda a: a * 2.0, carry), None

    return lax.scan(step, x, which)[0]


@program(f32(16, 128, 128), donated=(0,))
def updates_in_place(x):
    def body(i, x):
        return lax.dynamic_update_slice(x, (lax.dynamic_slice(x, (i, 0, 0), (1, 128, 128)) * 2.0), (i, 0, 0))

    return lax.fori_loop(0, 16, body, x)


# Data movement


@program(f32(4096, 128), s32(2048))
def gather(table, indices):
    return table[indices] * 2.0


@program(f32(4096, 128), s32(2048), f32(2048, 128), name="scatter_add")
@program(f32(4096, 128), s32(2048), f32(2048, 128), donated=(0,), name="scatter_add_donated")
def scatter_add(table, indices, updates):
    return table.at[indices].add(updates)


@program(f32(4096, 128), s32(2048), f32(2048, 128))
def embedding_gradient(table, indices, target):
    return jax.grad(lambda t: jnp.sum((t[indices] - target) ** 2))(table)


@program(f32(1024, 1024), f32(64, 64))
def update_slice(x, y):
    return lax.dynamic_update_slice(x, y, (3, 5)) + 1.0


@program(f32(1024, 1024), f32(64, 64), donated=(0,))
def update_slice_donated(x, y):
    return lax.dynamic_update_slice(x, jnp.sin(y), (3, 5))


@program(f32(512, 1024), f32(512, 1024), f32(256, 1024))
def concatenate(x, y, z):
    return jnp.concatenate([jnp.sin(x), y * 2.0, z @ z.T @ z], 0)


@program(f32(1024, 512))
def transpose_and_add(x):
    return x.T @ x + (x[:512] + x[:512].T)


@program(f32(512, 512))
def pad_and_roll(x):
    return jnp.roll(jnp.pad(x, 64), 3, 0)[::-1] @ jnp.ones((640, 640))


@program(f32(1024, 512))
def slices_and_stack(x):
    return jnp.stack([x[i * 256 : (i + 1) * 256] @ x[:512].T for i in range(4)])


@program(f32(512, 1024), name="broadcast_outer")
def broadcast_outer(x):
    return jnp.tanh(x[:, :256, None] * x[:, None, :8]).sum(0)


# Sorting, transforms, linear algebra


@program(f32(1024, 512))
def sort(x):
    return jnp.sort(x, axis=0) + 1.0


@program(f32(512, 512), f32(512, 512))
def sort_with_values(keys, values):
    return lax.sort((keys, values), dimension=1, num_keys=1)


@program(f32(512, 1024))
def argsort_and_take(x):
    return jnp.take_along_axis(x, jnp.argsort(x, 1), 1)


@program(f32(512, 1024))
def top_k(x):
    return lax.top_k(jnp.sin(x), 64)


@program(f32(512, 512))
def fft(x):
    return jnp.fft.ifft(jnp.fft.fft(x) * 2.0).real


@program(f32(64, 64, 64))
def rfft(x):
    return jnp.abs(jnp.fft.rfftn(x))


@program(f32(512, 512))
def cholesky(x):
    return jnp.linalg.cholesky(x @ x.T + jnp.eye(512))


@program(f32(512, 512), f32(512, 256))
def solve(a, b):
    return jnp.linalg.solve(a, b)


@program(f32(384, 384))
def eigenvalues(x):
    return jnp.linalg.eigh(x + x.T)


@program(f32(512, 256))
def decompose(x):
    return jnp.linalg.svd(x, full_matrices=False)


@program(f32(512, 512))
def qr(x):
    return jnp.linalg.qr(x)


@program(f32(512, 512), f32(512, 512))
def triangular_solve(a, b):
    return jax.scipy.linalg.solve_triangular(a, b, lower=True)


# Reductions and elementwise chains


@program(f32(1024, 1024))
def softmax(x):
    return jax.nn.softmax(x)


@program(f32(1024, 1024))
def normalise(x):
    return (x - x.mean(1, keepdims=True)) / jnp.std(x, 1, keepdims=True)


@program(f32(1024, 1024), f32(1024, 1024))
def elementwise_chain(x, y):
    for _ in range(10):
        x = jnp.sin(x) * y + jnp.cos(x)
    return x


@program(f32(1024, 512), f32(512, 1024), f32(1024, 512))
def matrix_chain(a, b, c):
    return ((a @ b) @ c) @ (b @ a)


@program(f32(1024, 1024))
def many_outputs(x):
    return [jnp.sin(x), jnp.cos(x) @ x, x.sum(0), x.sum(1), x.T]


@program(f32(1024, 1024))
def cumulative(x):
    return jnp.cumsum(x, 0), jnp.cumsum(jnp.sin(x), 1)[-1]


@program(f32(256, 256), f32(256, 256))
def matrix_power(x, y):
    return jnp.linalg.matrix_power(x, 13) @ y


@program(f32(512, 64), f32(512, 64))
def pairwise_distances(x, y):
    return jnp.sqrt(jnp.sum((x[:, None] - y[None]) ** 2, -1))


@program(jax.ShapeDtypeStruct((2,), jnp.uint32))
def random_normal(key):
    return jax.random.normal(jax.random.wrap_key_data(key), (1024, 512)) + 1.0


@program(jax.ShapeDtypeStruct((2,), jnp.uint32), f32(1024, 512))
def dropout(key, x):
    keep = jax.random.bernoulli(jax.random.wrap_key_data(key), 0.9, x.shape)
    return jnp.where(keep, x / 0.9, 0.0)


@program(f32(256, 128), f32(64, 256))
def hessian_product(w, x):
    def loss(w):
        return jnp.sum(jnp.tanh(x @ w) ** 2)

    return jax.jvp(jax.grad(loss), (w,), (w,))[1], jax.vmap(jax.grad(lambda w, e: jnp.sum(jnp.tanh(e @ w))), (None, 0))(
        w, x
    )


@program(f32(64, 64, 64), f32(64, 64, 64))
def batched_products(a, b):
    return jnp.einsum("bij,bjk,bkl->bil", a, b, a), jnp.einsum("bij,bij->b", a, b)


@program(f32(512, 512), jax.ShapeDtypeStruct((512, 512), jnp.int8))
def quantised(x, w):
    scaled = jnp.round(x * 127).astype(jnp.int8)
    return lax.dot(scaled, w, preferred_element_type=jnp.int32).astype(jnp.float32) / 127
