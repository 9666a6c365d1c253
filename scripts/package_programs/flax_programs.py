"""Models of flax: linen and nnx, trained and used."""

from __future__ import annotations

from functools import partial
from typing import Any

import flax.linen as nn  # pyright: ignore[reportMissingImports]
import jax
import jax.numpy as jnp
import optax  # pyright: ignore[reportMissingImports]
from flax import nnx  # pyright: ignore[reportMissingImports]

from .jax_calls import floats, integers, key, texts, train_step
from .registry import Call, Program, register

__all__ = ["PROGRAMS", "texts"]

PROGRAMS: dict[str, Program] = {}
program = partial(register, PROGRAMS)


def _trained(model: Any, optimizer: Any, inputs: Any, targets: Any) -> Call:
    weights = jax.eval_shape(lambda inputs: model.init(key(), inputs), inputs)

    def loss(weights: Any, inputs: Any, targets: Any) -> Any:
        return jnp.mean((model.apply(weights, inputs) - targets) ** 2)

    return train_step(loss, optimizer, weights, inputs, targets)


class ConvNextBlock(nn.Module):
    width: int

    @nn.compact
    def __call__(self, x: Any) -> Any:
        y = nn.Conv(self.width, (7, 7), feature_group_count=self.width)(x)
        y = nn.Dense(self.width)(nn.gelu(nn.Dense(4 * self.width)(nn.LayerNorm()(y))))
        return x + y * self.param("scale", nn.initializers.constant(1e-6), (self.width,))


