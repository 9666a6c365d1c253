"""NumPy's functions, operators and methods on arrays."""

import numpy as np

from tests.functions.table import program

A = np.array([[1.0, -2.0, 3.0], [4.0, 0.5, -6.0]])
B = np.array([[0.5, 1.0], [-1.5, 2.0], [3.0, -0.25]])
N = np.array([[3, 1, 2], [9, -7, 8]])
V = np.array([0.5, -1.5, 2.5])
F32 = np.array([0.5, 1.5, -2.5], np.float32)
I32 = np.array([3, -7, 10], np.int32)


@program((A, 2.0), (N, 3))
def arithmetic_with_a_scalar(x, y):
    return x + y, y - x, x * y, x / y, -x, abs(x)


@program((A, V), (N, V), (A, np.array([[2.0], [4.0]])))
def broadcasting(x, y):
    return x + y, x * y, x - y, np.maximum(x, y)


@program((N, 3), (N, -3), (A, 2.0))
def floor_division_modulo_and_powers_of_arrays(x, y):
    return x // y, x % y, x**2, np.floor_divide(x, y), np.remainder(x, y)


@program((A,))
def comparisons_of_arrays(x):
    return x > 0, x <= 1.0, x == x, (x > 0) & (x < 3), (x > 0) | (x < -3), ~(x > 0)


@program((N, 6))
def bits_of_arrays(x, y):
    return x & y, x | y, x ^ y, ~x, x << 1, x >> 1


@program((A,), (N,))
def reductions(x):
    return np.sum(x), np.mean(x), np.max(x), np.min(x), np.prod(x), x.sum(), x.mean(), x.max(), x.min()


@program((A,), (N,))
def reductions_over_an_axis(x):
    return np.sum(x, axis=0), np.mean(x, axis=1), x.max(axis=-1), x.min(0), np.sum(x, axis=1, keepdims=True)


@program((A,))
def deviations(x):
    return np.std(x), np.var(x, axis=0), np.std(x, axis=1, ddof=1), np.median(x, axis=1)


@program((A,), (N,))
def positions_of_extremes(x):
    return np.argmax(x), np.argmin(x), np.argmax(x, axis=0), x.argmin(axis=1)


@program((A > 0,), (A > -10,), (A > 10,))
def any_and_all_of_an_array(x):
    return np.any(x), np.all(x), x.any(axis=0), np.all(x, axis=1), np.count_nonzero(x)


@program((A, B),)
def matrix_products(x, y):
    return x @ y, np.dot(x, y), np.matmul(y, x), x @ y[:, 0], y[0] @ x


@program((V, np.array([1.0, 2.0, 3.0])))
def vector_products(x, y):
    return np.dot(x, y), x @ y, np.outer(x, y), np.inner(x, y), np.cross(x, y), np.vdot(x, y)


@program((A, B, V))
def einsum(x, y, v):
    return np.einsum("ij,jk->ik", x, y), np.einsum("ij,j->i", x, v), np.einsum("ij->j", x), np.einsum("ij,ij->", x, x)


@program((A, B))
def tensordot_and_trace(x, y):
    return np.tensordot(x, y, axes=1), np.trace(x @ y), np.kron(x[0], y[0]), np.diag(x @ y)


@program((A,), (N,))
def where_with_three_arguments(x):
    return np.where(x > 0, x, 0), np.where(x > 2, 1, -1), np.where(x > 0, x, -x * 2)


@program((A,), (N,))
def clipping_and_signs(x):
    return np.clip(x, -1, 2), np.sign(x), np.abs(x), np.minimum(x, 1), x.clip(0, 3)


@program((V,), (N,))
def running_sums(x):
    return np.cumsum(x), np.cumprod(x), np.cumsum(x, axis=-1), np.diff(x)


@program((N,), (A,))
def sorting(x):
    return np.sort(x), np.sort(x, axis=0), np.argsort(x, axis=1), np.sort(x, axis=None)


@program((np.array([5, 1, 4]),))
def a_local_array_sorted_in_two_ways(x):
    descending = np.sort(x)[::-1]
    return descending, x[np.argsort(-x)], np.flip(x)


@program((np.array([1.0, 2.0, 4.0, 8.0]), 3.0), (np.array([1.0, 2.0, 4.0, 8.0]), 4.0))
def search_in_a_sorted_array(x, v):
    return np.searchsorted(x, v), np.searchsorted(x, v, side="right")


