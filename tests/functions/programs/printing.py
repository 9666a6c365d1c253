"""`hloom.print_value` prints when it is run, in order, as often as it is run."""

import numpy as np

import hloom
from tests.functions.table import program


@program((3,), prints=("3",))
def a_printed_argument(n):
    hloom.print_value(n)
    return n + 1


@program((2.5,), prints=("6.25",))
def a_printed_local(x):
    y = x * x
    hloom.print_value(y)
    return y - x


@program((3,), prints=("1000", "1001", "1002"))
@program((0,))
def printed_in_a_loop(n):
    total = 0
    for i in range(n):
        hloom.print_value(1000 + i)
        total += i
    return total


@program((1,), prints=("111",))
@program((-1,), prints=("222",))
def printed_in_the_arm_taken(n):
    if n > 0:
        hloom.print_value(111)
        return 1
    hloom.print_value(222 * n * n)
    return 2


@program((np.array([1.5, 2.5]),), prints=("1.5", "2.5"))
def a_printed_array(x):
    hloom.print_value(x)
    return x * 2


@program((3,), prints=("103", "102", "101"))
def printed_in_a_recursion(n):
    if n == 0:
        return 0
    hloom.print_value(n + 100)
    return n + printed_in_a_recursion(n - 1)


@program((7,), prints=("701", "702", "703"))
def printed_in_order(n):
    hloom.print_value(n * 100 + 1)
    y = n + 1
    hloom.print_value(n * 100 + 2)
    hloom.print_value(y * 100 - 97)
    return y
