"""Models of transformers and diffusers, small and without their weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
import transformers as hf
from diffusers import FlaxAutoencoderKL, FlaxUNet2DConditionModel

from .registry import cross_entropy, floats, integers, key, program, squared


def tuned(model: Any, shape: tuple[int, ...], loss: Callable[..., Any], *batch: Any, optimizer: Any = None) -> Any:
    """A step of training that is given its weights and the optimizer's state for good."""
    optimizer = optimizer or optax.adamw(1e-4)
    weights = jax.eval_shape(lambda: model.init_weights(key(), shape))
    state = jax.eval_shape(optimizer.init, weights)

    def step(weights, state, random, *batch):
        value, gradients = jax.value_and_grad(lambda w: loss(w, random, *batch))(weights)
        updates, state = optimizer.update(gradients, state, weights)
        return optax.apply_updates(weights, updates), state, value

    return jax.jit(step, donate_argnums=(0, 1)), (weights, state, key(), *batch)


@program
def bert_masked_words() -> Any:
    config = hf.BertConfig(
        vocab_size=2000, hidden_size=128, num_hidden_layers=3, num_attention_heads=4, intermediate_size=512
    )
    model = hf.FlaxBertForMaskedLM(config, _do_init=False)

    def loss(weights, random, tokens, mask, labels):
        return cross_entropy(model(tokens, mask, params=weights, dropout_rng=random, train=True).logits, labels)

    return tuned(model, (1, 64), loss, integers(8, 64), integers(8, 64), integers(8, 64))


@program
def gpt2_words() -> Any:
    config = hf.GPT2Config(vocab_size=3000, n_positions=128, n_embd=128, n_layer=3, n_head=4)
    model = hf.FlaxGPT2LMHeadModel(config, _do_init=False)

    def loss(weights, random, tokens):
        logits = model(tokens, params=weights, dropout_rng=random, train=True).logits
        return cross_entropy(logits[:, :-1], tokens[:, 1:])

    chain = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-4))
    return tuned(model, (1, 128), loss, integers(4, 128), optimizer=chain)


@program
def gpt2_next_words() -> Any:
    config = hf.GPT2Config(vocab_size=1000, n_positions=64, n_embd=64, n_layer=2, n_head=4)
    model = hf.FlaxGPT2LMHeadModel(config, _do_init=False)
    weights = jax.eval_shape(lambda: model.init_weights(key(), (1, 16)))

    def write(weights, tokens):
        return model.generate(
            tokens, params=weights, max_length=48, do_sample=True, top_k=20, pad_token_id=0, prng_key=key()
        ).sequences

    return jax.jit(write), (weights, integers(4, 16))


@program
def bart_translation() -> Any:
    config = hf.BartConfig(
        vocab_size=1500,
        d_model=96,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=256,
        decoder_ffn_dim=256,
        max_position_embeddings=64,
    )
    model = hf.FlaxBartForConditionalGeneration(config, _do_init=False)

    def loss(weights, random, source, target):
        logits = model(source, decoder_input_ids=target, params=weights, dropout_rng=random, train=True).logits
        return cross_entropy(logits, target)

    return tuned(model, (1, 48), loss, integers(8, 48), integers(8, 40), optimizer=optax.adafactor(1e-3))


@program
def vit_images() -> Any:
    config = hf.ViTConfig(
        hidden_size=96, num_hidden_layers=3, num_attention_heads=4, intermediate_size=256, image_size=64, num_labels=10
    )
    model = hf.FlaxViTForImageClassification(config, _do_init=False)

    def loss(weights, random, images, labels):
        return cross_entropy(model(images, params=weights, dropout_rng=random, train=True).logits, labels)

    return tuned(model, (1, 64, 64, 3), loss, floats(16, 3, 64, 64), integers(16))


@program
def llama_in_bfloat16() -> Any:
    config = hf.LlamaConfig(
        vocab_size=2000,
        hidden_size=128,
        intermediate_size=344,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=128,
    )
    model = hf.FlaxLlamaForCausalLM(config, dtype=jnp.bfloat16, _do_init=False)

    def loss(weights, random, tokens):
        logits = model(tokens, params=weights).logits.astype(jnp.float32)
        return cross_entropy(logits[:, :-1], tokens[:, 1:])

    return tuned(model, (1, 128), loss, integers(4, 128))