class GatedMlp(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        gate, value = jnp.split(nn.gelu(nn.Dense(32)(nn.LayerNorm()(x))), 2, axis=-1)
        mixed = nn.Dense(x.shape[1])(nn.LayerNorm()(gate).swapaxes(1, 2)).swapaxes(1, 2)
        return x + nn.Dense(x.shape[-1])(mixed * value)


class WaveNet(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        skips = 0.0
        for dilation in (1, 2, 4):
            filtered = nn.Conv(8, (2,), kernel_dilation=(dilation,), padding="CAUSAL")(x)
            gate = nn.Conv(8, (2,), kernel_dilation=(dilation,), padding="CAUSAL")(x)
            skips = skips + nn.Dense(8)(nn.tanh(filtered) * nn.sigmoid(gate))
            x = x + skips
        return nn.Dense(1)(nn.relu(skips))


class RelativeAttention(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        length = x.shape[1]
        distance = jnp.arange(length)[None] - jnp.arange(length)[:, None]
        bucket = jnp.where(jnp.abs(distance) < 4, distance + 4, 4 + jnp.sign(distance) * 4).clip(0, 8)
        bias = nn.Embed(9, 2)(bucket).transpose(2, 0, 1)
        heads = [nn.DenseGeneral((2, 4), use_bias=False, name=name)(x) for name in ("query", "key", "value")]
        return nn.DenseGeneral(x.shape[-1], axis=(-2, -1))(nn.dot_product_attention(*heads, bias=bias[None]))


@program
def convnext() -> Call:
    model = nn.Sequential([nn.Conv(8, (4, 4), (4, 4)), ConvNextBlock(8), ConvNextBlock(8)])
    return _trained(model, optax.adamw(1e-3), floats(2, 16, 16, 3), floats(2, 4, 4, 8))


@program
def gated_mlp() -> Call:
    return _trained(nn.Sequential([GatedMlp(), GatedMlp()]), optax.nadam(1e-3), floats(2, 6, 8), floats(2, 6, 8))


@program
def wavenet() -> Call:
    return _trained(WaveNet(), optax.sgd(1e-2, 0.9), floats(2, 24, 1), floats(2, 24, 1))


@program
def relative_attention() -> Call:
    return _trained(RelativeAttention(), optax.radam(1e-3), floats(2, 7, 8), floats(2, 7, 8))


@program
def spectral_and_weight_norm() -> Call:
    class Model(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            x = nn.SpectralNorm(nn.Dense(8))(x, update_stats=True)
            return nn.WeightNorm(nn.Conv(4, (3,)))(nn.leaky_relu(x))

    variables = jax.eval_shape(lambda x: Model().init(key(), x), floats(2, 6, 5))
    return (lambda variables, x: Model().apply(variables, x, mutable=["batch_stats"])), (variables, floats(2, 6, 5))


@program
def convolutional_lstm() -> Call:
    model = nn.RNN(nn.ConvLSTMCell(4, (3, 3)), reverse=True, keep_order=True)
    return _trained(model, optax.adagrad(1e-2), floats(2, 4, 6, 6, 2), floats(2, 4, 6, 6, 4))


@program
def decode_with_cache() -> Call:
    """Greedy decoding with a cache of keys and values, token after token."""

    class Decoder(nn.Module):
        @nn.compact
        def __call__(self, token: Any) -> Any:
            hidden = nn.Embed(11, 8)(token)
            hidden += nn.MultiHeadDotProductAttention(2, decode=True)(nn.LayerNorm()(hidden))
            return nn.Dense(11)(nn.relu(hidden))

    model = Decoder()
    variables = jax.eval_shape(lambda: model.init(key(), jnp.ones((2, 12), jnp.int32)))

    def decode(weights: Any, cache: Any, token: Any) -> Any:
        def step(state: Any, _: Any) -> Any:
            cache, token = state
            logits, changed = model.apply({"params": weights, "cache": cache}, token, mutable=["cache"])
            token = jnp.argmax(logits, axis=-1)
            return (changed["cache"], token), token

        return jax.lax.scan(step, (cache, token), None, length=5)

    return decode, (variables["params"], variables["cache"], integers(2, 1))


@program
def mixture_of_experts() -> Call:
    class Experts(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            gates, chosen = jax.lax.top_k(nn.softmax(nn.Dense(4)(x)), 2)
            experts = nn.vmap(
                nn.Dense,
                in_axes=None,
                out_axes=0,
                axis_size=4,
                variable_axes={"params": 0},
                split_rngs={"params": True},
            )
            outputs = experts(8)(x)
            weights = (jax.nn.one_hot(chosen, 4) * gates[..., None]).sum(-2)
            return jnp.einsum("ebd,be->bd", outputs, weights)

    return _trained(Experts(), optax.lion(1e-3), floats(6, 8), floats(6, 8))


@program
def nnx_transformer_step() -> Call:
    class Block(nnx.Module):
        def __init__(self, rngs: Any) -> None:
            self.attention = nnx.MultiHeadAttention(2, 8, decode=False, rngs=rngs)
            self.first, self.second = nnx.Linear(8, 16, rngs=rngs), nnx.Linear(16, 8, rngs=rngs)
            self.norm, self.dropout = nnx.RMSNorm(8, rngs=rngs), nnx.Dropout(0.1, rngs=rngs)

        def __call__(self, x: Any) -> Any:
            x = x + self.attention(self.norm(x))
            return x + self.dropout(self.second(nnx.gelu(self.first(x))))

    model = Block(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param)
    graph, state = nnx.split((model, optimizer))

    def step(state: Any, x: Any, y: Any) -> Any:
        model, optimizer = nnx.merge(graph, state)
        loss, gradients = nnx.value_and_grad(lambda model: ((model(x) - y) ** 2).mean())(model)
        optimizer.update(model, gradients)
        return loss, jax.tree.leaves(nnx.state((model, optimizer)))

    return step, (state, floats(2, 5, 8), floats(2, 5, 8))


@program
def nnx_lora() -> Call:
    model = nnx.LoRA(6, 2, 4, base_module=nnx.Linear(6, 4, rngs=nnx.Rngs(0)), rngs=nnx.Rngs(1))
    graph, adapted, rest = nnx.split(model, nnx.LoRAParam, ...)

    def loss(adapted: Any, rest: Any, x: Any) -> Any:
        return jnp.sum(nnx.merge(graph, adapted, rest)(x) ** 2)

    return jax.value_and_grad(loss, allow_int=True), (adapted, rest, floats(3, 6))
