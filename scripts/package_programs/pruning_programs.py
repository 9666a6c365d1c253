"""Small models of packages with weights, for scripts/measure_pruning.py: those that pruning was written with, others.

A model is a function of parameters and an input, with arrays for both: what packages initialise, and normal noise of
0.05 on it, so that no two channels are alike.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("KERAS_BACKEND", "jax")

import equinox as eqx  # pyright: ignore[reportMissingImports]
import flax.linen as nn  # pyright: ignore[reportMissingImports]
import haiku as hk  # pyright: ignore[reportMissingImports]
import jax
import jax.numpy as jnp
import keras  # pyright: ignore[reportMissingImports]
import numpy as np
import transformers  # pyright: ignore[reportMissingImports]
from flax import nnx  # pyright: ignore[reportMissingImports]

_clip = jnp.clip


def clip(array: Any, low: Any = None, high: Any = None, **named: Any) -> Any:
    """jnp.clip with the names that it had when transformers 4 called it."""
    return _clip(array, named.get("min", named.get("a_min", low)), named.get("max", named.get("a_max", high)))


jnp.clip = clip


class Model(NamedTuple):
    """`function(params, inputs)`."""

    function: Callable[[Any, Any], Any]
    params: Any
    inputs: Any


def noisy(tree: Any) -> Any:
    """Arrays with noise on the floats among them."""
    generator = np.random.default_rng(0)

    def moved(leaf: Any) -> np.ndarray:
        array = np.asarray(leaf)
        if array.dtype.kind != "f":
            return array
        return array + (0.05 * generator.standard_normal(array.shape)).astype(array.dtype)

    return jax.tree_util.tree_map(moved, tree)


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def tokens(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(3, 50, shape).astype(np.int32)


BERT = {
    "vocab_size": 50,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 16,
}
T5 = {"vocab_size": 50, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
GATED = {**T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
GPT2 = {"vocab_size": 50, "n_positions": 16, "n_embd": 32, "n_layer": 2, "n_head": 4}
IMAGES = {"image_size": 16, "patch_size": 4, "num_labels": 5}
SEQUENCE = {"input_ids": tokens(2, 8)}
MASKED = {**SEQUENCE, "attention_mask": np.ones((2, 8), np.int32)}
TRANSLATED = {**SEQUENCE, "decoder_input_ids": tokens(2, 6)}


def transformer(config: str, model: str, inputs: Any, **sizes: Any) -> Callable[[], Model]:
    """A model of transformers by the names of its classes; its first output."""

    def make() -> Model:
        made = getattr(transformers, model)(getattr(transformers, config)(**sizes), seed=0)

        def function(params: Any, inputs: Any) -> Any:
            return made(**inputs, params=params, train=False).to_tuple()[0]

        return Model(function, noisy(made.params), inputs)

    return make


def image_classifier(config: str, model: str, **sizes: Any) -> Callable[[], Model]:
    """A convolutional network of transformers: variances are positive."""

    def make() -> Model:
        made = getattr(transformers, model)(
            getattr(transformers, config)(**sizes, num_labels=5), input_shape=(1, 32, 32, 3), seed=0
        )
        params = jax.tree_util.tree_map_with_path(
            lambda path, leaf: np.abs(leaf) + 0.5 if "var" in jax.tree_util.keystr(path) else leaf, noisy(made.params)
        )
        return Model(
            lambda params, x: made(pixel_values=x, params=params, train=False).logits, params, normal(2, 3, 32, 32)
        )

    return make


def linen(module: Any, inputs: np.ndarray) -> Model:
    params = jax.tree_util.tree_map(np.asarray, module.init(jax.random.PRNGKey(0), inputs))
    return Model(module.apply, noisy(params), inputs)


def equinox(module: Any, inputs: np.ndarray, *, is_batched: bool = True) -> Model:
    arrays, rest = eqx.partition(module, eqx.is_array)

    def function(params: Any, x: Any) -> Any:
        called = eqx.combine(params, rest)
        return jax.vmap(called)(x) if is_batched else called(x)

    return Model(function, noisy(arrays), inputs)


def keras_model(inputs: Any, outputs: Any, *shape: int) -> Model:
    model = keras.Model(inputs, outputs)
    trained = noisy([variable.value for variable in model.trainable_variables])
    others = [
        np.abs(array) + 0.1 if array.dtype.kind == "f" else array
        for array in noisy([variable.value for variable in model.non_trainable_variables])
    ]
    params = {"trained": trained, "others": others}
    return Model(
        lambda p, x: model.stateless_call(p["trained"], p["others"], x, training=False)[0], params, normal(*shape)
    )


def haiku(network: Callable[[Any], Any], inputs: np.ndarray) -> Model:
    made = hk.without_apply_rng(hk.transform(network))
    params = jax.tree_util.tree_map(np.asarray, made.init(jax.random.PRNGKey(0), inputs))
    return Model(made.apply, noisy(params), inputs)


class ScannedBlock(nn.Module):
    @nn.compact
    def __call__(self, x: Any, _: Any) -> Any:
        h = nn.LayerNorm(use_fast_variance=False)(x)
        x = x + nn.MultiHeadDotProductAttention(4)(h, h)
        h = nn.LayerNorm()(x)
        return x + nn.Dense(32)(nn.silu(nn.Dense(64)(h)) * nn.Dense(64)(h)), None


class Scanned(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        x = nn.Dense(32)(x)
        layers = nn.scan(ScannedBlock, variable_axes={"params": 0}, split_rngs={"params": True}, length=3)
        x, _ = layers()(x, None)
        return nn.Dense(5)(nn.LayerNorm()(x))


class Mixture(nn.Module):
    """Four experts, the best two for every token."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        x = nn.Dense(32)(x)
        h = nn.LayerNorm()(x)
        gates = nn.softmax(nn.Dense(4)(h))
        best, chosen = jax.lax.top_k(gates, 2)
        rows = jnp.arange(x.shape[0])[:, None]
        shares = jnp.zeros_like(gates).at[rows, chosen].set(best / best.sum(-1, keepdims=True))
        up = self.param("up", nn.initializers.lecun_normal(), (4, 32, 64))
        down = self.param("down", nn.initializers.lecun_normal(), (4, 64, 32))
        hidden = nn.gelu(jnp.einsum("td,edf->tef", h, up))
        y = jnp.einsum("te,ted->td", shares, jnp.einsum("tef,efd->ted", hidden, down))
        return nn.Dense(5)(nn.RMSNorm()(x + y))


