"""More of NumPy: joining, padding, products, sorting, statistics, casts, ufunc methods, linear algebra, transforms."""

import numpy as np

from tests.functions.table import program

A = np.array([[1.0, -2.0, 3.0], [4.0, 0.5, -6.0]])
B = np.array([[2.0, 1.0], [1.0, 3.0]])
V = np.array([3.0, -1.0, 2.0, 0.5])
N = np.array([4, 1, 3, 1, 5])
C = np.array([1 + 2j, -0.5j, 3.0])


@program((A, V))
def tiles_and_repeats(x, v):
    return np.tile(v, 2), np.tile(x, (2, 2)), np.repeat(v, 2), np.repeat(x, [1, 2], axis=0), np.repeat(x, 2, axis=1)


@program((A,))
def pads(x):
    return np.pad(x, ((1, 0), (0, 2))), np.pad(x, 1, mode="reflect"), np.pad(x, 1, mode="wrap"), np.pad(x, 1, constant_values=9)


@program((B, V))
def products_of_several_kinds(x, v):
    return np.outer(v, v), np.kron(x, x), np.tensordot(x, x, axes=([0], [1])), np.inner(v, v), np.vdot(v, v), np.trace(x)


@program((A, B))
def einsum_with_more_operands(x, y):
    return np.einsum("ij,ki,kl->jl", x, y, y), np.einsum("ii->i", y), np.einsum("ij->ji", x), np.einsum("i,j->ij", x[0], y[0])


@program((V,), (N,))
def ordering(x):
    return np.argsort(x), np.sort(x)[::-1], x[np.argsort(x)], np.argmax(x), np.searchsorted(np.sort(x), x)


@program((V,))
def differences_and_accumulations(x):
    return np.diff(x), np.diff(x, n=2), np.cumsum(x), np.cumprod(x), np.ediff1d(x), np.gradient(x)


@program((A,))
def statistics(x):
    return (
        np.mean(x), np.median(x), np.var(x, axis=1), np.std(x, ddof=1), np.percentile(x, 25), np.quantile(x, 0.5, axis=0),
        np.ptp(x), np.average(x, axis=1, weights=np.array([1.0, 2.0, 1.0])),
    )  # fmt: skip


@program((A,))
def covariances(x):
    return np.cov(x), np.corrcoef(x)


@program((np.array([1.0, np.nan, 3.0, -np.inf]),))
def functions_that_skip_nan(x):
    return np.nansum(x[:3]), np.nanmax(x), np.nanmin(x[:3]), np.nanmean(x[:3]), np.isinf(x), np.nan_to_num(x, posinf=0.0)


@program((A,))
def stacks_and_splits(x):
    top, bottom = np.vsplit(x, 2)
    a, b, c = np.hsplit(x, 3)
    return np.vstack([bottom, top]), np.hstack([c, a]), np.dstack([x, x]).shape, np.stack([x, -x], axis=-1), np.block([[x], [x]])


@program((np.arange(24.0).reshape(2, 3, 4),))
def axes_moved(x):
    return (
        np.moveaxis(x, 0, 2).shape, np.rollaxis(x, 2).shape, np.swapaxes(x, 1, 2)[0], x.transpose(2, 0, 1)[3],
        np.expand_dims(x, (0, 2)).shape, np.squeeze(x[:1]).shape, np.flip(x, (0, 2))[0, 0],
    )  # fmt: skip


@program((A, 2.0))
def conditions_as_masks(x, v):
    return (
        np.where(x > v, x, v), np.select([x > 3, x > 0], [x * 10, x], default=-1.0), np.clip(x, None, v),
        np.sum(np.where(x > 0, 1, 0)), np.count_nonzero(x > v, axis=0), (x > v).mean(),
    )  # fmt: skip


@program((N,))
def integer_arrays(x):
    return x // 2, x % 3, -x // 2, x**2, x << 1, x & 1, np.bitwise_xor(x, 3), np.gcd(x, 6), np.lcm(x, 2), np.invert(x)


