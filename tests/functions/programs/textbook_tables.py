"""Tables of dynamic programming, matrices, filters and recurrent networks, written with loops."""

import math
from collections import OrderedDict, defaultdict, namedtuple

import numpy as np

from tests.functions.table import program

A = np.array
V = A([3.0, -1.0, 4.0, 1.5, -5.0, 9.0, 2.0, 6.0])
I = A([5, 3, 8, 1, 9, 2, 7, 4])
M = A([[4.0, -2.0, 1.0], [3.0, 6.0, -4.0], [2.0, 1.0, 8.0]])


@program((M,), (M.astype(np.float32),))
def reduce_rows(m):
    a = m.copy()
    lead = 0
    r = 0
    while r < 3 and lead < 3:
        i = r
        while i < 3 and a[i, lead] == 0:
            i += 1
        if i == 3:
            lead += 1
            continue
        a[[i, r]] = a[[r, i]]
        a[r] /= a[r, lead]
        for k in range(3):
            if k != r:
                a[k] -= a[k, lead] * a[r]
        r += 1
        lead += 1
    return a


@program((M, 0, 2), (M, 1, 1))
def swap_by_buffer(m, i, j):
    a = m.copy()
    buf = np.empty(3)
    buf[:] = a[i]
    a[i] = a[j]
    a[j] = buf
    row_i, row_j = (a[i], a[j])
    row_i[:], row_j[:] = (row_j.copy(), row_i.copy())
    a.T[i], a.T[j] = (a.T[j].copy(), a.T[i].copy())
    return (a, row_i)


@program((M, 0, 2), (M, 1, 1))
def xor_like_swap(m, i, j):
    a = m.copy()
    x = a[i]
    y = a[j]
    x += y
    y[:] = x - y
    x -= y
    return a


@program((I, 3), (I, 5))
def rotate_left(v, k):
    a = v.copy()
    for _ in range(k):
        t = a[0]
        a[:-1] = a[1:]
        a[-1] = t
    return a


@program((I, 3), (I, 5))
def rotate_by_reversal(v, k):
    a = v.copy()

    def rev(i, j):
        while i < j:
            a[i], a[j] = (a[j], a[i])
            i += 1
            j -= 1
    rev(0, k - 1)
    rev(k, len(a) - 1)
    rev(0, len(a) - 1)
    return a


@program((V,), (I,))
def running_median_like(v):
    w = np.zeros(3, dtype=v.dtype)
    out = np.zeros(len(v), dtype=v.dtype)
    for i, x in enumerate(v):
        w[:-1] = w[1:]
        w[-1] = x
        s = np.sort(w)
        out[i] = s[1]
    return out


@program((V,))
def ring_buffer(v):
    buf = np.zeros(4)
    pos = 0
    sums = []
    for x in v:
        buf[pos % 4] = x
        pos += 1
        sums.append(buf.sum())
    return (sums, buf)


@program((V, 3), (V, 5))
def argpartition_like(v, k):
    idx = np.arange(len(v))
    a = v.copy()
    for i in range(k):
        j = i + np.argmin(a[i:]) if False else i
        for t in range(i, len(a)):
            if a[t] < a[j]:
                j = t
        a[[i, j]] = a[[j, i]]
        idx[i], idx[j] = (idx[j], idx[i])
    return (a[:2], idx)


@program((5,), (9,))
def catalan(n):
    c = np.zeros(12, int)
    c[0] = 1
    for i in range(1, n + 1):
        for j in range(i):
            c[i] += c[j] * c[i - 1 - j]
    return c


@program((A([1, 2, 5]), 11), (A([3, 7, 5]), 13))
def coin_change(coins, amount):
    INF = 10 ** 9
    d = [0] + [INF] * 14
    for a in range(1, 15):
        for c in coins:
            if c <= a and d[a - c] + 1 < d[a]:
                d[a] = d[a - c] + 1
    return d[amount]


@program((A([1, 2, 5]),))
def coin_ways(coins):
    w = np.zeros(12, dtype=np.int64)
    w[0] = 1
    for c in coins:
        for a in range(1, 12):
            if a >= c:
                w[a] += w[a - c]
    return w


@program((A([10, 20, 30, 40, 30]),))
def matrix_chain(d):
    n = len(d) - 1
    m = np.zeros((n, n), dtype=int)
    for l in range(2, n + 1):
        for i in range(n - l + 1):
            j = i + l - 1
            m[i, j] = 10 ** 12
            for k in range(i, j):
                c = m[i, k] + m[k + 1, j] + d[i] * d[k + 1] * d[j + 1]
                if c < m[i, j]:
                    m[i, j] = c
    return m


@program((A([[1, 3, 1], [1, 5, 1], [4, 2, 1]]),), (A([[1.5, 3, 1], [1, 5, 1], [4, 2, 1]]),))
def min_path(g):
    d = g.copy()
    for i in range(3):
        for j in range(3):
            if i and j:
                d[i, j] += min(d[i - 1, j], d[i, j - 1])
            elif i:
                d[i, j] += d[i - 1, j]
            elif j:
                d[i, j] += d[i, j - 1]
    return d


