"""Views of views, in lists, dicts, attributes and defaults; functions and types beside them."""

import functools
import itertools
import math
from collections import deque

import numpy as np

from tests.functions.table import program

A = np.array
V = A([3.0, -1.0, 4.0, 1.5, -5.0, 9.0, 2.0, 6.0])
I = A([5, 3, 8, 1, 9, 2, 7, 4])
M = A([[4.0, -2.0, 1.0], [3.0, 6.0, -4.0], [2.0, 1.0, 8.0]])
C = np.arange(24.0).reshape(2, 3, 4)


@program((C, 0, 1), (C, 1, 2))
def parts_of_a_transposed_cube(c, i, j):
    x = c.copy()
    t = x.transpose(2, 0, 1)
    u = t[j]
    w = u[i]
    w += 10
    s = t[:, i].T
    s[j] *= 2
    s[:, 0] = s[:, 1]
    return (x, u, w, s)


@program((C, 0, 1), (C, 1, 2))
def a_reversed_row_of_a_matrix_of_a_cube(c, i, j):
    x = c.copy()
    r = x[i]
    q = r[j]
    p = q[::-1]
    p[0] = 99
    r[j] = r[0]
    q[1] -= 7
    return (x, p, q)


@program((M, 0, 1), (M, 2, 0))
def two_diagonals(m, i, j):
    x = m.copy()
    d = np.einsum('ii->i', x)
    d[i] = d[j]
    e = np.diagonal(x)
    f = x.T.diagonal()
    x[i] = e
    return (x, d, e, f)


@program((M, 0, 1), (M, 2, 1))
def rows_in_a_list(m, i, j):
    x = m.copy()
    rows = [x[k] for k in range(3)]
    rows[0], rows[1] = (rows[1], rows[0])
    rows[0][:] = 0
    t = rows
    t.append(x.T[i])
    t[-1][j] = 77
    return (x, rows)


@program((M, 1), (M, 2))
def rows_and_columns_in_a_dict(m, i):
    x = m.copy()
    d = {'row': x[i], 'col': x[:, i]}
    d['row'] += 1
    d['col'] *= 2
    d['row'][i] = -1
    return (x, d)


@program((M, 1), (M, 0))
def rows_as_defaults_and_arguments(m, i):
    x = m.copy()

    def f(r=x[0]):
        r[i] += 5
        return r
    f()
    f()
    f(x[i])
    g = functools.partial(lambda r, k: r.__setitem__(0, k), x[2])
    g(4.0)
    return x


class Box:

    def __init__(self, a):
        self.a = a
        self.row = a[0]

    def put(self, k, v):
        self.row[k] = v
        self.a[1] = self.row


@program((M, 1), (M, 0))
def rows_as_attributes(m, i):
    b = Box(m.copy())
    b.put(i, 50.0)
    c = b
    c.a[0] += 1
    c.row = c.a[:, i]
    c.row[:] = 0
    return (b.a, b.row)


@program((M, True), (M, False))
def a_row_by_a_condition(m, p):
    x = m.copy()
    y = x[0] if p else x[1]
    z = y * 1
    y[0] = 9
    return (y, z)


@program((M, 2), (M, 0))
def a_row_by_the_round(m, n):
    x = m.copy()
    r = x[0]
    for k in range(n):
        r = x[k + 1]
        r += x[k]
    return (x, r)


@program((M, 2), (M, 0))
def two_rows_that_a_loop_swaps(m, n):
    x = m.copy()
    a, b = (x[0], x[1])
    for k in range(n):
        a, b = (b, a)
        a[0] += 1
    return (x, a, b)


@program((V, 2), (V, 5))
def parts_of_a_moving_part(v, i):
    x = v.copy()
    w = x[i:i + 3]
    w[1] = 100
    w += 1
    x[i] = -1
    w[::-1][0] = 7
    u = w[1:]
    u *= 2
    return (x, w, u)


@program((V, 1), (V, 3))
def parts_moved_along(v, i):
    x = v.copy()
    x[i:i + 4] = x[i + 1:i + 5]
    y = v.copy()
    y[i + 1:i + 5] = y[i:i + 4]
    z = v.copy()
    z[i:i + 4] = z[i:i + 4][::-1]
    q = v.copy()
    q[i:i + 3] += q[i + 1:i + 4]
    return (x, y, z, q)