@program((np.array([100, 120], np.int8), np.array([200, 250], np.uint8)))
def small_integers_wrap(x, y):
    return x + x, y + y, x * np.int8(3), -y, x // np.int8(7), y >> 1


@program((np.array([1.5, -2.7, 300.0]),))
def casts(x):
    return (
        x.astype(np.int32), x.astype(np.float32), x[:2].astype(np.int8), x.astype(bool), x.astype("float64"),
        np.float32(x[0]) + x.astype(np.float32), x.astype(int) / 2, np.array(x, dtype=np.float32), x.astype(complex),
    )  # fmt: skip


@program((np.array([1, 2], np.int16), np.array([1.5, 2.5], np.float32), np.array([True, False])))
def promotions_of_three_types(i, f, b):
    return i + f, i + b, f * b, i / i, b + b, b.sum(), i.sum(), f.mean(), i * 2, f + 1.5, i * 1.5, np.sqrt(i), i @ i


@program((np.float32(1.5), np.int32(7)))
def scalars_of_short_types(f, i):
    return f * 2, f + 1.5, i // 2, i / 2, f * i, np.sin(f), i * 2.5, -i, abs(f), int(i), float(f)


@program((V,))
def ufunc_methods(x):
    return (
        np.add.reduce(x), np.multiply.accumulate(x), np.maximum.reduce(x), np.subtract.outer(x, x),
        np.add.reduce(A, axis=1), np.multiply.outer(x, np.array([1.0, 2.0])), np.logical_and.reduce(x > -2),
    )  # fmt: skip


@program((A,))
def ufuncs_with_where_and_initial(x):
    return np.sum(x, where=x > 0), np.max(x, initial=10.0), np.min(x, axis=0, where=x > -5, initial=9.0), np.mean(x, where=x > 0)


@program((V,), or_refused=True)
def a_ufunc_writes_into_an_array(x):
    out = np.zeros(4)
    np.add(x, 1.0, out=out)  # refused
    return out


@program((V,), or_refused=True)
def a_ufunc_with_a_mask_of_its_own(x):
    return np.sqrt(x, where=x > 0, out=np.zeros(4))  # refused


@program((B, np.array([1.0, -1.0])))
def linear_systems(m, v):
    return (
        np.linalg.solve(m, v), np.linalg.inv(m) @ m, np.linalg.det(m), np.linalg.norm(m, axis=1), np.linalg.norm(v, 1),
        np.linalg.matrix_power(m, -1), np.linalg.pinv(m), np.linalg.matrix_rank(m), np.linalg.lstsq(m, v)[0],
        np.linalg.multi_dot([m, m, v]),
    )  # fmt: skip


@program((B,))
def eigenvalues_of_a_symmetric_matrix(m):
    values, vectors = np.linalg.eigh(m)
    sign, log = np.linalg.slogdet(m)
    return values, np.abs(vectors), sign * np.exp(log), m @ vectors - vectors * values


@program((V,))
def fourier_transforms(x):
    return np.fft.fft(x), np.fft.ifft(np.fft.fft(x)).real, np.fft.rfft(x), np.fft.fftfreq(4), np.fft.irfft(np.fft.rfft(x))


@program((C,))
def complex_numbers_in_arrays(z):
    return z.real, z.imag, np.conj(z), np.abs(z), np.angle(z), z * 1j, z / (1 + 1j), np.vdot(z, z), np.exp(z), z == z.conj()


@program((A,))
def triangles_and_diagonals(x):
    s = x[:, :2]
    return np.tril(x, -1), np.triu(x, 1), np.diag(s), np.diag(np.array([1.0, 2.0]), k=1), np.diagonal(s), np.eye(2, 3, k=1), np.fill_diagonal is None


