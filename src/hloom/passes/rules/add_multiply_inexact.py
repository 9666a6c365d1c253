"""Inexact rules on add, subtract, multiply and abs of floats: reassociation, and the sign of zero.

Follows XLA's xla/hlo/transforms/simplifiers/algebraic_simplifier.cc (HandleAdd, HandleSubtract, HandleMultiply,
HandleAbs).
"""

from __future__ import annotations

import numpy as np

from hloom.ir import Apply, Node
from hloom.passes.rules.add import difference_from_constants, factored, sum_of_constants
from hloom.passes.rules.multiply import (
    chosen_by_predicate,
    product_of_constants,
    product_of_products,
    product_within_broadcast,
)
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
    number_at,
    some_constant,
    some_number,
    some_operand,
    splat_of,
)

ADD_MULTIPLY_INEXACT = Family("add-multiply-inexact", formerly="arithmetic-relaxed")


@ADD_MULTIPLY_INEXACT.rewrites("add", benefit=3, depth=1, requires=(inexact_numbers(), some_number(0)))
def add_any_zero(build: Builder, node: Apply) -> Node | None:
    """add(x, 0) -> x, on floats and complex numbers: -0 + 0 would be +0."""
    if not is_inexact(node):
        return None
    return next((operand for operand, zero in in_either_order(node) if is_zero(zero)), None)


@ADD_MULTIPLY_INEXACT.rewrites("subtract", benefit=3, depth=1, requires=(inexact_numbers(), number_at(1, 0)))
def subtract_any_zero(build: Builder, node: Apply) -> Node | None:
    """subtract(x, 0) -> x, on floats and complex numbers: -0 - -0 would be +0."""
    return node.operands[0] if is_inexact(node) and is_zero(node.operands[1]) else None


@ADD_MULTIPLY_INEXACT.rewrites("multiply", benefit=3, depth=1, requires=(complex_numbers(), some_number(1)))
def multiply_complex_by_one(build: Builder, node: Apply) -> Node | None:
    """multiply(x, 1) -> x, on complex numbers: infinite parts times 0 would be NaN."""
    if not is_complex(node):
        return None
    return next((operand for operand, one in in_either_order(node) if is_one(one)), None)


@ADD_MULTIPLY_INEXACT.rewrites("add", benefit=2, requires=(inexact_numbers(), some_operand("add"), some_constant()))
def add_float_constants_together(build: Builder, node: Apply) -> Node | None:
    """add(add(x, c), d) -> add(x, add(c, d)), on floats: rounded in another place."""
    return sum_of_constants(build, node) if is_inexact(node) else None


@ADD_MULTIPLY_INEXACT.rewrites(
    "add", benefit=2, requires=(inexact_numbers(), some_operand("subtract"), some_constant())
)
def add_float_constant_to_difference(build: Builder, node: Apply) -> Node | None:
    """add(subtract(c, x), d) -> subtract(add(c, d), x), on floats: rounded in another place."""
    return difference_from_constants(build, node) if is_inexact(node) else None


@ADD_MULTIPLY_INEXACT.rewrites("add", requires=(floats(), all_operands("multiply")))
def common_power_of_two(build: Builder, node: Apply) -> Node | None:
    """add(multiply(x, c), multiply(y, c)) -> multiply(add(x, y), c), where c is plus or minus a power of two

    On floats: the same but for overflow and underflow.
    """
    if not is_real(node) or any(operand.opcode != "multiply" for operand in node.operands):
        return None
    return factored(build, node, _is_power_of_two)


@ADD_MULTIPLY_INEXACT.rewrites(
    "multiply", benefit=2, requires=(inexact_numbers(), some_operand("multiply"), some_constant())
)
def multiply_float_constants_together(build: Builder, node: Apply) -> Node | None:
    """multiply(multiply(x, c), d) -> multiply(x, multiply(c, d)), on floats: rounded in another place."""
    return product_of_constants(build, node) if is_inexact(node) else None


@ADD_MULTIPLY_INEXACT.rewrites("multiply", requires=(inexact_numbers(), all_operands("multiply")))
def float_constants_of_two_factors(build: Builder, node: Apply) -> Node | None:
    """multiply(multiply(x, c), multiply(y, d)) -> multiply(multiply(x, y), multiply(c, d)), on floats."""
    return product_of_products(build, node) if is_inexact(node) else None


@ADD_MULTIPLY_INEXACT.rewrites(
    "multiply", requires=(inexact_numbers(), some_operand("multiply"), some_operand("broadcast"))
)
def float_constant_into_broadcast(build: Builder, node: Apply) -> Node | None:
    """multiply(multiply(x, c), broadcast(y)) -> multiply(x, broadcast(multiply(y, c))), on floats."""
    return product_within_broadcast(build, node) if is_inexact(node) else None


@ADD_MULTIPLY_INEXACT.rewrites("multiply", benefit=2, requires=(inexact_numbers(), some_operand("convert")))
def multiply_float_by_predicate(build: Builder, node: Apply) -> Node | None:
    """multiply(x, convert(pred)) -> select(pred, x, 0), on floats: infinity times 0 would be NaN.

    Not of an x that a broadcast spreads: that is one multiplication as it is.
    """
    if not is_inexact(node) or any(operand.opcode == "broadcast" for operand in node.operands):
        return None
    return chosen_by_predicate(build, node)


@ADD_MULTIPLY_INEXACT.rewrites("multiply", benefit=2, requires=all_operands("sqrt"))
def square_of_sqrt(build: Builder, node: Apply) -> Node | None:
    """multiply(sqrt(x), sqrt(x)) -> x, where x is known to be at least zero: rounded less."""
    left, right = node.operands
    if left.opcode != "sqrt" or right.opcode != "sqrt" or left.operands[0] is not right.operands[0]:
        return None
    return left.operands[0] if is_at_least_zero(left.operands[0]) else None


@ADD_MULTIPLY_INEXACT.rewrites("multiply", benefit=2, requires=all_operands("rsqrt"))
def square_of_rsqrt(build: Builder, node: Apply) -> Node | None:
    """multiply(rsqrt(x), rsqrt(x)) -> divide(1, x), where x is known to be at least zero: rounded less."""
    left, right = node.operands
    if left.opcode != "rsqrt" or right.opcode != "rsqrt" or left.operands[0] is not right.operands[0]:
        return None
    if not is_at_least_zero(left.operands[0]):
        return None
    return build.op("divide", number_like(build, left.operands[0], 1), left.operands[0])


@ADD_MULTIPLY_INEXACT.rewrites("abs", depth=3, requires=floats())
def abs_of_at_least_zero(build: Builder, node: Apply) -> Node | None:
    """abs(x) -> x, where x is known to be at least zero; -0 keeps its sign."""
    return node.operands[0] if is_real(node) and is_at_least_zero(node.operands[0]) else None


def _is_power_of_two(node: Node) -> bool:
    splat = splat_of(node)
    if splat is None:
        return False
    number = float(np.real(splat))
    return bool(np.isfinite(number)) and abs(np.frexp(number)[0]) == 0.5
