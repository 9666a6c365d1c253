"""Value-preserving rules on add, subtract and negate.

Follows XLA's xla/hlo/transforms/simplifiers/algebraic_simplifier.cc (HandleAdd, HandleSubtract, HandleNegate).
"""

from __future__ import annotations

from collections.abc import Callable

from hloom.ir import Apply, Node
from hloom.passes.rules.value_properties import (
    combined,
    in_either_order,
    is_constant,
    is_constant_like,
    is_inexact,
    is_integer,
    is_predicate,
    is_real,
    is_zero,
    number_like,
)
from hloom.rewrite import (
    Builder,
    Family,
    all_operands,
    constant_at,
    integers,
    is_splat,
    number_at,
    operand_is,
    some_constant,
    some_number,
    some_operand,
    used_once,
)

ADD = Family("add", formerly="addition")


@ADD.rewrites("add", benefit=3, depth=1, requires=some_number(0))
def add_zero(build: Builder, node: Apply) -> Node | None:
    """add(x, 0) -> x, on integers; add(x, false) -> x; add(x, -0.0) -> x, on floats.

    Adding the positive zero is not the identity: it makes +0 of -0.
    """
    for operand, zero in in_either_order(node):
        if (is_zero(zero) and (is_integer(node) or is_predicate(node))) or (is_real(node) and is_splat(zero, -0.0)):
            return operand
    return None


@ADD.rewrites("subtract", benefit=3, depth=1, requires=number_at(1, 0))
def subtract_zero(build: Builder, node: Apply) -> Node | None:
    """subtract(x, 0) -> x; of floats the positive zero only, for -0 - -0 is +0."""
    operand, zero = node.operands
    if (is_integer(node) and is_zero(zero)) or (is_real(node) and is_splat(zero, 0)):
        return operand
    return None


@ADD.rewrites("subtract", benefit=3, depth=1, requires=integers())
def subtract_itself(build: Builder, node: Apply) -> Node | None:
    """subtract(x, x) -> 0, on integers: of floats, infinity less infinity is NaN."""
    if not is_integer(node) or node.operands[0] is not node.operands[1]:
        return None
    return number_like(build, node, 0)


@ADD.rewrites("subtract", benefit=2, depth=1, requires=number_at(0, 0))
def subtract_from_zero(build: Builder, node: Apply) -> Node | None:
    """subtract(0, x) -> negate(x), on integers; of floats subtract(-0.0, x), for 0 - 0 is +0 and -(0) is -0."""
    zero, operand = node.operands
    if (is_integer(node) and is_zero(zero)) or (is_real(node) and is_splat(zero, -0.0)):
        return build.op("negate", operand)
    return None


@ADD.rewrites("add", benefit=2, depth=1, requires=operand_is(0, "constant"))
def constant_to_the_right(build: Builder, node: Apply) -> Node | None:
    """add(constant, x) -> add(x, constant): addition commutes exactly."""
    left, right = node.operands
    if not is_constant(left) or is_constant_like(right):
        return None
    return build.op("add", right, left)


@ADD.rewrites("subtract", depth=1, requires=constant_at(1))
def subtract_constant(build: Builder, node: Apply) -> Node | None:
    """subtract(x, constant) -> add(x, negate(constant)): x - c and x + (-c) are the same in IEEE arithmetic too."""
    operand, constant = node.operands
    if is_constant_like(operand) or not is_constant_like(constant) or not (is_integer(node) or is_inexact(node)):
        return None
    if isinstance(constant, Apply):
        negated = build.op("negate", constant.operands[0])
        return build.op("add", operand, build.like(constant, negated, type=constant.type))
    return build.op("add", operand, build.op("negate", constant))


@ADD.rewrites("add", depth=2, requires=some_operand("negate"))
def add_negated(build: Builder, node: Apply) -> Node | None:
    """add(x, negate(y)) -> subtract(x, y): the same in IEEE arithmetic. A negated constant is left to be folded."""
    if not (is_integer(node) or is_inexact(node)):
        return None
    for operand, negated in in_either_order(node):
        if negated.opcode == "negate" and used_once(negated) and not is_constant_like(negated.operands[0]):
            return build.op("subtract", operand, negated.operands[0])
    return None


@ADD.rewrites("subtract", benefit=2, depth=2, requires=operand_is(1, "negate"))
def subtract_negated(build: Builder, node: Apply) -> Node | None:
    """subtract(x, negate(y)) -> add(x, y): the same in IEEE arithmetic."""
    operand, negated = node.operands
    if negated.opcode != "negate" or not (is_integer(node) or is_inexact(node)):
        return None
    return build.op("add", operand, negated.operands[0])


@ADD.rewrites("negate", benefit=3, requires=operand_is(0, "negate"))
def negate_of_negate(build: Builder, node: Apply) -> Node | None:
    """negate(negate(x)) -> x: the sign bit changes twice; of integers the least one is its own negation."""
    inner = node.operands[0]
    return inner.operands[0] if inner.opcode == "negate" else None


