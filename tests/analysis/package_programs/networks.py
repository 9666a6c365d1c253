"""Training steps of networks: flax and optax."""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from jax import lax

from .registry import cross_entropy, floats, integers, key, program, squared


def trained(model: Any, x: Any, y: Any, optimizer: Any = None, loss: Any = cross_entropy) -> Any:
    """A step that is given its weights and the optimizer's state for good."""
    optimizer = optimizer or optax.adamw(1e-3)
    weights = jax.eval_shape(lambda: model.init({"params": key(), "dropout": key()}, x))
    state = jax.eval_shape(optimizer.init, weights)

    def step(weights, state, x, y, random):
        value, gradients = jax.value_and_grad(lambda w: loss(model.apply(w, x, rngs={"dropout": random}), y))(weights)
        updates, state = optimizer.update(gradients, state, weights)
        return optax.apply_updates(weights, updates), state, value

    return jax.jit(step, donate_argnums=(0, 1)), (weights, state, x, y, key())


class Block(nn.Module):
    width: int
    heads: int
    rate: float = 0.0
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x, mask=None):
        is_exact = self.rate == 0
        y = nn.LayerNorm(dtype=self.dtype)(x)
        y = nn.MultiHeadDotProductAttention(
            num_heads=self.heads, dropout_rate=self.rate, deterministic=is_exact, dtype=self.dtype
        )(y, y, mask=mask)
        x = x + nn.Dropout(self.rate, deterministic=is_exact)(y)
        y = nn.Dense(4 * self.width, dtype=self.dtype)(nn.LayerNorm(dtype=self.dtype)(x))
        y = nn.Dense(self.width, dtype=self.dtype)(nn.gelu(y))
        return x + nn.Dropout(self.rate, deterministic=is_exact)(y)


class Encoder(nn.Module):
    rate: float
    dtype: Any = jnp.float32
    is_causal: bool = False

    @nn.compact
    def __call__(self, x):
        embedding = nn.Embed(1000, 128, dtype=self.dtype)
        h = embedding(x) + nn.Embed(128, 128, dtype=self.dtype)(jnp.arange(x.shape[1]))
        mask = nn.make_causal_mask(x) if self.is_causal else None
        for _ in range(3):
            h = Block(128, 4, self.rate, self.dtype)(h, mask)
        return embedding.attend(nn.LayerNorm(dtype=self.dtype)(h)).astype(jnp.float32)


@program
def bert_with_dropout() -> Any:
    return trained(Encoder(0.1), integers(8, 128), integers(8, 128))


@program
def bert_in_bf16() -> Any:
    return trained(Encoder(0.0, jnp.bfloat16), integers(8, 128), integers(8, 128))


@program
def bert_in_bf16_with_dropout() -> Any:
    return trained(Encoder(0.2, jnp.bfloat16), integers(4, 96), integers(4, 96))


@program
def gpt() -> Any:
    return trained(Encoder(0.0, is_causal=True), integers(4, 128), integers(4, 128))


@program
def vision_transformer() -> Any:
    class Model(nn.Module):
        @nn.compact
        def __call__(self, x):
            h = nn.Conv(96, (8, 8), (8, 8))(x).reshape(x.shape[0], -1, 96)
            for _ in range(3):
                h = Block(96, 3)(h)
            return nn.Dense(10)(h.mean(1))

    return trained(Model(), floats(16, 64, 64, 3), integers(16))


@program
def encoder_and_decoder() -> Any:
    class Model(nn.Module):
        @nn.compact
        def __call__(self, x):
            embedding = nn.Embed(800, 96)
            h, d = embedding(x), embedding(x[:, ::2])
            for _ in range(2):
                h = Block(96, 4)(h)
            for _ in range(2):
                y = nn.RMSNorm()(d)
                d = d + nn.MultiHeadDotProductAttention(num_heads=4)(y, y, mask=nn.make_causal_mask(x[:, ::2]))
                d = d + nn.MultiHeadDotProductAttention(num_heads=4)(nn.RMSNorm()(d), h)
                d = d + nn.Dense(96)(nn.relu(nn.Dense(384)(nn.RMSNorm()(d))))
            return embedding.attend(d)

    return trained(Model(), integers(8, 128), integers(8, 64), optax.adafactor(1e-3))