@program((V, np.array([9.0, 8.0])))
def joining(x, y):
    return np.concatenate([x, y]), np.concatenate((x, y, x)), np.append(x, y), np.hstack([x, y])


@program((V, np.array([9.0, 8.0, 7.0])))
def stacking(x, y):
    return np.stack([x, y]), np.stack([x, y], axis=1), np.vstack([x, y]), np.column_stack((x, y)), np.array([x, y])


@program((A,))
def joining_along_an_axis(x):
    return np.concatenate([x, x], axis=1), np.concatenate([x, x + 1], axis=0), np.tile(x, (2, 1)), np.repeat(x, 2, axis=1)


@program((np.arange(12.0),))
def reshaping(x):
    y = x.reshape(3, 4)
    return y, np.reshape(x, (2, -1)), y.T, y.ravel(), y.flatten(), x.reshape((2, 2, 3)).shape


@program((np.arange(24).reshape(2, 3, 4),))
def moving_axes(x):
    return np.transpose(x), x.transpose(1, 0, 2), np.transpose(x, (2, 0, 1)), np.swapaxes(x, 0, 2), np.moveaxis(x, 0, -1)


@program((A,))
def adding_and_removing_axes(x):
    y = x[:, None, :]
    return y, np.expand_dims(x, 0), np.squeeze(y), y.squeeze(axis=1), x[..., np.newaxis].shape, np.atleast_2d(x[0])


@program((3.0, 2))
def making_arrays(x, n):
    return np.array([x, 2 * x, n]), np.array([[x, 1.0], [2.0, n]]), np.array((n, n + 1)), np.array(x), np.asarray([n])


@program((2.0,))
def constant_arrays(x):
    return np.zeros(3) + x, np.ones((2, 2)) * x, np.full((2,), x), np.eye(2) * x, np.zeros((2, 3), dtype=int), np.identity(2)


@program((A,), (I32,))
def arrays_like_others(x):
    return np.zeros_like(x), np.ones_like(x), np.full_like(x, 7), np.empty_like(x).shape


@program((1.0, 5.0))
def ranges_of_numbers(a, b):
    return np.linspace(a, b, 5), np.arange(4), np.arange(1.0, 2.0, 0.25), np.arange(10, 0, -3), np.linspace(0, 1, 3)


@program((np.array([1.0, 2.0]), np.array([10.0, 20.0, 30.0])))
def grids(x, y):
    a, b = np.meshgrid(x, y)
    return a + b, a.shape


@program((np.array([[4.0, 1.0], [1.0, 3.0]]), np.array([1.0, 2.0])))
def linear_algebra(m, v):
    return np.linalg.solve(m, v), np.linalg.inv(m), np.linalg.det(m), np.linalg.norm(v), np.linalg.norm(m)


@program((np.array([[4.0, 1.0], [1.0, 3.0]]),))
def decompositions(m):
    lower = np.linalg.cholesky(m)
    values = np.linalg.eigvalsh(m)
    q, r = np.linalg.qr(m)
    return lower, values, q @ r, np.linalg.svd(m, compute_uv=False), np.linalg.matrix_power(m, 3)


@program((V,))
def elementwise_functions(x):
    return np.exp(x), np.sin(x), np.tanh(x), np.sqrt(np.abs(x)), np.log(x * x), np.log1p(x * x), np.square(x), np.cbrt(x)


@program((V,))
def numpy_gives_nan_where_python_raises(x):
    return np.sqrt(x), np.log(x), np.arcsin(x), np.array([1.0, 0.0, -1.0]) / np.array([0.0, 0.0, 0.0])


@program((np.array([2.5, -2.5, 3.5, -0.2]),))
def rounding_of_arrays(x):
    return np.round(x), np.floor(x), np.ceil(x), np.trunc(x), np.rint(x), np.round(x / 3, 2)


@program((A,), (N,))
def shapes_and_types(x):
    return x.shape, x.ndim, x.size, len(x), x.T.shape[0], x.dtype == np.float64


@program((np.array([1, 2, 3]), np.array([0.5, 1.5, 2.5])), (np.array([True, False, True]), np.array([1, 2, 3])))
def promotion_of_arrays(x, y):
    return x + y, x * y, x / 2, x * 2.5, x + 1


@program((F32, I32))
def python_scalars_are_weak(x, n):
    return x * 2.5, x + 1, x / 3, n + 1, n * 2, n // 2


