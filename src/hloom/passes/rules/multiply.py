"""Value-preserving rules on multiply, abs and sign.

Follows XLA's xla/hlo/transforms/simplifiers/algebraic_simplifier.cc (HandleMultiply, HandleAbs).
"""

from __future__ import annotations

from hloom.ir import Apply, Node
from hloom.passes.rules.value_properties import (
    combined,
    in_either_order,
    is_constant,
    is_constant_like,
    is_inexact,
    is_integer,
    is_non_negative,
    is_one,
    is_predicate,
    is_real,
    is_signed,
    is_zero,
    number_like,
    scalar_beneath,
)
from hloom.rewrite import (
    Builder,
    Family,
    all_operands,
    integers,
    integers_or_predicates,
    is_splat,
    operand_is,
    some_constant,
    some_number,
    some_operand,
    tensor_type,
    used_once,
)

MULTIPLY = Family("multiply", formerly="multiplication")


@MULTIPLY.rewrites("multiply", benefit=3, depth=1, requires=some_number(1))
def multiply_by_one(build: Builder, node: Apply) -> Node | None:
    """multiply(x, 1) -> x: exact, but of complex numbers, where infinite parts times 0 give NaN."""
    if not (is_integer(node) or is_real(node) or is_predicate(node)):
        return None
    return next((operand for operand, one in in_either_order(node) if is_one(one)), None)


@MULTIPLY.rewrites("multiply", benefit=3, depth=1, requires=(integers_or_predicates(), some_number(0)))
def multiply_by_zero(build: Builder, node: Apply) -> Node | None:
    """multiply(x, 0) -> 0, on integers and pred: of floats NaN, infinity and the sign of zero would be lost."""
    if not (is_integer(node) or is_predicate(node)):
        return None
    for _, zero in in_either_order(node):
        if is_zero(zero):
            return zero if zero.type is node.type else number_like(build, node, 0)
    return None


@MULTIPLY.rewrites("multiply", benefit=2, depth=1, requires=some_number(-1))
def multiply_by_minus_one(build: Builder, node: Apply) -> Node | None:
    """multiply(x, -1) -> negate(x): exact; integers wrap around."""
    if not (is_signed(node) or is_real(node)):
        return None
    return next((build.op("negate", operand) for operand, one in in_either_order(node) if is_splat(one, -1)), None)


@MULTIPLY.rewrites("multiply", benefit=2, requires=all_operands("negate"))
def multiply_negated(build: Builder, node: Apply) -> Node | None:
    """multiply(negate(x), negate(y)) -> multiply(x, y): the signs cancel out exactly."""
    left, right = node.operands
    if left.opcode != "negate" or right.opcode != "negate":
        return None
    return build.op("multiply", left.operands[0], right.operands[0])


@MULTIPLY.rewrites("multiply", benefit=2, requires=all_operands("abs"))
def square_of_abs(build: Builder, node: Apply) -> Node | None:
    """multiply(abs(x), abs(x)) -> multiply(x, x), not of complex x: a square has no sign."""
    left, right = node.operands
    if left is not right or left.opcode != "abs" or left.operands[0].type is not left.type:
        return None
    return build.op("multiply", left.operands[0], left.operands[0])


@MULTIPLY.rewrites("multiply", benefit=2, requires=(integers(), some_operand("convert")))
def multiply_by_predicate(build: Builder, node: Apply) -> Node | None:
    """multiply(x, convert(pred)) -> select(pred, x, 0), on integers: 0 times infinity is NaN."""
    return chosen_by_predicate(build, node) if is_integer(node) else None


@MULTIPLY.rewrites("multiply", benefit=2, requires=(integers(), some_operand("multiply"), some_constant()))
def multiply_constants_together(build: Builder, node: Apply) -> Node | None:
    """multiply(multiply(x, c), d) -> multiply(x, multiply(c, d)), on integers: they wrap around."""
    return product_of_constants(build, node) if is_integer(node) else None


@MULTIPLY.rewrites("multiply", requires=(integers(), all_operands("multiply")))
def constants_of_two_factors(build: Builder, node: Apply) -> Node | None:
    """multiply(multiply(x, c), multiply(y, d)) -> multiply(multiply(x, y), multiply(c, d)), on integers."""
    return product_of_products(build, node) if is_integer(node) else None


