"""Parts of an array assigned to other parts of it: where NumPy copies first, and where it overwrites as it goes."""

import numpy as np

from tests.functions.table import program

V = np.arange(1.0, 13.0)
M = np.arange(1.0, 17.0).reshape(4, 4)
WEIGHTS = np.arange(1.0, 17.0).reshape(4, 4)


@program((V,), grad=0)
def a_half_spread_over_the_whole(v):
    x = v * 1.0
    x[::2] = x[:6]
    y = v * 1.0
    y[1::2] = y[:6]
    y[1:9:3] = y[:3]
    return (x * V).sum() + (y * V).sum()


@program((V,))
def every_second_gathered_in_front(v):
    x = v.copy()
    x[:6] = x[::2]
    y = v.copy()
    y[6:] = y[1::2]
    return x, y


@program((V,))
def backwards_with_other_steps(v):
    x = v.copy()
    x[::-2] = x[6:]
    y = v.copy()
    y[::-2] = y[5::-1]
    y[10:4:-1] = y[::-2]
    z = v.copy()
    z[9::-3] = z[6:2:-1]
    return x, y, z


@program((M, 0, 1), (M, 1, 0), (M, 3, 2), (M, 2, 2), (M, -1, 0), grad=0)
def a_row_becomes_a_column(m, i, j):
    x = m * 1.0
    x[:, j] = x[i]
    return (x * WEIGHTS).sum()


@program((M, 0, 1), (M, 1, 0), (M, 3, 2), (M, 2, 2), (M, -1, 0))
def a_column_becomes_a_row(m, i, j):
    x = m.copy()
    x[i] = x[:, j]
    y = m.copy()
    row = y[i]
    row[:] = y.T[j]
    row[::-1] = y[:, j]
    z = m.copy()
    z[i, ::-1] = z[::-1, j]
    return x, y, z


@program((M, 0), (M, 2), (M, 3))
def a_diagonal_and_a_row(m, i):
    x = m.copy()
    diagonal = np.einsum("ii->i", x)
    diagonal[:] = x[i]
    y = m.copy()
    y[i] = np.diagonal(y)
    z = m.copy()
    z.reshape(-1)[::5] = z.reshape(-1)[i : i + 4]
    return x, y, z


@program((V, 0), (V, 2), (V, 5))
def a_moving_part_and_a_step(v, i):
    x = v.copy()
    x[i : i + 4] = x[:8:2]
    y = v.copy()
    y[:8:2] = y[i : i + 4]
    z = v.copy()
    z[i : i + 6 : 2] = z[i : i + 3]
    return x, y, z


@program((M, 0, 2), (M, 1, 1))
def two_dimensions_are_copied_first(m, i, j):
    x = m.copy()
    x[:] = x.T
    x[1:, ::2] = x[:3, 2:]
    y = m.copy()
    y[[i, j]] = y[[j, i]]
    y[:, [0, 1]] = y[:, :2][:, ::-1]
    return x, y


@program((M, 0, 1), (M, 2, 0))
def a_list_of_rows_is_assigned_one_by_one(m, i, j):
    x = m.copy()
    x[:2] = [x[1], x[0]]
    y = m.copy()
    y[1:3] = y[i], y[j]
    z = m.copy()
    z[[0, 1]] = z[1], z[0]
    w = m.copy()
    w[...] = (w[:, 3], w[:, 2], w[:, 1], w[:, 0])
    u = m.copy()
    u[:2] = [u[1] * 1, u[0]]
    return x, y, z, w, u


@program((np.arange(4.0),))
def a_list_of_boxed_elements(v):
    x = v.copy()
    x[:] = [x[1, ...], x[0, ...], x[3], x[2]]
    return x


@program((V,), refused="overwrites")
def a_known_mask(v):
    x = v.copy()
    x[np.array([True, False, False] * 4)] = x[2:6]  # refused
    return x


@program((M, True), (M, False), or_refused=True)
def arrays_of_a_branch(m, choice):
    x, y = m.copy(), m.copy() + 1
    z = x if choice else y
    z[:, 0] = z[1]
    w = z[0]
    x[:, 1] = w  # refused
    return z
