"""Inexact rules on exponentials, logarithms, powers and roots.

Follows XLA's xla/hlo/transforms/simplifiers/algebraic_simplifier.cc (HandleExp, HandleLog, HandlePower, HandleSqrt,
HandleRsqrt, HandleMultiply, HandleDivide, HandleMaximum).
"""

from __future__ import annotations

import numpy as np

from hloom.ir import Apply, Node
from hloom.passes.rules.divide import cube
from hloom.passes.rules.value_properties import (
    in_either_order,
    is_at_least_zero,
    is_complex,
    is_inexact,
    is_one,
    is_real,
    is_zero,
    number_like,
)
from hloom.rewrite import (
    Builder,
    Family,
    all_operands,
    complex_numbers,
    floats,
    inexact_numbers,
    is_splat,
    number_at,
    operand_is,
    some_operand,
    splat_of,
    used_once,
)

TRANSCENDENTAL_INEXACT = Family("transcendental-inexact", formerly="functions-relaxed")

_MONOTONE = ("cbrt", "erf", "logistic", "tanh")
"""Functions that never fall and never exceed their operand's magnitude for long: no overflow comes of them."""


@TRANSCENDENTAL_INEXACT.rewrites("multiply", benefit=2, requires=all_operands("exponential"))
def multiply_exponentials(build: Builder, node: Apply) -> Node | None:
    """multiply(exponential(x), exponential(y)) -> exponential(add(x, y))."""
    left, right = node.operands
    if left.opcode != "exponential" or right.opcode != "exponential":
        return None
    return build.op("exponential", build.op("add", left.operands[0], right.operands[0]))


@TRANSCENDENTAL_INEXACT.rewrites("divide", benefit=3, requires=all_operands("exponential"))
def divide_exponentials(build: Builder, node: Apply) -> Node | None:
    """divide(exponential(x), exponential(y)) -> exponential(subtract(x, y))."""
    left, right = node.operands
    if left.opcode != "exponential" or right.opcode != "exponential":
        return None
    return build.op("exponential", build.op("subtract", left.operands[0], right.operands[0]))


@TRANSCENDENTAL_INEXACT.rewrites("divide", benefit=2, requires=operand_is(1, "exponential"))
def divide_by_exponential(build: Builder, node: Apply) -> Node | None:
    """divide(x, exponential(y)) -> multiply(x, exponential(negate(y)))."""
    operand, inner = node.operands
    if inner.opcode != "exponential":
        return None
    return build.op("multiply", operand, build.op("exponential", build.op("negate", inner.operands[0])))


@TRANSCENDENTAL_INEXACT.rewrites("power", benefit=3, requires=operand_is(0, "exponential"))
def power_of_exponential(build: Builder, node: Apply) -> Node | None:
    """power(exponential(x), y) -> exponential(multiply(x, y))."""
    inner, exponent = node.operands
    if inner.opcode != "exponential":
        return None
    return build.op("exponential", build.op("multiply", inner.operands[0], exponent))


@TRANSCENDENTAL_INEXACT.rewrites("power", benefit=2, depth=1, requires=(inexact_numbers(), number_at(1, 3)))
def float_power_of_three(build: Builder, node: Apply) -> Node | None:
    """power(x, 3) -> multiply(x, multiply(x, x)), on floats: rounded twice."""
    return cube(build, node) if is_inexact(node) else None


@TRANSCENDENTAL_INEXACT.rewrites("power", benefit=2, depth=1, requires=(complex_numbers(), number_at(1)))
def small_complex_power(build: Builder, node: Apply) -> Node | None:
    """power(x, 0) -> 1, power(x, 1) -> x, power(x, 2) -> multiply(x, x), power(x, -1) -> divide(1, x), of complex x."""
    base, exponent = node.operands
    if not is_complex(node):
        return None
    if is_zero(exponent):
        return number_like(build, node, 1)
    if is_one(exponent):
        return base
    if is_splat(exponent, 2):
        return build.op("multiply", base, base)
    return build.op("divide", number_like(build, base, 1), base) if is_splat(exponent, -1) else None


@TRANSCENDENTAL_INEXACT.rewrites("power", benefit=2, depth=3, requires=(floats(), number_at(1, 0.5)))
def power_of_one_half_of_at_least_zero(build: Builder, node: Apply) -> Node | None:
    """power(x, 0.5) -> sqrt(x), where x is known to be at least zero; -0 keeps its sign."""
    base, exponent = node.operands
    if not is_real(node) or not is_splat(exponent, 0.5) or not is_at_least_zero(base):
        return None
    return build.op("sqrt", base)


@TRANSCENDENTAL_INEXACT.rewrites("log", benefit=3, requires=operand_is(0, "exponential"))
def log_of_exponential(build: Builder, node: Apply) -> Node | None:
    """log(exponential(x)) -> x, on floats: what overflows or underflows between is not lost."""
    inner = node.operands[0]
    return inner.operands[0] if inner.opcode == "exponential" and is_inexact(node) else None