@program((N, np.array([0, 2, -1])))
def takes_and_choices(x, i):
    return np.take(x, i), x[i], x.take([1, 1]), np.take(A, i, axis=1)


@program((np.arange(12).reshape(3, 4), 1), (np.arange(12).reshape(3, 4), -1))
def fancy_and_plain_indices_mixed(x, k):
    return x[k, [0, 2]], x[[0, 1], k], x[[[0], [2]], [1, 3]], x[:, [k, 0]], x[..., k], x[np.ix_([0, 2], [1, 2])]


@program((np.arange(6.0),))
def windows_and_strides(x):
    pairs = np.stack([x[i : i + 3] for i in range(4)])
    return pairs.mean(axis=1), x[::2] - x[1::2], x.reshape(3, 2).sum(axis=1), np.convolve(x, np.ones(3) / 3, mode="valid"), np.correlate(x, x[:2])


@program((N, 3), (N, 9))
def membership_and_equality(x, v):
    return v in x, np.isin(x, [1, 5]), (x == v).any(), np.array_equal(x, x.copy()), np.allclose(x, x + 1e-9), np.all(x > 0) and v > 3


@program((V,))
def rounding_functions(x):
    y = x * 1.37
    return np.floor(y), np.ceil(y), np.trunc(y), np.rint(y), np.round(y, 1), np.fix(y), np.modf(y), np.sign(y), np.around(y, 2), np.mod(y, 1.0)


@program((V, N[:4]))
def functions_of_two_arrays(x, y):
    return np.maximum(x, y), np.fmin(x, y), np.hypot(x, y), np.arctan2(x, y), np.logaddexp(x, y), np.copysign(y, x), np.heaviside(x, 0.5), np.float_power(y, x), np.ldexp(x, 2), np.nextafter(x, y) > x


@program((V,))
def special_elementwise_functions(x):
    return np.sinc(x), np.exp2(x), np.log2(np.abs(x)), np.log10(np.abs(x)), np.expm1(x), np.arcsinh(x), np.deg2rad(x), np.reciprocal(x), np.positive(x), np.i0(x)


@program((2.0, 8.0))
def spaces(a, b):
    return np.linspace(a, b, 4), np.linspace(a, b, 3, endpoint=False), np.logspace(0, 1, 3), np.geomspace(a, b, 3), np.arange(3) * a, np.linspace(a, b, 1)


@program((np.array([1.0, 2.0]), np.array([3.0, 4.0, 5.0])))
def grids_of_indices(x, y):
    a, b = np.meshgrid(x, y, indexing="ij")
    i, j = np.indices((2, 3))
    return a * b, i + j, np.tri(2, 3), np.vander(x, 3), np.triu_indices(2)[0], np.unravel_index(4, (2, 3)), np.ravel_multi_index((1, 1), (2, 3))


@program((np.array([3, 1, 2, 3, 1]),), refused="shape")
def a_count_without_a_length(x):
    return np.bincount(x)  # refused


@program((np.array([3, 1, 2, 3, 1]),), or_refused=True)
def a_count_of_known_length(x):
    return np.bincount(x, minlength=5)  # refused


@program((np.array([0.1, 0.5, 0.9, 0.4]),))
def histograms(x):
    counts, edges = np.histogram(x, bins=4, range=(0.0, 1.0))
    return counts, edges, np.digitize(x, np.array([0.25, 0.75]))


@program((A,))
def polynomials(x):
    p = x[0]
    return np.polyval(p, 2.0), np.polyadd(p, x[1]), np.polymul(p, x[1]), np.polyder(p), np.polyint(p), np.interp(0.5, [0.0, 1.0], p[:2])


@program((V,))
def methods_with_keywords(x):
    m = x.reshape(2, 2)
    return m.sum(axis=0, keepdims=True), m.mean(axis=-1), m.max(axis=0), m.argmin(axis=1), m.ravel(order="C"), m.std(ddof=1), m.cumsum(axis=1), m.any(), m.T.flatten(), m.prod(axis=0), m.nbytes, m.itemsize


