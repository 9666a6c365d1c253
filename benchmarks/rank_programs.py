"""The child of `benchmarks.ranks`: diverse programs that JAX lowers, as JSON of HLO texts by name."""

import json
import sys

import jax
import jax.numpy as jnp


def array(*dims, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(dims, dtype)


def attention(q, k, v):
    scores = jax.nn.softmax(jnp.einsum("bhqd,bhkd->bhqk", q, k) / 8, axis=-1)
    return jnp.einsum("bhqk,bhkd->bhqd", scores, v)


def loss(weights, x, y):
    for weight in weights[:-1]:
        x = jnp.tanh(x @ weight)
    return jnp.mean((x @ weights[-1] - y) ** 2)


def train(weights, x, y):
    return [weight - 0.1 * gradient for weight, gradient in zip(weights, jax.grad(loss)(weights, x, y), strict=True)]


def chain(x, y):
    for _ in range(20):
        x = x * y + 0.5
    return x


def norm(x, scale):
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5) * scale


def recurrent(weight, xs):
    def step(state, x):
        return jnp.tanh(state @ weight + x), None

    return jax.lax.scan(step, xs[0], xs)[0]


def powers(a, v):
    return jax.lax.fori_loop(0, 200, lambda _, u: (a @ u) / 100.0, v)


def convolve(x, w):
    return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def pool(x):
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def block(x, mix, up, down, scale):
    h = norm(x, scale)
    q, k, v = jnp.split(h @ mix, 3, axis=-1)
    q, k, v = (part.reshape(part.shape[0], part.shape[1], 4, -1).swapaxes(1, 2) for part in (q, k, v))
    x = x + attention(q, k, v).swapaxes(1, 2).reshape(x.shape)
    return x + jax.nn.gelu(norm(x, scale) @ up) @ down


def cross_entropy(logits, labels):
    logged = jax.nn.log_softmax(logits)
    return -jnp.take_along_axis(logged, labels[:, None], axis=1).mean()


PROGRAMS = {
    "matmul 96": (jnp.dot, array(96, 96), array(96, 96)),
    "matmul 384": (jnp.dot, array(384, 384), array(384, 384)),
    "matmul 768": (jnp.dot, array(768, 768), array(768, 768)),
    "matmul 1536": (jnp.dot, array(1536, 1536), array(1536, 1536)),
    "matmul bf16 640": (jnp.dot, array(640, 640, dtype=jnp.bfloat16), array(640, 640, dtype=jnp.bfloat16)),
    "matmul tall": (jnp.dot, array(8192, 64), array(64, 512)),
    "matrix times vector": (jnp.dot, array(3000, 3000), array(3000)),
    "batched matmul": (jnp.matmul, array(48, 160, 96), array(48, 96, 160)),
    "attention": (attention, array(2, 8, 256, 64), array(2, 8, 256, 64), array(2, 8, 256, 64)),
    "attention, long": (attention, array(1, 8, 1024, 64), array(1, 8, 1024, 64), array(1, 8, 1024, 64)),
    "convolution 3x3": (convolve, array(4, 56, 56, 64), array(3, 3, 64, 64)),
    "convolution 1x1": (convolve, array(8, 28, 28, 128), array(1, 1, 128, 256)),
    "convolution 7x7": (convolve, array(2, 112, 112, 3), array(7, 7, 3, 64)),
    "perceptron's training step": (
        train,
        [array(512, 1024), array(1024, 1024), array(1024, 64)],
        array(256, 512),
        array(256, 64),
    ),
    "small training step": (train, [array(64, 128), array(128, 16)], array(64, 64), array(64, 16)),
    "transformer block": (block, array(4, 128, 256), array(256, 768), array(256, 1024), array(1024, 256), array(256)),
    "gradient of a transformer block": (
        jax.grad(lambda *a: block(*a).sum(), argnums=(0, 1, 2, 3)),
        *(array(4, 128, 256), array(256, 768), array(256, 1024), array(1024, 256), array(256)),
    ),
    "elementwise chain": (chain, array(1 << 20), array(1 << 20)),
    "elementwise chain, small": (chain, array(1 << 15), array(1 << 15)),
    "add, large": (jnp.add, array(1 << 24), array(1 << 24)),
    "add, small": (jnp.add, array(1 << 10), array(1 << 10)),
    "exponential": (jnp.exp, array(1 << 21)),
    "sine": (jnp.sin, array(1 << 20)),
    "power": (jnp.power, array(1 << 19), array(1 << 19)),
    "gelu": (jax.nn.gelu, array(1 << 20)),
    "softmax": (jax.nn.softmax, array(2048, 1024)),
    "layer norm": (norm, array(4096, 512), array(512)),
    "sum of rows": (lambda x: x.sum(1), array(4096, 2048)),
    "sum of columns": (lambda x: x.sum(0), array(4096, 2048)),
    "greatest of all": (jnp.max, array(1 << 22)),
    "sort": (jnp.sort, array(1 << 17)),
    "sort rows": (lambda x: jnp.sort(x, axis=1), array(512, 512)),
    "argsort": (jnp.argsort, array(1 << 15)),
    "running sum": (lambda x: jnp.cumsum(x, axis=1), array(512, 1024)),
    "recurrent network": (recurrent, array(128, 128), array(200, 32, 128)),
    "power iteration": (powers, array(256, 256), array(256)),
    "fourier transform": (jnp.fft.fft, array(512, 2048, dtype=jnp.complex64)),
    "fourier transform, 2-D": (jnp.fft.fft2, array(512, 512, dtype=jnp.complex64)),
    "embedding": (lambda table, places: table[places], array(32000, 128), array(8192, dtype=jnp.int32)),
    "scatter add": (
        lambda table, places, rows: table.at[places].add(rows),
        *(array(8192, 128), array(4096, dtype=jnp.int32), array(4096, 128)),
    ),
    "transpose": (lambda x: x.T + 0, array(2048, 2048)),
    "max pooling": (pool, array(8, 112, 112, 32)),
    "cross entropy": (cross_entropy, array(512, 8192), array(512, dtype=jnp.int32)),
    "matmul 32": (jnp.dot, array(32, 32), array(32, 32)),
    "matmul 2048": (jnp.dot, array(2048, 2048), array(2048, 2048)),
    "softmax, small": (jax.nn.softmax, array(8, 128)),
    "sort, large": (jnp.sort, array(1 << 20)),
    "cosine, large": (jnp.cos, array(1 << 22)),
    "loop of scalars": (lambda x: jax.lax.fori_loop(0, 50_000, lambda _, y: y * 0.5 + x, x), array()),
    "deep training step": (train, [array(768, 768)] * 12, array(512, 768), array(512, 768)),
    "concatenate": (lambda x, y: jnp.concatenate([x, y], 1), array(2048, 1024), array(2048, 1024)),
}


if __name__ == "__main__":
    texts = {name: jax.jit(function).lower(*shapes).as_text("hlo") for name, (function, *shapes) in PROGRAMS.items()}
    json.dump(texts, sys.stdout)
