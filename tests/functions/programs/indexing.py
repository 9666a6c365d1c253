"""Slices, fancy and boolean indexing, and assignment to parts of local arrays."""

import numpy as np

from tests.functions.table import program

V = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
M = np.arange(12.0).reshape(3, 4)


@program((V, 0), (V, 4), (V, -1), (V, -5))
def a_dynamic_index(x, i):
    return x[i]


@program((M, 1, 2), (M, -1, -4), (M, 0, 0))
def a_dynamic_index_of_two(x, i, j):
    return x[i, j], x[i][j], x[i], x[:, j]


@program((V,))
def slices(x):
    return x[1:3], x[:2], x[2:], x[:], x[-2:], x[:-1], x[1:100], x[3:1]


@program((V,))
def slices_with_steps(x):
    return x[::2], x[1::2], x[::-1], x[::-2], x[3:0:-1], x[-1:-4:-1], x[4:0:-2]


@program((M,))
def slices_of_matrices(x):
    return x[1:], x[:, 1:3], x[1:, ::2], x[::-1, ::-1], x[-1], x[..., 0], x[1, ...], x[:, -1]


@program((M,))
def new_axes(x):
    return x[None].shape, x[:, None].shape, x[0, :, None], x[None, 1, None, 2]


@program((V, np.array([0, 3, 3, -1])))
def an_array_of_indices(x, i):
    return x[i], x[i] * 2, x[np.array([1, 2])], x[[0, -1]]


@program((M, np.array([0, 2]), np.array([1, -1])))
def arrays_of_indices_for_two_axes(x, i, j):
    return x[i, j], x[i], x[:, j], x[i, 1:3], x[i][:, j]


@program((V, np.array([True, False, True, True, False])))
def a_mask_without_a_shape_of_its_own(x, mask):
    return np.where(mask, x, -1.0), np.sum(x * mask), x.sum(where=mask), np.where(mask[:, None], x, 0).shape


@program((M,))
def take_and_take_along_axis(x):
    order = np.argsort(-x, axis=1)
    return np.take(x, 1, axis=0), np.take(x, [0, 2], axis=1), np.take_along_axis(x, order, axis=1)


@program((5,))
def assignment_to_an_element(n):
    x = np.zeros(4)
    x[1] = n
    x[-1] = 2.5
    return x


@program((5, 0), (5, 3), (5, -1))
def assignment_at_a_dynamic_index(v, i):
    x = np.arange(4)
    x[i] = v
    x[(i + 1) % 4] += 10
    return x


@program((7.0,))
def assignment_to_slices(v):
    x = np.zeros((3, 4))
    x[0] = v
    x[1:, 1:3] = np.array([1.0, 2.0])
    x[:, -1] = -1.0
    x[2, ::2] *= 3.0
    return x


@program((V,))
def assignment_to_a_copy(x):
    y = x.copy()
    y[0] = 100.0
    y[1:3] = y[1:3] * 2
    return x, y


@program((V, np.array([0, 2, 0])))
def assignment_at_an_array_of_indices(x, i):
    y = x.copy()
    y[i] = -1.0
    z = np.zeros(5)
    z[i] += 1.0
    return y, z


@program((V,), (-V,))
def assignment_by_a_mask(x):
    y = x.copy()
    y[y > 3.0] = 0.0
    y[y < 0] *= -1
    return y


@program((6,), (1,))
def an_array_filled_in_a_loop(n):
    x = np.zeros(8, dtype=int)
    for i in range(n):
        x[i] = i * i
    return x


@program((5,))
def a_table_filled_from_its_own_values(n):
    fibonacci = np.ones(10, dtype=int)
    for i in range(2, 10):
        fibonacci[i] = fibonacci[i - 1] + fibonacci[i - 2]
    return fibonacci[n], fibonacci


@program((3,), (1,))
def assignment_in_a_branch(n):
    x = np.zeros(3)
    if n > 2:
        x[0] = n
    else:
        x[1] = -n
    return x


@program((4.0,))
def augmented_assignment_of_elements(v):
    x = np.ones((2, 2))
    x[0, 0] += v
    x[0, 1] -= v
    x[1] *= v
    x[1, 1] /= 8
    x[:, 0] **= 2
    return x


@program((V, 2), (V, 0), (V, 5))
def assignment_to_a_slice_with_a_dynamic_bound(x, n):
    y = x.copy()
    y[:n] = 0.0
    return y


@program((M, 1, 3), (M, 2, 2), (M, 0, 4))
def assignment_to_a_row_up_to_a_dynamic_bound(x, i, n):
    y = x.copy()
    y[i, 1:n] = -1.0
    return y


@program((3,))
def swap_of_elements(i):
    x = np.arange(5)
    x[0], x[i] = x[i], x[0]
    return x


@program((np.array([5, 3, 9, 1, 7]),))
def a_bubble_sort(values):
    x = values.copy()
    n = len(x)
    for i in range(n):
        for j in range(n - 1 - i):
            if x[j] > x[j + 1]:
                x[j], x[j + 1] = x[j + 1], x[j]
    return x


