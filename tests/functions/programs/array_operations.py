"""NumPy by its own rules: indices of all forms, axes, types, products, reductions, linear algebra, assignment."""

import math

import numpy as np

from tests.functions.table import program

MATRIX = np.arange(12.0).reshape(3, 4)
CUBE = np.arange(24.0).reshape(2, 3, 4)


@program((CUBE,))
def ellipsis_and_new_axes(c):
    return c[..., 0], c[0, ...], c[:, None, :, 1], c[..., np.newaxis].shape, c[1, ..., -1], c[None].ndim, c[..., 1:3, ::2]


@program((MATRIX, 1), (MATRIX, -1))
def slices_with_a_moving_start(m, i):
    return m[i], m[:, i], m[i, 1:], m[i, i], m[i, ::-1], m[[0, i]], m[..., i]


@program((MATRIX, np.array([2, 0]), np.array([1, 3])))
def indices_by_arrays(m, rows, columns):
    return m[rows], m[rows, columns], m[:, columns], m[np.ix_(rows, columns)], m[rows][:, columns], m[rows, 1:3], m[rows[:, None], columns]


@program((MATRIX,))
def transpositions(m):
    return m.T, m.transpose(1, 0).shape, np.transpose(CUBE, (2, 0, 1)).shape, np.swapaxes(CUBE, 0, 2)[1, 2], np.moveaxis(CUBE, -1, 0).sum(0), m.T @ m


@program((MATRIX,))
def shapes_changed(m):
    flat = m.ravel()
    return m.reshape(-1, 2), m.reshape(2, 2, -1).shape, flat[3:5], m.flatten().size, np.squeeze(m[None, :1]), np.atleast_2d(flat).shape, m.reshape((4, 3))[3]


@program((MATRIX, np.array([1.0, 2.0, 3.0])))
def broadcasting_along_axes(m, v):
    return m * v[:, None], m.T + v, v[:, None] * v, np.broadcast_to(v, (2, 3)), m - m.mean(axis=1, keepdims=True), v[None, :, None].shape


@program((MATRIX,))
def reductions_by_axes(m):
    return m.sum(0), m.prod(axis=1), m.max(axis=(0, 1)), m.min(1, keepdims=True), m.mean(-1), m.std(0), m.var(), m.argmax(1), m.any(0), m.all(), m.cumsum(1)[1], np.ptp(m, axis=0)


@program((CUBE,))
def reductions_by_two_axes(c):
    return c.sum(axis=(0, 2)), np.max(c, axis=(1, 2)), c.mean((0, 1)), np.linalg.norm(c, axis=(1, 2)), np.count_nonzero(c > 5, axis=0)[0], np.median(c, axis=0)[0]


@program((np.array([3, 1, 2]), np.array([1.5, 2.5, 3.5])))
def promotion_between_arrays(i, f):
    return i + f, i / 2, i // 2, i * 2, i * 2.5, (i > 1) + i, (i > 1) * f, i**2, f**i, -i, i % 2, (i > 1) & (f > 2), ~(i > 1)


@program((np.array([3, 1, 2], np.int32), np.array([1.5, 2.5, 3.5], np.float32)))
def promotion_of_short_types(i, f):
    return i + f, i + 1, f * 2.0, i * 2.5, f + np.float64(1), i + np.int64(1), i.astype(np.float32) + f, i.sum(), f.mean(), i / i, np.sqrt(i)


@program((np.array([1.0, np.nan, 3.0]),))
def nans_in_reductions(v):
    return np.isnan(v), np.nansum(v), np.nanmax(v), v.sum(), np.max(v), np.nan_to_num(v), np.where(np.isnan(v), 0.0, v), np.isfinite(v).all()


@program((np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([1.0, 2.0])))
def linear_algebra_of_a_symmetric_matrix(a, b):
    values, vectors = np.linalg.eigh(a)
    rebuilt = vectors @ np.diag(values) @ vectors.T
    return np.linalg.solve(a, b), np.linalg.inv(a) @ b, np.linalg.det(a), values, rebuilt, np.trace(a), np.linalg.norm(b), np.linalg.cholesky(a), np.linalg.matrix_power(a, 3), np.linalg.matrix_rank(a)


@program((MATRIX,))
def products_of_all_forms(m):
    v = m[0]
    return m @ v, v @ m.T, np.dot(v, v), np.outer(v, v[:2]), np.inner(m, m)[0], np.vdot(v, v), np.einsum("ij,ij->i", m, m), np.kron(v[:2], v[:2]), np.cross(v[:3], m[1, :3]), np.tensordot(m, m, 2), np.matmul(m, m.T)[1]


