"""Whole algorithms, each of a page or less: what a reader would write first."""

import math
from typing import Any, NamedTuple

import numpy as np

from tests.functions.table import program


class State(NamedTuple):
    position: Any
    velocity: Any


@program((30,), (2,), (97,))
def largest_prime_up_to(n):
    best = 0
    for candidate in range(2, n + 1):
        divisor = 2
        while divisor * divisor <= candidate:
            if candidate % divisor == 0:
                break
            divisor += 1
        else:
            best = candidate
    return best


@program((50,))
def a_sieve(n):
    prime = np.ones(100, dtype=bool)
    prime[0] = False
    prime[1] = False
    for i in range(2, 100):
        if prime[i] and i * i < 100:
            for j in range(i * i, 100, i):
                prime[j] = False
    return prime, np.sum(prime[:50]) + n * 0


@program((2.0, 1e-12), (81.0, 1e-12))
def newtons_iteration(a, tolerance):
    x = a
    while abs(x * x - a) > tolerance:
        x = 0.5 * (x + a / x)
    return x


@program((0.0, 1.0, 1.0, 100))
def runge_kutta(t, y, end, steps):
    def slope(t, y):
        return y * math.cos(t) - t

    h = (end - t) / steps
    for _ in range(steps):
        a = slope(t, y)
        b = slope(t + h / 2, y + h / 2 * a)
        c = slope(t + h / 2, y + h / 2 * b)
        d = slope(t + h, y + h * c)
        y = y + h / 6 * (a + 2 * b + 2 * c + d)
        t = t + h
    return t, y


@program((-0.5, 0.5), (0.3, 0.6), (2.0, 2.0))
def mandelbrot_steps(a, b):
    x, y = 0.0, 0.0
    for i in range(100):
        if x * x + y * y > 4:
            return i
        x, y = x * x - y * y + a, 2 * x * y + b
    return 100


@program((-0.5 + 0.5j,), (0.3 + 0.6j,))
def mandelbrot_with_complex_numbers(c):
    z = 0j
    n = 0
    while abs(z) <= 2 and n < 60:
        z = z * z + c
        n += 1
    return n


@program((np.array([[4.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 2.0]]), np.array([1.0, 2.0, 3.0])))
def conjugate_gradients(matrix, target):
    x = np.zeros(3)
    residual = target - matrix @ x
    direction = residual
    square = residual @ residual
    while math.sqrt(square) > 1e-10:
        image = matrix @ direction
        step = square / (direction @ image)
        x = x + step * direction
        residual = residual - step * image
        following = residual @ residual
        direction = residual + following / square * direction
        square = following
    return x


@program((np.array([[2.0, 1.0], [1.0, 3.0]]),))
def power_iteration(matrix):
    v = np.ones(2)
    value = 0.0
    for _ in range(200):
        w = matrix @ v
        larger = np.linalg.norm(w)
        if abs(larger - value) < 1e-13:
            break
        value = larger
        v = w / larger
    return value, v


@program((np.array([3, 1, 4, 1, 5, 9, 2, 6]), 5), (np.array([3, 1, 4]), 7))
def position_by_linear_search(values, target):
    for i, v in enumerate(values):
        if v == target:
            return i
    return -1


@program((np.array([1, 3, 5, 7, 9, 11]), 7), (np.array([1, 3, 5, 7, 9, 11]), 8), (np.array([1, 3, 5]), 0))
def binary_search(values, target):
    low, high = 0, len(values) - 1
    while low <= high:
        middle = (low + high) // 2
        if values[middle] == target:
            return middle
        if values[middle] < target:
            low = middle + 1
        else:
            high = middle - 1
    return -1


@program((np.array([1, 2, 3, 2, 1]), np.array([2, 3, 1, 2])), (np.array([1, 2]), np.array([3, 4])))
def longest_common_subsequence(a, b):
    table = np.zeros((len(a) + 1, len(b) + 1), dtype=int)
    for i in range(len(a)):
        for j in range(len(b)):
            if a[i] == b[j]:
                table[i + 1, j + 1] = table[i, j] + 1
            else:
                table[i + 1, j + 1] = max(table[i, j + 1], table[i + 1, j])
    return table[-1, -1]


@program((np.array([1, 2, 5]), 11), (np.array([2]), 3))
def fewest_coins(coins, amount):
    best = np.full(12, 99)
    best[0] = 0
    for total in range(1, 12):
        for coin in coins:
            if total >= coin:
                best[total] = min(best[total], best[total - coin] + 1)
    return best[amount]


@program((np.array([2.0, -3.0, 4.0, -1.0, 2.0, -5.0]),), (np.array([-1.0, -2.0]),))
def largest_sum_of_a_slice(values):
    best = current = values[0]
    for v in values[1:]:
        current = max(v, current + v)
        best = max(best, current)
    return best


@program((np.array([[0.0, 0.0], [0.1, 0.0], [5.0, 5.0], [5.1, 5.0]]),))
def k_means(points):
    centers = np.array([[0.0, 1.0], [4.0, 4.0]])
    for _ in range(10):
        distances = np.sum((points[:, None, :] - centers[None]) ** 2, axis=-1)
        labels = np.argmin(distances, axis=1)
        for k in range(2):
            members = labels == k
            if np.any(members):
                centers[k] = np.sum(points * members[:, None], axis=0) / np.sum(members)
    return centers, labels


