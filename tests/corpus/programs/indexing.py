"""Gather, scatter, slices, and the operations that move data without computing."""

import jax
import jax.numpy as jnp
from jax import lax

from .program import Family, f32, pred, s32, shape, u32

indexing = Family()


@indexing(f32(5, 4), s32(3), s32(2, 2))
def gather(x, i, pairs):
    return x[i], x[:, i], x[i, 1], x[pairs], jnp.take(x, i, axis=1), jnp.take_along_axis(x, i[None], axis=1)


for mode in ("clip", "fill", "promise_in_bounds"):

    @indexing(f32(5, 4), s32(3), name=f"gather_{mode}")
    def gather_mode(x, i, mode=mode):
        return x.at[i].get(mode=mode, indices_are_sorted=True, unique_indices=True)


@indexing(f32(2, 5, 4), s32(2, 3, 1))
def gather_batched(x, i):
    numbers = lax.GatherDimensionNumbers(
        offset_dims=(2,), collapsed_slice_dims=(1,), start_index_map=(1,),
        operand_batching_dims=(0,), start_indices_batching_dims=(0,),
    )  # fmt: skip
    return lax.gather(x, i, numbers, (1, 1, 4)), jax.vmap(lambda x, i: x[i[:, 0]])(x, i)


@indexing(f32(5, 4), s32(3), f32(3, 4))
def scatter(x, i, updates):
    at = x.at[i]
    return at.set(updates), at.add(updates), at.multiply(updates), at.min(updates), at.max(updates), at.apply(jnp.sin)


@indexing(f32(5, 4), s32(3), f32(3, 4))
def scatter_modes(x, i, updates):
    return (
        x.at[i].add(updates, mode="drop", indices_are_sorted=True), x.at[i].set(updates, unique_indices=True),
        x.at[i].subtract(updates, mode="clip"), x.at[i, i].set(0.0), x.at[1:3, ::2].set(7.0),
    )  # fmt: skip


@indexing(f32(2, 5, 4), s32(2, 3, 1), f32(2, 3, 4))
def scatter_batched(x, i, updates):
    numbers = lax.ScatterDimensionNumbers(
        update_window_dims=(2,), inserted_window_dims=(1,), scatter_dims_to_operand_dims=(1,),
        operand_batching_dims=(0,), scatter_indices_batching_dims=(0,),
    )  # fmt: skip
    return lax.scatter_add(x, i, updates, numbers), lax.scatter_max(x, i, updates, numbers)


@indexing(f32(5, 4), s32(3))
def gather_gradients(x, i):
    return jax.grad(lambda x: jnp.sum(jnp.sin(x[i])))(x), jax.grad(lambda x: jnp.sum(x.at[i].set(x[0])))(x)


@indexing(s32(20), s32(20))
def histogram(x, y):
    return jnp.bincount(x, length=8), jax.ops.segment_sum(x, y, 4), jax.ops.segment_max(x, y, 4)


@indexing(f32(5, 6), s32(), s32(), f32(2, 3))
def dynamic_slices(x, i, j, update):
    return (
        lax.dynamic_slice(x, (i, j), (2, 3)), lax.dynamic_update_slice(x, update, (i, j)),
        lax.dynamic_index_in_dim(x, i, 1), x[i], lax.dynamic_slice(x, (u := i.astype(jnp.uint8), u), (1, 1)),
    )  # fmt: skip


@indexing(f32(5, 6))
def slices(x):
    return x[1:4], x[::2, 1::3], lax.slice(x, (0, 1), (5, 6), (2, 2)), jnp.split(x, [1, 3]), lax.rev(x, (1,)), x[::-1]


@indexing(f32(3, 4), f32())
def pad(x, value):
    return (
        lax.pad(x, value, ((1, 2, 0), (0, 0, 3))), lax.pad(x, value, ((-1, 1, 0), (2, -2, 1))),
        jnp.pad(x, 1, mode="edge"), jnp.pad(x, ((2, 0), (0, 2)), mode="reflect"),
    )  # fmt: skip


@indexing(f32(2, 3), f32(2, 1), f32(2, 4))
def concatenate(x, y, z):
    return lax.concatenate((x, y, z), 1), jnp.stack([x, x]), jnp.tile(x, (2, 2)), jnp.roll(z, 1, 1)


@indexing(f32(3), f32(2, 1), f32())
def broadcast(x, y, scalar):
    return (
        lax.broadcast_in_dim(x, (2, 3, 4), (1,)), jnp.broadcast_to(y, (2, 5)), lax.broadcast(scalar, (2, 2)),
        lax.broadcast_in_dim(x, (2, 3), (1,)),
    )  # fmt: skip


@indexing()
def iota():
    return (
        lax.iota(jnp.int32, 5), lax.broadcasted_iota(jnp.float32, (2, 3), 1), jnp.arange(4, dtype=jnp.uint8),
        jnp.eye(3), jnp.tri(4), lax.iota(jnp.complex64, 3),
    )  # fmt: skip


@indexing(f32(2, 3, 4))
def reshape_and_transpose(x):
    return (
        x.reshape(6, 4), x.reshape(24), jnp.transpose(x), jnp.transpose(x, (0, 2, 1)), jnp.squeeze(x[:1], 0),
        lax.expand_dims(x, (1,)), lax.collapse(x, 1), jnp.moveaxis(x, 0, -1).reshape(3, 8),
    )  # fmt: skip


@indexing(pred(6))
def nonzero(mask):
    return jnp.nonzero(mask, size=4), jnp.where(mask, size=3)


@indexing(u32(8))
def unique_values(x):
    return jnp.unique(x, size=5, return_counts=True), jnp.searchsorted(x, x[:3])


@indexing(f32(8, 8))
def triangles(x):
    return jnp.tril(x), jnp.triu(x, 1), jnp.diag(x), jnp.trace(x), jnp.diagonal(x, 1)


@indexing(shape(jnp.int8, 4, 4), s32(3))
def gather_of_bytes(x, i):
    return x[i], x.at[i].add(1)


@indexing(f32(4, 6, 6, 3))
def image_resize(x):
    return jax.image.resize(x, (4, 3, 9, 3), "bilinear"), jax.image.resize(x, (4, 12, 12, 3), "nearest")