@program((3,), (0,))
def numpy_scalars_are_not_python_numbers(n):
    x = np.float64(n)
    return x / np.float64(0), np.int64(7) // np.int64(2), np.float64(2) ** n, np.maximum(n, 1), np.int64(n) + 1.5, np.sqrt(np.float64(-1.0))


@program((np.array([1.0, 4.0, 9.0]),))
def generators_and_maps_over_arrays(x):
    return sum(v * v for v in x), max(np.sqrt(v) for v in x), list(map(np.sqrt, x)), [float(v) for v in x], all(v > 0 for v in x), tuple(v.item() for v in x)


@program((A,))
def apply_along_an_axis(x):
    return np.apply_along_axis(lambda row: np.sum(row * row), 1, x), np.apply_along_axis(lambda c: c / np.max(np.abs(c)), 0, x)


@program((V, 2.0))
def a_vectorized_function(x, y):
    f = np.vectorize(lambda a, b: a * b if a > 0 else b - a)
    return f(x, y), f(x, x), np.vectorize(lambda a: a > 1)(x)


@program((4, 2.5))
def arrays_made_from_functions(n, x):
    return np.fromfunction(lambda i, j: i * 10 + j * x, (2, 3)), np.array([[n, i * x] for i in range(2)]), np.full(3, n), np.full((2,), x, dtype=np.float32)


@program((np.array([3.0, 1.0, 2.0]),))
def arrays_changed_in_place_by_methods(x):
    y = x.copy()
    y.sort()
    z = np.zeros(3)
    z.fill(7.0)
    z[1:] += y[:2]
    np.add.at(z, [0, 0], 1.0)
    return y, z


@program((np.array([1, 2, 3]),))
def a_sum_overflows_64_bits_as_numpy_does(x):
    big = x * 2**62
    return big, big + big, np.sum(big), np.prod(x + 2**40), np.cumsum(big)


@program((V,), refused="errstate")
def an_error_state(x):
    with np.errstate(all="ignore"):  # refused
        return 1 / x


@program((3,), refused="random")
def random_numbers(n):
    return np.random.rand(3) * n  # refused


@program((N,), refused="")
def unique_of_an_argument(x):
    return np.unique(x + 1)  # refused


@program((N,), refused="shape")
def argwhere_of_an_argument(x):
    return np.argwhere(x > 1)  # refused


@program((N, 2), refused="")
def repeats_by_data(x, n):
    return np.repeat(x, n)  # refused


@program((N, 2), refused="")
def a_reshape_by_data(x, n):
    return x.reshape(n, -1)  # refused


@program((A, V), raises=ValueError)
def shapes_that_do_not_broadcast(x, v):
    return x + v  # raises


@program((A,), raises=ValueError)
def a_reshape_of_another_size(x):
    return x.reshape(4, 2)  # raises


@program((N, 7), (N, -6), raises=IndexError)
def a_take_out_of_range(x, i):
    return x[np.array([0, i])]  # raises


@program((A,), raises=IndexError)
def too_many_indices(x):
    return x[0, 1, 2]  # raises


@program((np.array([1.0, -2.0, 3.0]),))
def keywords_that_jax_calls_otherwise(a):
    clipped = np.clip(a, a_min=0, a_max=2), a.clip(min=0)
    made = np.zeros((2, 2), order="F"), np.ones_like(a, subok=False), np.concatenate([a, a], casting="same_kind")
    return clipped, made, np.reshape(np.stack([a, a]), (6,), order="F"), np.linalg.matrix_rank(A=np.outer(a, a))


@program((np.ones((2, 2), np.float32),), (np.array([True, False]),), (np.arange(3, dtype=np.int16),))
def vectorized_functions_give_the_types_of_numpys_numbers(x):
    return np.vectorize(lambda v: v + v)(x), np.vectorize(lambda v: v + 1.5)(x)
