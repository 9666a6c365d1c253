"""Collectives through shard_map, and programs sharded by GSPMD and by Shardy, on 8 devices."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from .program import Family, f32, s32, u32

sharding = Family()

line = Mesh(np.array(jax.devices()[:8]), ("x",))
grid = Mesh(np.array(jax.devices()[:8]).reshape(4, 2), ("data", "model"))
cube = Mesh(np.array(jax.devices()[:8]).reshape(2, 2, 2), ("a", "b", "c"))
SPLIT = P("x")


def on_line(body, inputs: Any = SPLIT, outputs: Any = SPLIT, **options):
    return jax.shard_map(body, mesh=line, in_specs=inputs, out_specs=outputs, **options)


@sharding(f32(8, 4))
def all_reduce(x):
    return on_line(lambda x: (lax.psum(x, "x"), lax.pmax(x, "x"), lax.pmin(x, "x"), lax.pmean(x, "x")), outputs=P())(x)


@sharding(f32(8, 4))
def all_gather(x):
    def body(x):
        return lax.all_gather(x, "x"), lax.all_gather(x, "x", axis=1, tiled=True)

    return on_line(body, check_vma=False)(x)


@sharding(f32(8, 16))
def reduce_scatter(x):
    return on_line(lambda x: lax.psum_scatter(x, "x", scatter_dimension=1, tiled=True), check_vma=False)(x)


@sharding(f32(8, 16))
def all_to_all(x):
    def body(x):
        return lax.all_to_all(x, "x", 1, 0, tiled=True), lax.all_to_all(x.reshape(8, 2), "x", 0, 0)

    return on_line(body)(x)


@sharding(f32(8, 4))
def permute(x):
    def body(x):
        shifted = lax.ppermute(x, "x", [(i, (i + 1) % 8) for i in range(8)])
        return shifted, lax.ppermute(x, "x", [(0, 7), (7, 0)]), lax.pshuffle(x, "x", list(range(7, -1, -1)))

    return on_line(body)(x)


@sharding(f32(8, 4))
def axis_index(x):
    return on_line(lambda x: x * lax.axis_index("x") + lax.axis_size("x"))(x)


@sharding(f32(8, 4), platform="cuda")
def collective_broadcast(x):
    return on_line(lambda x: lax.pbroadcast(x, "x", 3), check_vma=False)(x)


@sharding(f32(64), f32(64), s32(64), s32(64), s32(64), s32(64), platform="tpu")
def ragged_all_to_all(x, output, input_offsets, send_sizes, output_offsets, receive_sizes):
    return on_line(lambda *operands: lax.ragged_all_to_all(*operands, axis_name="x"), check_vma=False)(
        x, output, input_offsets, send_sizes, output_offsets, receive_sizes
    )


@sharding(f32(8, 8))
def collectives_on_a_grid(x):
    def body(x):
        rows = lax.psum(x, "data")
        return rows, lax.psum(x, ("data", "model")), lax.all_gather(x, "model", axis=1, tiled=True)

    mapped = jax.shard_map(
        body, mesh=grid, in_specs=P("data", "model"), out_specs=(P(None, "model"), P(), P("data")), check_vma=False
    )
    return mapped(x)


@sharding(f32(8, 4), f32(4, 8))
def sharded_map_gradients(x, weights):
    def loss(weights, x):
        return lax.pmean(jnp.sum(jnp.tanh(x @ weights)), "x")

    return on_line(jax.value_and_grad(loss), (P(), P("x")), (P(), P()))(weights, x)


@sharding(f32(8, 8))
def partly_manual(x):
    body = lambda x: lax.psum(jnp.sin(x), "data")  # noqa: E731
    return jax.shard_map(body, mesh=grid, in_specs=P("data"), out_specs=P(), axis_names={"data"})(x)


@sharding(f32(8, 4))
def ring(x):
    def body(x):
        def step(_, carry):
            total, moving = carry
            return total + moving, lax.ppermute(moving, "x", [(i, (i + 1) % 8) for i in range(8)])

        return lax.fori_loop(0, 8, step, (x, x))[0]

    return on_line(body, check_vma=False)(x)


def feed_forward(x, first, second):
    hidden = jax.nn.relu(x @ first)
    hidden = lax.with_sharding_constraint(hidden, NamedSharding(grid, P("data", "model")))
    return hidden @ second


def named(mesh, *names):
    return NamedSharding(mesh, P(*names))


FEED_FORWARD = (f32(8, 16), f32(16, 32), f32(32, 16))
FEED_FORWARD_SHARDINGS = {
    "in_shardings": (named(grid, "data"), named(grid, None, "model"), named(grid, "model", None)),
    "out_shardings": named(grid, "data"),
}

for partitioner, shardy in (("gspmd", False), ("shardy", True)):

    @sharding(*FEED_FORWARD, jit=FEED_FORWARD_SHARDINGS, shardy=shardy, name=f"feed_forward_{partitioner}")
    def sharded(x, first, second):
        return feed_forward(x, first, second)

    @sharding(*FEED_FORWARD, jit=FEED_FORWARD_SHARDINGS | {"out_shardings": None}, shardy=shardy,
              name=f"feed_forward_gradients_{partitioner}")  # fmt: skip
    def sharded_gradients(x, first, second):
        return jax.grad(lambda *arguments: feed_forward(*arguments).sum(), (1, 2))(x, first, second)

    @sharding(
        f32(8, 8, 8), f32(8), jit={"in_shardings": (named(cube, ("a", "c"), None, "b"), named(cube, "b"))},
        shardy=shardy, name=f"three_axes_{partitioner}",
    )  # fmt: skip
    def three_axes(x, y):
        moved = lax.with_sharding_constraint(x.transpose(2, 0, 1) + y, named(cube, None, "c", ("b", "a")))
        return moved.sum(1), lax.with_sharding_constraint(y * 2, named(cube))

    @sharding(f32(8, 8), jit={"in_shardings": named(grid, "data", "model")}, shardy=shardy,
              name=f"halo_{partitioner}")  # fmt: skip
    def halo(x):
        return x[1:] - x[:-1], jnp.roll(x, 1, 0), jnp.concatenate([x, x], 1), x[:, ::-1], jnp.cumsum(x, 1)

    @sharding(f32(8, 4), s32(8), jit={"in_shardings": (named(grid, "model"), named(grid, "data"))}, shardy=shardy,
              name=f"embedding_{partitioner}")  # fmt: skip
    def embedding(table, tokens):
        return table[tokens], jnp.zeros_like(table).at[tokens].add(1.0)

    @sharding(u32(2), jit={"out_shardings": named(grid, "data", "model")}, shardy=shardy,
              name=f"random_{partitioner}")  # fmt: skip
    def sharded_random(key):
        return jax.random.normal(key, (8, 4))


@sharding(f32(8, 4), f32(4), jit={"donate_argnums": (0,), "in_shardings": (named(line, "x"), named(line))})
def sharded_and_donated(x, y):
    return jnp.sin(x) + y


@sharding(f32(6, 4), shardy=False)
def uneven_shards(x):
    return lax.with_sharding_constraint(jnp.pad(x, ((0, 2), (0, 0))), named(grid, "data", None)) * 2


@sharding(f32(8, 4))
def unconstrained(x):
    spec = P(P.UNCONSTRAINED, "model")
    return lax.with_sharding_constraint(jnp.cos(x), NamedSharding(grid, spec)).sum()


@sharding(f32(16, 8))
def pipeline_scan(x):
    def body(x):
        return lax.scan(lambda carry, row: (lax.psum(carry + row, "x"), carry), jnp.zeros_like(x[0]), x)[1]

    return on_line(body, check_vma=False)(x)


@sharding(f32(8, 16), platform="tpu")
def collectives_on_tpu(x):
    def body(x):
        return lax.psum(x, "x"), lax.psum_scatter(x, "x", scatter_dimension=1, tiled=True), lax.all_gather(x, "x")

    return on_line(body, outputs=(P(), P("x"), P("x")), check_vma=False)(x)
