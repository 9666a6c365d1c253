"""Shifts beyond 64 bits: an error that says so, never another number. Sums and products wrap around (decision 012)."""

from tests.functions.table import program


@program((3, 70), or_refused=True)
def a_shift_beyond_64_bits(a, n):
    return (a << n) % 1000003  # refused
