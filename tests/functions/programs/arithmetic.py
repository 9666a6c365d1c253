"""Python's numbers: floor division and modulo of negative numbers, powers, bits, conversions, `math`."""

import math
import operator

from tests.functions.table import program

SIGNED_PAIRS = ((7, 3), (-7, 3), (7, -3), (-7, -3), (6, 3), (-6, 3), (0, 5))


@program(*SIGNED_PAIRS)
def floor_division_of_ints(a, b):
    return a // b


@program(*SIGNED_PAIRS)
def modulo_of_ints(a, b):
    return a % b


@program((7.5, 2.0), (-7.5, 2.0), (7.5, -2.0), (-7.5, -2.0), (-1.0, 3), (1e-20, -1.0), (5.0, float("inf")))
def floor_division_and_modulo_of_floats(a, b):
    return a // b, a % b


@program(*SIGNED_PAIRS, (7.5, -2.0), (7, 2.5))
def divmod_of_numbers(a, b):
    quotient, remainder = divmod(a, b)
    return quotient, remainder, quotient * b + remainder == a


@program((7, 2), (-7, 2), (6, 3))
def true_division_of_ints(a, b):
    return a / b


@program((-7,), (7,), (8,))
def modulo_by_a_constant(n):
    return n % 4, n // 4, -n % 4, -n // 4, -(n // 4), n % -4


@program((2, 10), (-3, 3), (5, 0), (0, 0))
def int_power(a, n):
    if n < 0:
        return 0
    return a**n


@program((2.0, 0.5), (2.0, -2.0), (2, 0.5), (0.0, 0.0), (-2.0, 3.0))
def float_power(a, b):
    return a**b


@program((4,), (-2,))
def constant_powers(n):
    return n**2, n**3, n**0, n**-2, 2.0**n


@program((-3,), (3,))
def unary_minus_and_powers(n):
    return -(n**2), (-n) ** 2, -n


@program((12, 10), (-12, 10), (-1, -256), (0, 7))
def bit_operations(a, b):
    return a & b, a | b, a ^ b, ~a, ~b


@program((5, 3), (-5, 1), (-1, 10), (1, 0))
def shifts(a, n):
    return a << n, a >> n


@program((0b1011010,), (255,), (0,))
def count_bits(n):
    count = 0
    while n:
        count += n & 1
        n >>= 1
    return count


@program((2.5,), (3.5,), (-2.5,), (-0.4,), (1e6 + 0.5,))
def round_to_int(x):
    return round(x)


@program((2.671, 1), (3.14159, 1), (-1.25, 1), (1234.5678, 1))
def round_to_digits(x, n):
    return round(x, 2), round(x, 0), round(n)


@program((2.675,), (1.005,), (0.285,))
def round_to_digits_what_is_no_tie_in_binary(x):
    return round(x, 2)


@program((1234,), (-1250,), (1350,))
def round_an_int(n):
    return round(n), round(n, 2), round(n, -2)


@program((-3,), (3,), (-2.5,), (0.0,))
def absolute_value(x):
    return abs(x)


@program((2.9,), (-2.9,), (7,), (1e15,), (True,))
def int_of(x):
    return int(x)


@program((3,), (-2.5,), (True,))
def float_of(x):
    return float(x)


@program((3,), (0,), (0.0,), (-0.5,), (False,))
def bool_of(x):
    return bool(x)


@program((2.7,), (-2.7,), (3.0,))
def floor_ceil_and_trunc(x):
    return math.floor(x), math.ceil(x), math.trunc(x)


@program((True, True), (True, False), (False, False))
def arithmetic_of_bools(a, b):
    return a + b, a * b, a - b, -a, a * 2.5, a + 1, (a + b) / 2


@program((True, True), (True, False), (False, False))
def bits_of_bools(a, b):
    return a & b, a | b, a ^ b, a & 1, a | 2


@program((5, 3), (3, 5))
def comparisons_are_numbers(a, b):
    return (a > b) - (a < b), (a > b) * a + (a <= b) * b


