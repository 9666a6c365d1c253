"""Iteration is live: what is gone over is read as it is when its turn comes, and iterators are used up."""

import itertools
from collections import Counter, deque

import numpy as np

from tests.functions.table import program

X = np.array([1.0, 2.0, 3.0, 4.0])
BIG = np.arange(40.0)


@program((30,))
def sieve(n):
    prime = np.ones(31, dtype=bool)
    prime[0] = prime[1] = False
    count = 0
    for i, p in enumerate(prime):
        if p:
            count += 1
            for j in range(i * i, 31, i):
                prime[j] = False
    return count


@program((X.copy(),),(BIG.copy(),))
def arr_for(v):
    x = v.copy()
    t = 0.0
    for e in x:
        t += e
        x[-1] = t
    return t, x


@program((X.copy(),),(BIG.copy(),))
def arr_zip(v):
    x = v.copy()
    y = v.copy()
    t = 0.0
    for i, (a, b) in enumerate(zip(x, y)):
        t += a * b
        if i + 1 < len(x):
            y[i + 1] = a + 1
    return t, x, y


@program((X.copy(),),(BIG.copy(),))
def arr_rev(v):
    x = v.copy()
    t = 0.0
    for i, e in enumerate(reversed(x)):
        t = t + e
        x[0] = t
    return t, x


@program((X.copy(),),(BIG.copy(),))
def arr_map(v):
    x = v.copy()
    t = 0.0
    for e in map(lambda u: u * 2, x):
        t = t + e
        x[-1] = t
    return t


@program((X.copy(),),(BIG.copy(),))
def arr_iter_next(v):
    x = v.copy()
    it = iter(x)
    a = next(it)
    x[1] = 100.0
    t = 0.0
    for e in it:
        t += e
    return a, t, next(it, -1.0)


@program((X.copy(),),(BIG.copy(),))
def arr_listcomp(v):
    x = v.copy()
    def f(i, e):
        if i + 1 < len(x):
            x[i+1] += e
        return e
    return [f(i, e) for i, e in enumerate(x)]


@program((X.copy(),),)
def arr_gen(v):
    x = v.copy()
    g = (e * 2 for e in x)
    x[0] = 50.0
    a = next(g)
    x[1] = 60.0
    return a, list(g), list(g)


@program((3,))
def list_append(n):
    v = [1, 2, n]
    t = 0
    for e in v:
        t += e
        if len(v) < 6:
            v.append(e + n)
    return t, v


@program((3,))
def list_delete(n):
    v = [1, 2, n, 4, 5]
    seen = []
    for e in v:
        seen.append(e)
        if len(v) > 2:
            v.pop(0)
    return seen, v


@program((3,))
def list_remove(n):
    v = [1, 2, 2, 3, n]
    for e in v:
        if e is not None and len(v) > 2:
            del v[0]
    return v


@program((3,))
def list_rev_shrinks(n):
    v = [1, 2, n, 4, 5]
    seen = []
    for e in reversed(v):
        seen.append(e)
        if len(v) > 2:
            v.pop()
            v.pop()
    return seen


@program((3,))
def list_enum(n):
    v = [1, 2, n]
    seen = []
    for i, e in enumerate(v):
        seen.append((i, e))
        v[-1] = v[-1] + e
        if i < 2:
            v.insert(0, n)
    return seen, v


@program((3,), raises=RuntimeError)
def dict_grow(n):
    d = {"a": n}
    for k in d:  # raises
        d[k + "x"] = n
    return d


@program((3,))
def dict_values_change(n):
    d = {"a": n, "b": 2, "c": 3}
    seen = []
    for k, v in d.items():
        d["c"] = d["c"] + v
        seen.append(v)
    return seen, d


@program((3,))
def dict_values_view(n):
    d = {"a": n, "b": 2}
    vals = d.values()
    keys = d.keys()
    items = d.items()
    d["a"] = 10
    d["z"] = n
    return list(vals), list(keys), list(items), len(vals), "z" in keys, n in vals, ("z", 3) in items