@ADD.rewrites("negate", requires=operand_is(0, "subtract"))
def negate_of_difference(build: Builder, node: Apply) -> Node | None:
    """negate(subtract(x, y)) -> subtract(y, x), on integers: of floats the zeros' signs differ where x is y."""
    inner = node.operands[0]
    if inner.opcode != "subtract" or not is_integer(node) or not used_once(inner):
        return None
    return build.op("subtract", inner.operands[1], inner.operands[0])


@ADD.rewrites("add", benefit=2, requires=(integers(), some_operand("add"), some_constant()))
def add_constants_together(build: Builder, node: Apply) -> Node | None:
    """add(add(x, c), d) -> add(x, add(c, d)), on integers: they wrap around."""
    return sum_of_constants(build, node) if is_integer(node) else None


@ADD.rewrites("add", benefit=2, requires=(integers(), some_operand("subtract"), some_constant()))
def add_constant_to_difference(build: Builder, node: Apply) -> Node | None:
    """add(subtract(c, x), d) -> subtract(add(c, d), x), on integers: they wrap around."""
    return difference_from_constants(build, node) if is_integer(node) else None


@ADD.rewrites("subtract", benefit=2, requires=(integers(), constant_at(0), operand_is(1, "add", "subtract")))
def subtract_from_constants(build: Builder, node: Apply) -> Node | None:
    """subtract(c, add(x, d)) -> subtract(subtract(c, d), x), and subtract(c, subtract(d, x)) -> add(x, subtract(c, d)),
    on integers: they wrap around.
    """
    constant, inner = node.operands
    if not is_integer(node) or not is_constant_like(constant) or inner.opcode not in ("add", "subtract"):
        return None
    if inner.opcode == "subtract":
        other, operand = inner.operands
        if not is_constant_like(other) or is_constant_like(operand):
            return None
        return build.op("add", operand, combined(build, "subtract", constant, other))
    for operand, other in in_either_order(inner):
        if is_constant_like(other) and not is_constant_like(operand):
            return build.op("subtract", combined(build, "subtract", constant, other), operand)
    return None


@ADD.rewrites("add", "subtract", benefit=2, requires=(integers(), some_operand("add", "subtract")))
def what_cancels_out(build: Builder, node: Apply) -> Node | None:
    """add(x, subtract(y, x)) -> y, subtract(x, subtract(x, y)) -> y, subtract(add(x, y), x) -> y and
    subtract(x, add(x, y)) -> negate(y), on integers: they wrap around.
    """
    return cancelled(build, node) if is_integer(node) else None


@ADD.rewrites("add", requires=(integers(), all_operands("multiply")))
def common_factor(build: Builder, node: Apply) -> Node | None:
    """add(multiply(x, z), multiply(y, z)) -> multiply(add(x, y), z), on integers: they wrap around."""
    return factored(build, node) if is_integer(node) else None


def sum_of_constants(build: Builder, node: Apply) -> Node | None:
    """add(add(x, c), d) as add(x, add(c, d))."""
    for inner, constant in in_either_order(node):
        if inner.opcode != "add" or not is_constant_like(constant):
            continue
        for operand, other in in_either_order(inner):
            if is_constant_like(other) and not is_constant_like(operand):
                return build.op("add", operand, combined(build, "add", other, constant))
    return None


def difference_from_constants(build: Builder, node: Apply) -> Node | None:
    """add(subtract(c, x), d) as subtract(add(c, d), x)."""
    for inner, constant in in_either_order(node):
        if inner.opcode != "subtract" or not is_constant_like(constant):
            continue
        other, operand = inner.operands
        if is_constant_like(other) and not is_constant_like(operand):
            return build.op("subtract", combined(build, "add", other, constant), operand)
    return None


def cancelled(build: Builder, node: Apply) -> Node | None:
    """What is left of a sum or a difference that takes away what it adds."""
    left, right = node.operands
    if node.opcode == "add":
        for operand, inner in in_either_order(node):
            if inner.opcode == "subtract" and inner.operands[1] is operand:
                return inner.operands[0]
        return None
    if right.opcode == "subtract" and right.operands[0] is left:
        return right.operands[1]
    if left.opcode == "add" and right in left.operands:
        return left.operands[0] if left.operands[1] is right else left.operands[1]
    if right.opcode == "add" and left in right.operands:
        return build.op("negate", right.operands[0] if right.operands[1] is left else right.operands[1])
    return None


def factored(build: Builder, node: Apply, wanted: Callable[[Node], bool] = lambda factor: True) -> Node | None:
    """add(multiply(x, z), multiply(y, z)) as multiply(add(x, y), z), where that takes away a multiplication.

    `wanted` says which z may be taken out.
    """
    left, right = node.operands
    if left.opcode != "multiply" or right.opcode != "multiply" or not used_once(left) or not used_once(right):
        return None
    for one, factor in in_either_order(left):
        for other, same in in_either_order(right):
            if factor is same and wanted(factor):
                return build.op("multiply", build.op("add", one, other), factor)
    return None