@program((3, 8), (-3, 8), (2.5, 2.25))
def min_and_max_of_two(a, b):
    return min(a, b), max(a, b), max(a, b, 0 * a), min(b, a, b)


@program(((3, 1, 2),), ((2.5, -1.0),))
def min_and_max_of_a_tuple(values):
    return min(values), max(values), sum(values)


@program((1, 2.5), (3, 2.5), reference=lambda a, b: (float(max(a, b)), float(min(a, b))))
def min_and_max_of_an_int_and_a_float(a, b):
    return max(a, b), min(a, b)


@program((-3,), (5,))
def max_with_a_key(n):
    return max(n, -4, key=abs), min((n, 4, -1), key=lambda v: v * v)


@program(((1, 2, 3),), ((1.5, 2.5),))
def sum_with_a_start(values):
    return sum(values, 10)


@program((0.5,), (2.0,))
def functions_of_math(x):
    return (
        math.sin(x),
        math.cos(x),
        math.tan(x),
        math.exp(x),
        math.log(x),
        math.sqrt(x),
        math.tanh(x),
        math.atan(x),
        math.log1p(x),
        math.expm1(x),
    )


@program((0.5, 2.0), (-0.25, 3.0))
def functions_of_math_of_two(x, y):
    return (
        math.atan2(x, y),
        math.hypot(x, y),
        math.copysign(y, x),
        math.fmod(x * 7, y),
        math.pow(y, x),
        math.log(y, 2),
        math.log2(y),
        math.log10(y),
        math.asin(x),
        math.acos(x),
        math.sinh(x),
        math.cosh(x),
        math.erf(x),
    )


@program((1.0,), (float("inf"),), (float("nan"),))
def tests_of_math(x):
    return math.isnan(x), math.isinf(x), math.isfinite(x), x == x


@program((2.0,))
def constants_of_math(radius):
    return math.pi * radius**2, math.e, math.tau / 2, -math.inf < radius


@program((12, 18), (-12, 18), (0, 5), (7, 1))
def greatest_common_divisor_of_math(a, b):
    return math.gcd(a, b)


@program((17,), (16,), (0,))
def integer_square_root(n):
    return math.isqrt(n)


@program((1.0, 1.0 + 1e-12), (1.0, 1.1))
def is_close(a, b):
    return math.isclose(a, b)


@program((1000000007, 998244353))
def large_products_wrap_nowhere(a, b):
    return a * b % 1000003, (a * 8) // b


@program((2**62,), (-(2**62),))
def numbers_of_63_bits(n):
    return n // 3, n % 1000, n >> 60, n - 1 if n > 0 else n + 1


@program((3, 0.5))
def ints_widen_to_floats(n, x):
    return n + x, n - x, n * x, x / n, x - n, n // x, n % x


@program((1e308,), (-1e308,))
def overflow_to_infinity_by_multiplication(x):
    return x * 10, x + x


@program((0.1, 0.2))
def rounding_is_that_of_f64(a, b):
    return a + b == 0.3, a + b, (a + b) * 10


@program((5,), (-5,), (0,))
def sign(n):
    return (n > 0) - (n < 0)


@program((255,), (4096,))
def literals_in_other_bases(n):
    return n == 0xFF, n & 0b1111, n | 0o17, n + 1_000_000


@program((1 + 2j, 0.5 - 1j))
def complex_numbers(a, b):
    return a * b, a + 1, a.real, b.imag, abs(a), a.conjugate() / b


@program((3.7,), (-3.7,))
def methods_of_numbers(x):
    return x.is_integer(), (x * 0 + 2.0).is_integer(), x.real


@program((5, 3), (12, 2))
def operators_in_place_as_functions(x, y):
    values = [x]
    kept = operator.iconcat(values, [y])
    sums = operator.iadd(x, y), operator.isub(x, y), operator.imul(x, y), operator.ifloordiv(x, y), operator.imod(x, y)
    bits = operator.iand(x, y), operator.ior(x, y), operator.ixor(x, y), operator.ilshift(x, y), operator.irshift(x, y)
    return values, kept is values, sums, bits, operator.inv(x), operator.countOf((x, y, x), x), operator.indexOf((x, y), y)
