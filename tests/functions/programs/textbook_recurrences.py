"""Recursion, stencils, networks, small interpreters, closures and factorisations."""

import itertools
import math
from collections import Counter, defaultdict, deque

import numpy as np

from tests.functions.table import program

A = np.array
V = A([3.0, -1.0, 4.0, 1.5, -5.0, 9.0, 2.0, 6.0])
I = A([5, 3, 8, 1, 9, 2, 7, 4])
M = A([[4.0, -2.0, 1.0], [3.0, 6.0, -4.0], [2.0, 1.0, 8.0]])


@program((60,), (97,), static=('n',))
def sieve(n):
    s = np.ones(n + 1, dtype=bool)
    s[:2] = False
    for p in range(2, int(n ** 0.5) + 1):
        if s[p]:
            s[p * p::p] = False
    return (np.flatnonzero(np.ones(3)).sum(), s.sum())


@program((1071, 462), (17, 5))
def egcd(a, b):
    x0, x1, y0, y1 = (1, 0, 0, 1)
    while b:
        q = a // b
        a, b = (b, a % b)
        x0, x1 = (x1, x0 - q * x1)
        y0, y1 = (y1, y0 - q * y1)
    return (a, x0, y0)


@program((V,), (I,))
def kadane(v):
    best = v[0]
    cur = v[0]
    s = e = t = 0
    for i in range(1, len(v)):
        if cur < 0:
            cur = v[i]
            t = i
        else:
            cur += v[i]
        if cur > best:
            best = cur
            s, e = (t, i)
    return (best, s, e)


@program((V,), (I,))
def lis(v):
    n = len(v)
    l = [1] * n
    prev = [-1] * n
    for i in range(n):
        for j in range(i):
            if v[j] < v[i] and l[j] + 1 > l[i]:
                l[i] = l[j] + 1
                prev[i] = j
    return (max(l), l, prev)


@program((3,), (5,))
def hanoi(n):

    def move(n, a, b, c):
        return 0 if n == 0 else move(n - 1, a, c, b) + 1 + move(n - 1, c, b, a)
    return move(n, 0, 1, 2)


@program((2, 3), (1, 4))
def ackermann(m, n):
    if m == 0:
        return n + 1
    if n == 0:
        return ackermann(m - 1, 1)
    return ackermann(m - 1, ackermann(m, n - 1))


@program((6,), (4,))
def queens(n):

    def queens_from(row, cols, d1, d2):
        if row == n:
            return 1
        c = 0
        for k in range(6):
            if k < n:
                if not cols >> k & 1 and (not d1 >> row + k & 1) and (not d2 >> row - k + 6 & 1):
                    c += queens_from(row + 1, cols | 1 << k, d1 | 1 << row + k, d2 | 1 << row - k + 6)
        return c
    return queens_from(0, 0, 0, 0)


@program((A([[0, 0, 1, 0], [1, 1, 1, 0], [0, 0, 1, 0], [0, 1, 0, 0]]), 3))
def life(g, n):
    g = g.copy()
    for _ in range(n):
        s = sum((np.roll(np.roll(g, i, 0), j, 1) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j))
        g = ((s == 3) | (g == 1) & (s == 2)).astype(int)
    return g


@program((np.linspace(0, 1, 9), 5), grad=0)
def heat(u, steps):
    u = u.copy()
    for _ in range(steps):
        u[1:-1] += 0.25 * (u[:-2] - 2 * u[1:-1] + u[2:])
    return (u ** 2).sum()


@program((np.linspace(0, 1, 9), 5), grad=0)
def gauss_seidel(u, steps):
    u = u.copy()
    for _ in range(steps):
        for i in range(1, len(u) - 1):
            u[i] = 0.5 * (u[i - 1] + u[i + 1]) + 0.01 * i
    return (u ** 2).sum()


@program((np.ones((4, 4)), A([1.0, 2, 3, 4])), grad=0)
def jacobi_2d(g, b):
    g = g.copy()
    g[0] = b
    g[:, -1] = b[::-1]
    for _ in range(4):
        new = g.copy()
        new[1:-1, 1:-1] = (g[:-2, 1:-1] + g[2:, 1:-1] + g[1:-1, :-2] + g[1:-1, 2:]) / 4
        g = new
    return g.sum()