@program((np.array([3.0, 1.0, 2.0, 1.0]),))
def order_and_search(v):
    order = np.argsort(v, kind="stable")
    ranked = v[order]
    return order, ranked, np.searchsorted(ranked, 1.5), np.sort(-v), np.flip(v), np.argmin(v), v.argsort()[-1], np.diff(v), np.maximum.accumulate(v)


@program((np.array([1, 2, 3, 4]), 2), (np.array([1, 2, 3, 4]), 5))
def where_and_select(v, k):
    return np.where(v > k, v, -v), np.where(v % 2 == 0, 0.5, v), np.select([v < 2, v < k], [v * 10, v * 100], default=0), np.choose(v % 2, (v, -v)), np.clip(v, 2, 3), np.piecewise(v * 1.0, [v > 2], [1.0, 0.0])


@program((3,))
def arrays_made_by_functions(n):
    return np.zeros((2, 3)) + n, np.ones(2, int) * n, np.full((2,), n), np.eye(2) * n, np.arange(2, 8, 2) + n, np.linspace(0, 1, 3), np.identity(2, int), np.tri(2), np.empty((0,)).size, np.array([[n, 2], [3, 4]]), np.arange(3.0)[::-1]


@program((MATRIX,))
def joins_and_splits(m):
    a, b = np.split(m, 2, axis=1)
    return np.concatenate((a, b), axis=0), np.stack([a, b])[1, 2], np.vstack((m[0], m[1])), np.hstack((a, b)) - m, np.concatenate([m[0], m[1, :1]]), np.column_stack((m[0], m[1]))[0], np.append(m[0], 1.0), np.array_split(m[0], 3)[0], np.block([[a, b]])[0]


@program((MATRIX,))
def repeats_tiles_rolls(m):
    v = m[0]
    return np.repeat(v[:2], 2), np.tile(v[:2], (2, 2)), np.roll(v, 1), np.roll(m, 1, axis=0)[0], np.pad(v, (1, 2)), np.rot90(m)[0], np.flipud(m)[0], np.delete(v, 1), np.insert(v, 1, 9.0), np.triu(m)[2], np.diag(m)


@program((np.array([1.0, 2.0, 3.0, 4.0]),))
def element_updates_in_place(v):
    w = v.copy()
    w[1:3] += w[2:4]
    w[::2] *= 10
    w[-1] **= 2
    w[[0, 1]] = 7.0
    w[w > 50] = 50.0
    return w


@program((MATRIX,))
def updates_of_rows_and_columns(m):
    a = m.copy()
    a[0] = a[1] + a[2]
    a[:, 1] = -1.0
    a[1:, 2:] = [[1.0, 2.0], [3.0, 4.0]]
    a[2, ::3] += 100.0
    a[..., 0] -= 0.5
    a[[0, 2], [1, 3]] = 5.0
    return a


@program((3, np.arange(5)), (1, np.arange(5)))
def updates_at_moving_places(k, v):
    a = np.zeros((5, 2), dtype=int)
    a[k] = [1, 2]
    a[k - 1, 1] = k
    a[:k, 0] += k
    a[k:, 1] = 9
    a[-k] *= 3
    return a


@program((np.array([1, 2, 2, 5, 1]),))
def counts_by_assignment(v):
    counts = np.zeros(6, dtype=np.int64)
    for value in v:
        counts[value] += 1
    return counts, (v[:, None] == np.arange(6)).sum(0)


@program((np.array([0.5, 1.0]),))
def elementwise_functions_in_a_row(v):
    return np.exp(v), np.log(v), np.sqrt(v), np.sin(v) ** 2 + np.cos(v) ** 2, np.tanh(v), np.arctan2(v, 1.0), np.expm1(v), np.log1p(v), np.floor(-v), np.ceil(v), np.rint(v), np.trunc(-v), np.sign(-v), np.abs(-v), np.square(v), np.reciprocal(v), np.hypot(v, v), np.log2(v), np.cbrt(v), np.sinc(v), np.deg2rad(v), np.power(v, 3), np.fmod(v, 0.3), np.mod(-v, 0.3), np.exp2(v), np.heaviside(v - 0.5, 0.5), np.logaddexp(v, 1.0)


@program((np.array([5, -3, 8]),))
def whole_numbers_in_arrays(v):
    return v // 3, v % 3, np.divmod(v, 3), v >> 1, v << 2, v & 6, v | 1, v ^ 7, ~v, np.gcd(v, 6), np.abs(v), np.sign(v), np.remainder(v, -3), np.power(v, 2), np.floor_divide(v, -2), np.bitwise_and(v, 3), np.left_shift(v, 1)