@program((3,))
def dict_shrink(n):
    d = {"a": n, "b": 2}
    for k in list(d):
        del d[k]
    for k in {"a":
        1}:
        d[k] = n
    return d


@program((3,), raises=RuntimeError)
def dict_shrink2(n):
    d = {"a": n, "b": 2}
    for k in d.keys():  # raises
        del d[k]
    return d


@program((3,))
def dict_comp(n):
    d = {"a": n, "b": 2}
    def f(k):
        d["b"] = d["b"] + 1
        return d[k]
    return {k: f(k) for k in d}, d


@program((3,), raises=RuntimeError)
def deque_mut(n):
    d = deque([1, n])
    t = 0
    for e in d:  # raises
        t += e
        d.append(e)
    return t


@program((3,), refused="deque is changed")
def deque_set(n):
    d = deque([1, n, 4])
    t = 0
    for e in d:  # refused
        t += e
        d[2] = 7
    return t


@program((5,))
def zip_used(n):
    z = zip([1, 2], [3, n])
    return list(z), list(z), tuple(z)


@program((5,))
def map_used(n):
    z = map(lambda a: a * n, [1, 2])
    return sum(z), sum(z)


@program((5,))
def filter_used(n):
    z = filter(lambda a: a > 1, [1, 2, 3])
    return list(z), list(z), n


@program((5,))
def enum_used(n):
    z = enumerate([n, 2])
    return list(z), list(z)


@program((5,))
def rev_used(n):
    z = reversed([n, 2])
    return list(z), list(z)


@program((5,))
def gen_used(n):
    z = (a * n for a in (1, 2))
    return sum(z), sum(z), list(z)


@program((5,))
def iter_used(n):
    z = iter([n, 1])
    return list(z), list(z)


@program((5,))
def in_consumes(n):
    z = iter([1, 2, 3, 4])
    a = 2 in z
    return a, list(z), n


@program((5,))
def in_consumes_gen(n):
    z = (a for a in (1, 2, 3, 4))
    a = 3 in z
    b = 1 in z
    return a, b, list(z), n


@program((2,), (9,))
def in_dyn(n):
    z = iter([1, 2, 3, 4])
    a = n in z
    return a


@program((2,), (9,), (4,))
def in_dyn_arr(n):
    z = iter(np.array([1, 2, 3, 4]))
    a = n in z
    return a, next(z, -1)


@program((5,))
def next_adv(n):
    z = zip([1, 2, 3], "abc")
    a = next(z)
    return a[0], [p[0] for p in z], next(z, n)


@program((5,), raises=StopIteration)
def next_stop(n):
    z = iter([n])
    next(z)
    return next(z)  # raises


@program((5,))
def late(n):
    k = 1
    g = (t * k for t in [1, 2])
    k = n
    return sum(g)


@program((5,))
def late_outer(n):
    v = [1, 2]
    g = (t * n for t in v)
    v = [10]
    return list(g)


@program((5,))
def late_inner(n):
    v = [1, 2]
    w = [3]
    g = (t * u for t in v for u in w)
    w = [n, n]
    v = []
    return list(g)


@program((5,))
def late_list_append(n):
    v = [1, 2]
    g = (t * n for t in v)
    v.append(7)
    return list(g)


@program((5,))
def late_cond(n):
    k = 0
    g = (t * n for t in [1, 2, 3] if t > k)
    k = 2
    return list(g)


@program((5,))
def late_map(n):
    k = 1
    m = map(lambda a: a + k, [1, 2])
    k = n
    return list(m)


@program((5,))
def late_map_list(n):
    v = [1, 2]
    m = map(lambda a: a + n, v)
    v.append(3)
    v[0] = 9
    return list(m)


@program((5,))
def late_filter(n):
    k = 1
    m = filter(lambda a: a > k, [1, 2, 3])
    k = 2
    return list(m), n


