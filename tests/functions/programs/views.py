"""Views: rows, parts and transposes that are written and read, and operands that a call to their right changes."""

import operator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.functions.table import program

M = np.arange(6.0).reshape(2, 3)
S = np.arange(9.0).reshape(3, 3) * 0.25 + 1.0


@dataclass
class Holder:
    row: Any


def raised(r):
    r += 1.0
    return r.sum()


@program((3,), (0,))
def elements_of_rows_assigned(count):
    x = np.zeros((3, 3))
    for i in range(count):
        for j in range(count):
            x[i][j] = i * 10 + j
    return x


@program((M, 1), (M, -1), grad=0)
def a_row_that_is_raised(a, i):
    x = a * a
    row = x[i]
    row += 100.0
    row *= row
    return (x * a).sum()


@program((M, 1))
def a_row_read_after_it_is_overwritten(a, i):
    x = a.copy()
    row = x[i]
    x[i] = 0
    return row


@program((M, 0, 1), (M, 1, 1))
def rows_swapped_by_tuples(a, i, j):
    x, y = a.copy(), a.copy()
    x[0], x[1] = x[1], x[0]
    y[i], y[j] = y[j], y[i]
    x[0, 0], x[1, 1] = x[1, 1], x[0, 0]
    return x, y


@program((M, 1))
def rows_and_columns_changed_by_methods(a, i):
    x = -a
    x[i].sort()
    x[:, i][0] = 9.0
    x.T[0].fill(8.0)
    np.add.at(x[i], np.array([1, 1]), 1.0)
    return x


@program((M, 1, 1), grad=0)
def views_of_views(a, i, j):
    x = a * 2.0
    r = x[i]
    s = r[1:]
    t = s[::-1]
    t[j] = 5.0 * a[0, 1]
    s *= a[1, 1:]
    x[i, 2] += r[0]
    return (x * t[0]).sum() + s.sum()


@program((M, 1), grad=0)
def a_row_passed_to_a_function(a, i):
    x = a * 1.0

    def change(r, k):
        r *= r
        r[k] = r[0] * 7.0

    change(x[i], 1)
    change(x[:, 2], i)
    return (x * a).sum()


@program((M, 0), (M, 1))
def views_in_containers(a, i):
    x = a.copy()
    pair, listed, named, holder = (x[i], x[0]), [x[i], x[1]], {"row": x[i]}, Holder(x[i])
    pair[0][1] = 8.0
    listed[1] += 1.0
    named["row"] += 2.0
    holder.row += 3.0
    holder.row[0] = -1.0
    x[0] *= 2.0
    return pair[0], pair[1], listed[0], named["row"], holder.row, x


@program((M, 1))
def a_view_in_a_closure(a, i):
    x = a.copy()
    r = x[i]

    def change(value):
        r[0] = value
        return r.sum()

    total = change(4.0)
    x[i] += 1.0
    return total, r, change(x[0, 1]), x


@program((M, 5), (M, 0))
def a_view_before_a_loop(a, n):
    x = a.copy()
    r = x[1]
    for k in range(n):
        r[k % 3] += k
        x[0] += r
    return x, r


@program((M, 0), (M, 1))
def a_view_before_a_branch(a, i):
    x = a.copy()
    r = x[i]
    if i > 0:
        r += 10.0
    else:
        x[0] = 0.0
    r *= 2.0
    return x, r


@program((M, 0), (M, 1))
def a_view_of_a_branch(a, i):
    x = a.copy()
    if i > 0:
        r, s = x[i], x[0]
    else:
        r, s = x[i + 1], x[1]
    r += 1.0
    s[0] = 9.0
    x[1] *= 2.0
    return x, r, s


@program((M, 0, 1), (M, 2, 1), or_refused=True)
def a_view_of_one_of_two_arrays(a, n, i):
    x, y = a.copy(), a + 1.0
    r = x[i] if n > 1 else y[0]
    r += 1.0
    return r, x  # refused


@program((M, 3), (M, 0))
def a_name_of_another_row_each_round(a, n):
    x = a.copy()
    r = x[0]
    for k in range(n):
        r += k + 1
        r = x[(k + 1) % 2]
    r[0] = 100.0
    return x, r


@program((M, 5))
def a_row_followed_by_a_while(a, n):
    x = a.copy()
    row, k = x[0], 0
    while row[0] < 50.0 and k < n:
        row[k % 3] += 20.0
        k += 1
        row = x[k % 2]
    return x, row, k


@program((M,), (np.ones((30, 2)),), grad=0)
def rows_that_a_loop_goes_over(a):
    x = a * 2.0
    for row in x:
        row *= row
        row[0] = row[1]
    for number, row in enumerate(x):
        row += number
    return (x * a).sum()


@program((M, 2))
def a_window_that_moves(a, i):
    x = np.zeros(8)
    w = x[i : i + 3]
    w += a[0] + 1.0
    w[0] = 5.0
    x[i + 1] = 9.0
    x[i - 1 : i + 1][1] = 7.0
    return x, w