@program((np.array([True, False, True]), np.array([False, False, True])))
def arrays_of_bools(a, b):
    return a & b, a | b, a ^ b, ~a, np.logical_and(a, b), np.logical_not(b), a.sum(), a.mean(), a.any(), a.all(), a + b, a * 2, np.where(a, 1, 2), np.logical_xor(a, b).sum(), a == b


@program((np.array([1.0, 2.0]), np.array([1.0, 2.5])))
def comparisons_and_truth(a, b):
    result = 0
    if (a == b).any():
        result += 1
    if not (a == b).all():
        result += 10
    if np.array_equal(a, a) and np.allclose(a, b, atol=1.0):
        result += 100
    if a[0] == b[0] and a.max() < b.max():
        result += 1000
    return result


@program((np.array([[1.0, 2.0], [3.0, 4.0]]), 3), (np.array([[1.0, 2.0], [3.0, 4.0]]), 0))
def a_matrix_power_by_a_loop(m, n):
    result = np.eye(2)
    for _ in range(n):
        result = result @ m
    return result


@program((np.array([4.0, 2.0, 9.0, 1.0]),))
def a_selection_sort(v):
    w = v.copy()
    for i in range(len(w)):
        smallest = i
        for j in range(i + 1, len(w)):
            if w[j] < w[smallest]:
                smallest = j
        w[i], w[smallest] = w[smallest], w[i]
    return w


@program((np.array([1.0, 2.0, 3.0]), np.array([0.5, 1.0])))
def a_convolution_in_two_ways(v, k):
    out = np.zeros(len(v) + len(k) - 1)
    for i in range(len(v)):
        for j in range(len(k)):
            out[i + j] += v[i] * k[j]
    return out, np.convolve(v, k), np.correlate(v, k), np.polyval(k, 2.0), np.interp(1.5, np.arange(3.0), v)


@program((np.array([1.0 + 2.0j, 3.0 - 1.0j]),))
def complex_arrays_and_parts(z):
    return z.real, z.imag, np.conj(z), np.abs(z), np.angle(z), z * 1j, z @ z, z.sum(), np.exp(z), z.conj() * z, np.real(z) + np.imag(z)


@program((np.array(3.0),), (np.array(-2.0),))
def arrays_of_no_dimensions(x):
    return x + 1, x.shape, x.ndim, x.size, float(x), x * np.ones(2), x[()], x[None], np.sum(x), x.item() if False else 1, -x


@program((MATRIX, 2.0))
def attributes_and_methods(m, k):
    return m.shape, m.size, m.ndim, m.dtype == np.float64, len(m), m.shape[0] * k, m.T.shape, m.dot(m.T).trace(), m.clip(2, 5)[0], m.round(1).max(), m.take([0, 5]), m.swapaxes(0, 1).shape, m.repeat(2)[1], m.astype(int).sum(), m.nonzero is not None


@program((np.array([2, 0, 1]),))
def a_permutation_and_its_inverse(p):
    inverse = np.empty_like(p)
    inverse[p] = np.arange(3)
    return inverse, p[inverse], p[p[p]], np.eye(3, dtype=int)[p], np.argsort(p)


@program((np.array([[1, 2, 3], [4, 5, 6]]),))
def loops_over_elements(m):
    total, product = 0, 1
    for i in range(m.shape[0]):
        for j in range(m.shape[1]):
            total += m[i, j] * (i - j)
            product = product * int(m[i][j]) % 97
    diagonal = [m[k, k] for k in range(min(m.shape))]
    return total, product, diagonal, [row.sum() for row in m], [int(v) for v in m[0]]


@program((np.array([1.0, 4.0, 9.0]), 2.0))
def functions_of_math_on_elements(v, x):
    values = [math.sqrt(e) for e in v]
    return values, np.array(values) * x, math.fsum(values), math.prod(v), math.sqrt(v[1]) + float(v[2]), math.floor(v.mean())


@program((np.arange(6.0),))
def a_window_that_moves(v):
    means = np.zeros(4)
    for i in range(4):
        means[i] = v[i : i + 3].mean()
    best = 0
    for i in range(1, 4):
        if means[i] > means[best]:
            best = i
    return means, best, v[best : best + 2] if False else v[:2]


@program((np.ones(3),), (np.arange(4).reshape(2, 2),))
def arrays_compared_with_none(x):
    return x == None, x != None, None == x, x is None, x[..., 0] == None, 1 in x  # noqa: E711


@program((np.array([1.0, 2.5], ">f8"),), (np.array([3, 4], ">i4"),), reference=lambda x: x.astype(x.dtype.newbyteorder("=")) * 2)
def arrays_of_the_other_byte_order(x):
    return x * 2