@program
def mixer() -> Any:
    class Model(nn.Module):
        @nn.compact
        def __call__(self, x):
            h = nn.Conv(64, (8, 8), (8, 8))(x).reshape(x.shape[0], -1, 64)
            for _ in range(3):
                y = nn.LayerNorm()(h).swapaxes(1, 2)
                h = h + nn.Dense(64)(nn.gelu(nn.Dense(128)(y))).swapaxes(1, 2)
                h = h + nn.Dense(64)(nn.gelu(nn.Dense(256)(nn.LayerNorm()(h))))
            return nn.Dense(10)(h.mean(1))

    return trained(Model(), floats(32, 64, 64, 3), integers(32), optax.lamb(1e-3))


@program
def residual_network() -> Any:
    class Model(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.max_pool(nn.Conv(32, (7, 7), (2, 2))(x), (3, 3), (2, 2), "SAME")
            for width, stride in ((32, 1), (32, 1), (64, 2), (64, 1)):
                y = nn.relu(nn.GroupNorm(8)(nn.Conv(width, (3, 3), (stride, stride))(x)))
                y = nn.GroupNorm(8)(nn.Conv(width, (3, 3))(y))
                if x.shape != y.shape:
                    x = nn.Conv(width, (1, 1), (stride, stride))(x)
                x = nn.relu(x + y)
            return nn.Dense(10)(x.mean((1, 2)))

    return trained(Model(), floats(16, 64, 64, 3), integers(16), optax.sgd(0.1, momentum=0.9))


@program
def bottleneck_network() -> Any:
    class Model(nn.Module):
        @nn.compact
        def __call__(self, x):
            h = nn.max_pool(nn.relu(nn.Conv(24, (5, 5), (2, 2))(x)), (3, 3), (2, 2), "SAME")
            for width in (24, 48):
                y = nn.relu(nn.GroupNorm(4)(nn.Conv(width // 2, (1, 1))(h)))
                y = nn.relu(nn.GroupNorm(4)(nn.Conv(width // 2, (3, 3))(y)))
                h = nn.relu(nn.Conv(width, (1, 1))(y) + nn.Conv(width, (1, 1))(h))
            return nn.Dense(12)(h.mean((1, 2)))

    return trained(Model(), floats(12, 48, 48, 3), integers(12), optax.sgd(0.1, 0.9))


@program
def segmentation_network() -> Any:
    class Model(nn.Module):
        @nn.compact
        def __call__(self, x):
            a = nn.relu(nn.Conv(16, (3, 3))(x))
            b = nn.relu(nn.Conv(32, (3, 3), (2, 2))(a))
            c = nn.relu(nn.Conv(64, (3, 3), (2, 2))(b))
            d = nn.relu(nn.ConvTranspose(32, (3, 3), (2, 2))(c))
            e = nn.relu(nn.ConvTranspose(16, (3, 3), (2, 2))(jnp.concatenate([d, b], -1)))
            return nn.Conv(3, (3, 3))(jnp.concatenate([e, a], -1))

    return trained(Model(), floats(8, 64, 64, 3), floats(8, 64, 64, 3), loss=squared)


@program
def resized_skips() -> Any:
    class Model(nn.Module):
        @nn.compact
        def __call__(self, x):
            a = nn.silu(nn.Conv(16, (3, 3))(x))
            c = nn.silu(nn.Conv(32, (3, 3))(nn.silu(nn.Conv(32, (3, 3), (2, 2))(a))))
            d = jax.image.resize(c, (c.shape[0], 32, 32, 32), "nearest")
            return nn.Conv(3, (3, 3))(nn.silu(nn.Conv(16, (3, 3))(jnp.concatenate([a, d], -1))))

    return trained(Model(), floats(8, 32, 32, 3), floats(8, 32, 32, 3), loss=squared)


@program
def separable_convolutions() -> Any:
    class Model(nn.Module):
        @nn.compact
        def __call__(self, x):
            h = nn.Conv(16, (3, 3), (2, 2))(x)
            for width in (32, 64):
                h = nn.relu(nn.LayerNorm()(nn.Conv(h.shape[-1], (3, 3), feature_group_count=h.shape[-1])(h)))
                h = nn.max_pool(nn.Conv(width, (1, 1))(h), (2, 2), (2, 2))
            return nn.Dense(10)(h.mean((1, 2)))

    return trained(Model(), floats(8, 64, 64, 3), integers(8))


@program
def dilated_convolutions() -> Any:
    class Model(nn.Module):
        @nn.compact
        def __call__(self, x):
            h = nn.Conv(32, (1,))(x)
            for level in range(5):
                a, b = (nn.Conv(32, (2,), kernel_dilation=2**level, padding="SAME")(h) for _ in range(2))
                h = h + nn.Conv(32, (1,))(jnp.tanh(a) * jax.nn.sigmoid(b))
            return nn.Dense(20)(h)

    return trained(Model(), floats(4, 512, 8), integers(4, 512))


@program
def pooled_convolutions() -> Any:
    class Model(nn.Module):
        @nn.compact
        def __call__(self, x):
            for width in (16, 32, 64):
                x = nn.avg_pool(nn.relu(nn.Conv(width, (3, 3))(x)), (2, 2), (2, 2))
            return nn.Dense(10)(x.reshape(x.shape[0], -1))

    return trained(Model(), floats(32, 32, 32, 3), integers(32))


@program
def state_space_scan() -> Any:
    class Model(nn.Module):
        @nn.compact
        def __call__(self, x):
            h = nn.Embed(500, 64)(x)
            for layer in range(2):
                z, rate = nn.Dense(128)(h), nn.softplus(nn.Dense(128)(h))
                b, c = nn.Dense(8)(h), nn.Dense(8)(h)
                decay = -jnp.exp(self.param(f"decay{layer}", nn.initializers.ones, (128, 8)))

                def step(state, row, decay=decay):
                    z, rate, b, c = row
                    state = state * jnp.exp(rate[..., None] * decay) + (rate * z)[..., None] * b[:, None]
                    return state, (state * c[:, None]).sum(-1)

                rows = tuple(part.swapaxes(0, 1) for part in (z, rate, b, c))
                _, y = lax.scan(step, jnp.zeros((x.shape[0], 128, 8)), rows)
                h = h + nn.Dense(64)(y.swapaxes(0, 1) * nn.silu(z))
            return nn.Dense(500)(h)

    return trained(Model(), integers(4, 64), integers(4, 64))


@program
def scanned_experts() -> Any:
    class Model(nn.Module):
        @nn.compact
        def __call__(self, x):
            h, normal = nn.Embed(500, 64)(x), nn.initializers.normal()
            weights = (
                self.param("up", normal, (3, 4, 64, 256)),
                self.param("down", normal, (3, 4, 256, 64)),
                self.param("route", normal, (3, 64, 4)),
            )

            def layer(h, weights):
                up, down, route = weights
                gates = jax.nn.softmax(h @ route)
                share = jax.nn.one_hot(jnp.argmax(gates, -1), 4) * gates
                routed = jnp.einsum("bte,btd->ebtd", share, h)
                made = jax.nn.relu(jnp.einsum("ebtd,edf->ebtf", routed, up))
                return h + jnp.einsum("ebtf,efd->btd", made, down), None

            return nn.Dense(500)(lax.scan(layer, h, weights)[0])

    return trained(Model(), integers(4, 64), integers(4, 64))


@program
def dense_experts() -> Any:
    class Model(nn.Module):
        @nn.compact
        def __call__(self, x):
            normal = nn.initializers.normal()
            gates = jax.nn.softmax(nn.Dense(8)(x))
            h = jax.nn.gelu(jnp.einsum("bd,edf->ebf", x, self.param("up", normal, (8, 64, 256))))
            made = jnp.einsum("ebf,efd->ebd", h, self.param("down", normal, (8, 256, 64)))
            return nn.Dense(10)(jnp.einsum("ebd,be->bd", made, gates))

    return trained(Model(), floats(256, 64), integers(256))


@program
def variational_autoencoder() -> Any:
    class Model(nn.Module):
        @nn.compact
        def __call__(self, x):
            h = nn.relu(nn.Dense(256)(x))
            mean, spread = nn.Dense(16)(h), nn.Dense(16)(h)
            z = mean + jnp.exp(spread / 2) * jax.random.normal(self.make_rng("dropout"), mean.shape)
            return nn.Dense(784)(nn.relu(nn.Dense(256)(z)))

    def loss(logits, x):
        return optax.sigmoid_binary_cross_entropy(logits, x).sum(-1).mean()

    return trained(Model(), floats(128, 784), floats(128, 784), loss=loss)


@program
def graph_convolutions() -> Any:
    class Model(nn.Module):
        @nn.compact
        def __call__(self, graph):
            h, sources, targets = graph
            for width in (64, 64, 8):
                h = jax.ops.segment_sum(nn.relu(nn.Dense(width)(h))[sources], targets, h.shape[0])
            return h

    return trained(Model(), (floats(1000, 32), integers(5000), integers(5000)), integers(1000))


@program
def perceptron_in_bf16() -> Any:
    class Model(nn.Module):
        @nn.compact
        def __call__(self, x):
            for _ in range(4):
                x = nn.silu(nn.Dense(512, dtype=jnp.bfloat16)(x))
            return nn.Dense(10, dtype=jnp.bfloat16)(x).astype(jnp.float32)

    return trained(Model(), floats(128, 256), integers(128), optax.sgd(1e-2, 0.9))
