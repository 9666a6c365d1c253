"""Integers and bools by Python's rules: division, remainders, shifts, bits, bases, promotion, conversions."""

import math
import operator

import numpy as np

from tests.functions.table import program


@program((7, 3), (-7, 3), (7, -3), (-7, -3), (0, 5), (9223372036854775807, -1))
def division_and_its_laws(a, b):
    q, r = divmod(a, b)
    return q, r, a // b, a % b, q * b + r == a, 0 <= r * b


@program((7.5, 2), (-7.5, 2), (7, -2.5), (-0.0, 3))
def division_of_floats_and_ints(a, b):
    return divmod(a, b), a // b, a % b, math.fmod(a, b), a - b * (a // b)


@program((True, 3), (False, -3))
def bools_are_integers(flag, n):
    return flag + n, flag * n, -flag, +flag, flag // 1, flag << 3, flag & True, flag | n, flag ^ flag, n - flag, flag**2, flag / 2


@program((True, False), (True, True), (False, False))
def operators_of_bools_keep_bools(a, b):
    return a & b, a | b, a ^ b, a == b, a < b, a and b, a or b, not a, a is True, int(a) + b, sum((a, b, a))


@program((12, 10), (-12, 10), (-1, 6))
def bits_of_negative_numbers(a, b):
    return a & b, a | b, a ^ b, ~a, ~(a & ~b), a & 0xFF, (a ^ -1) + 1, -a & a


@program((5, 2), (-5, 2), (-1, 60), (1, 61), (7, 0))
def shifts_of_signed_numbers(a, n):
    return a >> n, a << n if n < 62 else a, (a >> n) & 1, 1 << n


@program((3, 4), (-3, 3), (2, 0), (0, 0), (-2, 5))
def powers_of_ints(a, n):
    return a**n, pow(a, n), pow(a, n, 7), (a * 1.0) ** n, a**2, 2**n


@program((2, -2), (-2, -3))
def negative_powers_of_ints(a, n):
    return float(a) ** n, 2.0**n, 10**-2 * a


@program((10,), (255,), (1,), (-37,))
def bits_counted_by_methods(n):
    return n.bit_length(), n.bit_count(), abs(n).bit_length(), (n & 7).bit_count()


@program((2.5,), (-2.5,), (3.5,), (0.5,), (-0.5,), (1e10 + 0.5,))
def rounding_to_even(x):
    return round(x), int(x), math.floor(x), math.ceil(x), math.trunc(x), round(x, 0), x // 1


@program((2.675, 1234567), (-1.005, -7654321))
def rounding_to_places(x, n):
    return round(x, 1), round(n, -2), round(x * 1000, -1), round(n)


@program((3, 2.0, True), (0, -1.5, False))
def promotion_of_three_kinds(i, f, b):
    return i + f, i + b, f + b, i * b, i / i if i else 0.5, b * f, i - b, (i * 1.0, f)[b], max(i * 1.0, f), min(b + 0, i), b + b


@program((3, 2), (2, 3))
def joins_of_kinds(a, b):
    x = a if a > b else b * 1.0
    y = a > b if a > b else 5
    return x + 0.0, y * 1


@program((7,), (-8,), (0,))
def conversions_between_kinds(n):
    return float(n), int(n / 2), bool(n), int(bool(n)), complex(n, 1), abs(complex(n, 1)), int("12") + n, float("1.5") * n, int(True)


@program((10, 4), (17, 5), (12, 0), (0, 0))
def functions_of_number_theory(a, b):
    return math.gcd(a, b), math.lcm(a, b) if a else 0, math.isqrt(a), math.comb(a, 2), math.perm(a, 2), math.factorial(5) + a


@program((3, 5), (-3, 5))
def operators_as_functions(a, b):
    return (
        operator.add(a, b), operator.floordiv(a, b), operator.mod(a, b), operator.pow(a, 2), operator.neg(a),
        operator.invert(a), operator.lshift(a, 2), operator.rshift(a, 1), operator.and_(a, b), operator.or_(a, b),
        operator.xor(a, b), operator.not_(a), operator.truth(a), operator.is_(a, None), operator.index(b),
        operator.contains((a, b), 3), operator.pos(a), operator.abs(a), operator.truediv(a, b), operator.ne(a, b),
    )  # fmt: skip


@program((5,), (0,), (-5,))
def chained_comparisons_of_ints(n):
    return -5 <= n < 5, 0 < n < n + 1, n == n != 0, 1 < 2 < n, n > -1 > -2, not 0 < n, (n > 0) == True  # noqa: E712


@program((9,), (10,))
def parity_by_bits_and_by_remainders(n):
    return n & 1 == n % 2, (n % 2 == 0) is True, bool(n & 1), n // 2 * 2 == n, "odd" if False else n % 2