@program((1.0, 0.0, 200))
def a_pendulum(angle, velocity, steps):
    state = State(angle, velocity)
    for _ in range(steps):
        middle = State(
            state.position + 0.005 * state.velocity,
            state.velocity - 0.005 * math.sin(state.position),
        )
        state = State(state.position + 0.01 * middle.velocity, state.velocity - 0.01 * math.sin(middle.position))
    return state


@program((5, 3, 7), (2, 100, 1000), (3, 0, 5))
def power_modulo(base, exponent, modulus):
    result = 1
    base %= modulus
    while exponent > 0:
        if exponent & 1:
            result = result * base % modulus
        base = base * base % modulus
        exponent >>= 1
    return result


@program((1234321,), (1234,), (0,))
def is_a_palindrome(n):
    reversed_digits, rest = 0, n
    while rest:
        reversed_digits = reversed_digits * 10 + rest % 10
        rest //= 10
    return reversed_digits == n


@program((42, 10))
def a_congruential_generator(seed, n):
    values = np.zeros(10)
    for i in range(n):
        seed = (1103515245 * seed + 12345) % 2147483648
        values[i] = seed / 2147483648
    return values, seed


@program((np.array([1.0, 2.0, 3.0]), 2.0), (np.array([0.5]), -1.0))
def horners_rule(coefficients, x):
    result = 0.0
    for c in reversed(coefficients):
        result = result * x + c
    return result


@program((240, 46), (17, 5))
def extended_euclid(a, b):
    def go(a, b):
        if b == 0:
            return a, 1, 0
        g, x, y = go(b, a % b)
        return g, y, x - (a // b) * y

    return go(a, b)


@program((np.array([[2.0, 1.0, 1.0], [4.0, 3.0, 3.0], [8.0, 7.0, 9.0]]),))
def elimination(matrix):
    upper = matrix.copy()
    lower = np.eye(3)
    for i in range(3):
        for j in range(i + 1, 3):
            lower[j, i] = upper[j, i] / upper[i, i]
            upper[j] = upper[j] - lower[j, i] * upper[i]
    return lower, upper


@program((np.array([[0, 1, 0], [1, 1, 1], [0, 0, 1]]), 3))
def game_of_life(board, n):
    for _ in range(n):
        padded = np.pad(board, 1)
        neighbours = np.zeros((3, 3), dtype=int)
        for i in range(3):
            for j in range(3):
                if not (i == 1 and j == 1):
                    neighbours = neighbours + padded[i : i + 3, j : j + 3]
        board = np.where((neighbours == 3) | ((board == 1) & (neighbours == 2)), 1, 0)
    return board


@program((0.0, 2.0), (1.0, 1.5))
def adaptive_quadrature(low, high):
    def f(x):
        return math.exp(-x * x) + 0.1 * x

    def simpson(a, b):
        return (b - a) / 6 * (f(a) + 4 * f((a + b) / 2) + f(b))

    def go(a, b, estimate, tolerance):
        middle = (a + b) / 2
        left, right = simpson(a, middle), simpson(middle, b)
        if abs(left + right - estimate) <= 15 * tolerance:
            return left + right
        return go(a, middle, left, tolerance / 2) + go(middle, b, right, tolerance / 2)

    return go(low, high, simpson(low, high), 1e-8)


@program((np.array([0.5, 0.3, 0.2]), np.array([[0.7, 0.2, 0.1], [0.3, 0.5, 0.2], [0.2, 0.3, 0.5]]), np.array([0, 2, 1, 0])))
def most_likely_path(start, transition, observed):
    score = np.log(start)
    for o in observed:
        candidates = score[:, None] + np.log(transition)
        score = np.max(candidates, axis=0) - 0.1 * (np.arange(3) != o)
    return np.argmax(score), score


@program((8,), (1,), (4,))
def queens(n):
    def count(row, columns, left, right):
        if row == n:
            return 1
        total = 0
        for column in range(n):
            bit = 1 << column
            if columns & bit or left & (1 << (row + column)) or right & (1 << (row - column + n)):
                continue
            total += count(row + 1, columns | bit, left | (1 << (row + column)), right | (1 << (row - column + n)))
        return total

    return count(0, 0, 0, 0)


@program((np.array([7, 2, 9, 4, 3]),))
def a_merge_sort_of_a_fixed_length(values):
    x = values.copy()
    width = 1
    while width < len(x):
        y = x.copy()
        for start in range(0, 5, 2 * width):
            middle, end = min(start + width, 5), min(start + 2 * width, 5)
            i, j = start, middle
            for k in range(start, end):
                if i < middle and (j >= end or x[i] <= x[j]):
                    y[k] = x[i]
                    i += 1
                else:
                    y[k] = x[j]
                    j += 1
        x = y
        width *= 2
    return x


@program((2024, 2, 29), (1999, 12, 31), (2000, 1, 1))
def weekday(year, month, day):
    offsets = (0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4)
    if month < 3:
        year -= 1
    return (year + year // 4 - year // 100 + year // 400 + offsets[month - 1] + day) % 7


@program((np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, -1.0]), 3))
def a_small_network(weights, x, layers):
    h = x
    for i in range(layers):
        h = np.tanh(weights @ h + i * 0.1)
        if np.max(np.abs(h)) > 0.999:
            h = h * 0.5
    return h
