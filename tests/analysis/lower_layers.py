"""The child of `test_cost`: a transformer's training step, its layers scanned or unrolled, as JSON of texts."""

import json
import sys

import jax
import jax.numpy as jnp

LAYERS, WIDTH, VOCABULARY, BATCH, SEQUENCE = 12, 32, 96, 2, 16


def block(x, weights):
    expand, contract, mix = weights
    scores = jax.nn.softmax((x @ mix) @ x.swapaxes(1, 2) / 8, axis=-1)
    x = x + scores @ x
    return x + jnp.tanh(x @ expand) @ contract


def loss(parameters, tokens, is_scanned):
    embedding, layers = parameters
    step = jax.checkpoint(lambda x, weights: (block(x, weights), None))
    x = embedding[tokens]
    if is_scanned:
        x, _ = jax.lax.scan(step, x, layers)
    else:
        for number in range(LAYERS):
            x, _ = step(x, [stacked[number] for stacked in layers])
    return jax.nn.log_softmax(x @ embedding.T).mean()


def lower(is_scanned):
    def array(*dims):
        return jax.ShapeDtypeStruct(dims, jnp.float32)

    layers = [array(LAYERS, WIDTH, 4 * WIDTH), array(LAYERS, 4 * WIDTH, WIDTH), array(LAYERS, WIDTH, WIDTH)]
    tokens = jax.ShapeDtypeStruct((BATCH, SEQUENCE), jnp.int32)
    gradient = jax.jit(jax.grad(loss), static_argnums=2)
    lowered = gradient.lower((array(VOCABULARY, WIDTH), layers), tokens, is_scanned)
    return [lowered.as_text("hlo"), lowered.compile().as_text()] if is_scanned else [lowered.as_text("hlo")]


if __name__ == "__main__":
    json.dump({"scanned": lower(True), "unrolled": lower(False)}, sys.stdout)
