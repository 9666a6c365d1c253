"""Algorithms as textbooks have them: sorting, elimination, tables, graphs, transforms, parts of arrays."""


import numpy as np

from tests.functions.table import program

A = np.array
V = A([3.0, -1.0, 4.0, 1.5, -5.0, 9.0, 2.0, 6.0])
I = A([5, 3, 8, 1, 9, 2, 7, 4])
M = A([[4.0, -2.0, 1.0], [3.0, 6.0, -4.0], [2.0, 1.0, 8.0]])


@program((V,), (I,), (V.astype(np.float32),))
def bubble(v):
    a = v.copy()
    n = len(a)
    for i in range(n):
        for j in range(n - 1 - i):
            if a[j] > a[j + 1]:
                a[j], a[j + 1] = (a[j + 1], a[j])
    return a


@program((V,), (I,))
def insertion(v):
    a = v.copy()
    for i in range(1, len(a)):
        key = a[i]
        j = i - 1
        while j >= 0 and a[j] > key:
            a[j + 1] = a[j]
            j -= 1
        a[j + 1] = key
    return a


@program((V,), (I,))
def heap_sort(v):
    a = v.copy()
    n = len(a)

    def sift(root, end):
        while True:
            child = 2 * root + 1
            if child >= end:
                return
            if child + 1 < end and a[child] < a[child + 1]:
                child += 1
            if a[root] >= a[child]:
                return
            a[root], a[child] = (a[child], a[root])
            root = child
    for start in range(n // 2 - 1, -1, -1):
        sift(start, n)
    for end in range(n - 1, 0, -1):
        a[0], a[end] = (a[end], a[0])
        sift(0, end)
    return a


@program((V,), (I,))
def quicksort_stack(v):
    a = v.copy()
    lo = np.zeros(32, int)
    hi = np.zeros(32, int)
    top = 0
    lo[0] = 0
    hi[0] = len(a) - 1
    while top >= 0:
        l, h = (lo[top], hi[top])
        top -= 1
        if l >= h:
            continue
        p = a[h]
        i = l - 1
        for j in range(l, h):
            if a[j] <= p:
                i += 1
                a[i], a[j] = (a[j], a[i])
        i += 1
        a[i], a[h] = (a[h], a[i])
        top += 1
        lo[top] = l
        hi[top] = i - 1
        top += 1
        lo[top] = i + 1
        hi[top] = h
    return a


@program((V,), (I,))
def merge_sort_bottom_up(v):
    a = v.copy()
    b = np.zeros_like(a)
    n = len(a)
    w = 1
    while w < n:
        for lo in range(0, n, 2 * w):
            mid = min(lo + w, n)
            hi = min(lo + 2 * w, n)
            i, j = (lo, mid)
            for k in range(lo, hi):
                if i < mid and (j >= hi or a[i] <= a[j]):
                    b[k] = a[i]
                    i += 1
                else:
                    b[k] = a[j]
                    j += 1
        a, b = (b, a)
        w *= 2
    return a


@program((V,), (I,))
def shell(v):
    a = v.copy()
    for gap in (5, 3, 1):
        for i in range(gap, len(a)):
            t = a[i]
            j = i
            while j >= gap and a[j - gap] > t:
                a[j] = a[j - gap]
                j -= gap
            a[j] = t
    return a


@program((M, A([1.0, 2.0, 3.0])), grad=(0, 1))
def gauss_pivot(m, b):
    a = m.copy()
    x = b.copy()
    n = len(b)
    for k in range(n):
        p = k + int(np.argmax(np.abs(a[k:, k])))
        if p != k:
            a[[k, p]] = a[[p, k]]
            x[[k, p]] = x[[p, k]]
        for i in range(k + 1, n):
            f = a[i, k] / a[k, k]
            a[i, k:] -= f * a[k, k:]
            x[i] -= f * x[k]
    for i in range(n - 1, -1, -1):
        x[i] = (x[i] - a[i, i + 1:] @ x[i + 1:]) / a[i, i]
    return x.sum()


@program((M,), grad=0)
def det_row_swap_temp(m):
    a = m.copy()
    n = a.shape[0]
    sign = 1.0
    for k in range(n):
        p = k
        for i in range(k + 1, n):
            if abs(a[i, k]) > abs(a[p, k]):
                p = i
        if p != k:
            t = a[k].copy()
            a[k] = a[p]
            a[p] = t
            sign = -sign
        for i in range(k + 1, n):
            a[i] -= a[k] * (a[i, k] / a[k, k])
    d = sign
    for k in range(n):
        d *= a[k, k]
    return d


@program((M, 1, 2), (M, 0, 2))
def column_swap(m, i, j):
    a = m.copy()
    a[:, [i, j]] = a[:, [j, i]]
    b = m.copy()
    b[:, i], b[:, j] = (b[:, j].copy(), b[:, i].copy())
    return (a, b, (a == b).all())


@program((12,), (7,))
def knapsack(cap):
    w = [3, 4, 5, 9]
    p = [3, 4, 4, 10]
    best = np.zeros(13, int)
    for wi, pi in zip(w, p):
        for c in range(cap, wi - 1, -1):
            best[c] = max(best[c], best[c - wi] + pi)
    return best[cap]


@program((A([1, 3, 4, 1, 2, 1, 3]), A([3, 4, 1, 2, 1, 3, 4])))
def lcs(a, b):
    t = np.zeros((len(a) + 1, len(b) + 1), dtype=np.int64)
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            t[i, j] = t[i - 1, j - 1] + 1 if a[i - 1] == b[j - 1] else max(t[i - 1][j], t[i][j - 1])
    return (t[-1, -1], t)


@program((V, A([1.0, 2.0, -1.0])))
def dtw(x, y):
    n, m = (len(x), len(y))
    d = np.full((n + 1, m + 1), np.inf)
    d[0, 0] = 0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            d[i, j] = abs(x[i - 1] - y[j - 1]) + min(d[i - 1, j], d[i, j - 1], d[i - 1, j - 1])
    return d[n, m]


@program((10,), (30,))
def fib_matrix(n):
    r = np.eye(2, dtype=int)
    b = A([[1, 1], [1, 0]])
    while n:
        if n & 1:
            r = r @ b
        b = b @ b
        n >>= 1
    return r[0, 1]


@program((A([[0.0, 3, 9, 0], [0, 0, 4, 7], [0, 0, 0, 1], [0, 0, 0, 0]]),))
def floyd(g):
    d = np.where(g > 0, g, np.inf)
    n = len(d)
    for i in range(n):
        d[i, i] = 0
    for k in range(n):
        row = d[k]
        col = d[:, k]
        d = np.minimum(d, col[:, None] + row[None, :])
    return d


@program((A([[0, 1, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1], [0, 0, 0, 0, 0]]), 0))
def bfs(g, s):
    n = len(g)
    dist = np.full(n, -1)
    q = np.zeros(n, int)
    head = 0
    tail = 1
    q[0] = s
    dist[s] = 0
    while head < tail:
        u = q[head]
        head += 1
        for v in range(n):
            if g[u, v] and dist[v] < 0:
                dist[v] = dist[u] + 1
                q[tail] = v
                tail += 1
    return (dist, q)


@program((V.astype(complex),), (np.arange(8) * (1 + 2j),))
def fft_in_place(v):
    a = v.copy()
    n = len(a)
    j = 0
    for i in range(1, n):
        bit = n >> 1
        while j & bit:
            j ^= bit
            bit >>= 1
        j |= bit
        if i < j:
            a[i], a[j] = (a[j], a[i])
    size = 2
    while size <= n:
        w = np.exp(-2j * np.pi / size)
        for s in range(0, n, size):
            z = 1 + 0j
            for k in range(size // 2):
                u = a[s + k]
                t = a[s + k + size // 2] * z
                a[s + k] = u + t
                a[s + k + size // 2] = u - t
                z *= w
        size *= 2
    return a


@program((V,), grad=0)
def haar(v):
    y = v.copy()
    n = len(y)
    while n > 1:
        h = n // 2
        s = (y[0:n:2] + y[1:n:2]) / 2
        d = (y[0:n:2] - y[1:n:2]) / 2
        y[:h] = s
        y[h:n] = d
        n = h
    return (y * np.arange(8)).sum()


@program((A([[1.0, 2, 3], [4, 5, 6], [7, 8, 9]]),))
def transposed_views(m):
    x = m.copy()
    t = x.T
    u = t[1:]
    w = u.T
    w[0] = 0
    u[1, 2] = 77
    t[0] += 1
    w[:, 0] *= 2
    return (x, t, u, w)


@program((np.arange(24.0).reshape(2, 3, 4), 1))
def cube_views(c, i):
    x = c.copy()
    y = x[i].T[::2]
    y[0] = 9
    z = y[:, ::-1]
    z[1, 0] -= 100
    r = x.reshape(6, 4)[1:5:2]
    r += 1000
    return (x, y, z, r)


@program((4,), (6,))
def pascal(n):
    row = [1]
    t = np.zeros((7, 7), int)
    t[0, 0] = 1
    for i in range(1, n + 1):
        t[i, 0] = 1
        for j in range(1, i + 1):
            t[i, j] = t[i - 1, j - 1] + t[i - 1, j]
    return t