@MULTIPLY.rewrites("multiply", requires=(integers(), some_operand("multiply"), some_operand("broadcast")))
def constant_into_broadcast(build: Builder, node: Apply) -> Node | None:
    """multiply(multiply(x, c), broadcast(y)) -> multiply(x, broadcast(multiply(y, c))), on integers: fewer products."""
    return product_within_broadcast(build, node) if is_integer(node) else None


@MULTIPLY.rewrites("abs", benefit=2, requires=operand_is(0, "abs"))
def abs_of_abs(build: Builder, node: Apply) -> Node | None:
    """abs(abs(x)) -> abs(x): also of the least integer, which is its own absolute value."""
    inner = node.operands[0]
    return inner if inner.opcode == "abs" else None


@MULTIPLY.rewrites("abs", depth=3)
def abs_of_not_negative(build: Builder, node: Apply) -> Node | None:
    """abs(x) -> x, where x is known to be non-negative and no -0, as exponential(y) does."""
    return node.operands[0] if is_non_negative(node.operands[0]) else None


@MULTIPLY.rewrites("abs", requires=operand_is(0, "negate"))
def abs_of_negate(build: Builder, node: Apply) -> Node | None:
    """abs(negate(x)) -> abs(x): the sign bit is dropped; the least integer is its own negation."""
    inner = node.operands[0]
    return build.op("abs", inner.operands[0]) if inner.opcode == "negate" else None


@MULTIPLY.rewrites("sign", requires=operand_is(0, "sign"))
def sign_of_sign(build: Builder, node: Apply) -> Node | None:
    """sign(sign(x)) -> sign(x), not of complex x: NaN and both zeros are their own signs."""
    inner = node.operands[0]
    return inner if inner.opcode == "sign" and (is_integer(node) or is_real(node)) else None


def chosen_by_predicate(build: Builder, node: Apply) -> Node | None:
    """multiply(x, convert(pred)) as select(pred, x, 0)."""
    for operand, converted in in_either_order(node):
        if converted.opcode == "convert" and is_predicate(converted.operands[0]):
            return build.op("select", converted.operands[0], operand, number_like(build, node, 0))
    return None


def product_of_constants(build: Builder, node: Apply) -> Node | None:
    """multiply(multiply(x, c), d) as multiply(x, multiply(c, d)); x may be an array that is constant, too."""
    for inner, constant in in_either_order(node):
        if inner.opcode != "multiply" or not is_constant_like(constant):
            continue
        for operand, other in in_either_order(inner):
            if not is_constant_like(other):
                continue
            if not is_constant_like(operand) or (not is_constant(other) and is_constant(operand)):
                return build.op("multiply", operand, combined(build, "multiply", other, constant))
    return None


def product_of_products(build: Builder, node: Apply) -> Node | None:
    """multiply(multiply(x, c), multiply(y, d)) as multiply(multiply(x, y), multiply(c, d))."""
    left, right = node.operands
    if left.opcode != "multiply" or right.opcode != "multiply" or not used_once(left) or not used_once(right):
        return None
    for one, constant in in_either_order(left):
        for other, second in in_either_order(right):
            if is_constant_like(one) or is_constant_like(other):
                continue
            if is_constant_like(constant) and is_constant_like(second):
                product = build.op("multiply", one, other)
                return build.op("multiply", product, combined(build, "multiply", constant, second))
    return None


def product_within_broadcast(build: Builder, node: Apply) -> Node | None:
    """multiply(multiply(x, c), broadcast(y)) as multiply(x, broadcast(multiply(y, c))), where c repeats a scalar."""
    for inner, spread in in_either_order(node):
        if inner.opcode != "multiply" or spread.opcode != "broadcast" or is_constant(spread.operands[0]):
            continue
        for operand, constant in in_either_order(inner):
            scalar = scalar_beneath(constant)
            if scalar is None or is_constant_like(operand) or (not is_inexact(node) and not is_integer(node)):
                continue
            return build.op("multiply", operand, _broadcast_product(build, spread, scalar))
    return None


def _broadcast_product(build: Builder, spread: Node, scalar: Node) -> Node:
    narrow = spread.operands[0]
    array_type = tensor_type(narrow)
    factor = scalar if array_type is None or not array_type.rank else build.broadcast(scalar, array_type)
    product = build.op("multiply", narrow, factor)
    assert isinstance(spread, Apply)
    return build.like(spread, product, type=spread.type)
