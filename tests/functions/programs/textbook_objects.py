"""Objects, closures, iterators, recursion and indices, each in a small program."""

import functools
import math
from dataclasses import dataclass, field

import numpy as np

from tests.functions.table import program

A = np.array
V = A([3.0, -1.0, 4.0, 1.5, -5.0, 9.0, 2.0, 6.0])
I = A([5, 3, 8, 1, 9, 2, 7, 4])
M = A([[4.0, -2.0, 1.0], [3.0, 6.0, -4.0], [2.0, 1.0, 8.0]])


@dataclass
class Particle:
    pos: object
    vel: object
    trail: list = field(default_factory=list)

    def step(self, h):
        self.pos = self.pos + h * self.vel
        self.trail.append(self.pos)
        return self


@program((A([1.0, 2.0]), 0.1))
def particles(v, h):
    ps = [Particle(v * i, v) for i in range(2)]
    for _ in range(3):
        for p in ps:
            p.step(h)
    return ([p.pos for p in ps], [len(p.trail) for p in ps], ps[1].trail[0])


class Vec:

    def __init__(self, *c):
        self.c = list(c)

    def __add__(self, o):
        return Vec(*[a + b for a, b in zip(self.c, o.c)])

    def __mul__(self, k):
        return Vec(*[a * k for a in self.c])
    __rmul__ = __mul__

    def __getitem__(self, i):
        return self.c[i]

    def __setitem__(self, i, v):
        self.c[i] = v

    def __len__(self):
        return len(self.c)

    def __iter__(self):
        return iter(self.c)

    def __eq__(self, o):
        return all((a == b for a, b in zip(self.c, o.c)))

    def __call__(self, f):
        return Vec(*map(f, self.c))

    @property
    def norm(self):
        return math.sqrt(sum((a * a for a in self.c)))

    @staticmethod
    def unit():
        return Vec(1.0, 0.0)

    @classmethod
    def zero(cls):
        return cls(0.0, 0.0)


@program((3.0, 4.0), grad=(0, 1))
def vec_class(a, b):
    v = Vec(a, b)
    w = 2 * v + Vec.unit()
    w[0] -= 1.0
    z = Vec.zero() + w(lambda t: t * t)
    return w.norm + sum(z) + len(w) * (1.0 if v == v else 0.0)


class Stack:

    def __init__(self):
        self.items = np.zeros(8)
        self.top = 0

    def push(self, x):
        self.items[self.top] = x
        self.top += 1

    def pop(self):
        self.top -= 1
        return self.items[self.top]


@program((V,), (A([1.0, 2.0]),))
def stack_class(v):
    s = Stack()
    for x in v[:6]:
        s.push(x)
        if x < 0:
            s.pop()
    return (s.pop(), s.top, s.items)


class Animal:

    def __init__(self, n):
        self.n = n

    def speak(self):
        return self.n

    def twice(self):
        return self.speak() * 2


class Dog(Animal):

    def __init__(self, n):
        super().__init__(n)
        self.k = 3

    def speak(self):
        return super().speak() + self.k


@program((2,), (2.5,))
def inherit(x):
    return [a.twice() for a in (Animal(x), Dog(x))]


@program((4,))
def gen_pipeline(n):
    sq = (i * i for i in range(5))
    ev = filter(lambda v: v % 2 == 0, sq)
    ad = map(lambda v: v + n, ev)
    first = next(ad)
    rest = list(ad)
    return (first, rest, sum(sq))


@program((A([1.0, 2.0, 3.0]),))
def live_iteration(v):
    x = v.copy()
    out = []
    for i, e in enumerate(x):
        x[2] = e * 10
        out.append(e)
    l = [1, 2]
    for e in l:
        if len(l) < 5:
            l.append(e + v[0])
    return (out, l)