@program((A([[1, 1, 0, 0], [1, 0, 0, 1], [0, 0, 1, 1], [1, 0, 0, 0]]),))
def islands(g):
    g = g.copy()
    n = 0
    stack_i = np.zeros(64, int)
    stack_j = np.zeros(64, int)
    for i in range(4):
        for j in range(4):
            if g[i, j]:
                n += 1
                top = 1
                stack_i[0] = i
                stack_j[0] = j
                g[i, j] = 0
                while top:
                    top -= 1
                    a = stack_i[top]
                    b = stack_j[top]
                    for da, db in ((1, 0), (-1, 0), (0, 1), (0, -1)):
                        x = a + da
                        y = b + db
                        if 0 <= x < 4 and 0 <= y < 4 and g[x, y]:
                            g[x, y] = 0
                            stack_i[top] = x
                            stack_j[top] = y
                            top += 1
    return (n, g)


@program((6,))
def union_find(n):
    parent = list(range(6))
    rank = [0] * 6

    def find(x):
        while parent[x] != x:
            parent[x] = parent[parent[x]]
            x = parent[x]
        return x

    def union(a, b):
        a, b = (find(a), find(b))
        if a == b:
            return False
        if rank[a] < rank[b]:
            a, b = (b, a)
        parent[b] = a
        if rank[a] == rank[b]:
            rank[a] += 1
        return True
    r = [union(a, b) for a, b in ((0, 1), (2, 3), (1, 3), (0, 2), (4, 5))]
    return (r, parent, rank)


@program((A([0, 1, 2, 3, 4, 5]), A([[0, 1], [2, 3], [1, 3], [0, 2]])))
def union_find_array(p, edges):
    p = p.copy()
    joined = 0
    for a, b in edges:
        while p[a] != a:
            a = p[a]
        while p[b] != b:
            b = p[b]
        if a != b:
            p[b] = a
            joined += 1
    return (p, joined)


@program((A([[0, 1, 0], [0, 0, 1], [0, 0, 0]]),))
def topo(g):
    n = len(g)
    indeg = g.sum(0)
    order = np.full(n, -1)
    k = 0
    done = np.zeros(n, bool)
    for _ in range(n):
        for v in range(n):
            if not done[v] and indeg[v] == 0:
                done[v] = True
                order[k] = v
                k += 1
                indeg -= g[v]
                break
    return order


@program((A([[0.9, 0.1], [0.5, 0.5]]), 10), grad=0)
def power_iter(p, n):
    v = np.ones(2) / 2
    for _ in range(n):
        v = v @ p
        v /= v.sum()
    return v[0]


@program((A([[4.0, 1], [1, 3]]), A([1.0, 2])), grad=(0, 1))
def conj_grad(a, b):
    x = np.zeros_like(b)
    r = b - a @ x
    p = r.copy()
    rs = r @ r
    for _ in range(2):
        ap = a @ p
        al = rs / (p @ ap)
        x += al * p
        r -= al * ap
        n = r @ r
        p = r + n / rs * p
        rs = n
    return x.sum()


@program((A([[2.0, 1], [1, 3]]),), grad=0)
def qr_algorithm(m):
    a = m.copy()
    for _ in range(3):
        q, r = np.linalg.qr(a)
        a = r @ q
    return a[0, 0]


@program((M,))
def householder(m):
    a = m.copy()
    q = np.eye(3)
    for k in range(2):
        x = a[k:, k].copy()
        x[0] += math.copysign(1.0, x[0]) * np.linalg.norm(x)
        x /= np.linalg.norm(x)
        a[k:] -= 2 * np.outer(x, x @ a[k:])
        q[k:] -= 2 * np.outer(x, x @ q[k:])
    return (a, q)


@program((A([1.0, 2.0, 3.0]), A([0.1, 0.2, 0.1]), A([4.0, 5, 6])), grad=(0, 1, 2))
def thomas(d, c, b):
    n = 3
    cp = np.zeros(n)
    dp = np.zeros(n)
    x = np.zeros(n)
    b = b * 1.0
    cp[0] = c[0] / b[0]
    dp[0] = d[0] / b[0]
    for i in range(1, n):
        m = b[i] - c[i] * cp[i - 1]
        cp[i] = c[i] / m
        dp[i] = (d[i] - c[i] * dp[i - 1]) / m
    x[-1] = dp[-1]
    for i in reversed(range(n - 1)):
        x[i] = dp[i] - cp[i] * x[i + 1]
    return (x ** 2).sum()


@program((A([0.0, 1, 4, 9, 16]), 1.5), (A([0.0, 1, 4, 9, 16]), 3.2), grad=(0, 1))
def neville(y, t):
    p = y.copy()
    n = len(y)
    for k in range(1, n):
        for i in range(n - k):
            p[i] = ((t - (i + k)) * p[i] + (i - t) * p[i + 1]) / -k
    return p[0]


