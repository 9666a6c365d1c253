"""Recursion: of itself, mutual, of trees, deep, through closures and with accumulators."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.functions.table import program


@program((5,), (0,), (1,), (15,))
def factorial(n):
    if n <= 1:
        return 1
    return n * factorial(n - 1)


@program((10,), (0,), (1,), (16,))
def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


@program((10, 0), (0, 7))
def sum_with_an_accumulator(n, total):
    if n == 0:
        return total
    return sum_with_an_accumulator(n - 1, total + n)


@program((1071, 462), (17, 5), (5, 0))
def greatest_common_divisor(a, b):
    return a if b == 0 else greatest_common_divisor(b, a % b)


@program((7,), (10,), (0,))
def is_even(n):
    if n == 0:
        return True
    return is_odd(n - 1)


@program((7,), (10,), (0,))
def is_odd(n):
    if n == 0:
        return False
    return is_even(n - 1)


@program((12,), (0,))
def hofstadter_female(n):
    return 1 if n == 0 else n - hofstadter_male(hofstadter_female(n - 1))


@program((12,), (0,))
def hofstadter_male(n):
    return 0 if n == 0 else n - hofstadter_female(hofstadter_male(n - 1))


@program((2, 3), (1, 0), (0, 4), (2, 2))
def ackermann(m, n):
    if m == 0:
        return n + 1
    if n == 0:
        return ackermann(m - 1, 1)
    return ackermann(m - 1, ackermann(m, n - 1))


@program((2.0, 10), (2.0, 0), (1.5, 7), (3, 5))
def power_by_squaring(x, n):
    if n == 0:
        return x * 0 + 1
    half = power_by_squaring(x, n // 2)
    return half * half * x if n % 2 else half * half


@program((5000,), (3,))
def a_deep_sum(n):
    if n == 0:
        return 0
    return n + a_deep_sum(n - 1)


@program((20000,))
def a_deep_recursion_of_floats(n):
    if n == 0:
        return 1.0
    return 0.5 * a_deep_recursion_of_floats(n - 1) + 1.0


@program((3000,))
def a_deep_mutual_recursion(n):
    def up(k):
        return 0 if k <= 0 else 1 + down(k - 1)

    def down(k):
        return 0 if k <= 0 else up(k - 2) + 3

    return up(n)


@program((200000,))
def a_tail_call_is_a_loop(n):
    def run(k, total):
        if k == 0:
            return total
        return run(k - 1, (total * 3 + k) % 1009)

    return run(n, 0)


@program((100001,))
def mutual_tail_calls(n):
    def even(k):
        return True if k == 0 else odd(k - 1)

    def odd(k):
        return False if k == 0 else even(k - 1)

    return even(n), odd(n)


@program((((1, 2), (3, (4, 5))),), (7,), (((((1,),),),),))
def sum_of_nested_tuples(tree):
    if isinstance(tree, tuple):
        total = 0
        for branch in tree:
            total += sum_of_nested_tuples(branch)
        return total
    return tree


@program((((1, 2), (3, (4, 5))),), (7,))
def depth_of_nested_tuples(tree):
    if isinstance(tree, tuple):
        return 1 + max(tuple(depth_of_nested_tuples(branch) for branch in tree))
    return 0


@program(((1, (2.0, True)), 2))
def map_over_nested_tuples(tree, factor):
    if isinstance(tree, tuple):
        return tuple(map_over_nested_tuples(branch, factor) for branch in tree)
    return tree * factor


@dataclass(frozen=True)
class Tree:
    left: Any
    value: Any
    right: Any


LEAF = Tree(None, 4, None)


@program((Tree(Tree(None, 1, None), 2, Tree(LEAF, 3, None)),), (None,), (LEAF,))
def sum_of_a_tree(tree):
    if tree is None:
        return 0
    return sum_of_a_tree(tree.left) + tree.value + sum_of_a_tree(tree.right)


@program((3,), (0,), (6,))
def a_tree_that_is_made_and_summed(depth):
    def count(d, position):
        if d == 0:
            return position
        return count(d - 1, 2 * position) + count(d - 1, 2 * position + 1)

    return count(depth, 1)


@program((np.array([1.0, 2.0, 3.0, 4.0]),))
def recursion_over_an_array_by_index(values):
    def total(i):
        if i == len(values):
            return 0.0
        return values[i] + 2 * total(i + 1)

    return total(0)


@program((np.array([5.0, 1.0, 4.0, 2.0, 3.0]), 0, 5))
def recursion_that_halves(values, low, high):
    if high - low == 1:
        return values[low]
    middle = (low + high) // 2
    return max(recursion_that_halves(values, low, middle), recursion_that_halves(values, middle, high))


@program((np.arange(8.0),))
def recursion_over_shapes(values):
    if values.shape[0] == 1:
        return values[0]
    half = values.shape[0] // 2
    return recursion_over_shapes(values[:half] * 2 - values[half:])


@program((40,), (7,), (0,))
def recursion_in_an_argument(n):
    if n <= 1:
        return n
    return recursion_in_an_argument(recursion_in_an_argument(n // 2) + n // 4) + 1


@program((6,), (1,))
def recursion_that_returns_tuples(n):
    if n == 0:
        return 0, 1
    a, b = recursion_that_returns_tuples(n - 1)
    return b, a + b


@program((10,), (11,))
def recursion_inside_a_loop(n):
    total = 0
    for i in range(n):
        total += fibonacci(i % 5)
    return total


@program((4,), (0,), (5,))
def a_loop_inside_recursion(n):
    total = 1
    for i in range(n):
        total += a_loop_inside_recursion(i)
    return total


@program((5,))
def recursion_with_a_captured_value(n):
    scale = n * 2

    def go(k):
        return 0 if k == 0 else scale + go(k - 1)

    return go(n)


@program((4, 3.0))
def recursion_with_a_function_argument(n, x):
    def repeat(f, k, v):
        return v if k == 0 else repeat(f, k - 1, f(v))

    return repeat(lambda v: v * 0.5 + 1, n, x), repeat(lambda v: v - x, 2, x)


@program((6,))
def recursion_through_a_lambda(n):
    go = lambda k: 1 if k < 2 else k * go(k - 1)
    return go(n)


@program((8,), (5,))
def recursion_that_changes_a_nonlocal(n):
    calls = 0

    def go(k):
        nonlocal calls
        calls += 1
        return 1 if k < 2 else go(k - 1) + go(k - 2)

    result = go(n)
    return result, calls


@program((10, 4), (5, 0), (6, 6))
def binomial(n, k):
    if k == 0 or k == n:
        return 1
    return binomial(n - 1, k - 1) + binomial(n - 1, k)


@program((5,), (1,))
def hanoi_moves(n):
    def move(k, source, target, spare):
        if k == 0:
            return 0
        return move(k - 1, source, spare, target) + source * 0 + 1 + move(k - 1, spare, target, source)

    return move(n, 1, 3, 2)


@program((10.0, 3), (10.0, 0), reference=lambda x, n: x / 2**n)
def recursion_whose_result_widens(x, n):
    if n == 0:
        return x
    return recursion_whose_result_widens(x, n - 1) / 2


@program((3,), (0,), reference=lambda n: 0.5 * n)
def recursion_from_an_int_to_a_float(n):
    if n == 0:
        return 0
    return recursion_from_an_int_to_a_float(n - 1) + 0.5


@program((91,), (45,), (120,))
def mccarthy(n):
    return n - 10 if n > 100 else mccarthy(mccarthy(n + 11))


@program((11,), (27,))
def collatz_by_recursion(n):
    if n == 1:
        return 0
    return 1 + (collatz_by_recursion(n // 2) if n % 2 == 0 else collatz_by_recursion(3 * n + 1))


@program((9, 4, 2), (6, 3, 1))
def three_recursive_calls(x, y, z):
    if x <= y:
        return y
    return three_recursive_calls(
        three_recursive_calls(x - 1, y, z),
        three_recursive_calls(y - 1, z, x),
        three_recursive_calls(z - 1, x, y),
    )


@program((np.eye(2) * 2.0, 5))
def recursion_on_matrices(matrix, n):
    if n == 0:
        return np.eye(2)
    if n % 2:
        return matrix @ recursion_on_matrices(matrix, n - 1)
    return recursion_on_matrices(matrix @ matrix, n // 2)


@program((3,), (4,))
def recursion_whose_branches_are_polymorphic(n):
    def total(values):
        if len(values) == 0:
            return 0
        return values[0] + total(values[1:])

    return total((n, n * 0.5, True)), total(())


@program((0.3,))
def a_tower_of_calls(x):
    def ground(x):
        for _ in range(4):
            x = x * (1.5 - x) * (0.25 + x * x) - 0.125 / (1.0 + x * x)
        return x

    def first(x):
        return ground(x) + ground(x * 0.5)

    def second(x):
        return first(x) + first(x * 0.5)

    def third(x):
        return second(x) + second(x * 0.5)

    def fourth(x):
        return third(x) + third(x * 0.5)

    def fifth(x):
        return fourth(x) + fourth(x * 0.5)

    def sixth(x):
        return fifth(x) - fifth(x * 0.5)

    def seventh(x):
        return sixth(x) + sixth(x * 0.75)

    def eighth(x):
        return seventh(x) + seventh(x * 0.75)

    return eighth(x)


@program((6,), (13,))
def a_count_that_recurs_in_a_number_and_a_constant(n):
    def ways(rest, largest):
        if rest == 0:
            return 1
        if rest < 0 or largest == 0:
            return 0
        return ways(rest - largest, largest) + ways(rest, largest - 1)

    return ways(n, 3)


@program((6,), (13,))
def a_constant_whose_end_only_the_run_knows(n):
    def ways(rest, largest):
        if rest == 0:
            return 1
        if rest < 0:
            return 0
        if largest == n - n:
            return 0
        return ways(rest - largest, largest) + ways(rest, largest - 1)

    return ways(n, 3)