@program((A([[0.1, 0.2], [0.3, -0.4]]), A([[0.5, 0.1], [-0.2, 0.3]]), A([[1.0, 2], [3, 4], [5, 6]])), grad=(0, 1))
def rnn(w, u, xs):
    h = np.zeros(2)
    out = []
    for x in xs:
        h = np.tanh(w @ h + u @ x)
        out.append(h)
    return np.stack(out).sum() * h[0]


@program((A([[0.0, 0], [0.1, 0.2], [5, 5], [5.1, 4.9], [0.2, 0]]), 2))
def kmeans(p, k):
    c = p[:2].copy()
    for _ in range(5):
        lab = np.zeros(len(p), int)
        for i, x in enumerate(p):
            d = ((c - x) ** 2).sum(1)
            lab[i] = d.argmin()
        for j in range(2):
            m = lab == j
            if m.any():
                c[j] = (p * m[:, None]).sum(0) / m.sum()
    return (c, lab)


@program((3, 4, 5))
def interpreter(a, b, c):
    code = [('push', 0), ('push', 1), ('add', 0), ('push', 2), ('mul', 0), ('dup', 0), ('add', 0)]
    regs = (a, b, c)
    stack = []
    for op, arg in code:
        if op == 'push':
            stack.append(regs[arg])
        elif op == 'add':
            stack.append(stack.pop() + stack.pop())
        elif op == 'mul':
            stack.append(stack.pop() * stack.pop())
        else:
            stack.append(stack[-1])
    return stack


@program((A([0, 1, 0, 2, 3, 1, 0, 4]), 5))
def vm(prog, x):
    acc = x
    pc = 0
    steps = 0
    mem = np.zeros(4, dtype=np.int64)
    while pc < len(prog) and steps < 50:
        op = prog[pc]
        steps += 1
        if op == 0:
            acc += 3
        elif op == 1:
            acc *= 2
        elif op == 2:
            mem[acc % 4] += acc
        elif op == 3:
            acc -= mem[0]
        elif op == 4:
            break
        pc += 1
    return (acc, mem, steps)


@program((3,), (0,))
def counter_closure(n):
    c = 0

    def inc(k=1):
        nonlocal c
        c += k
        return c
    vals = [inc() for _ in range(4)]
    for _ in range(n):
        inc(2)
    return (c, vals)


@program((2.0,), grad=0)
def closures_late(x):
    fs = [lambda y: y * i for i in range(3)]
    gs = [lambda y, i=i: y * i for i in range(3)]
    return sum((f(x) for f in fs)) + 10 * sum((g(x) for g in gs))


@program((5,), (3,))
def default_mutable(n):

    def f(v, acc=[]):
        acc.append(v)
        return acc
    f(n)
    f(n + 1)
    return f(7)


@program((A([1, 2, 2, 3, 3, 3]),))
def histogram(v):
    d = defaultdict(int)
    for i in range(6):
        d[i % 3] += v[i]
    c = Counter('abca')
    c['a'] += v[0]
    return (dict(d), c['a'])


@program((1.0, 2.0))
def deque_rotate(a, b):
    d = deque([a, b, 3.0], maxlen=4)
    d.appendleft(a + b)
    d.append(9.0)
    d.rotate(1)
    x = d.popleft()
    return (list(d), x)


@program((A([[1.0, 2], [3, 4]]),), grad=0)
def einsum_diag(m):
    x = m.copy()
    d = np.einsum('ii->i', x)
    d *= 2
    d[0] += 5
    return (x * A([[1.0, 2], [3, 4]])).sum()


@program((A([1.0, 2.0]),))
def aliases_in_list(v):
    a = v.copy()
    l = [a, a, a[1:]]
    l[0][0] = 5
    l[2][0] = 7
    t = (a, l)
    t[1][1][1] += 1
    d = {'a': a, 'b': l}
    d['b'][0] *= 2
    return (a, l[2], d['a'])


class Node:

    def __init__(self, v):
        self.v = v
        self.log = [v]

    def bump(self, k):
        self.v += k
        self.log.append(self.v)
        return self


