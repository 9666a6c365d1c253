"""What Python cannot mean here, refused at its line by name; and what must be right or refused, nothing between."""

import asyncio
import contextlib
from dataclasses import dataclass

import numpy as np

from tests.functions.table import program

COUNT = 0
REGISTER = [1, 2]


@dataclass
class Box:
    value: float


@program((3,), refused="generator")
def a_generator(n):  # refused
    for i in range(n):
        yield i  # refused


@program((3,), refused="generator")
def a_generator_inside(n):
    def values():  # refused
        yield n  # refused
        yield n + 1

    return sum(values())


@program((3,), refused="try")
def try_and_except(n):
    try:  # refused
        return 1 / n
    except ZeroDivisionError:
        return 0.0


@program((3,), refused="try")
def try_and_finally(n):
    y = n
    try:  # refused
        y = n + 1
    finally:
        y = y + 1
    return y


@program((3,), refused="with")
def a_with_statement(n):
    with contextlib.suppress(ValueError):  # refused
        n = n + 1
    return n


@program((3,), refused="async")
def an_async_function(n):
    async def f():  # refused
        return n

    return asyncio.run(f())


@program((3,), refused="global")
def assignment_to_a_global(n):
    global COUNT  # refused
    COUNT = n  # refused
    return COUNT


@program((3,), refused="eval")
def eval_of_a_text(n):
    return eval("n + 1")  # refused


@program((3,), refused="exec")
def exec_of_a_text(n):
    exec("n + 1")  # refused
    return n


@program((np.array([1.0, 2.0]),), refused="copy")
def assignment_to_an_argument(x):
    x[0] = 5.0  # refused
    return x


@program((np.array([1.0, 2.0]),), refused="copy")
def augmented_assignment_to_an_argument(x):
    x[1] += 5.0  # refused
    return x


@program((np.array([1.0, 2.0]),), refused="")
def an_array_argument_changed_as_a_whole(x):
    x += 1.0  # refused
    return x


@program(([1, 2],), refused="")
def append_to_an_argument(values):
    values.append(3)  # refused
    return values


@program((3,), refused="")
def append_to_a_global(n):
    REGISTER.append(n)  # refused
    return len(REGISTER)


@program(({"a": 1},), refused="")
def assignment_to_a_key_of_an_argument(values):
    values["a"] = 2  # refused
    return values


@program((Box(1.0),), refused="")
def assignment_to_an_attribute_of_an_argument(box):
    box.value = 2.0  # refused
    return box


@program((2,), or_refused=True)
def append_to_a_captured_list(n):
    values = [n]

    def add():
        values.append(n)  # refused

    add()
    return values


@program((np.array([1.0, -2.0, 3.0]),), refused="shape")
def a_boolean_index(x):
    return x[x > 0]  # refused


@program((np.array([1, 2, 2]),), refused="shape")
def unique_values(x):
    return np.unique(x)  # refused


@program((np.array([0.0, 2.0]),), refused="shape")
def where_with_one_argument(x):
    return np.nonzero(x)[0]  # refused


@program((3,), refused="")
def a_shape_from_an_argument(n):
    return np.zeros(n)  # refused


@program((3,), refused="")
def arange_of_an_argument(n):
    return np.arange(n)  # refused


@program((np.arange(5.0), 3), refused="")
def a_slice_of_dynamic_length(x, n):
    return x[:n]  # refused


@program((3,), refused="")
def a_list_of_dynamic_length(n):
    return [i * i for i in range(n)]  # refused


@program((3,), refused="")
def append_in_a_dynamic_loop(n):
    values = []
    for i in range(n):  # refused
        values.append(i)  # refused
    return values


@program((3, 2), refused="")
def a_join_of_a_number_and_a_tuple(n, x):
    if n > 0:  # refused
        y = x  # refused
    else:
        y = (x, x)  # refused
    return y


@program((3,), refused="")
def a_join_of_unequal_shapes(n):
    return np.zeros(2) if n > 0 else np.zeros(3)  # refused


@program((3,), refused="")
def a_join_of_tuples_of_unequal_lengths(n):
    y = (1, 2) if n > 0 else (1, 2, 3)  # refused
    return y


@program((3,), or_refused=True)
def a_join_of_two_strings(n):
    return "positive" if n > 0 else "negative"  # refused


@program((2,), refused="")
def a_loop_whose_value_changes_shape(n):
    x = np.zeros(2)
    for _ in range(n):  # refused
        x = np.concatenate([x, x])  # refused
    return x


@program((1.0, 3), refused="recursion")
def unbounded_polymorphic_recursion(x, n):
    def nest(v, k):
        if k == 0:
            return 0
        return nest((v, v), k - 1)  # refused

    return nest(x, n)


@program((3,), refused="no_such_name")
def an_undefined_name(n):
    return n + no_such_name  # refused


@program((np.array([1.0]),), refused="no_such_method")
def an_unknown_method(x):
    y = x + 1
    return y.no_such_method()  # refused


