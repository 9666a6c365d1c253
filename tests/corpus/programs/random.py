"""Random numbers: threefry, other generators, XLA's own rng."""

import jax
import jax.numpy as jnp
from jax import lax

from .program import Family, f32, shape, u32

random = Family()


@random(u32(2))
def random_bits(key):
    return jax.random.bits(key, (5,)), jax.random.split(key, 3), jax.random.fold_in(key, 7)


@random(u32(2))
def random_distributions(key):
    return (
        jax.random.normal(key, (3, 2)), jax.random.uniform(key, (4,), jnp.bfloat16), jax.random.randint(key, (3,), 0, 9),
        jax.random.bernoulli(key, 0.3, (4,)), jax.random.permutation(key, 6), jax.random.categorical(key, jnp.ones(4)),
    )  # fmt: skip


@random(u32(2), f32(3))
def random_rejection(key, rate):
    return jax.random.gamma(key, rate), jax.random.poisson(key, rate)


@random(u32(4))
def random_philox(key):
    wrapped = jax.random.wrap_key_data(key, impl="rbg")
    return jax.random.uniform(wrapped, (4,)), jax.random.key_data(jax.random.split(wrapped, 2))


@random(u32(4), u32(4))
def rng_bit_generator(key, three_fry):
    algorithms = lax.RandomAlgorithm
    return (
        lax.rng_bit_generator(key, (3,), jnp.uint32), lax.rng_bit_generator(key, (2, 2), jnp.uint64),
        lax.rng_bit_generator(key, (5,), jnp.uint8, algorithms.RNG_PHILOX),
        lax.rng_bit_generator(three_fry, (5,), jnp.uint16, algorithms.RNG_THREE_FRY),
    )  # fmt: skip


@random(f32(), f32())
def rng_uniform(low, high):
    return lax.rng_uniform(low, high, (3, 4))


@random(u32(2), f32(4, 8))
def dropout(key, x):
    keep = jax.random.bernoulli(key, 0.9, x.shape)
    return jnp.where(keep, x / 0.9, 0)


@random(shape(jnp.uint32))
def typed_keys(seed):
    keys = jax.random.split(jax.random.key(seed), 4)
    return jax.vmap(lambda key: jax.random.normal(key, (2,)))(keys)