@program((123456789,), (-42,), (7,))
def digits_in_a_loop(n):
    n, total, reverse, count = abs(n), 0, 0, 0
    while n:
        n, digit = divmod(n, 10)
        total += digit
        reverse = reverse * 10 + digit
        count += 1
    return total, reverse, count


@program((37,), (0,), (255,))
def the_bits_in_a_tuple(n):
    bits = tuple((n >> k) & 1 for k in range(8))
    value = 0
    for bit in reversed(bits):
        value = value << 1 | bit
    return bits, value == n, sum(bits), value ^ (value >> 1)


@program((2, 62), (3, 39), (-2, 63))
def numbers_near_the_limit(a, n):
    x = a**n
    return x, x // 3, x % 1000, -x + 1 if a > 0 else x


@program((48, 36), (17, 5), (100, 75))
def the_binary_greatest_common_divisor(a, b):
    shift = 0
    while (a | b) & 1 == 0:
        a, b, shift = a >> 1, b >> 1, shift + 1
    while a & 1 == 0:
        a >>= 1
    while b:
        while b & 1 == 0:
            b >>= 1
        if a > b:
            a, b = b, a
        b -= a
    return a << shift


@program((np.int32(2_000_000_000), np.int32(7)), (np.int32(-5), np.int32(3)))
def numbers_of_32_bits(a, b):
    return a // b, a % b, a + 1, a * 2.0, a >> 1, a & b, -a, abs(a), a == b, a / b


@program((np.uint8(250), np.uint8(10)), (np.uint8(3), np.uint8(5)))
def unsigned_bytes(a, b):
    return a + b, a - b, a * b, a // b, a ^ b, ~a, a >> 1, a + 1, a / b


@program((np.int8(100), np.int64(5), np.float32(1.5)),)
def scalars_of_three_types(a, b, c):
    return a + b, a * c, b * c, a + 1, c + 1, c * 2.0, a / 2, c // 1, b - a, a > c


@program((np.float32(0.1), 0.1), (np.float32(2.0), 3))
def a_short_float_and_pythons_numbers(x, y):
    return x + y, x * y, x / y, x - 1, x**2, x == y, round(float(x), 3), float(x)


@program((10, 3), (-10, 3))
def augmented_operators(a, b):
    x = a
    x += b
    x *= 2
    x -= 1
    x //= b
    x <<= 2
    x |= 1
    x ^= 5
    x &= 127
    x >>= 1
    y = a
    y /= 4
    y **= 2
    y %= b
    return x, y


@program((5, 3), (3, 5), (4, 4))
def three_way_comparison(a, b):
    sign = (a > b) - (a < b)
    return sign, [-1, 0, 1][sign + 1], abs(sign), sign * sign == (a != b)


@program((6, 4.0), (6, 2.5))
def types_of_results(a, b):
    return type(a * b) is float, type(a // 4) is int, isinstance(a / 2, float), isinstance(a > b, bool), isinstance(True, int)


@program((3.7,), (-3.7,))
def methods_of_floats(x):
    return x.is_integer(), (x * 10).conjugate(), x.real, math.modf(2.5)[0] + x, math.frexp(8.0)[1] + x, math.hypot(x, 1.0), math.dist((x, 0.0), (0.0, 1.0))


@program((2, 3), (100, 50))
def modular_inverse_by_euclid(a, n):
    m = 1_000_003
    old_r, r = a, m
    old_s, s = 1, 0
    while r != 0:
        q = old_r // r
        old_r, r = r, old_r - q * r
        old_s, s = s, old_s - q * s
    return old_s % m, old_r, old_s % m * a % m == 1, n


@program((np.arange(6).reshape(2, 3), np.array([64, 100, 3])), (np.array([-3, 2]), np.array([77, 63])))
@program((np.arange(6, dtype=np.uint8), np.uint8(200)), (np.int32(7), np.uint8(100)))
def powers_that_wrap_around(x, n):
    return x**n, np.power(x, n), x**100, np.int64(3) ** n, (-x) ** n


@program((np.array([2, 3]), np.array([-1, 2])), (np.int64(2), np.int64(-1)), raises=ValueError, message="negative")
def a_negative_power_of_numpys_integers(x, n):
    return x**n  # raises


@program((np.array([2, 3]), np.array([-1, 2])), (2, -1), raises=ValueError, message="negative")
def numpys_power_of_integers(x, n):
    return np.power(x, n)  # raises


@program((np.array([2.5, 3.14159]),), (np.array([1.5, 0.5], np.float32),), (np.array([3, -4], np.int16),))
def numpys_numbers_rounded_are_pythons(x):
    return round(x[0]), round(x[1], None), round(x[1], 1)


@program((np.array([100, 100, 3], np.int8),), (np.array([200, 100], np.uint8),), (np.array([True, True]),))
def running_sums_of_narrow_integers(x):
    return np.cumsum(x), np.cumprod(x), x.cumsum(), np.add.accumulate(x), np.sum(x)
