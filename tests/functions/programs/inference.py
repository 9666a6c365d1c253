"""Types: promotion, joins, one specialisation per types, `isinstance`, values known at compile time."""

import math

import numpy as np

from tests.functions.table import program

DIMS = (2, 3)
MODE = "fast"


@program((3,), (-3,), reference=lambda n: float(n) if n > 0 else 0.5)
def a_join_of_an_int_and_a_float(n):
    if n > 0:
        return n
    return 0.5


@program((3,), (-3,), reference=lambda n: 1 if n > 0 else n)
def a_join_of_a_bool_and_an_int(n):
    return True if n > 0 else n


@program((3,), (-3,), reference=lambda n: (float(n), 2.5) if n > 0 else (1.5, float(n)))
def a_join_of_tuples_leaf_by_leaf(n):
    if n > 0:
        pair = (n, 2.5)
    else:
        pair = (1.5, n)
    return pair


@program((np.array([1.0, 2.0]), 3), (np.array([1.0, 2.0]), -3))
def a_join_of_arrays(x, n):
    if n > 0:
        y = x * n
    else:
        y = np.zeros(2)
    return y


@program((np.array([1, 2]), 3), (np.array([1, 2]), -3), reference=lambda x, n: x * 1.0 if n > 0 else x / 2)
def a_join_of_arrays_of_two_types(x, n):
    return x if n > 0 else x / 2


@program((2,), (0.5,), (np.array([1.0, -2.0]),), (np.array([1, -2], np.int32),))
def one_function_for_many_types(x):
    def double(v):
        return v + v

    return double(x), double(2.5), double(1)


@program((1, 2.0))
def a_helper_at_several_types(n, x):
    def pair(a, b):
        return (b, a)

    return pair(n, x), pair(x, n), pair((n, n), None)[1], pair(pair(n, x), x)


@program((3,), (2.5,), (True,), ((1, 2),), (None,))
def isinstance_decides(x):
    if isinstance(x, bool):
        return 1
    if isinstance(x, int):
        return x * 2
    if isinstance(x, float):
        return x / 2
    if isinstance(x, (tuple, list)):
        return len(x)
    return -1


@program((np.array([1.0, 2.0]),), ([1.0, 2.0],), ({"a": 1.0},))
def isinstance_of_containers(x):
    if isinstance(x, dict):
        return sum(x.values())
    if isinstance(x, list):
        return x[0] - x[1]
    return np.sum(x) if isinstance(x, np.ndarray) else 0.0


@program((np.ones((2, 3)),), (np.ones((4, 3)),), (np.ones(5),))
def shapes_are_static(x):
    if x.ndim == 1:
        return x.sum()
    rows, columns = x.shape
    total = np.zeros(rows)
    for j in range(columns):
        total = total + x[:, j] * j
    return total.reshape(rows, 1) @ np.ones((1, columns))


@program((3, 2.0), static=("n",))
@program((0, 2.0), static=("n",))
def a_static_argument(n, x):
    values = np.zeros(n)
    return [x * i for i in range(n)], values


@program((np.ones((2, 4)), 1), (np.ones((2, 4)), 0), static=("axis",))
def a_static_axis(x, axis):
    return x.sum(axis=axis), x.shape[axis]


@program(("sum", (1.0, 2.0)), ("product", (1.0, 2.0)))
def a_string_chooses(operation, values):
    if operation == "sum":
        return values[0] + values[1]
    elif operation.startswith("prod"):
        return values[0] * values[1]
    return None


@program((2.0,))
def static_strings(x):
    name = "a" + "b" * 2
    key = f"{name}_{len(DIMS)}"
    table = {"abb_2": x, "other": 0.0}
    return table[key], key.upper(), name[0], "b" in name, MODE == "fast", ",".join(("x", "y"))


@program((5,))
def static_integers_are_folded(x):
    size = DIMS[0] * DIMS[1] + 1
    grid = np.zeros((size, DIMS[-1]))
    half = size // 2
    return grid[:half].shape, grid.shape[0] - half + x


@program((4,), (4.0,))
def the_result_depends_on_the_type(x):
    return x // 3, x / 2, x**2, x % 3, -x, abs(x), +x


@program((1,), (1.5,))
def a_variable_of_two_types(x):
    y = x
    if x > 0:
        y = (x, x)
        y = y[0] + 1
    return y


@program((3, 0.5), (-3, 0.5))
def none_never_reaches_the_result(n, x):
    y = None
    if n > 0:
        y = x
    else:
        y = x * 2
    return y


@program((2, 3), (2.0, 3))
def comparison_gives_a_bool(a, b):
    c = a < b
    return c, c + 1, not c, c & True, bool(c) is not None


@program((np.int32(3), np.float32(0.5)))
def scalars_of_numpy(n, x):
    return n + 1, x * 2, n * x, n / 2, x + 1.5


@program((np.array([1, 2, 3], np.int8), np.array([1, 2, 3], np.uint8)))
def short_integers(a, b):
    return a + a, a + b, b * 2, a // 2, -a, np.sum(a), np.sum(b), a < b


@program((2, (3, 4.0)), (2.5, (3, 4.0)))
def structure_decides(x, values):
    if len(values) == 2:
        a, b = values
    else:
        a, b = values[0], 0
    return x * a + b


@program((5,), (0,))
def an_unreachable_type_error(n):
    if isinstance(n, tuple):
        return n[0] + "text"
    return n + 1


@program((1,), (0,))
def a_recursive_call_that_infers_late(n):
    def go(k):
        if k > 0:
            return go(k - 1)
        return 0.5

    return go(n) + 1


@program((3,), (0,))
def a_loop_that_widens_twice(n):
    a, b = 0.0, 0.0
    c = 1.0
    for i in range(n):
        c = b
        b = a
        a = i / 2
    return a, b, c


@program((2.0,))
def numbers_from_strings_and_constants(x):
    return x * int("12") + float("2.5"), math.inf > x, x * 1e-3, 1_000 + x


@program((2,), (3,))
def lists_in_both_branches(n):
    if n > 2:
        values = [n, 1]
    else:
        values = [0, n]
    return values


@program((2.0, None), (2.0, 3.0))
def an_optional_argument(x, scale):
    scale = 1.0 if scale is None else scale
    return x * scale


@program(((1, 2.0, 3),), ((True, False),))
def homogeneous_after_promotion(values):
    return np.array(values), sum(values), np.stack([np.asarray(v, float) for v in values])


@program((3,))
def type_of_a_value(x):
    return type(x) is int, type(x * 0.5) is float, type((x,)) == tuple, callable(len)