@program((np.array([5.0, 3.0, 9.0, 1.0, 7.0]),))
def an_insertion_sort(values):
    x = np.array(values)
    for i in range(1, len(x)):
        v = x[i]
        j = i - 1
        while j >= 0 and x[j] > v:
            x[j + 1] = x[j]
            j -= 1
        x[j + 1] = v
    return x


@program((2,))
def rows_swapped(i):
    x = np.arange(9.0).reshape(3, 3)
    x[[0, i]] = x[[i, 0]]
    return x


@program(((1, 2.5, 3),))
def static_indices_of_a_tuple(values):
    return values[0], values[-1], values[1:], values[::-1], values[:-1]


@program(((10, 20, 30), 0), ((10, 20, 30), 2), ((10, 20, 30), -1))
def a_dynamic_index_of_a_tuple(values, i):
    return values[i] + 1


@program(([10.0, 20.0, 30.0], 1), ([10.0, 20.0, 30.0], -3))
def a_dynamic_index_of_a_list(values, i):
    return values[i] * 2


@program(((1.0, (2.0, 3.0)), (4.0, (5.0, 6.0)), 1), ((1.0, (2.0, 3.0)), (4.0, (5.0, 6.0)), 0))
def a_dynamic_index_of_structures(a, b, i):
    x, (y, z) = (a, b)[i]
    return x * 100 + y * 10 + z


@program((V, 1), (V, 3))
def a_window_at_a_dynamic_offset(x, i):
    return x[i + np.arange(2)], np.array([x[i - 1], x[i], x[(i + 1) % 5]])


@program((2, 3))
def assignment_to_an_item_of_a_list(a, b):
    values = [a, b, 0]
    values[2] = a * b
    values[0] += 1
    return values


@program((3, 0), (3, 2))
def assignment_to_an_item_of_a_list_at_a_dynamic_index(v, i):
    values = [10, 20, 30]
    values[i] = v
    return values


@program((4,))
def a_delta_that_is_converted_to_the_arrays_type(n):
    x = np.zeros(3, dtype=int)
    x[0] = 2.9
    x[1] = n / 3
    return x


@program((M, 2), (M, 0))
def a_row_read_after_an_assignment(x, i):
    y = x.copy()
    y[i] = y[i] * 10
    row = y[i] + 1
    return row, y


@program((np.arange(6),))
def a_prefix_sum_in_a_loop(values):
    x = values.copy()
    for i in range(1, 6):
        x[i] += x[i - 1]
    return x


@program((M,), (-M,))
def where_with_indices_of_the_extreme(x):
    i, j = np.unravel_index(np.argmax(x), x.shape)
    return i, j, x[i, j]


@program((M,))
def indices_by_slice_objects(x):
    window = slice(1, 3)
    return x[window], x[:, window], x[window, 0]


@program((np.array([0, 1, 1, 2]), np.array([1.0, 2.0, 3.0, 4.0])))
def a_histogram_with_weights(labels, weights):
    totals = np.zeros(3)
    for label, weight in zip(labels, weights):
        totals[label] += weight
    return totals


@program((np.array([0, 1, 1, 2]), np.array([1.0, 2.0, 3.0, 4.0])))
def unbuffered_addition_at_indices(labels, weights):
    totals = np.zeros(3)
    np.add.at(totals, labels, weights)
    return totals


EIGHT = np.arange(8.0) ** 1.5
FOUR_BY_SIX = np.arange(24.0).reshape(4, 6)


@program((EIGHT, 2), (EIGHT, 0), (EIGHT, 5), grad=0)
def windows_whose_start_only_the_run_knows(x, i):
    first, every_other = x[i : i + 3], x[i : 3 + i : 2]
    return np.sum(first * np.array([1.0, 2.0, 3.0])) + every_other[1] ** 2 + x[i + 1 : i + 3].max()


@program((FOUR_BY_SIX, 1, 2), (FOUR_BY_SIX, 0, 3))
def windows_of_a_matrix(a, i, j):
    rows = a[i : i + 2, j : j + 3], a[i, j : j + 2], a[i : i + 2], a[2 * i : 2 * i + 2, ::2]
    return rows, a[:, j - 1 : j + 1], a[..., j : j + 2], a[i : i + 1, None, 0], a[i : i + 2, [0, 2]]


@program((EIGHT, 2), (EIGHT, 5), grad=0)
def windows_that_are_assigned(x, i):
    y = x.copy()
    y[i : i + 3] = x[:3] * 2
    y[i - 1 : i + 1] += np.array([10.0, 20.0])
    y[i : i + 2] *= 3
    z = np.zeros((3, 8))
    z[1, i : i + 2] = y[i : i + 2]
    z[:, i : i + 1] += 1
    return np.sum(y * y) + np.sum(z**3)


@program((EIGHT,), grad=0)
def a_convolution_by_windows(x):
    kernel = np.array([0.5, -1.0, 0.25])
    out = np.zeros(6)
    i = 0
    while i < 6:
        out[i] = np.dot(x[i : i + 3], kernel)
        i += 1
    return np.sum(out**2)


@program((EIGHT, 6), (EIGHT, -1), or_refused=True)
def a_window_beyond_the_end(x, i):
    return x[i : i + 3]  # refused