@program((5,))
def lambdas(n):
    fs = [lambda: i * n for i in range(3)]
    gs = list((lambda: i * n) for i in range(3))
    hs = [lambda i=i: i * n for i in range(3)]
    r = []
    for i in range(3):
        r.append(lambda: i)
    return [f() for f in fs], [g() for g in gs], [h() for h in hs], [q() for q in r]


@program((5,))
def lambdas_in_gen(n):
    g = ((lambda: i * n) for i in range(3))
    a = next(g)
    x = a()
    b = next(g)
    return x, a(), b()


@program((5,))
def zip_same(n):
    it = iter([1, 2, 3, n, 6])
    return list(zip(it, it)), list(it)


@program((5,))
def zip_lose(n):
    a = iter([1, 2, 3, 4])
    b = iter([n])
    z = list(zip(a, b))
    return z, list(a), list(b)


@program((5,))
def zip_lose2(n):
    a = iter([n])
    b = iter([1, 2, 3, 4])
    z = list(zip(a, b))
    return z, list(a), list(b)


@program((5,), raises=ValueError)
def zip_strict(n):
    return list(zip([1, 2], [n], strict=True))  # raises


@program((5,), raises=ValueError)
def zip_strict2(n):
    t = 0
    for a, b in zip([1], (n, n), strict=True):  # raises
        t += a * b
    return t


@program((5,))
def zip_strict3(n):
    return list(zip(iter([1, 2]), [n, 2], strict=True))


@program((5,), raises=ValueError)
def zip_strict4(n):
    return list(zip(iter([1]), iter([n, 2]), strict=True))  # raises


@program((5,))
def callable_iter(n):
    v = [1, 2, 3, 0, 9]
    def f():
        return v.pop(0)
    return list(iter(f, 0)), v, n


@program((5,))
def unpack_star(n):
    z = iter([1, 2, n])
    a, *b = z
    return a, b, list(z)


@program((5,))
def unpack(n):
    z = zip((1, 2), (n, n))
    (a, b), (c, d) = z
    return a, b, c, d, list(z)


@program((5,), raises=ValueError)
def unpack_bad(n):
    a, b = iter([1, 2, n])  # raises
    return a


@program((5,))
def star_args(n):
    def f(*a):
        return a
    z = map(lambda t: t + n, (1, 2))
    return f(*z), f(*z)


@program((5,))
def any_stops(n):
    it = iter([0, 1, 2, 3])
    a = any(it)
    return a, list(it), n


@program((5,))
def all_stops(n):
    it = iter([1, 0, 2, 3])
    a = all(it)
    return a, list(it), n


@program((5,))
def any_map(n):
    log = []
    def f(t):
        log.append(t)
        return t > 1
    a = any(map(f, [1, 2, 3]))
    return a, log, n