@program((M, 1), grad=0)
def a_transpose_that_is_written(a, i):
    x = a * 1.0
    y = x.T
    y[i] = 7.0 * a[0, 0]
    x[0, 1] = a[1, 1]
    z = y[i]
    z *= z
    return (x * a).sum() + y[0].sum()


@program((S,), grad=0, tolerance=1e-8)
def elimination_by_rows(a):
    m = a + 10.0 * np.eye(3)
    for i in range(3):
        m[i] /= m[i][i]
        for j in range(3):
            if j != i:
                m[j] -= m[i] * m[j][i]
    return m.sum() + np.float64(a[0][1])


@program((M, 1))
def an_operand_that_a_call_changes(a, i):
    x = a.copy()
    first = x + raised(x)
    second = x[0] + raised(x[0])
    third = x[0, 0] + raised(x)
    fourth = x.sum() + raised(x) + x.sum()
    fifth = [x, raised(x)][0], (x[i], raised(x))[0]
    sixth = x < raised(x), x[0, 0] < raised(x) < x[1, 0] + 1e9
    seventh = np.maximum(x, raised(x)), max(x[0, 0], raised(x) - 60.0)
    eighth = -x + raised(x), x @ x.T + raised(x), x[int(raised(x)) % 2]
    return first, second, third, fourth, fifth, sixth, seventh, eighth, x


@program((M, 1), grad=0)
def an_element_changed_by_its_own_right_side(a, i):
    x = a * 1.0
    x[i] += raised(x[i])
    x[i, 0] *= raised(x[i])
    x[0][0] -= raised(x)
    x[[0, 1]] += raised(x)
    x[x > 1e9] += raised(x)
    x *= raised(x)
    return (x * x).sum() * 1e-6


@program((M, 1))
def a_list_changed_by_its_own_right_side(a, i):
    values = [1.0, 2.0]

    def push(value):
        values[0] = value
        return value

    values[0] += push(10.0)
    values[1] -= push(3.0)
    return values


@program((M, 1))
def masks_and_copies_of_rows(a, i):
    x = a.copy()
    r = x[i]
    r[r > 4.0] = 0.0
    r[r < 1.0] += 3.0
    c = x[[0, 1]]
    c += 1.0
    x[[i]] += 1.0
    return x, c


@program((M, 1))
def a_box_of_one_element(a, i):
    x = a.copy()
    v = x[i, 0, ...]
    v += 5.0
    v[...] = x[0, 1] + v
    x[0, 0] = 1.0
    z = np.zeros(())
    w = z
    w += 2.0
    return x, v, z, w


@program((M, 1))
def parts_of_complex_numbers(a, i):
    x = a + 0j
    r = x[i]
    r *= 1j
    r.real[0] = 4.0
    x.imag += 1.0
    x.real = a[::-1]
    y = a.copy()
    y.real[0] = 2.0
    return x, r, y


@program((M, 1))
def rows_that_functions_return(a, i):
    x = a.copy()

    def row_of(z, k):
        return z[k]

    r = row_of(x, i)
    r += 5.0
    row_of(x, 0)[0] = -1.0
    row_of(x, i)[2] = 0.0
    operator.iadd(row_of(x, 0), 1.0)
    operator.setitem(operator.itemgetter(1)(x), 1, 3.0)
    return x


@program((M, 3), or_refused=True)
def a_result_of_a_recursion_is_its_argument(a, n):
    x = a.copy()

    def same(z, k):
        return z if k == 0 else same(z, k - 1)

    y = same(x, n)
    x[0, 0] = 5.0
    return y  # refused


@program((M, 3), or_refused=True)
def an_argument_of_a_recursion_is_changed(a, n):
    x = a.copy()

    def count(pair, k):
        if k == 0:
            return 0.0
        pair[0][0] += k  # refused
        return count(pair, k - 1)

    count((x, 1), n)
    return x


@program((M, 3))
def a_captured_row_is_changed_by_a_recursion(a, n):
    x = a.copy()
    r = x[n - 2]

    def count(k):
        if k == 0:
            return 0.0
        r[0] += k
        return count(k - 1)

    count(n)
    return x


@program((M,), raises=ValueError, message="read-only")
def a_broadcast_is_read_only(a):
    y = np.broadcast_to(a[0].copy(), (2, 3))
    y += 1.0  # raises
    return y


@program((M,), raises=ValueError, message="read-only")
def a_diagonal_is_read_only(a):
    y = np.diagonal(a * 1.0)
    y[0] = 1.0  # raises
    return y


@program((M.astype(int),), raises=TypeError)
def a_row_of_integers_takes_no_fractions(a):
    x = a.copy()
    x[0] += 1.5  # raises
    return x


@program((M, 1), refused="argument")
def a_view_of_an_argument_is_written(a, i):
    row = a.T[i][1:]
    row[0] = 1.0  # refused
    return a


@program((np.arange(3.0),), refused="several of its elements")
def a_view_with_one_element_in_several_places(v):
    x = v.copy()
    y = np.broadcast_arrays(x, np.zeros((2, 1)))[0]
    y[0] = 1.0  # refused
    return x


@program((M,), or_refused=True)
def a_layout_that_is_not_known(a):
    x = a.T + 1.0
    y = x.reshape(-1)
    y[0] = 50.0
    return x, y  # refused