@program((A([[1.0, 2], [3, 4]]),))
def iter_rows_change(m):
    x = m.copy()
    out = []
    for a, b in zip(x, x.T):
        a += b
        out.append(a.sum())
    return (x, out)


@program((A([1.0, 2.0, 3.0]),))
def map_lazy(v):
    x = v.copy()
    k = 1.0
    it = map(lambda t: t * k, x)
    k = 2.0
    x[0] = 100
    a = next(it)
    x[1] = 50
    return (a, list(it))


@program((3,))
def memo_fib(n):
    memo = {}

    def f(k):
        if k in memo:
            return memo[k]
        memo[k] = k if k < 2 else f(k - 1) + f(k - 2)
        return memo[k]
    return [f(10), f(5), len(memo), n]


@program((10,))
def lru(n):

    @functools.lru_cache(maxsize=None)
    def f(k):
        return 1 if k == 0 else 2 * f(k - 1) + n
    return f(5)


@program((48, 18), (7, 13))
def rec_gcd(a, b):
    return a if b == 0 else rec_gcd(b, a % b)


@program((5, 2), (6, 3))
def rec_binom(n, k):
    if k == 0 or k == n:
        return 1
    return rec_binom(n - 1, k - 1) + rec_binom(n - 1, k)


@program((2.0, 10), (1.5, 7), grad=0)
def fast_pow(x, n):
    if n == 0:
        return 1.0
    h = fast_pow(x, n // 2)
    return h * h * (x if n % 2 else 1.0)


@program((7,), (8,))
def mutual(n):

    def even(k):
        return True if k == 0 else odd(k - 1)

    def odd(k):
        return False if k == 0 else even(k - 1)
    return (even(n), odd(n))


@program((0.0, 1.0), (0.5, 2.0))
def adaptive_simpson(a, b):
    f = lambda x: math.exp(-x * x)

    def s(a, b):
        return (b - a) / 6 * (f(a) + 4 * f((a + b) / 2) + f(b))

    def rec(a, b, whole, d):
        m = (a + b) / 2
        l, r = (s(a, m), s(m, b))
        if d == 0 or abs(l + r - whole) < 1e-08:
            return l + r
        return rec(a, m, l, d - 1) + rec(m, b, r, d - 1)
    return rec(a, b, s(a, b), 8)


@program((A([5, 2, 8, 1]),))
def bits(v):
    out = []
    for x in v:
        c = 0
        y = x
        while y:
            c += y & 1
            y >>= 1
        out.append(c)
    return (out, np.bitwise_xor.reduce(v), int(v[0]) ^ 3, ~v[1], v[2] << 2, -v[0] // 3, -v[0] % 3)


@program((123456789,), (-5,))
def lcg(seed):
    s = seed
    out = []
    for _ in range(5):
        s = (1103515245 * s + 12345) % 2147483648
        out.append(s % 100)
    return out


@program((A([[1, 2], [3, 4]]), A([0, 1])))
def fancy(m, i):
    x = m.copy()
    x[i, i] += 10
    x[i] *= 2
    y = x[:, i[::-1]]
    x[i[0]] = [7, 8]
    np.add.at(x, (i, i), 1)
    return (x, y, x[i, 1 - i], np.take(x, i, axis=1))


@program((A([3, 1, 2]),))
def perm_cycles(p):
    p = p - 1
    seen = np.zeros(3, bool)
    c = 0
    for i in range(3):
        if not seen[i]:
            c += 1
            j = i
            while not seen[j]:
                seen[j] = True
                j = p[j]
    inv = np.empty_like(p)
    inv[p] = np.arange(3)
    return (c, inv)


@program((A([1, 2, 3]),))
def next_perm(v):
    a = v.copy()
    n = 3
    for _ in range(4):
        i = n - 2
        while i >= 0 and a[i] >= a[i + 1]:
            i -= 1
        if i >= 0:
            j = n - 1
            while a[j] <= a[i]:
                j -= 1
            a[i], a[j] = (a[j], a[i])
        lo, hi = (i + 1, n - 1)
        while lo < hi:
            a[lo], a[hi] = (a[hi], a[lo])
            lo += 1
            hi -= 1
    return a


@program((A([1.0, 3, 5, 7]), 4.0), (A([1.0, 3, 5, 7]), 9.0))
def bisect_manual(v, x):
    lo, hi = (0, len(v))
    while lo < hi:
        mid = (lo + hi) // 2
        if v[mid] < x:
            lo = mid + 1
        else:
            hi = mid
    return (lo, np.searchsorted(v, x))


@program((2.0,), (10.0,), grad=0)
def secant(a):
    f = lambda x: x * x - a
    x0, x1 = (1.0, a)
    for _ in range(20):
        d = f(x1) - f(x0)
        if d == 0:
            break
        x0, x1 = (x1, x1 - f(x1) * (x1 - x0) / d)
    return x1


@program((3,), (-2,), (0,))
def match_stmt(n):
    match (n, abs(n)):
        case [0, _]:
            return 100
        case [a, b] if a == b:
            return a * 2
        case [a, b]:
            return a - b


@program((5,), (0,))
def while_else(n):
    k = 2
    while k < n:
        if n % k == 0:
            break
        k += 1
    else:
        return -1
    return k


@program((A([1.0, 2.0, 3.0]),))
def walrus(v):
    t = 0.0
    i = 0
    while (x := (v[i % 3] * i)) < 5:
        t += x
        i += 1
    return (t, i, [y for k in range(3) if (y := (k * 2)) > 1])


@program((A([1.0, 2.0]), 2))
def star(v, n):

    def f(a, *r, k=1, **kw):
        return a + sum(r) * k + sum(kw.values())
    return (f(v[0], *v, k=n, z=3), f(*[1, 2], **{'k': n}))


@program((1, 2, 3))
def unpack(a, b, c):
    x, *y = [a, b, c]
    (p, q), r = ((a, b), c)
    *u, v = y
    d = {'a': a, 'b': b}
    k1, k2 = d
    s = [*d.values(), *y]
    return (x, y, p, q, r, u, v, k1, s)


@program((A([1.0, 2, 3, 4]),))
def strided_writes(v):
    x = np.zeros(8)
    x[::2] = v
    x[1::2] = v[::-1]
    x[-1:-4:-1] *= 2
    y = x.reshape(2, 2, 2)
    y[:, ::-1, 0] += 1
    return (x, y)


@program((A([[1.0, 2, 3], [4, 5, 6]]),))
def broadcast_writes(m):
    x = np.zeros((2, 3, 2))
    x[..., 0] = m
    x[:, :, 1] = m[:, :1]
    x[0] += A([10, 20])
    x[:, 1] = -1
    z = np.broadcast_to(m[0], (2, 3)).copy()
    z[1] = 0
    return (x, z)


@program((A([True, False, True]), A([1.0, 2.0, 3.0])))
def masks(b, v):
    x = v.copy()
    x[b] = 0
    y = np.where(b, v, -v)
    x[~b] += 5
    x[x > 4] *= 2
    return (x, y, b.sum(), (v * b).sum(), b.any(), b.all(), np.count_nonzero(b))


@program((M,))
def diag_views(m):
    x = m.copy()
    x.ravel()[::4] = 0
    t = x.T
    t[0] = t[1]
    np.einsum('ij->ji', x)[2, 0] = 50
    return (x, t, np.trace(x))


@program((A([1, 2, 3, 4]),))
def list_ops(v):
    l = list(v)
    l.insert(1, v[0] * 10)
    l.extend([v[1], 7])
    x = l.pop()
    l.reverse()
    l[1:3] = [0]
    del l[0]
    l += [v[2]]
    m = [[0] * 2] * 2
    m[0][0] = v[0]
    return (l, x, m, l[::-1], l * 2, len(l))