@TRANSCENDENTAL_INEXACT.rewrites("log", benefit=2, requires=operand_is(0, "power"))
def log_of_power(build: Builder, node: Apply) -> Node | None:
    """log(power(x, y)) -> select(compare(y, 0), 0, multiply(log(abs(x)), y)), direction=EQ; x itself where complex."""
    inner = node.operands[0]
    if inner.opcode != "power" or not is_inexact(node) or inner.type is not node.type:
        return None
    base, exponent = inner.operands
    magnitude = base if is_complex(base) else build.op("abs", base)
    product = build.op("multiply", build.op("log", magnitude), exponent)
    zero = number_like(build, exponent, 0)
    is_zero_exponent = build.op("compare", exponent, zero, direction="EQ")
    return build.op("select", is_zero_exponent, zero, product)


@TRANSCENDENTAL_INEXACT.rewrites("log", benefit=2, requires=operand_is(0, "sqrt", "rsqrt"))
def log_of_root(build: Builder, node: Apply) -> Node | None:
    """log(sqrt(x)) -> multiply(log(x), 0.5), log(rsqrt(x)) -> multiply(log(x), -0.5)."""
    inner = node.operands[0]
    if inner.opcode not in ("sqrt", "rsqrt") or not is_inexact(node):
        return None
    half = number_like(build, node, 0.5 if inner.opcode == "sqrt" else -0.5)
    return build.op("multiply", build.op("log", inner.operands[0]), half)


@TRANSCENDENTAL_INEXACT.rewrites("sqrt", benefit=2, requires=operand_is(0, "multiply"))
def sqrt_of_square(build: Builder, node: Apply) -> Node | None:
    """sqrt(multiply(x, x)) -> abs(x), on floats: squares that overflow or underflow are not lost."""
    inner = node.operands[0]
    if inner.opcode != "multiply" or inner.operands[0] is not inner.operands[1] or not is_real(node):
        return None
    return build.op("abs", inner.operands[0])


@TRANSCENDENTAL_INEXACT.rewrites("rsqrt", benefit=2, requires=operand_is(0, "divide"))
def rsqrt_of_reciprocal(build: Builder, node: Apply) -> Node | None:
    """rsqrt(divide(1, x)) -> sqrt(x), where x is known to be at least zero."""
    inner = node.operands[0]
    if inner.opcode != "divide" or not is_one(inner.operands[0]) or not is_real(node):
        return None
    return build.op("sqrt", inner.operands[1]) if is_at_least_zero(inner.operands[1]) else None


@TRANSCENDENTAL_INEXACT.rewrites("rsqrt", benefit=2, requires=operand_is(0, "power"))
def rsqrt_of_power(build: Builder, node: Apply) -> Node | None:
    """rsqrt(power(x, -2)) -> x, where x is known to be at least zero."""
    inner = node.operands[0]
    if inner.opcode != "power" or not is_splat(inner.operands[1], -2) or not is_real(node):
        return None
    return inner.operands[0] if is_at_least_zero(inner.operands[0]) else None


@TRANSCENDENTAL_INEXACT.rewrites("exponential", benefit=3, depth=1, requires=number_at(0, 0))
def exponential_of_zero(build: Builder, node: Apply) -> Node | None:
    """exponential(0) -> 1: exact."""
    return number_like(build, node, 1) if is_inexact(node) and is_zero(node.operands[0]) else None


@TRANSCENDENTAL_INEXACT.rewrites("maximum", benefit=2, requires=some_operand("clamp"))
def maximum_of_any_clamp(build: Builder, node: Apply) -> Node | None:
    """maximum(clamp(x, y, z), x) -> clamp(x, y, z), on floats, where x and z are constants and x is not more than z

    Of x more than z, the clamp is z and the maximum x.
    """
    if not is_real(node):
        return None
    for inner, bound in in_either_order(node):
        if inner.opcode == "clamp" and bound is inner.operands[0]:
            low, high = splat_of(bound), splat_of(inner.operands[2])
            if low is None or high is None or not np.less_equal(low, high):
                return build.decline("the lower bound is not known to be at most the upper")
            return inner
    return None


@TRANSCENDENTAL_INEXACT.rewrites("maximum", requires=all_operands(*_MONOTONE))
def maximum_of_growing_functions(build: Builder, node: Apply) -> Node | None:
    """maximum(tanh(x), tanh(y)) -> tanh(maximum(x, y)); so too of cbrt, erf and logistic, which never fall."""
    left, right = node.operands
    if left.opcode not in _MONOTONE or right.opcode != left.opcode or not isinstance(left, Apply):
        return None
    if not (used_once(left) and used_once(right) and is_real(node)) or left.attributes != right.attributes:
        return None
    return build.like(left, build.op("maximum", left.operands[0], right.operands[0]))
