"""Sorting, gathers and scatters of all modes, windows and reductions."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .program import DIFFERENCES, JAX, Table, declare, normal, uniform

PROGRAMS: Table = {}
V = normal(7)
M = normal(4, 5)
TIED = np.array([1.0, 3.0, 3.0, 2.0, 3.0, 1.0])


@declare(PROGRAMS, V, M)
def sorts(v, m):
    return jnp.sort(v), jnp.sort(v, descending=True), jnp.sort(m, 0), jnp.sort(m, 1)[:, ::-1], lax.sort(m, dimension=0)


@declare(PROGRAMS, V, V[::-1].copy())
def sort_by_keys(v, w):
    keys = jnp.array([1, 0, 1, 2, 0, 2, 1])
    return lax.sort((keys, v, w), num_keys=2)[1:], v[jnp.argsort(w)], w[jnp.lexsort((v, keys))]


@declare(PROGRAMS, np.array([2.0, 1.0, 2.0, 1.0]), normal(4), reference=JAX)
def sort_with_equal_keys(keys, values):
    return lax.sort((keys, values), num_keys=1, is_stable=True)


@declare(PROGRAMS, V, M)
def selections(v, m):
    return lax.top_k(v, 3)[0], lax.top_k(m, 2)[0], jnp.median(v), jnp.median(m, 0), jnp.quantile(m, 0.3, axis=1)


@declare(PROGRAMS, V, M)
def ranks_and_arguments(v, m):
    return v[jnp.argmax(v)], m[jnp.argmin(m, 0), jnp.arange(5)], jnp.take_along_axis(m, jnp.argsort(m, 1), 1), m.max(1)


@declare(PROGRAMS, uniform(5), np.array([0.3, 2.2, 3.9]), np.arange(5.0))
def interpolation(values, points, knots):
    index = jnp.clip(jnp.searchsorted(knots, points) - 1, 0, 3)
    return jnp.interp(points, knots, values), values[index] + (points - knots[index]) * values[index + 1]


@declare(PROGRAMS, M, np.array([[0, 1], [3, -1], [9, 2], [-7, 4]], np.int32))
def gather_modes(m, i):
    return (
        m.at[i[:, 0], i[:, 1]].get(mode="clip"), m.at[i[:, 0], i[:, 1]].get(mode="fill", fill_value=1.5),
        m.at[i[:, 0]].get(mode="fill", fill_value=2.0), m[jnp.clip(i[:, 0], 0, 3), 1:4],
    )  # fmt: skip


@declare(PROGRAMS, M, normal(4, seed=2), np.array([[0, 1], [3, 4], [9, 2], [0, 1]], np.int32),
         reference=DIFFERENCES)  # fmt: skip
def scatter_modes(m, u, i):
    return [
        getattr(m.at[i[:, 0], i[:, 1]], method)(u, mode=mode)
        for method in ("add", "multiply", "min", "max")
        for mode in ("drop", "clip")
    ]


@declare(PROGRAMS, V, normal(3, seed=2), np.array([1, 5, 1], np.int32), reference=JAX)
def scatter_over_duplicates(v, u, i):
    return v.at[i].set(u), v.at[i].add(u), v.at[i].set(2.0)


@declare(PROGRAMS, np.array([1.0, 2.0, 3.0]), np.array([2.0, 2.0, 5.0, 2.0]), np.array([1, 1, 1, 0], np.int32),
         reference=JAX)  # fmt: skip
def scatter_extremes_with_ties(v, u, i):
    return v.at[i].max(u), v.at[i].min(u)


@declare(PROGRAMS, V, np.array([0, 1, 0, 2, 9, 2, 2], np.int32), reference=DIFFERENCES)
def segments(v, i):
    return jax.ops.segment_sum(v, i, 3), jax.ops.segment_max(v, i, 3), jax.ops.segment_prod(v, i, 3)


@declare(PROGRAMS, M, np.array([1, 2], np.int32), reference=DIFFERENCES)
def scatter_of_windows(m, i):
    return m.at[i, 1:4].add(m[:2, :3] ** 2), m.at[:, i].set(jnp.sin(m[:, :2])), m.at[i].divide(m[:2] ** 2 + 1)


@declare(PROGRAMS, normal(2, 4, 3), np.array([[0, 3], [2, 2]], np.int32))
def batched_indices(m, i):
    one = jax.vmap(lambda a, j: a[j] * 2)(m, i)
    return one, jax.vmap(lambda a, j: a.at[j].add(a[:2]))(m, i), jax.vmap(lambda a, j: a[j[0], j[1]])(m, i)


@declare(PROGRAMS, M, np.array(9, np.int32), np.array(-2, np.int32))
def dynamic_slices_outside(m, i, j):
    piece = lax.dynamic_slice(m, (i, j), (2, 3))
    return piece, lax.dynamic_update_slice(m, piece * m[:2, :3], (j, i)), lax.dynamic_index_in_dim(m, 1, 0)


@declare(PROGRAMS, M, reference=DIFFERENCES)
def scatter_apply(m):
    return m.at[jnp.array([0, 0, 2])].apply(jnp.sin), m.at[1:3, ::2].power(2.0)


@declare(PROGRAMS, TIED, reference=JAX)
def extremes_with_ties(x):
    return x.max(), x.min(), jnp.maximum(x[:3], x[1:4]), jnp.sort(x)


@declare(PROGRAMS, np.tile(TIED, (4, 1)), reference=JAX)
def pooling_with_ties(x):
    return [lax.reduce_window(x, init, f, (2, 3), (1, 2), padding) for f, init in ((lax.max, -jnp.inf), (lax.min, jnp.inf))
            for padding in ("VALID", "SAME")]  # fmt: skip


@declare(PROGRAMS, normal(2, 7, 6))
def pooling(x):
    return (
        lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 2), (1, 2, 2), "SAME"),
        lax.reduce_window(x, 0.0, lax.add, (1, 2, 2), (1, 2, 1), "SAME"),
        lax.reduce_window(x, jnp.inf, lax.min, (2, 2, 2), (1, 1, 1), ((0, 0), (1, 0), (0, 1))),
    )


@declare(PROGRAMS, normal(9, 8), reference=DIFFERENCES)
def pooling_with_gaps(x):
    """Windows with gaps, arrays with gaps, both."""
    return (
        lax.reduce_window(x, -jnp.inf, lax.max, (3, 2), (1, 2), "VALID", window_dilation=(2, 3)),
        lax.reduce_window(x, jnp.inf, lax.min, (2, 2), (2, 1), ((1, 1), (0, 2)), None, (3, 2)),
        lax.reduce_window(x, -9.0, lax.max, (2, 3), (1, 1), "VALID", (2, 2), (1, 2)),
        lax.reduce_window(x, -jnp.inf, lax.max, (3, 3), (2, 2), ((1, 2), (2, 0)), (2, 1), (1, 1)),
    )


@declare(PROGRAMS, normal(6, 5), np.array(0.3), reference=DIFFERENCES)
def pooling_from_a_start(x, start):
    return lax.reduce_window(x, start, lax.max, (2, 2), (2, 2), "VALID")


@declare(PROGRAMS, uniform(7), reference=DIFFERENCES)
def windows_of_other_combiners(x):
    return lax.reduce_window(x, 1.0, lax.mul, (3,), (2,), "SAME"), lax.cumprod(x), lax.cumlogsumexp(x), lax.cummax(x)


@declare(PROGRAMS, normal(6, 6), reference=DIFFERENCES)
def gradient_of_pooling(x):
    """The gradient that JAX made of a pooling: select-and-scatter in the program."""
    pool = lambda y: lax.reduce_window(y, -jnp.inf, lax.max, (2, 2), (2, 2), "SAME")
    return jax.grad(lambda y: jnp.sum(jnp.sin(pool(y))))(x)


@declare(PROGRAMS, normal(3, 4))
def reductions(x):
    return x.sum(0), x.max(1), x.min(), x.prod(1), jax.nn.logsumexp(x), jnp.all(x > 0) * x.sum(), x.mean(), x.argmax() * x[0]


@declare(PROGRAMS, normal(3, 6), reference=DIFFERENCES)
def reductions_by_any_computation(x):
    """The largest with its index; a sum of squares; a maximum by size."""
    index = lax.broadcasted_iota(jnp.int32, x.shape, 1)

    def larger(a, b):
        take = a[0] > b[0]
        return jnp.where(take, a[0], b[0]), jnp.where(take, a[1], b[1])

    best, where = lax.reduce((x, index), (-jnp.inf, jnp.int32(0)), larger, (1,))
    soft = lax.reduce(x, -jnp.inf, jnp.logaddexp, (0,))
    return best, soft, x[jnp.arange(3), where]


@declare(PROGRAMS, uniform(6, 2))
def associative_scans(x):
    pair = lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1])
    return lax.associative_scan(jnp.multiply, x), lax.associative_scan(pair, (x, jnp.sin(x)))[1]


@declare(PROGRAMS, normal(1, 4, 6, 5), normal(6, 2, 3, 3, seed=1))
def convolutions(x, k):
    return [
        lax.conv_general_dilated(x, k, strides, padding, lhs_dilation=base, rhs_dilation=window, feature_group_count=2)
        for strides, padding, base, window in (
            ((1, 2), "SAME", (1, 1), (1, 1)), ((2, 1), ((0, 0), (1, 1)), (2, 1), (1, 2)), ((1, 1), ((3, -1), (-1, 4)), (1, 3), (2, 1)),
        )
    ]  # fmt: skip


@declare(PROGRAMS, normal(4, 3, 5, 5), normal(6, 3, 2, 2, seed=1))
def convolution_by_batches(x, k):
    return lax.conv_general_dilated(x, k, (1, 1), "SAME", batch_group_count=2), lax.conv_transpose(
        x, jnp.transpose(k, (2, 3, 1, 0)), (2, 2), "SAME", dimension_numbers=("NCHW", "HWIO", "NCHW")
    )


@declare(PROGRAMS, normal(4, 3), normal(2, 3, 5, seed=1), np.array([3, 1], np.int32))
def ragged_product(rows, groups, sizes):
    return lax.ragged_dot(rows, groups, sizes)


@declare(PROGRAMS, normal(0, 3), normal(3), reference=DIFFERENCES)
def empty_arrays(x, y):
    return x.sum(0) * y, jnp.concatenate([x, y[None]]), x @ y, x.max(initial=0.0) * y


@declare(PROGRAMS, normal(3, 4))
def moves(x):
    return (
        x[::-1, 1::2], jnp.pad(x, ((1, 1), (0, 2)), "reflect"), lax.pad(x, 0.5, ((-1, 2, 1), (0, -1, 2))), jnp.tile(x, (2, 1)),
        jnp.repeat(x, 3, 1), x.T.reshape(2, 6), jnp.stack([x, x * x]), jnp.flip(x), jnp.roll(x, 1, 1), jnp.tril(x),
        jnp.diag(x[:3, :3]), jnp.split(x, 2, 1)[1], jnp.broadcast_to(x[0], (5, 4)), lax.squeeze(x[:1], (0,)),
    )  # fmt: skip
