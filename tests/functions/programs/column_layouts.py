"""Arguments and globals whose dimensions are in another order in memory: copies keep it, and reshapes go by it."""

import numpy as np

from tests.functions.table import program

M = np.arange(6.0).reshape(2, 3)
COLUMNS = np.asfortranarray(M)
CUBE = np.arange(24.0).reshape(2, 3, 4).transpose(2, 0, 1)


@program((M,), (COLUMNS,), (M.T,), (M[:, ::-1],), (CUBE,), (CUBE[:, :1],))
def results_do_not_depend_on_it(x):
    y = np.asfortranarray(x)
    return y, y.copy(), x.T.sum(0), x[0], x[:, 1:].T, x.reshape(-1), x.ravel(), x * x


@program((M,), (COLUMNS,), (M.T,), (CUBE,), or_refused=True)
def a_reshape_of_a_copy(x):
    y = np.copy(x)
    y.reshape(-1)[1] = 5.0
    return y  # refused


@program((M,), (COLUMNS,), (M.T,), (CUBE,))
def a_copy_row_by_row(x):
    y, z = x.copy(), x.copy(order="C")
    y.reshape(-1)[1] = 5.0
    z.ravel()[2] = 7.0
    return y, z


@program((2.0,), or_refused=True)
def a_global(a):
    y = np.copy(COLUMNS)
    y.reshape(-1)[1] = a
    return y  # refused


@program((M,), (COLUMNS,), or_refused=True)
def a_function_that_is_called_again(x):
    def changed(array):
        y = np.copy(array)
        y.reshape(-1)[1] = 5.0
        return y  # refused

    return changed(x.T), changed(x), changed(x.T), changed(x), changed(x.copy().T)


@program((M, 2), (COLUMNS, 2), (COLUMNS, 0), or_refused=True)
def a_function_that_calls_itself(x, n):
    def changed(array, n):
        if n == 0:
            return np.copy(array)
        y = np.copy(array)
        y.reshape(-1)[0] += 1
        return changed(array, n - 1) + y  # refused

    return changed(x, n)


@program((M,), (COLUMNS,), grad=0)
def a_slope(x):
    y = x * x
    y[0] *= x[1]
    return (y.T @ x).sum()