@program((1,), (2.5,))
def attr_alias(x):
    n = Node(x)
    m = n
    m.bump(2).bump(3)
    n.buf = np.zeros(3)
    b = n.buf
    b[1] = x
    m.buf[2] = x * 2
    return (n.v, n.log, n.buf)


@program((V,), (I,))
def two_pointer(v):
    a = np.sort(v)
    i = 0
    j = len(a) - 1
    best = abs(a[0] + a[-1])
    while i < j:
        s = a[i] + a[j]
        best = min(best, abs(s))
        if s < 0:
            i += 1
        else:
            j -= 1
    return best


@program((V,), (I,))
def itertools_use(v):
    s = 0
    for a, b in itertools.combinations(range(4), 2):
        s += v[a] * v[b]
    for a, b in itertools.product([0, 1], [2, 3]):
        s -= v[a] - v[b]
    acc = list(itertools.accumulate([v[0], v[1], v[2]]))
    p = [x for x, _ in zip(itertools.cycle([1, 2]), range(5))]
    return (s, acc, p, list(itertools.chain([1], [v[0]])), [*itertools.islice(itertools.count(3), 2)])


@program((V,))
def prefix_rev(v):
    out = []
    for i, x in reversed(list(enumerate(v))):
        out.append(x * i)
    return (out, [*map(lambda a, b: a - b, v[:3], v[1:4])])


@program((A([1.0, 2, 3, 4, 5]), A([0.5, 1.0, -1.0])), grad=(0, 1))
def horner_conv(x, k):
    y = np.zeros(len(x) + len(k) - 1)
    for i in range(len(x)):
        y[i:i + len(k)] += x[i] * k
    return (y ** 2).sum()


@program((10,), (27,))
def collatz(n):
    c = 0
    peak = n
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        c += 1
        peak = max(peak, n)
    return (c, peak)


@program((A([5.0, 1.0, 3.0]),))
def argsort_rank(v):
    o = np.argsort(v)
    r = np.empty(3, int)
    r[o] = np.arange(3)
    return (o, r, v[o])


@program((M,), grad=0)
def cholesky(m):
    a = m @ m.T + np.eye(3)
    n = 3
    l = np.zeros((3, 3))
    for i in range(n):
        for j in range(i + 1):
            s = a[i, j] - l[i, :j] @ l[j, :j]
            l[i, j] = math.sqrt(s) if i == j else s / l[j, j]
    return np.log(np.diag(l)).sum()


@program((M,), grad=0)
def gram_schmidt(m):
    q = m.copy()
    for j in range(3):
        c = q[:, j]
        for k in range(j):
            c -= q[:, k] @ c * q[:, k]
        c /= np.sqrt(c @ c)
    return (q * A([[1.0, 2, 3], [0, 1, 0], [5, 0, 1]])).sum()


@program((M,))
def lu_in_place(m):
    a = m.copy()
    perm = np.arange(3)
    for k in range(3):
        p = k + np.abs(a[k:, k]).argmax()
        perm[k], perm[p] = (perm[p], perm[k])
        a[k], a[p] = (a[p].copy(), a[k].copy())
        a[k + 1:, k] /= a[k, k]
        a[k + 1:, k + 1:] -= np.outer(a[k + 1:, k], a[k, k + 1:])
    return (a, perm)


@program((A([[1, 2, 3], [4, 5, 6], [7, 8, 9]]),))
def rotate_in_place(m):
    a = m.copy()
    n = 3
    for i in range(n):
        for j in range(i + 1, n):
            a[i, j], a[j, i] = (a[j, i], a[i, j])
    for r in a:
        r[:] = r[::-1]
    return a


@program((A([[1, 2, 3], [4, 5, 6], [7, 8, 9]]),))
def spiral(m):
    out = []
    t, b, l, r = (0, 2, 0, 2)
    while t <= b and l <= r:
        for j in range(l, r + 1):
            out.append(m[t, j])
        t += 1
        for i in range(t, b + 1):
            out.append(m[i, r])
        r -= 1
        if t <= b:
            for j in range(r, l - 1, -1):
                out.append(m[b, j])
            b -= 1
        if l <= r:
            for i in range(b, t - 1, -1):
                out.append(m[i, l])
            l += 1
    return out