@program((M, 0, 1), (M, 1, 2))
def rows_swapped_with_columns(m, i, j):
    x = m.copy()
    x[i, :], x[:, j] = (x[:, j], x[i, :])
    y = m.copy()
    y[i], y[j] = (y[j], y[i].copy())
    z = m.copy()
    (z[i, 0], z[j, 1]), z[0, 0] = ((z[j, 1], z[i, 0]), 5)
    return (x, y, z)


@program((M, 0), (M, 1))
def masks_and_indices_of_rows(m, i):
    x = m.copy()
    x[i][x[i] > 0] = 0
    x[:, i][1:] += 1
    x[i, :][:] = x[i, ::-1]
    x[x < 0] = -1
    return x


@program((M,))
def unpacked_rows(m):
    x = m.copy()
    a, b, c = x
    a[:] = b
    b += c
    p, *q = x
    q[0][0] = 8
    return (x, [*q], a)


@program((M, 1))
def a_reshape_of_a_reshape(m, i):
    x = m.copy()
    y = x.reshape(-1)
    z = y.reshape(3, 3).T
    z[i] = A([1, 2, 3])
    s = x.sum()
    y[4] = s
    w = np.squeeze(x[None, i])
    w /= 2
    return (x, z, w)


@program((M, 1), (M, 2))
def rows_filled_and_sorted(m, i):
    x = m.copy()
    np.maximum(x[i], 0)[0]
    x[i].fill(2.0)
    x[:, 0].sort()
    x.T[1][::-1].sort()
    return x


@program((M, 1), (M, 2))
def names_bound_again(m, i):
    x = m.copy()
    y = x
    y = y + 1
    y[0] = 0
    z = x
    z += 1
    w = x[i]
    w = w * 2
    w[0] = 0
    return (x, y, z, w)


@program((M, 1), (M, 2), grad=0)
def slopes_through_rows(m, i):
    x = m * 1.0
    r = x[i]
    r *= r
    c = x[:, i]
    c += x[0] * 2
    x[0], x[i] = (x[i], x[0])
    x[i][0] = m[0, 0] ** 2
    return (x * A([[1.0, 2, 3], [4, 5, 6], [7, 8, 9]])).sum()


@program((V,))
def itz(v):
    p = list(itertools.pairwise(v[:3]))
    g = [(k, [*x]) for k, x in itertools.groupby([1, 1, 2])]
    c = list(itertools.compress(v[:3], [1, 0, 1]))
    t = list(itertools.takewhile(lambda q: q < 3, [1, 2, 3]))
    r = list(itertools.repeat(v[0], 2))
    s = list(itertools.starmap(lambda a, b: a * b, [(v[0], 2), (v[1], 3)]))
    a, b = itertools.tee([1, 2])
    z = list(itertools.zip_longest([1], [v[0], v[1]], fillvalue=0.0))
    pm = [*itertools.permutations([1, 2, 3], 2)]
    return (p, g, c, t, r, s, list(a), list(b), z, pm)


@program((5,), (2,))
def deq(n):
    q = deque([(0, n)])
    seen = []
    while q and len(seen) < 4:
        d, x = q.popleft()
        seen.append((d, x))
        q.append((d + 1, x * 2))
        q.appendleft((d + 2, x - 1)) if d == 0 else None
    return (seen, list(q))


@program((V,), (A([1, 2, 3, 4, 5, 6, 7, 8]),))
def stats(v):
    return (v.mean(), v.std(), v.var(ddof=1), np.median(v), np.percentile(v, 30), v.min(), v.argmax(), np.ptp(v), v.prod(), np.cumsum(v), np.diff(v), np.sign(v), v.cumprod()[2], np.average(v, weights=np.arange(8)), np.dot(v, v), np.linalg.norm(v))


@program((M,))
def mats(m):
    return (m @ m, m.T, np.trace(m), np.linalg.inv(m), np.linalg.det(m), np.kron(m[:1], m[:, :1]), np.outer(m[0], m[1]), np.vstack([m, m[:1]]), np.hstack([m, m]), m.ravel()[::2], np.triu(m), np.tile(m[0], 2), np.repeat(m[0], 2), np.flip(m, 0), np.rot90(m), np.vander(m[0]), m.cumsum(1), np.cross(m[0], m[1]), np.tensordot(m, m, 1), np.argsort(m, axis=1), np.unravel_index(m.argmax(), m.shape))