@program
def clip_pairs() -> Any:
    text = {"vocab_size": 800, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    image = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 32, "patch_size": 8}
    config = hf.CLIPConfig(
        text_config=text | {"intermediate_size": 128, "max_position_embeddings": 32},
        vision_config=image | {"intermediate_size": 128},
        projection_dim=64,
    )
    model = hf.FlaxCLIPModel(config, _do_init=False)

    def loss(weights, random, tokens, images):
        made = model(tokens, images, params=weights, dropout_rng=random, train=True)
        labels = jnp.arange(made.logits_per_text.shape[0])
        return cross_entropy(made.logits_per_text, labels) + cross_entropy(made.logits_per_image, labels)

    return tuned(model, ((1, 32), (1, 32, 32, 3)), loss, integers(24, 32), floats(24, 3, 32, 32))


@program
def whisper_speech() -> Any:
    config = hf.WhisperConfig(
        vocab_size=600,
        d_model=64,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=192,
        decoder_ffn_dim=192,
        num_mel_bins=20,
        max_source_positions=100,
        max_target_positions=32,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        suppress_tokens=None,
        begin_suppress_tokens=None,
    )
    model = hf.FlaxWhisperForConditionalGeneration(config, (1, 20, 200), _do_init=False)

    def loss(weights, random, sounds, words):
        made = model(sounds, words, params=weights, dropout_rng=random, train=True)
        return cross_entropy(made.logits, words)

    return tuned(model, (1, 20, 200), loss, floats(4, 20, 200), integers(4, 32))


@program
def diffusion_unet() -> Any:
    model = FlaxUNet2DConditionModel(
        sample_size=16,
        in_channels=4,
        out_channels=4,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        block_out_channels=(32, 64),
        layers_per_block=1,
        attention_head_dim=4,
        cross_attention_dim=48,
    )
    optimizer = optax.adamw(1e-4)
    weights = jax.eval_shape(lambda: model.init_weights(key()))
    state = jax.eval_shape(optimizer.init, weights)

    def step(weights, state, random, images, times, words):
        noise = jax.random.normal(random, images.shape)

        def loss(weights):
            return squared(model.apply({"params": weights}, images + noise, times, words, train=True).sample, noise)

        value, gradients = jax.value_and_grad(loss)(weights)
        updates, state = optimizer.update(gradients, state, weights)
        return optax.apply_updates(weights, updates), state, value

    batch = (floats(4, 4, 16, 16), integers(4), floats(4, 12, 48))
    return jax.jit(step, donate_argnums=(0, 1)), (weights, state, key(), *batch)


@program
def latent_autoencoder() -> Any:
    model = FlaxAutoencoderKL(
        down_block_types=("DownEncoderBlock2D", "DownEncoderBlock2D"),
        up_block_types=("UpDecoderBlock2D", "UpDecoderBlock2D"),
        block_out_channels=(16, 32),
        layers_per_block=1,
        latent_channels=4,
        norm_num_groups=8,
        sample_size=32,
    )
    weights = jax.eval_shape(lambda: model.init_weights(key()))

    def loss(weights, random, images):
        given = {"params": weights}
        latent = model.apply(given, images, method=model.encode).latent_dist
        made = model.apply(given, latent.sample(random), method=model.decode).sample
        return squared(made, images) + 1e-6 * latent.kl().mean()

    return jax.jit(jax.value_and_grad(loss)), (weights, key(), floats(4, 3, 32, 32))


@program
def denoising_loop() -> Any:
    model = FlaxUNet2DConditionModel(
        sample_size=8,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        block_out_channels=(32, 32),
        layers_per_block=1,
        attention_head_dim=8,
        cross_attention_dim=32,
    )
    weights = jax.eval_shape(lambda: model.init_weights(key()))

    def draw(weights, latents, words):
        def step(time, latents):
            both = jnp.concatenate([latents, latents])
            times = jnp.full(both.shape[:1], 49 - time)
            plain, told = jnp.split(model.apply({"params": weights}, both, times, words).sample, 2)
            return latents - 0.02 * (plain + 7.5 * (told - plain))

        return jax.lax.fori_loop(0, 50, step, latents)

    return jax.jit(draw), (weights, floats(2, 4, 8, 8), floats(4, 10, 32))