@program((F32, I32))
def promotion_of_short_types_by_numpys_rules(x, n):
    return x + n, n / 2, n * 0.5, np.sum(n), np.mean(x), x + np.float64(1.0), x**2


@program((A,))
def conversions_of_arrays(x):
    return x.astype(int), x.astype(np.float32), (x > 0).astype(float), np.int64(x[0, 0]), float(x[1, 1]), int(x[0, 1]), bool(x[0, 0])


@program((np.array(2.5), np.array(3)))
def arrays_of_rank_zero(x, n):
    return x * 2, x + n, x.shape, n // 2, float(x)


@program((V,))
def methods_of_arrays(x):
    return x.sum(), x.dot(x), x.copy(), x.prod(), x.cumsum(), x.std(), x.round(), x.tolist()[0], x.item(1)


@program((A,))
def iteration_gives_rows(x):
    first, second = x
    rows = [row * 2 for row in x]
    return first + second, rows[1], sum(x), max(x[0])


@program((np.array([1.0, np.nan, 3.0]),))
def tests_for_nan(x):
    return np.isnan(x), np.nansum(x), np.where(np.isnan(x), 0.0, x), np.isfinite(x), np.nan_to_num(x)


@program((V, np.array([1.0, 2.0, 3.0])))
def logical_functions(x, y):
    return np.logical_and(x > 0, y > 1), np.logical_not(x > 0), np.allclose(x, x + 1e-12), np.array_equal(x, y)


@program((np.array([1.0, 2.0, 3.0]), np.array([0.0, 1.0, 0.5])))
def polynomials_and_interpolation(x, p):
    return np.polyval(p, x), np.interp(2.5, x, p), np.convolve(x, p), np.trapezoid(p, x)


@program((np.array([0, 2, 1, 2, 0, 2]),))
def counting(x):
    return np.sum(x[:, None] == np.arange(3), axis=0), np.count_nonzero(x == 2)


@program((np.array([0, 2, 1, 2, 0, 2]),), or_refused=True)
def a_length_that_depends_on_data(x):
    return np.bincount(x, minlength=4)[2]  # refused


@program((A,))
def triangles_and_rolls(x):
    return np.triu(x), np.tril(x), np.roll(x, 1), np.roll(x, 1, axis=1), np.flip(x, axis=0), np.rot90(x)


@program((A,))
def splitting(x):
    a, b = np.split(x, 2)
    c = np.array_split(V, 2)
    return a, b, c[0], c[1]


@program((V,))
def padding(x):
    return np.pad(x, 1), np.pad(x, (0, 2), constant_values=7.0), np.pad(x, (1, 1), mode="edge")


@program((np.array([1.0, 2.0, 3.0]), 2.0))
def ufuncs_of_two(x, y):
    return np.hypot(x, y), np.arctan2(x, y), np.power(x, y), np.fmod(x, y), np.add(x, y), np.subtract(y, x), np.divide(x, y)


@program((V,), (np.array([3.0, 3.0, 3.0]),))
def a_softmax(x):
    e = np.exp(x - np.max(x))
    return e / np.sum(e)


@program((A,))
def a_normalisation(x):
    mean = x.mean(axis=-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5)


@program((np.array([3.0, 4.0]), 10), (np.array([3.0, 4.0]), 0))
def an_array_tested_in_a_loop(x, n):
    for _ in range(n):
        if np.sum(x) > 20:
            break
        x = x * 1.5
    return x


@program((np.array([1 + 2j, -1j]),))
def complex_arrays(x):
    return x * x, np.abs(x), np.real(x), x.conj(), np.sum(x)


@program((np.array([], dtype=float),))
def empty_arrays(x):
    return np.sum(x), x.shape, np.concatenate([x, np.ones(2)]), x * 2, np.prod(x)


@program((F32,))
def a_single_precision_function(x):
    total = np.float32(0.0)
    for v in x:
        total = total + v * v
    return total, np.dot(x, x), np.sqrt(np.sum(x * x))


@program((np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(2, 3, 2)))
def batched_products(x, y):
    return np.matmul(x[:, None, :], y), np.einsum("bi,bij->bj", x, y)


@program((np.array([3, 1, 2]),))
def python_functions_of_arrays(x):
    return sum(x), len(x), max(x), min(x), sorted(x)[0], abs(-x), list(x), tuple(x)