@program((1.0, 0.1), grad=(0, 1))
def rk4(y, h):
    f = lambda t, y: -2 * y + math.sin(t)
    t = 0.0
    for _ in range(5):
        k1 = f(t, y)
        k2 = f(t + h / 2, y + h / 2 * k1)
        k3 = f(t + h / 2, y + h / 2 * k2)
        k4 = f(t + h, y + h * k3)
        y += h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        t += h
    return y


@program((A([1.0, 0.0, 0.0, 1.0]), 0.05), grad=0)
def leapfrog(s, h):
    q = s[:2].copy()
    p = s[2:].copy()
    e = []
    for _ in range(4):
        p -= h / 2 * q
        q += h * p
        p -= h / 2 * q
        e.append(0.5 * (q @ q + p @ p))
    return e[-1] + e[0]


@program((A([[0.0, 0], [1, 0], [0, 2.0]]),), grad=0)
def pair_forces(x):
    n = len(x)
    f = np.zeros_like(x)
    e = 0.0
    for i in range(n):
        for j in range(i + 1, n):
            d = x[i] - x[j]
            r2 = d @ d
            e += 1 / r2
            f[i] += d / r2 ** 2
            f[j] -= d / r2 ** 2
    return e + (f ** 2).sum()


@program((V, 2), (V, 1))
def median_filter(v, k):
    out = v.copy()
    for i in range(2, len(v) - 2):
        out[i] = np.median(v[i - 2:i + 3])
    return out


@program((np.arange(36.0).reshape(6, 6),), grad=0)
def pool(x):
    out = np.zeros((3, 3))
    for i in range(3):
        for j in range(3):
            out[i, j] = x[2 * i:2 * i + 2, 2 * j:2 * j + 2].max()
    return (out * A([1.0, 2, 3])).sum()


@program((np.arange(25.0).reshape(5, 5), A([[0, 1.0, 0], [1, -4, 1], [0, 1, 0]])), grad=(0, 1))
def conv2d(x, k):
    out = np.zeros((3, 3))
    for i in range(3):
        for j in range(3):
            out += k[i, j] * x[i:i + 3, j:j + 3]
    return (out ** 2).sum() * 0.001


@program((A([0.5, -0.3]), A([[0.1, 0.2, 0.3, 0.4], [0.5, -0.6, 0.7, 0.8], [-0.1, 0.2, 0.1, 0.3], [0.2, 0.2, 0.2, 0.1]])), grad=(0, 1))
def lstm(x, w):
    s = lambda z: 1 / (1 + np.exp(-z))
    h = np.zeros(2)
    c = np.zeros(1)
    h = np.zeros(1)
    for t in range(2):
        z = w @ np.concatenate([x, h, np.ones(1)])
        i, f, g, o = (s(z[0:1]), s(z[1:2]), np.tanh(z[2:3]), s(z[3:4]))
        c = f * c + i * g
        h = o * np.tanh(c)
    return h.sum()


@program((A([[0.1, 0.5, 0.3], [0.3, 0.3, 0.1], [0.8, 0.1, 0.2]]),), grad=0)
def attention(x):
    s = x @ x.T / np.sqrt(3.0)
    mask = np.tril(np.ones((3, 3), bool))
    s = np.where(mask, s, -1000000000.0)
    p = np.exp(s - s.max(axis=1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    return (p @ x)[2].sum()


@program((A([0.2, 0.5, 0.3]), A([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]]), A([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]]), A([0, 1, 1, 0])))
def viterbi(pi, a, b, obs):
    d = np.log(pi) + np.log(b[:, obs[0]])
    back = np.zeros((4, 3), int)
    for t in range(1, 4):
        s = d[:, None] + np.log(a)
        back[t] = s.argmax(0)
        d = s.max(0) + np.log(b[:, obs[t]])
    path = np.zeros(4, int)
    path[-1] = d.argmax()
    for t in range(3, 0, -1):
        path[t - 1] = back[t, path[t]]
    return path


@program((A([0.2, 0.5, 0.3]), A([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]]), A([0, 1, 1, 0])), grad=(0, 1))
def forward_alg(pi, a, obs):
    b = A([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]])
    al = pi * b[:, obs[0]]
    ll = 0.0
    for o in obs[1:]:
        al = al @ a * b[:, o]
        s = al.sum()
        ll += np.log(s)
        al = al / s
    return ll


@program((V,))
def welford(v):
    n = 0
    mean = 0.0
    m2 = 0.0
    for x in v:
        n += 1
        d = x - mean
        mean += d / n
        m2 += d * (x - mean)
    return (n, mean, m2 / (n - 1))


@program((V,), (I,))
def counting(v):
    c = defaultdict(list)
    for i in range(4):
        c[i % 2].append(v[i])
    d = {k: sum(x) for k, x in c.items()}
    o = OrderedDict()
    o['b'] = v[0]
    o['a'] = v[1]
    o.move_to_end('b')
    return (d, list(o), [*c.keys()], {**d, 9: v[2]})


Point = namedtuple('Point', 'x y')


@program((1.0, 2.0))
def named(a, b):
    p = Point(a, b)
    q = p._replace(x=5.0)
    x, y = q
    return (p, q, x + y, p.x)