@program((3,), refused="no_such_function")
def an_unknown_function_of_a_module(n):
    return np.no_such_function(n)  # refused


@program((3,), refused="argument")
def a_missing_argument(n):
    def f(a, b):
        return a + b

    return f(n)  # refused


@program((3,), refused="other")
def an_unexpected_keyword(n):
    def f(a):
        return a

    return f(a=n, other=2)  # refused


@program((3, (1, 2)), refused="")
def a_sum_of_a_number_and_a_tuple(n, values):
    return n + values  # refused


@program((np.ones((2, 3)), np.ones((4, 3))), refused="")
def a_matrix_product_of_wrong_shapes(x, y):
    return x @ y  # refused


@program((np.ones(2), np.ones(3)), refused="")
def a_sum_of_wrong_shapes(x, y):
    z = x * 2
    return z + y  # refused


@program((3,), refused="")
def a_call_of_a_number(n):
    return n(2)  # refused


@program((np.array([1.0, 2.0]),), refused="")
def the_truth_of_an_array(x):
    if x > 0:  # refused
        return 1
    return 2


@program((3,), refused="")
def a_text_made_of_data(n):
    return f"n is {n}"  # refused


@program((3,), refused="")
def a_dict_with_a_dynamic_key(n):
    return {n: 1.0}  # refused


@program((3,), refused="")
def a_dynamic_index_of_unlike_values(n):
    values = (1, (2, 3))
    return values[n - 3]  # refused


@program((3,), refused="")
def reading_a_file(n):
    return n + len(open("/dev/null").read())  # refused


@program((3,), or_refused=True)
def a_class_defined_inside(n):
    class Local:  # refused
        value = 1

    return n + Local.value


@program((3,), or_refused=True)
def deletion_from_a_captured_list(n):
    values = [n, 1, 2]

    def inner():
        del values[0]  # refused

    inner()
    return values


@program((3.0,), or_refused=True)
def two_names_of_one_array(v):
    x = np.zeros(3)
    y = x
    y[0] = v  # refused
    return x, y


@program((3.0,), or_refused=True)
def a_view_of_an_array(v):
    x = np.zeros((2, 3))
    row = x[0]
    row[1] = v  # refused
    return x, row


@program((3.0,), or_refused=True)
def a_reshaped_view(v):
    x = np.zeros(4)
    y = x.reshape(2, 2)
    y[0, 1] = v  # refused
    return x


@program((3,), or_refused=True)
def two_names_of_one_list(n):
    a = [1]
    b = a
    b.append(n)  # refused
    return a, b


@program((3,), or_refused=True)
def a_list_repeated_by_reference(n):
    rows = [[0, 0]] * 2
    rows[0][1] = n  # refused
    return rows


@program((3.0,), or_refused=True)
def a_local_array_changed_by_a_function(v):
    def fill(values):
        values[0] = v  # refused

    x = np.zeros(2)
    fill(x)
    return x


@program((3,), or_refused=True)
def a_captured_array_changed(n):
    x = np.zeros(2)

    def fill():
        x[1] = n  # refused

    fill()
    return x


@program((3.0,), or_refused=True)
def an_array_in_a_tuple_changed(v):
    x = np.zeros(2)
    pair = (x, 1)
    x[0] = v  # refused
    return pair


@program((3,), or_refused=True)
def a_default_list_is_shared(n):
    def f(v, values=[]):
        values.append(v)  # refused
        return len(values)

    return f(n), f(n)


@program((3.0,), or_refused=True)
def an_augmented_assignment_changes_the_array_of_both_names(v):
    x = np.zeros(2)
    y = x
    y += v  # refused
    return x, y


@program((3,), or_refused=True)
def a_list_changed_while_it_is_iterated(n):
    values = [1, 2]
    for v in values:
        if len(values) < 5:
            values.append(v + n)  # refused
    return values


@program((2,), or_refused=True)
def a_local_object_changed(n):
    box = Box(1.0)
    other = box
    other.value = n * 2.0  # refused
    return box.value


@program((3,), or_refused=True)
def identity_of_lists(n):
    a = [n]
    b = [n]
    return a is b, a is a  # refused


@program((2, 1), (2, -1), or_refused=True)
def int_power_with_a_dynamic_exponent(a, n):
    return a**n  # refused


@program((np.arange(6.0), (2, 3)), refused="depend on data")
def a_shape_that_is_data(x, shape):
    return np.reshape(x, shape)  # refused


@program((np.ones((2, 3)), (1, 0)), refused="depend on data")
def the_order_of_dimensions_is_data(x, order):
    return np.transpose(x, order)  # refused


@program((np.ones((2, 3)), 1), refused="depend on data")
def an_axis_that_is_data(x, axis):
    return np.cumsum(x, axis=axis)  # refused


@program((4,), refused="recursion")
def continuations_of_ever_other_captures(n):
    def factorial(k, goes_on):
        if k <= 1:
            return goes_on(1)
        return factorial(k - 1, lambda value: goes_on(k * value))

    return factorial(n, lambda value: value)  # refused