@program((7, 3), (-7, 3), (7, -3))
def ints(a, b):
    return (a // b, a % b, divmod(a, b), a / b, a ** 2, -a, abs(a), a & b, a | b, a ^ b, ~a, a << 2, a >> 1, round(a / b, 2), int(a / b), float(a), bool(a), min(a, b), a == b, pow(a, 2, 5), math.gcd(a, b), str(3))


@program((7.5, -2.0), (1e+300, 10000000000.0))
def floats(a, b):
    return (a // b, a % b, divmod(a, b), a ** 2 if a < 10000000000.0 else 0.0, round(a) if a < 1000000000.0 else 0, math.floor(b), math.trunc(b), math.copysign(a, b), math.hypot(a, b), math.atan2(a, b), math.log2(8.0), math.fabs(b), a.is_integer(), math.isnan(a), math.fsum([a, b, -a]), sum([-0.0]), sum([a, b]), abs(-0.0), math.prod([a, 2]), math.dist([a], [b]))


@program((A([1, 2, 3], dtype=np.int32), A([0.5, 1, 2], dtype=np.float32)), (A([1, 2, 3], dtype=np.uint8), A([0.5, 1, 2])))
def dtypes(a, b):
    x = a.copy()
    x[0] = b[1]
    x += 1
    y = b.copy()
    y *= a
    z = a * 2
    w = a / 2
    s = a.sum()
    q = a + b
    k = a[0] * 1.5
    r = a - a[::-1]
    u = a.astype(float)
    m = a.mean()
    t = np.zeros(3, dtype=a.dtype)
    t[:] = b
    return (x, y, z, w, s, q, k, r, u, m, t, a > 1, a // 2, a % 2, -b, abs(a), a.dtype == np.int32)


@program((3,), (6,))
def nested_nonlocal(n):

    def make():
        total = 0
        hist = []

        def add(k):
            nonlocal total
            total += k
            hist.append(total)
            return total

        def reset():
            nonlocal total
            total = 0
        return (add, reset, hist)
    a, r, h = make()
    b, _, g = make()
    a(n)
    a(2)
    r()
    a(1)
    b(10)
    return (h, g)


@program((4,), (0,))
def early(n):
    for i in range(10):
        for j in range(10):
            if i * j > n:
                return (i, j)
    return (-1, -1)


@program((np.arange(16.0).reshape(4, 4), 1), (np.arange(16.0).reshape(4, 4), 2))
def block(m, k):
    x = m.copy()
    x[:2, :2], x[2:, 2:] = (x[2:, 2:], x[:2, :2].copy())
    x[k:k + 2, k:k + 2] = 0
    x[1:, 1:] -= x[:-1, :-1]
    x[::2] = x[1::2]
    x[:, :2] = x[:, 2:][:, ::-1]
    x[:3] = x[1:]
    x[1:] = x[:3]
    return x


@program((A([3, 1, 2]),))
def sort_pairs(v):
    pairs = [(v[i], i) for i in range(3)]
    n = len(pairs)
    for i in range(n):
        for j in range(n - 1):
            if pairs[j][0] > pairs[j + 1][0]:
                pairs[j], pairs[j + 1] = (pairs[j + 1], pairs[j])
    return pairs


@program((A([1.0, 2.0, 3.0, 4.0]),))
def fft_rec(v):

    def fft(a):
        n = len(a)
        if n == 1:
            return a.astype(complex)
        e, o = (fft(a[::2]), fft(a[1::2]))
        t = np.exp(-2j * np.pi * np.arange(n // 2) / n) * o
        return np.concatenate([e + t, e - t])
    return (fft(v), np.fft.fft(v))


@program((M,))
def strassen_like(m):
    x = np.zeros((4, 4))
    x[:3, :3] = m
    a, b, c, d = (x[:2, :2], x[:2, 2:], x[2:, :2], x[2:, 2:])
    p = a @ d
    a[:] = p
    d -= b @ c
    return (x, a)


@program((M,), grad=0)
def inverse_gj(m):
    a = np.hstack([m, np.eye(3)])
    for k in range(3):
        a[k] /= a[k, k]
        for i in range(3):
            if i != k:
                a[i] -= a[i, k] * a[k]
    return (a[:, 3:] * A([[1.0, 2, 3], [4, 5, 6], [7, 8, 9]])).sum()


@program((M, A([[1.0, 0, 2], [0, 1, 1]])))
def edit(m, n):
    x = m.copy()
    y = n.copy()
    x[:2] = y
    y[0] = x[2]
    x[2] = y[1]
    y[1] = 0
    z = [x, y]
    z[0][0] = z[1][0]
    return (x, y)