@program((5,),(0,))
def any_dyn(n):
    return any(map(lambda t: 10 // (t - 3) > n, [4, 5, 3]))


@program((5,))
def minmax(n):
    z = iter([3, n, 1])
    a = max(z)
    return a, list(z), min(map(abs, [-3, n])), max(zip([1, 2], [n, 0]))


@program((5,))
def sorted_g(n):
    z = (t for t in [3, 1, 2])
    return sorted(z), sorted(z), n


@program((5,))
def dict_zip(n):
    z = zip("ab", [1, n])
    return dict(z), dict(z)


@program((5,))
def set_g(n):
    z = (t for t in (1, 2, 1))
    return set(z) == {1, 2}, set(z) == set(), n


@program((5,))
def join_g(n):
    z = map(str, [1, 2])
    return "-".join(z), "-".join(z), n


@program((5,))
def extend_gen(n):
    v = [1]
    v.extend(len(v) for _ in range(3))
    v += (len(v) * n for _ in range(2))
    return v


@program((5,))
def enum_named(n):
    e = enumerate([n, 7, 8])
    next(e)
    return list(e)


@program((X.copy(),), (BIG.copy(),))
def enum_named_arr(v):
    e = enumerate(v)
    next(e)
    t = 0.0
    for i, a in e:
        t += i * a
    return t


@program((X.copy(),), (BIG.copy(),))
def skip_then_zip(v):
    it = iter(v)
    next(it)
    t = 0.0
    for a, b in zip(v, it):
        t += a * b
    return t


@program((X.copy(),), (BIG.copy(),))
def break_resume(v):
    it = iter(v)
    t = 0.0
    for a in it:
        if a > 2:
            break
    for b in it:
        t += b
    return a, t


@program((X, 3), (BIG, 20))
def break_resume_dyn(v, n):
    it = iter(v)
    t = 0.0
    for i, a in enumerate(it):
        if i == n:
            break
    for b in it:
        t += b
    return a, t


@program((5,))
def range_iter(n):
    it = iter(range(n))
    a = next(it)
    t = 0
    for e in it:
        t += e
    return a, t, next(it, -7)


@program((5,))
def range_reuse(n):
    r = range(n)
    return sum(r), sum(r), len(r)


@program((5,))
def chain_live(n):
    v = [1]
    w = [n]
    c = itertools.chain(v, w)
    next(c)
    w.append(4)
    v.append(3)
    return list(c), list(c)


@program((5,))
def islice_named(n):
    it = iter([1, 2, 3, n, 9])
    a = list(itertools.islice(it, 2))
    return a, list(it)


@program((5,))
def islice_step(n):
    it = iter(range(10))
    a = list(itertools.islice(it, 1, 6, 2))
    return a, list(it), n


@program((5,))
def takewhile_it(n):
    it = iter([1, 2, 9, 3])
    a = list(itertools.takewhile(lambda t: t < 5, it))
    return a, list(it), n


@program((5,))
def dropwhile_it(n):
    it = iter([1, 2, 9, 3])
    a = itertools.dropwhile(lambda t: t < 5, it)
    return next(a), list(a), list(it), n


@program((5,))
def groupby_it(n):
    g = itertools.groupby([1, 1, 2, 2, 1])
    r = []
    for k, grp in g:
        r.append((k, [t * n for t in grp]))
    return r, list(g)


@program((5,))
def groupby_stale(n):
    return [(k, list(g)) for k, g in list(itertools.groupby([1, 1, 2]))], n


@program((5,))
def accumulate_it(n):
    a = itertools.accumulate([1, n, 3])
    return next(a), list(a), list(itertools.accumulate([1, 2], initial=n)), list(itertools.accumulate([2, 3], lambda p, q: p * q))


@program((5,))
def pairwise_it(n):
    it = iter([1, 2, n, 4])
    p = itertools.pairwise(it)
    return next(p), list(it), list(p)


@program((5,))
def cycle_it(n):
    c = itertools.cycle([1, n])
    return [next(c) for _ in range(5)], list(zip(range(3), c))


@program((5,))
def tee_it(n):
    a, b = itertools.tee(iter([1, 2, n]))
    return next(a), list(b), list(a)


@program((5,))
def repeat_it(n):
    return list(zip([1, 2], itertools.repeat(n))), list(itertools.repeat(n, 2))


@program((5,))
def product_it(n):
    p = itertools.product([1, 2], [n, 3])
    return next(p), list(p), list(p)


@program((5,))
def zl(n):
    it = iter([1])
    z = itertools.zip_longest(it, [n, 2, 3], fillvalue=0)
    return list(z), list(z)


@program((5,))
def starmap_it(n):
    s = itertools.starmap(lambda a, b: a * b, [(1, n), (2, 3)])
    return next(s), list(s), list(s)


@program((5,))
def pass_iter(n):
    def take(it):
        return next(it) + n
    it = iter([1, 2, 3])
    a = take(it)
    b = take(it)
    return a, b, list(it)


@program((5,), (1,), refused="how far this iterator")
def iter_in_branch(n):
    it = iter([1, 2, 3])
    if n > 3:
        next(it)
    return list(it)  # refused


@program((5,), (1,))
def iter_in_branch_arr(n):
    it = iter(np.array([1, 2, 3]))
    t = 0
    if n > 3:
        next(it)
    for e in it:
        t += e
    return t


@program((5,), raises=TypeError)
def len_zip(n):
    return len(zip([1], [n]))  # raises


@program((5,), raises=TypeError)
def zip_index(n):
    return zip([1], [n])[0]  # raises


@program((5,), raises=TypeError)
def keys_index(n):
    return {"a": n}.keys()[0]  # raises


@program((5,))
def keys_ops(n):
    d = {"a": n, "b": 1}
    e = {"b": 2, "c": 3}
    return sorted(d.keys() & e.keys()), sorted(d.keys() | e.keys()), sorted(d.keys() - e.keys()), d.keys() == {"a", "b"}, d.keys() == e.keys(), d.items() == d.copy().items(), d.keys() <= {"a", "b", "c"}


@program((5,))
def reversed_dict(n):
    d = {"a": n, "b": 1}
    return list(reversed(d)), list(reversed(d.items())), list(reversed(d.values()))


@program((5,), raises=TypeError)
def reversed_zip(n):
    return list(reversed(zip([1], [n])))  # raises


@program((5,), raises=TypeError)
def next_list(n):
    return next([1, n])  # raises


@program((5,))
def iter_type(n):
    return isinstance(zip([n]), zip), isinstance(map(abs, [n]), map), isinstance([n], list), isinstance(enumerate([n]), enumerate)


@program((5,))
def while_next(n):
    it = iter([1, 2, n])
    t = 0
    while True:
        v = next(it, None)
        if v is None:
            break
        t += v
    return t


@program((X.copy(),), (BIG.copy(),))
def while_next_arr(v):
    it = iter(v)
    t = 0.0
    c = 0
    while c < len(v):
        t += next(it)
        c += 1
    return t, next(it, -1.0)


@program((4,))
def while_next_dyn(n):
    it = iter(np.arange(10))
    t = 0
    while t < n:
        t += next(it)
    return t, next(it)


@program((5,))
def truth_it(n):
    return bool(zip()), bool(iter([])), bool({}.keys()), bool({"a": n}.items())


@program((5,))
def sort_in_loop(n):
    v = [3, 1, 2]
    s = []
    for e in v:
        s.append(e)
        v.sort()
    return s, n


@program((5,))
def slice_assign_loop(n):
    v = [1, 2, 3]
    s = []
    for e in v:
        s.append(e)
        if len(s) == 1:
            v[:] = [n, n]
    return s


@program((5,))
def clear_loop(n):
    v = [1, 2, 3]
    s = []
    for e in v:
        s.append(e * n)
        v.clear()
    return s, v


@program((5,))
def comp_live(n):
    v = [1, 2, 3]
    def f(e):
        v[2] = n
        return e
    return [f(e) for e in v]


@program((5,))
def sum_live(n):
    v = [1, 2, 3]
    def f(e):
        v[2] = n
        return e
    return sum(f(e) for e in v), sum(map(f, [1])), max(f(e) for e in v)


@program((5,))
def list_iter_dead(n):
    v = [1, n]
    it = iter(v)
    a = list(it)
    v.append(3)
    return a, list(it)


@program((5,))
def sort_key_calls(n):
    return sorted(map(lambda t: -t, [1, 3, 2])), n


@program((5,))
def nested_comp(n):
    it = iter([1, 2, 3, 4])
    return [(a, b) for a, b in zip(it, it)], [a * n for a in it]


@program((5,))
def counter_elems(n):
    c = Counter("aab")
    e = c.elements()
    return list(e), list(e), n


@program((5,))
def np_gen(n):
    m = map(lambda t: t * n, [1, 2])
    return np.array(list(m)), list(m)


@program((5,))
def iter_iter(n):
    it = iter([1, n])
    return iter(it) is it, next(iter(it)), list(it)


@program((5,))
def for_else(n):
    it = iter([1, 2, 3])
    for a in it:
        if a == 2:
            break
    else:
        return -1
    for a in it:
        pass
    else:
        return a * n


@program((5,))
def gen_frames(n):
    def make(k):
        return (t * k for t in [1, 2, 3])
    a, b = make(2), make(n)
    return next(a), next(b), list(a), list(b)


@program((5,))
def gen_walrus(n):
    y = 0
    g = (y := t * n for t in [1, 2])
    a = next(g)
    b = y
    c = list(g)
    return a, b, c, y


@program((X.copy(),), (BIG.copy(),), grad=0)
def gradients_through_a_changed_array(v):
    x = v * 1.0
    total = 0.0
    for i, e in enumerate(x):
        if i + 1 < len(x):
            x[i + 1] += 0.5 * e
        total += e * e
    return total


@program((2.0,), grad=0)
def gradients_through_a_changed_list(n):
    values = [n, 2.0 * n, 3.0]
    total = 0.0
    for e in values:
        values[2] = values[2] * n
        total += e * e
    return total


@program((2.0,), grad=0)
def gradients_through_late_names(n):
    k = 1.0
    terms = (t * k for t in (n, n * n))
    k = n
    return sum(terms) + next(terms, n)


@program((3,))
def a_range_of_the_run_is_summed(n):
    return sum(range(n)), sum(range(n), 10)


@program((np.array([1, 2, 255], np.uint8),))
def integers_out_of_range_are_compared(x):
    return (
        x < 300, x <= 300, x > 300, x >= 300, x == 300, x != 300, x < -1, x <= -1, x > -1, x >= -1, x == -1, x != -1,
        300 > x, -1 < x, 255 >= x, x < 2**70, x > -(2**70),
    )


@program((np.array([-128, 2, 127], np.int8), 200), (np.array([-128, 2, 127], np.int8), -200))
def integers_of_the_run_are_compared(x, n):
    return x < n, x <= n, x > n, x >= n, x == n, x != n, n < x, n == x


@program((np.array([0, 2, 2**64 - 1], np.uint64), 5), (np.array([0, 2, 2**63 + 1], np.uint64), -1))
def integers_of_64_bits_without_sign_are_compared(x, n):
    return x < n, x <= n, x > n, x >= n, x == n, x != n, n < x, x == np.arange(3) - 1, x < 2**64, x > -1


@program((np.array([0, 2], np.uint32), 5), (np.array([0, 7], np.uint32), 0))
def integers_of_32_bits_without_sign_are_compared(x, n):
    return x < 2**32, x > -5, x == n, x < n, x < 2**40


@program((np.array([1, 2], np.uint8),), raises=OverflowError)
def a_number_that_does_not_fit_is_added(x):
    return x + 300  # raises


@program((np.array([1, 2], np.uint8), 300), (np.array([1, 2], np.uint8), -1), raises=OverflowError)
def a_number_of_the_run_that_does_not_fit_is_added(x, n):
    return x + n  # raises


@program((np.array([1, 2], np.int16), 30), (np.array([1, 2], np.int16), -30000))
def a_number_of_the_run_that_fits_is_added(x, n):
    return x + n, n - x, x // 7, x % n


@program((np.array([1, 2], np.uint8),), raises=OverflowError)
def a_power_that_does_not_fit(x):
    return x**300  # raises


@program((np.uint8(3),))
def an_index_of_8_bits(i):
    return [k * k for k in range(300)][i], (1, 2, 3, 4)[i]


@program((1.5,), raises=TypeError)
def an_index_that_is_a_float(n):
    values = [1, 2, 3]
    values[n] = 1  # raises


@program((1,), raises=TypeError)
def a_bound_that_is_a_text(n):
    return [1, 2, n][1:"a"]  # raises


@program((1,), raises=TypeError)
def a_list_as_a_key(n):
    return {[1]: n}  # raises


@program((1,), raises=TypeError)
def an_append_of_nothing(n):
    return [n].append()  # raises


@program((1,), raises=ValueError)
def an_unknown_format(n):
    return f"{'a':d}", n  # raises


@program((1,), raises=ImportError)
def an_import_of_nothing(n):
    from math import nothing  # raises

    return nothing + n


@program((2.0,), refused="vars")
def vars_of_an_object(n):
    return vars(n)  # refused

