"""Training and inference steps that are planned for several devices: flax, optax, and jax alone in the style of others.

Their arguments are shapes, of some megabytes up to two gigabytes: they are lowered and compiled, never run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from jax import lax

from .registry import program

HELD_OUT = ("llama_scan_remat_bf16", "bert_bf16_dropout", "unet", "lstm", "decode", "vae")
"""Those that were measured once before anything was changed on their account."""


def shape(*dims: int, dtype: Any = jnp.float32) -> Any:
    return jax.ShapeDtypeStruct(dims, dtype)


def ids(*dims: int) -> Any:
    return shape(*dims, dtype=jnp.int32)


def random_key() -> Any:
    return shape(2, dtype=jnp.uint32)


def cross_entropy(logits: Any, labels: Any) -> Any:
    scores = jax.nn.log_softmax(logits.astype(jnp.float32))
    return -jnp.take_along_axis(scores, labels[..., None], -1).mean()


def trained(loss: Callable[..., Any], weights: Any, *data: Any, optimizer: Any = None) -> Any:
    """A step of an optimizer, which is given the weights and its state for good."""
    optimizer = optimizer or optax.adamw(1e-3)

    def step(weights, state, *data):
        value, gradients = jax.value_and_grad(loss)(weights, *data)
        updates, state = optimizer.update(gradients, state, weights)
        return optax.apply_updates(weights, updates), state, value

    return jax.jit(step, donate_argnums=(0, 1)), (weights, jax.eval_shape(optimizer.init, weights), *data)


def trained_module(model: Any, x: Any, y: Any, optimizer: Any = None, loss: Any = cross_entropy, rate: float = 0) -> Any:
    """The same for a flax module; one with dropout takes random numbers."""
    keys = {"params": jax.random.PRNGKey(0), "dropout": jax.random.PRNGKey(0)}
    weights = jax.eval_shape(lambda: model.init(keys, jnp.zeros(x.shape, x.dtype)))
    if not rate:
        return trained(lambda w, x, y: loss(model.apply(w, x), y), weights, x, y, optimizer=optimizer)

    def random_loss(w, x, y, random):
        return loss(model.apply(w, x, rngs={"dropout": random}), y)

    return trained(random_loss, weights, x, y, random_key(), optimizer=optimizer)


def rms_norm(x: Any, scale: Any) -> Any:
    wide = x.astype(jnp.float32)
    return (wide * lax.rsqrt((wide * wide).mean(-1, keepdims=True) + 1e-6)).astype(x.dtype) * scale


def attention(x: Any, p: Any, heads: int) -> Any:
    b, t, d = x.shape
    q, k, v = ((x @ p[name]).reshape(b, t, heads, d // heads) for name in ("wq", "wk", "wv"))
    scores = jnp.einsum("bthd,bshd->bhts", q, k) / math.sqrt(d // heads)
    scores = jnp.where(jnp.tril(jnp.ones((t, t), bool)), scores, -1e9)
    return jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores), v).reshape(b, t, d) @ p["wo"]


@program
def moe_scan() -> Any:
    layers, width, experts, hidden, batch, length, words = 4, 256, 8, 512, 16, 128, 4000
    capacity = 2 * length // experts
    weights = {name: shape(layers, width, width) for name in ("wq", "wk", "wv", "wo")}
    weights |= {name: shape(layers, width) for name in ("n1", "n2")} | {"router": shape(layers, width, experts)}
    weights |= {"w1": shape(layers, experts, width, hidden), "w2": shape(layers, experts, hidden, width)}

    def layer(x, p):
        x = x + attention(rms_norm(x, p["n1"]), p, 4)
        h = rms_norm(x, p["n2"])
        gates = jax.nn.softmax(h @ p["router"])
        chosen = jax.nn.one_hot(lax.top_k(gates, 2)[1], experts).sum(2)
        position = jnp.cumsum(chosen, 1) * chosen - 1
        dispatch = jax.nn.one_hot(position.astype(jnp.int32), capacity) * chosen[..., None]
        sent = jnp.einsum("btec,btd->ebcd", dispatch, h)
        y = jnp.einsum("ebcf,efd->ebcd", jax.nn.gelu(jnp.einsum("ebcd,edf->ebcf", sent, p["w1"])), p["w2"])
        return x + jnp.einsum("btec,ebcd->btd", dispatch * gates[..., None], y), None

    def loss(w, x, y):
        h, _ = lax.scan(layer, w["embedding"][x], w["layers"])
        return cross_entropy(rms_norm(h, w["norm"]) @ w["embedding"].T, y)

    every = {"embedding": shape(words, width), "layers": weights, "norm": shape(width)}
    return trained(loss, every, ids(batch, length), ids(batch, length))


def mamba(layers: int, width: int, length: int, recur: Callable[..., Any]) -> Any:
    """Selective state spaces; `recur` computes the states from decays and inputs."""
    inner, states, batch, words = 2 * width, 16, 16, 2000
    sizes = {"norm": (width,), "w_in": (width, 2 * inner), "conv": (4, inner), "w_x": (inner, 2 * states + 16)}
    sizes |= {"w_dt": (16, inner), "a": (inner, states), "d": (inner,), "w_out": (inner, width)}

    def layer(x, p):
        u, z = jnp.split(rms_norm(x, p["norm"]) @ p["w_in"], 2, -1)
        padded = jnp.pad(u, ((0, 0), (3, 0), (0, 0)))
        u = jax.nn.silu(sum(padded[:, i : i + u.shape[1]] * p["conv"][i] for i in range(4)))
        b, c, dt = jnp.split(u @ p["w_x"], [states, 2 * states], -1)
        y = recur(jax.nn.softplus(dt @ p["w_dt"]), b, c, u, -jnp.exp(p["a"]))
        return x + ((y + u * p["d"]) * jax.nn.silu(z)) @ p["w_out"]

    def loss(w, x, y):
        h = w["embedding"][x]
        for p in w["layers"]:
            h = layer(h, p)
        return cross_entropy(rms_norm(h, w["norm"]) @ w["embedding"].T, y)

    layer_shapes = [{name: shape(*dims) for name, dims in sizes.items()} for _ in range(layers)]
    every = {"embedding": shape(words, width), "layers": layer_shapes, "norm": shape(width)}
    return trained(loss, every, ids(batch, length), ids(batch, length))


@program
def mamba_scan() -> Any:
    def recur(dt, b, c, u, a):
        def cell(h, row):
            dt, b, c, u = row
            h = h * jnp.exp(dt[..., None] * a) + dt[..., None] * b[:, None] * u[..., None]
            return h, (h * c[:, None]).sum(-1)

        start = jnp.zeros((u.shape[0], *a.shape))
        return lax.scan(cell, start, tuple(x.swapaxes(0, 1) for x in (dt, b, c, u)))[1].swapaxes(0, 1)

    return mamba(2, 256, 128, recur)


@program
def mamba_associative() -> Any:
    def recur(dt, b, c, u, a):
        pair = jnp.exp(dt[..., None] * a), dt[..., None] * b[:, :, None] * u[..., None]
        _, h = lax.associative_scan(lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1]), pair, axis=1)
        return jnp.einsum("btdn,btn->btd", h, c)

    return mamba(1, 128, 64, recur)


@program
def t5() -> Any:
    width, heads = 512, 8

    class Attention(nn.Module):
        is_causal: bool = False
        has_bias: bool = True

        @nn.compact
        def __call__(self, x, other=None):
            other = x if other is None else other
            q, k, v = (nn.DenseGeneral((heads, 64), use_bias=False)(value) for value in (x, other, other))
            scores = jnp.einsum("bthd,bshd->bhts", q, k)
            if self.has_bias:
                distance = jnp.arange(other.shape[1])[None] - jnp.arange(x.shape[1])[:, None]
                bucket = jnp.clip(distance // 4 + 16, 0, 31)
                scores = scores + nn.Embed(32, heads)(bucket).transpose(2, 0, 1)[None]
            if self.is_causal:
                scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -1e9)
            mixed = jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores), v)
            return nn.DenseGeneral(width, axis=(-2, -1), use_bias=False)(mixed)

    class Model(nn.Module):
        @nn.compact
        def __call__(self, x):
            embedding = nn.Embed(8000, width)

            def feed_forward(y):
                return nn.Dense(width, use_bias=False)(nn.relu(nn.Dense(1024, use_bias=False)(y)))

            h, d = embedding(x), embedding(x[:, ::2])
            for _ in range(2):
                h = h + Attention()(nn.RMSNorm()(h))
                h = h + feed_forward(nn.RMSNorm()(h))
            h = nn.RMSNorm()(h)
            for _ in range(2):
                d = d + Attention(is_causal=True)(nn.RMSNorm()(d))
                d = d + Attention(has_bias=False)(nn.RMSNorm()(d), h)
                d = d + feed_forward(nn.RMSNorm()(d))
            return embedding.attend(nn.RMSNorm()(d))

    return trained_module(Model(), ids(32, 256), ids(32, 128), optax.adafactor(1e-3))


class Block(nn.Module):
    width: int
    heads: int
    rate: float = 0.0
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x):
        is_exact = self.rate == 0
        y = nn.LayerNorm(dtype=self.dtype)(x)
        y = nn.MultiHeadDotProductAttention(
            num_heads=self.heads, dropout_rate=self.rate, deterministic=is_exact, dtype=self.dtype
        )(y, y)
        x = x + nn.Dropout(self.rate, deterministic=is_exact)(y)
        y = nn.Dense(4 * self.width, dtype=self.dtype)(nn.LayerNorm(dtype=self.dtype)(x))
        y = nn.Dense(self.width, dtype=self.dtype)(nn.gelu(y))
        return x + nn.Dropout(self.rate, deterministic=is_exact)(y)


class Encoder(nn.Module):
    layers: int
    width: int
    words: int
    rate: float = 0.1
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x):
        embedding = nn.Embed(self.words, self.width, dtype=self.dtype)
        h = embedding(x) + nn.Embed(512, self.width, dtype=self.dtype)(jnp.arange(x.shape[1]))
        h = nn.Dropout(self.rate, deterministic=False)(nn.LayerNorm(dtype=self.dtype)(h))
        for _ in range(self.layers):
            h = Block(self.width, 8, self.rate, self.dtype)(h)
        return embedding.attend(nn.LayerNorm(dtype=self.dtype)(h)).astype(jnp.float32)


@program
def bert_dropout() -> Any:
    return trained_module(Encoder(2, 512, 8000), ids(32, 256), ids(32, 256), rate=0.1)


@program
def bert_bf16_dropout() -> Any:
    model = Encoder(3, 384, 6000, dtype=jnp.bfloat16)
    return trained_module(model, ids(16, 192), ids(16, 192), rate=0.1)


def rotated(x: Any) -> Any:
    """Rotary embeddings."""
    size = x.shape[-1]
    angle = jnp.arange(x.shape[1])[:, None] / 10000 ** (jnp.arange(0, size, 2) / size)
    cosine, sine = (f(angle)[None, :, None].astype(x.dtype) for f in (jnp.cos, jnp.sin))
    left, right = jnp.split(x, 2, -1)
    return jnp.concatenate([left * cosine - right * sine, right * cosine + left * sine], -1)


def llama(layers: int, width: int, hidden: int, heads: int, batch: int, length: int, words: int, scan: bool) -> Any:
    """A Llama in bf16 of four key heads, its layers recomputed and in a scan, or written out."""
    size, key_heads, dtype = width // heads, 4, jnp.bfloat16
    sizes = {"n1": (width,), "n2": (width,), "wq": (width, width), "wo": (width, width)}
    sizes |= {"wk": (width, key_heads * size), "wv": (width, key_heads * size)}
    sizes |= {"w1": (width, hidden), "w3": (width, hidden), "w2": (hidden, width)}

    def layer(x, p):
        y, (b, t, _) = rms_norm(x, p["n1"]), x.shape
        q, k, v = ((y @ p[name]).reshape(b, t, -1, size) for name in ("wq", "wk", "wv"))
        k, v = (jnp.repeat(value, heads // key_heads, 2) for value in (rotated(k), v))
        scores = jnp.einsum("bthd,bshd->bhts", rotated(q), k) / math.sqrt(size)
        scores = jnp.where(jnp.tril(jnp.ones((t, t), bool)), scores.astype(jnp.float32), -1e9)
        mixed = jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores).astype(dtype), v)
        x = x + mixed.reshape(b, t, width) @ p["wo"]
        y = rms_norm(x, p["n2"])
        return x + (jax.nn.silu(y @ p["w1"]) * (y @ p["w3"])) @ p["w2"], None

    def loss(w, x, y):
        h = w["embedding"][x]
        if scan:
            h, _ = lax.scan(jax.checkpoint(layer), h, w["layers"])
        else:
            for p in w["layers"]:
                h, _ = layer(h, p)
        return cross_entropy(rms_norm(h, w["norm"]) @ w["out"], y)

    layer_shapes = {name: shape(*dims, dtype=dtype) for name, dims in sizes.items()}
    stacked = {name: shape(layers, *dims, dtype=dtype) for name, dims in sizes.items()}
    every = {"embedding": shape(words, width, dtype=dtype), "norm": shape(width, dtype=dtype)}
    every |= {"layers": stacked if scan else [layer_shapes] * layers, "out": shape(width, words, dtype=dtype)}
    return trained(loss, every, ids(batch, length), ids(batch, length))


@program
def llama_bf16() -> Any:
    return llama(2, 512, 1408, 8, 32, 256, 8000, scan=False)


@program
def llama_scan_remat_bf16() -> Any:
    return llama(8, 1024, 2816, 16, 32, 512, 16000, scan=True)


@program
def vit() -> Any:
    class Model(nn.Module):
        @nn.compact
        def __call__(self, x):
            h = nn.Conv(384, (16, 16), (16, 16))(x).reshape(x.shape[0], -1, 384)
            first = self.param("first", nn.initializers.zeros, (1, 1, 384))
            h = jnp.concatenate([jnp.broadcast_to(first, (h.shape[0], 1, 384)), h], 1)
            h = h + self.param("positions", nn.initializers.zeros, (1, 197, 384))
            for _ in range(3):
                h = Block(384, 6)(h)
            return nn.Dense(1000)(nn.LayerNorm()(h)[:, 0])

    return trained_module(Model(), shape(64, 224, 224, 3), ids(64))


class ResidualBlock(nn.Module):
    width: int
    stride: int = 1

    @nn.compact
    def __call__(self, x):
        strides = (self.stride, self.stride)
        y = nn.relu(nn.GroupNorm(8)(nn.Conv(self.width, (3, 3), strides, use_bias=False)(x)))
        y = nn.GroupNorm(8)(nn.Conv(self.width, (3, 3), use_bias=False)(y))
        if x.shape != y.shape:
            x = nn.Conv(self.width, (1, 1), strides, use_bias=False)(x)
        return nn.relu(x + y)


@program
def resnet() -> Any:
    class Model(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.max_pool(nn.relu(nn.Conv(64, (7, 7), (2, 2))(x)), (3, 3), (2, 2), "SAME")
            for width, stride in ((64, 1), (128, 2), (128, 1), (256, 2)):
                x = ResidualBlock(width, stride)(x)
            return nn.Dense(1000)(x.mean((1, 2)))

    return trained_module(Model(), shape(64, 128, 128, 3), ids(64), optax.sgd(0.1, momentum=0.9))


@program
def unet() -> Any:
    class Model(nn.Module):
        @nn.compact
        def __call__(self, x):
            a = nn.silu(nn.GroupNorm(8)(nn.Conv(32, (3, 3))(x)))
            b = nn.silu(nn.GroupNorm(8)(nn.Conv(64, (3, 3), (2, 2))(a)))
            c = ResidualBlock(128)(nn.Conv(128, (3, 3), (2, 2))(b))
            d = nn.silu(nn.ConvTranspose(64, (3, 3), (2, 2))(c))
            d = nn.silu(nn.Conv(64, (3, 3))(jnp.concatenate([d, b], -1)))
            e = nn.silu(nn.ConvTranspose(32, (3, 3), (2, 2))(d))
            return nn.Conv(3, (3, 3))(jnp.concatenate([e, a], -1))

    images = shape(32, 64, 64, 3)
    return trained_module(Model(), images, images, loss=lambda made, target: ((made - target) ** 2).mean())


def gpt(layers: int, width: int, heads: int, batch: int, length: int, words: int, policy: Any = None) -> Any:
    """A GPT whose layers are recomputed in a scan."""
    sizes = dict.fromkeys(("wq", "wk", "wv", "wo"), (width, width)) | {"n1": (width,), "n2": (width,)}
    sizes |= {"w1": (width, 4 * width), "w2": (4 * width, width)}

    def layer(x, p):
        x = x + attention(rms_norm(x, p["n1"]), p, heads)
        return x + jax.nn.gelu(rms_norm(x, p["n2"]) @ p["w1"]) @ p["w2"], None

    def loss(w, x, y):
        h, _ = lax.scan(jax.checkpoint(layer, policy=policy), w["embedding"][x] + w["positions"], w["layers"])
        return cross_entropy(rms_norm(h, w["norm"]) @ w["embedding"].T, y)

    stacked = {name: shape(layers, *dims) for name, dims in sizes.items()}
    every = {"embedding": shape(words, width), "positions": shape(length, width), "layers": stacked}
    return trained(loss, every | {"norm": shape(width)}, ids(batch, length), ids(batch, length))


@program
def gpt_remat_scan() -> Any:
    return gpt(6, 512, 8, 32, 256, 16000)


@program
def gpt_scan_large() -> Any:
    return gpt(12, 1024, 16, 64, 512, 32000, jax.checkpoint_policies.dots_with_no_batch_dims_saveable)


@program
def dlrm() -> Any:
    features, tables, rows, width, batch = 13, 8, 40000, 64, 4096
    bottom = [(features, 256), (256, 128), (128, width)]
    top = [(width + 36, 512), (512, 256), (256, 1)]

    def loss(w, dense, rows, y):
        h = dense
        for matrix, bias in w["bottom"]:
            h = jax.nn.relu(h @ matrix + bias)
        z = jnp.stack([h, *(table[rows[:, i]] for i, table in enumerate(w["tables"]))], 1)
        i, j = jnp.tril_indices(tables + 1, -1)
        h = jnp.concatenate([h, jnp.einsum("bnd,bmd->bnm", z, z)[:, i, j]], 1)
        for number, (matrix, bias) in enumerate(w["top"]):
            h = h @ matrix + bias
            h = jax.nn.relu(h) if number < 2 else h
        return jnp.mean(jnp.logaddexp(0.0, h[:, 0]) - y * h[:, 0])

    weights = {"bottom": bottom, "top": top}
    every: dict[str, Any] = {
        name: [(shape(*dims), shape(dims[1])) for dims in sizes] for name, sizes in weights.items()
    }
    every["tables"] = [shape(rows, width)] * tables
    return trained(loss, every, shape(batch, features), ids(batch, tables), shape(batch))


@program
def lstm() -> Any:
    layers, width, batch, length, words = 2, 256, 64, 64, 4000

    def loss(w, x, y):
        h = w["embedding"][x].swapaxes(0, 1)
        for p in w["layers"]:

            def cell(state, row, p=p):
                hidden, memory = state
                gates = jnp.split(row @ p["w_in"] + hidden @ p["w_hidden"] + p["bias"], 4, -1)
                add, forget, show = map(jax.nn.sigmoid, gates[:3])
                memory = forget * memory + add * jnp.tanh(gates[3])
                hidden = show * jnp.tanh(memory)
                return (hidden, memory), hidden

            _, h = lax.scan(cell, (jnp.zeros((batch, width)), jnp.zeros((batch, width))), h)
        return cross_entropy(h.swapaxes(0, 1) @ w["out"], y)

    layer_shapes = {"w_in": shape(width, 4 * width), "w_hidden": shape(width, 4 * width), "bias": shape(4 * width)}
    every = {"embedding": shape(words, width), "layers": [layer_shapes] * layers, "out": shape(width, words)}
    return trained(loss, every, ids(batch, length), ids(batch, length))


@program
def decode() -> Any:
    layers, width, heads, batch, length, words = 4, 512, 8, 16, 512, 8000
    size = width // heads

    def step(w, cache, token, position):
        def layer(x, row):
            p, keys, values = row
            y = rms_norm(x, p["n1"])
            q = (y @ p["wq"]).reshape(batch, heads, size)
            k, v = ((y @ p[name]).reshape(batch, 1, heads, size) for name in ("wk", "wv"))
            keys = lax.dynamic_update_slice(keys, k, (0, position, 0, 0))
            values = lax.dynamic_update_slice(values, v, (0, position, 0, 0))
            scores = jnp.einsum("bhd,bshd->bhs", q, keys) / math.sqrt(size)
            scores = jax.nn.softmax(jnp.where(jnp.arange(length) <= position, scores, -1e9))
            x = x + jnp.einsum("bhs,bshd->bhd", scores, values).reshape(batch, width) @ p["wo"]
            return x + jax.nn.gelu(rms_norm(x, p["n2"]) @ p["w1"]) @ p["w2"], (keys, values)

        x, (keys, values) = lax.scan(layer, w["embedding"][token], (w["layers"], cache["keys"], cache["values"]))
        scores = rms_norm(x, w["norm"]) @ w["embedding"].T
        return jnp.argmax(scores, -1), {"keys": keys, "values": values}

    stacked = {name: shape(layers, width, width) for name in ("wq", "wk", "wv", "wo")}
    stacked |= {"n1": shape(layers, width), "n2": shape(layers, width)}
    stacked |= {"w1": shape(layers, width, 4 * width), "w2": shape(layers, 4 * width, width)}
    cache = {name: shape(layers, batch, length, heads, size) for name in ("keys", "values")}
    weights = {"embedding": shape(words, width), "layers": stacked, "norm": shape(width)}
    return jax.jit(step, donate_argnums=(1,)), (weights, cache, ids(batch), ids())


@program
def vae() -> Any:
    class Model(nn.Module):
        @nn.compact
        def __call__(self, x, random):
            h = nn.relu(nn.Dense(1024)(nn.relu(nn.Dense(2048)(x))))
            mean, scale = nn.Dense(128)(h), nn.Dense(128)(h)
            z = mean + jnp.exp(scale) * jax.random.normal(random, mean.shape)
            return nn.Dense(3072)(nn.relu(nn.Dense(2048)(nn.relu(nn.Dense(1024)(z))))), mean, scale

    def loss(w, x, random):
        made, mean, scale = model.apply(w, x, random)
        return ((made - x) ** 2).mean() + 0.5 * (mean**2 + jnp.exp(2 * scale) - 2 * scale).mean()

    model, key = Model(), jax.random.PRNGKey(0)
    weights = jax.eval_shape(lambda: model.init(key, jnp.zeros((512, 3072)), key))
    return trained(loss, weights, shape(512, 3072), random_key(), optimizer=optax.adam(1e-3))
