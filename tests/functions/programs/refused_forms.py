"""What Python cannot mean here, in other forms than elsewhere: each is refused at its line."""

import contextlib
import random
import threading
from dataclasses import dataclass, field

import numpy as np

import hloom
from tests.functions.table import program

COUNTS = {"calls": 0}
HISTORY = []


@dataclass
class Recorder:
    seen: list = field(default_factory=list)


RECORDER = Recorder()


@program((3,), refused="generator")
def a_generator_consumed(n):
    def numbers():
        yield n  # refused
        yield n + 1

    return sum(numbers())


@program((3,), refused="try")
def a_try_in_a_loop(n):
    total = 0
    for k in range(3):
        try:  # refused
            total += n // k
        except ZeroDivisionError:
            pass
    return total


@program((3,), refused="with")
def a_context_of_suppression(n):
    with contextlib.suppress(ZeroDivisionError):  # refused
        n = n // 0
    return n


@program((3,), refused="global")
def a_global_counter(n):
    global COUNTER  # refused
    COUNTER = n
    return n


@program((3,), refused="")
def a_global_dict_changed(n):
    COUNTS["calls"] = n  # refused
    return n


@program((3,), refused="")
def a_global_list_extended(n):
    HISTORY.append(n)  # refused
    return n


@program((3,), refused="")
def an_object_outside_changed(n):
    RECORDER.seen.append(n)  # refused
    return n


@program((3,), refused="class")
def a_class_in_a_function(n):
    class Local:  # refused
        size = 3

    return Local.size + n


@program((np.array([1.0, -2.0]),), refused="")
def a_selection_by_a_mask(v):
    return v[v > 0]  # refused


@program((np.array([1.0, -2.0]),), refused="")
def the_places_of_a_mask(v):
    return np.nonzero(v > 0)[0]  # refused


@program((3,), refused="")
def an_array_as_long_as_the_data_say(n):
    return np.zeros(n)  # refused


@program((3,), refused="")
def a_list_as_long_as_the_data_say(n):
    return [0] * n  # refused


@program((3,), refused="")
def a_list_grown_by_a_while(n):
    values = []
    while n > 0:
        values.append(n)  # refused
        n -= 1
    return values


@program((np.array([1.0, 2.0]),), refused="argument")
def a_row_of_an_argument_sorted(v):
    v.sort()  # refused
    return v


@program(([1, 2],), refused="argument")
def an_argument_list_popped(values):
    values.pop()  # refused
    return values


@program(({"a": 1},), refused="argument")
def an_argument_dict_updated(d):
    d.update(b=2)  # refused
    return d


@program((3,), refused="")
def a_random_number(n):
    return random.random() + n  # refused


@program((3,), refused="")
def a_lock(n):
    lock = threading.Lock()  # refused
    return n if lock else 0


@program((3,), refused="")
def a_text_from_a_number(n):
    return str(n)  # refused


@program((3,), refused="")
def a_text_of_a_number_in_a_dict(n):
    return {f"k{n}": 1}  # refused


@program((3,), (2,), refused="")
def tuples_of_two_lengths_met(n):
    if n > 2:  # refused
        t = (n, n)
    else:
        t = (n,)
    return t


@program((3,), refused="")
def a_number_or_a_dict(n):
    x = n if n > 2 else {"n": n}  # refused
    return x


@program((3,), refused="")
def arrays_of_two_shapes(n):
    if n > 2:  # refused
        v = np.ones(2)
    else:
        v = np.ones(3)
    return v


@program((3,), refused="")
def a_loop_that_nests_tuples(n):
    t = ()
    for k in range(n):  # refused
        t = (t, k)
    return t


@program((3,), refused="")
def an_unknown_keyword_of_a_function(n):
    def f(a, b=1):
        return a + b

    return f(n, c=2)  # refused


@program((3,), refused="")
def a_method_that_no_list_has(n):
    return [n].push(2)  # refused


@program((3.0,), refused="")
def an_index_that_is_a_float(x):
    return (1, 2, 3)[x]  # refused


@program((np.ones(3), np.ones(4)), refused="")
def arrays_that_do_not_fit(a, b):
    return a + b  # refused


@program((np.ones((2, 3)), np.ones((2, 3))), refused="")
def matrices_that_do_not_fit(a, b):
    return a @ b  # refused


@program((np.array([1.0, 2.0]),), refused="")
def the_truth_of_several(v):
    if v > 1:  # refused
        return 1
    return 0


@program((3,), refused="async")
def a_coroutine(n):
    async def f():  # refused
        return n

    return n


@program((3.0,), refused="only lives inside")
def a_pullback_returned_to_python(x):
    return hloom.vjp(lambda y: y * y, x)[1]  # refused


@program((3,), refused="")
def an_iterator_returned_to_python(n):
    return iter([n])  # refused


@program((3,), refused="")
def reading_of_input(n):
    return n + len(input())  # refused


@program((3,), refused="")
def a_call_of_an_array(n):
    v = np.array([n])
    return v(0)  # refused


@program((3,), refused="")
def too_deep_a_polymorphic_recursion(n):
    def f(t, k):
        return k if k == 0 else f((t, t), k - 1)  # refused

    return f((), n)


@program(((1, 2),), refused="iterator")
def a_zip_returned_to_python(values):
    return zip(values, values)  # refused


@program((2.0,), refused="tangents")
def more_tangents_than_primals(x):
    return hloom.jvp(lambda v: v * v, (x,), (1.0, 1.0))  # refused