class ConvNext(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        x = nn.Conv(16, (4, 4), strides=(4, 4))(x)
        for number in range(2):
            y = nn.LayerNorm()(nn.Conv(16, (7, 7), feature_group_count=16)(x))
            y = nn.Dense(16)(nn.gelu(nn.Dense(64)(y)))
            x = x + y * self.param(f"scale{number}", nn.initializers.constant(0.5), (16,))
        return nn.Dense(5)(nn.LayerNorm()(x.mean((1, 2))))


class MlpMixer(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        x = nn.Dense(32)(x)
        for _ in range(2):
            y = nn.LayerNorm()(x).swapaxes(1, 2)
            x = x + nn.Dense(8)(nn.gelu(nn.Dense(24)(y))).swapaxes(1, 2)
            x = x + nn.Dense(32)(nn.gelu(nn.Dense(64)(nn.LayerNorm()(x))))
        return nn.Dense(5)(nn.LayerNorm()(x).mean(1))


class Convolutions(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.first = nnx.Conv(3, 8, (3, 3), rngs=rngs)
        self.batch_norm = nnx.BatchNorm(8, use_running_average=True, rngs=rngs)
        self.grouped = nnx.Conv(8, 16, (3, 3), feature_group_count=4, rngs=rngs)
        self.group_norm = nnx.GroupNorm(16, 4, rngs=rngs)
        self.dense = nnx.Linear(16 * 8 * 8, 12, rngs=rngs)
        self.layer_norm = nnx.LayerNorm(12, rngs=rngs)
        self.head = nnx.Linear(12, 5, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        x = nnx.relu(self.batch_norm(self.first(x)))
        x = nnx.avg_pool(nnx.relu(self.group_norm(self.grouped(x))), (2, 2), strides=(2, 2))
        return self.head(self.layer_norm(nnx.relu(self.dense(x.reshape(x.shape[0], -1)))))


def flax_nnx() -> Model:
    definition, state = nnx.split(Convolutions(nnx.Rngs(0)))

    def function(params: Any, x: Any) -> Any:
        copy = jax.tree_util.tree_map(lambda array: array, state)
        nnx.replace_by_pure_dict(copy, params)
        return nnx.merge(definition, copy)(x)

    params = jax.tree_util.tree_map(np.asarray, nnx.to_pure_dict(state))
    return Model(function, noisy(params), normal(2, 16, 16, 3))


class EquinoxConvolutions(eqx.Module):
    layers: list

    def __init__(self) -> None:
        keys = jax.random.split(jax.random.PRNGKey(0), 4)
        self.layers = [
            eqx.nn.Conv2d(1, 8, 3, key=keys[0]),
            eqx.nn.GroupNorm(4, 8),
            jax.nn.relu,
            eqx.nn.MaxPool2d(2, 2),
            eqx.nn.Conv2d(8, 8, 3, groups=8, key=keys[1]),
            jax.nn.sigmoid,
            jnp.ravel,
            eqx.nn.Linear(8 * 11 * 11, 32, key=keys[2]),
            eqx.nn.LayerNorm(32),
            jax.nn.relu,
            eqx.nn.Linear(32, 10, key=keys[3]),
            jax.nn.log_softmax,
        ]

    def __call__(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x


class EquinoxTransformer(eqx.Module):
    embed: eqx.nn.Linear
    attention: eqx.nn.MultiheadAttention
    norm: eqx.nn.LayerNorm
    rms_norm: eqx.nn.RMSNorm
    mlp: eqx.nn.MLP
    head: eqx.nn.Linear

    def __init__(self) -> None:
        keys = jax.random.split(jax.random.PRNGKey(0), 4)
        self.embed = eqx.nn.Linear(6, 32, key=keys[0])
        self.attention = eqx.nn.MultiheadAttention(4, 32, key=keys[1])
        self.norm, self.rms_norm = eqx.nn.LayerNorm(32), eqx.nn.RMSNorm(32)
        self.mlp, self.head = eqx.nn.MLP(32, 32, 64, 1, key=keys[2]), eqx.nn.Linear(32, 5, key=keys[3])

    def __call__(self, x: Any) -> Any:
        x = jax.vmap(self.embed)(x)
        h = jax.vmap(self.norm)(x)
        x = x + self.attention(h, h, h)
        x = x + jax.vmap(self.mlp)(jax.vmap(self.rms_norm)(x))
        return jax.vmap(self.head)(x)


class EquinoxRecurrence(eqx.Module):
    cell: eqx.nn.GRUCell
    head: eqx.nn.Linear

    def __init__(self) -> None:
        keys = jax.random.split(jax.random.PRNGKey(0), 2)
        self.cell, self.head = eqx.nn.GRUCell(6, 16, key=keys[0]), eqx.nn.Linear(16, 5, key=keys[1])

    def __call__(self, x: Any) -> Any:
        state, _ = jax.lax.scan(lambda state, token: (self.cell(token, state), None), jnp.zeros(16), x)
        return self.head(state)


def keras_resnet() -> Model:
    layers = keras.layers
    inputs = keras.Input((16, 16, 3))
    x = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(8, 3, padding="same")(inputs)))
    for features, stride in ((8, 1), (16, 2)):
        y = layers.Conv2D(features, 3, strides=stride, padding="same", use_bias=False)(x)
        y = layers.ReLU()(layers.BatchNormalization()(y))
        y = layers.BatchNormalization()(layers.Conv2D(features, 3, padding="same", use_bias=False)(y))
        if stride == 2:
            x = layers.BatchNormalization()(layers.Conv2D(features, 1, strides=2)(x))
        x = layers.ReLU()(layers.Add()([y, x]))
    y = layers.Activation("swish")(layers.SeparableConv2D(24, 3, padding="same")(x))
    return keras_model(inputs, layers.Dense(5)(layers.GlobalAveragePooling2D()(y)), 2, 16, 16, 3)


def keras_transformer() -> Model:
    layers = keras.layers
    inputs = keras.Input((7, 6))
    x = layers.Dense(32)(inputs)
    h = layers.LayerNormalization()(x)
    x = layers.Add()([x, layers.MultiHeadAttention(4, 8)(h, h)])
    h = layers.LayerNormalization()(x)
    x = layers.Add()([x, layers.Dense(32)(layers.Dense(64, activation="gelu")(h))])
    x = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(x))
    return keras_model(inputs, layers.Dense(5)(x), 2, 7, 6)


def keras_group_norm() -> Model:
    layers = keras.layers
    inputs = keras.Input((16, 16, 3))
    x = layers.ReLU()(layers.GroupNormalization(4)(layers.Conv2D(16, 3, padding="same")(inputs)))
    x = layers.UnitNormalization()(layers.GroupNormalization(1)(layers.Conv2D(16, 3, groups=4)(x)))
    return keras_model(inputs, layers.Dense(5)(layers.Flatten()(layers.Conv2D(8, 3)(x))), 2, 16, 16, 3)


def keras_recurrent() -> Model:
    layers = keras.layers
    inputs = keras.Input((7, 6))
    x = layers.GRU(12)(layers.LSTM(16, return_sequences=True)(inputs))
    return keras_model(inputs, layers.Dense(5)(x), 2, 7, 6)


def keras_grouped_queries() -> Model:
    layers = keras.layers
    inputs = keras.Input((7, 6))
    x = layers.Dense(32)(inputs)
    h = layers.RMSNormalization()(x)
    x = layers.Add()([x, layers.GroupQueryAttention(8, 4, 2)(h, h)])
    h = layers.RMSNormalization()(x)
    gated = layers.Multiply()([layers.Dense(48, activation="silu")(h), layers.Dense(48)(h)])
    x = layers.Add()([x, layers.Dense(32)(gated)])
    return keras_model(inputs, layers.Dense(5)(layers.Flatten()(x)), 2, 7, 6)


def keras_dense_net() -> Model:
    layers = keras.layers
    inputs = keras.Input((16, 16, 3))
    x = layers.Conv2D(8, 3, padding="same")(inputs)
    for _ in range(2):
        y = layers.Conv2D(6, 3, padding="same")(layers.ReLU()(layers.BatchNormalization()(x)))
        x = layers.Concatenate()([x, y])
    return keras_model(inputs, layers.Dense(5)(layers.GlobalMaxPooling2D()(x)), 2, 16, 16, 3)


def haiku_instance_norm(x: Any) -> Any:
    x = jax.nn.relu(hk.InstanceNorm(True, True)(hk.Conv2D(8, 3)(x)))
    x = hk.Conv2D(6, 1)(hk.DepthwiseConv2D(2, 3)(x))
    x = hk.LayerNorm(-1, True, True)(x)
    return hk.Linear(5)(hk.Linear(16)(x.mean((1, 2))))


def haiku_attention(x: Any) -> Any:
    x = hk.Linear(32)(x)
    h = hk.LayerNorm(-1, True, True)(x)
    x = x + hk.MultiHeadAttention(4, 8, w_init=hk.initializers.VarianceScaling(), model_size=32)(h, h, h)
    x = x + hk.Linear(32)(jax.nn.gelu(hk.Linear(64)(hk.LayerNorm(-1, True, True)(x))))
    return hk.Linear(5)(x)


PROGRAMS: dict[str, Callable[[], Model]] = {
    "GPT-2 (transformers)": transformer("GPT2Config", "FlaxGPT2LMHeadModel", MASKED, **GPT2),
    "BERT (transformers)": transformer("BertConfig", "FlaxBertForSequenceClassification", MASKED, **BERT, num_labels=3),
    "RoBERTa (transformers)": transformer("RobertaConfig", "FlaxRobertaModel", MASKED, **BERT),
    "T5, encoder and decoder (transformers)": transformer(
        "T5Config", "FlaxT5ForConditionalGeneration", TRANSLATED, **T5
    ),
    "T5, gated (transformers)": transformer(
        "T5Config",
        "FlaxT5ForConditionalGeneration",
        TRANSLATED,
        **T5,
        feed_forward_proj="gated-gelu",
        tie_word_embeddings=False,
    ),
    "Llama, two heads share keys (transformers)": transformer(
        "LlamaConfig", "FlaxLlamaForCausalLM", SEQUENCE, **BERT, num_key_value_heads=2
    ),
    "Mistral (transformers)": transformer(
        "MistralConfig", "FlaxMistralForCausalLM", SEQUENCE, **BERT, num_key_value_heads=2, sliding_window=4
    ),
    "ViT (transformers)": transformer(
        "ViTConfig", "FlaxViTForImageClassification", {"pixel_values": normal(2, 3, 16, 16)}, **BERT, **IMAGES
    ),
    "ResNet, bottlenecks (transformers)": image_classifier(
        "ResNetConfig", "FlaxResNetForImageClassification", embedding_size=8, hidden_sizes=[8, 16], depths=[1, 2]
    ),
    "loop over 3 layers, gated (flax)": lambda: linen(Scanned(), normal(2, 7, 8)),
    "mixture of 4 experts, two for a token (flax)": lambda: linen(Mixture(), normal(10, 8)),
    "grouped convolution, BatchNorm, GroupNorm, LayerNorm (flax)": flax_nnx,
    "MLP (equinox)": lambda: equinox(eqx.nn.MLP(8, 4, 32, 3, key=jax.random.PRNGKey(0)), normal(4, 8)),
    "transformer layer (equinox)": lambda: equinox(EquinoxTransformer(), normal(7, 6), is_batched=False),
    "convolutions, GroupNorm, LayerNorm (equinox)": lambda: equinox(EquinoxConvolutions(), normal(2, 1, 28, 28)),
    "residual and separable convolutions, BatchNorm (keras)": keras_resnet,
    "transformer layer (keras)": keras_transformer,
    "grouped convolution, GroupNorm, UnitNorm (keras)": keras_group_norm,
    "LSTM and GRU (keras)": keras_recurrent,
    "InstanceNorm, depthwise convolution (haiku)": lambda: haiku(haiku_instance_norm, normal(2, 16, 16, 3)),
}
"""What pruning was written and scored with."""

UNSEEN: dict[str, Callable[[], Model]] = {
    "ALBERT, layers share weights (transformers)": transformer(
        "AlbertConfig", "FlaxAlbertForSequenceClassification", MASKED, **BERT, embedding_size=16, num_labels=3
    ),
    "DistilBERT (transformers)": transformer(
        "DistilBertConfig", "FlaxDistilBertForSequenceClassification", MASKED, vocab_size=50, dim=32, n_layers=2,
        n_heads=4, hidden_dim=64, max_position_embeddings=16, num_labels=3,
    ),
    "GPT-J, rotary, parallel (transformers)": transformer(
        "GPTJConfig", "FlaxGPTJForCausalLM", MASKED, **GPT2, rotary_dim=4
    ),
    "Bloom, fused projections (transformers)": transformer(
        "BloomConfig", "FlaxBloomForCausalLM", MASKED, vocab_size=50, hidden_size=32, n_layer=2, n_head=4
    ),
    "BART (transformers)": transformer(
        "BartConfig", "FlaxBartForConditionalGeneration", TRANSLATED, vocab_size=50, d_model=32, encoder_layers=2,
        decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64,
        max_position_embeddings=16,
    ),
    "RegNet, grouped, squeeze and excitation (transformers)": image_classifier(
        "RegNetConfig", "FlaxRegNetForImageClassification", embedding_size=8, hidden_sizes=[8, 16], depths=[1, 2],
        groups_width=4,
    ),
    "ConvNeXt blocks (flax)": lambda: linen(ConvNext(), normal(2, 16, 16, 3)),
    "MLP-Mixer (flax)": lambda: linen(MlpMixer(), normal(2, 8, 6)),
    "GRU over a sequence (equinox)": lambda: equinox(EquinoxRecurrence(), normal(2, 7, 6)),
    "grouped queries, RMSNorm (keras)": keras_grouped_queries,
}  # fmt: skip
"""What pruning was run on once, after it was written."""
