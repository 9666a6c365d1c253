"""Integers beyond 64 bits, which Python has: an error that says so, never another number."""

from tests.functions.table import program


@program((10**18, 10**18), or_refused=True)
def a_product_beyond_64_bits(a, b):
    return (a * b) % 1000003  # refused


@program((3, 70), or_refused=True)
def a_shift_beyond_64_bits(a, n):
    return (a << n) % 1000003  # refused


@program((25,), or_refused=True)
def a_factorial_beyond_64_bits(n):
    result = 1
    for i in range(1, n + 1):
        result *= i  # refused
    return result % 1000003


@program((2**63 - 1,), or_refused=True)
def a_sum_beyond_64_bits(n):
    return n + 1 > n  # refused
