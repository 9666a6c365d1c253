"""Properties of values that elementwise rules ask for: element type, constants, known signs.

`is_non_negative` follows AlgebraicSimplifierVisitor::IsNonNegative of XLA's
xla/hlo/transforms/simplifiers/algebraic_simplifier.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from hloom.ir import Apply, Constant, DType, DTypeKind, Literal, Node, TensorType
from hloom.ops import may_merge
from hloom.rewrite import (
    Builder,
    Requirement,
    complex_numbers,
    constant_at,
    floats,
    inexact_numbers,
    integers,
    is_splat,
    number_at,
    operand_is,
    predicates,
    register_builder,
    register_condition,
    splat_of,
    tensor_type,
    used_once,
)

ORDINARY = frozenset({"f16", "bf16", "f32", "f64"})
"""The floats that have both zeros, both infinities and NaN."""
_MAX_DEPTH = 6
"""How many operands of operands are looked at: both operands of a sum are followed, so that work doubles with each."""


def element(node: Node) -> DType | None:
    """The element type of a static array; None for all else."""
    node_type = node.type
    return node_type.dtype if isinstance(node_type, TensorType) and node_type.dynamic is None else None


def is_integer(node: Node) -> bool:
    """Whether it is a static array of integers; pred is not."""
    element_type = element(node)
    return element_type is not None and element_type.is_integer


def is_signed(node: Node) -> bool:
    """Whether it is a static array of signed integers."""
    element_type = element(node)
    return element_type is not None and element_type.kind is DTypeKind.SIGNED


def is_unsigned(node: Node) -> bool:
    """Whether it is a static array of unsigned integers."""
    element_type = element(node)
    return element_type is not None and element_type.kind is DTypeKind.UNSIGNED


def is_predicate(node: Node) -> bool:
    """Whether it is a static array of pred."""
    element_type = element(node)
    return element_type is not None and element_type.kind is DTypeKind.BOOLEAN


def is_real(node: Node) -> bool:
    """Whether it is a static array of ordinary floats."""
    element_type = element(node)
    return element_type is not None and element_type.name in ORDINARY


def is_floating(node: Node) -> bool:
    """Whether it is a static array of floats, of few bits too."""
    element_type = element(node)
    return element_type is not None and element_type.is_float


def is_complex(node: Node) -> bool:
    """Whether it is a static array of complex numbers."""
    element_type = element(node)
    return element_type is not None and element_type.is_complex


def is_inexact(node: Node) -> bool:
    """Whether it is a static array of ordinary floats or of complex numbers."""
    return is_real(node) or is_complex(node)


def in_either_order(node: Node) -> Iterator[tuple[Node, Node]]:
    """The two operands, as they stand and swapped."""
    left, right = node.operands
    yield left, right
    yield right, left


def is_constant(node: Node) -> bool:
    """Whether it is a constant instruction."""
    return isinstance(node, Constant) and isinstance(node.value, Literal)


def is_constant_like(node: Node) -> bool:
    """Whether it is a constant instruction or a broadcast of one."""
    return is_constant(node) or (node.opcode == "broadcast" and is_constant(node.operands[0]))


def scalar_beneath(node: Node) -> Node | None:
    """The scalar constant that a node is, or that it repeats in every element; None for all else."""
    scalar = node.operands[0] if node.opcode == "broadcast" else node
    array_type = tensor_type(scalar)
    return scalar if is_constant(scalar) and array_type is not None and array_type.rank == 0 else None


def combined(build: Builder, opcode: str, left: Node, right: Node) -> Node:
    """An op of two constants, computed on scalars where both only repeat scalars."""
    one, other = scalar_beneath(left), scalar_beneath(right)
    wide = max((left, right), key=lambda node: getattr(tensor_type(node), "rank", 0))
    array_type = tensor_type(wide)
    if one is None or other is None or array_type is None:
        return build.op(opcode, left, right)
    scalar = build.op(opcode, one, other)
    return build.broadcast(scalar, array_type) if array_type.rank else scalar


def applied_like(build: Builder, node: Apply, *operands: Node) -> Node:
    """The op of a node with its attributes on other operands."""
    return build.like(node, *operands)


def applied_again(build: Builder, node: Apply, *operands: Node) -> Node:
    """The op of a node with its attributes and its type on other operands."""
    return build.like(node, *operands, type=node.type)


def number_like(build: Builder, node: Node, value: complex) -> Node:
    """This number in every element of an array like a node: a scalar constant and its broadcast."""
    array_type = tensor_type(node)
    assert array_type is not None, f"{node!r} is not a static array"
    return build.constant(value, array_type)


def is_number(node: Node) -> bool:
    """Whether it is a constant of one number, seen through broadcasts and the like."""
    return splat_of(node) is not None


def is_zero(node: Node) -> bool:
    """Whether every element is zero, +0 or -0."""
    splat = splat_of(node)
    return splat is not None and bool(splat == 0)


def is_one(node: Node) -> bool:
    """Whether it is one, or true, in every element."""
    return is_splat(node, 1)


def has_all_bits(node: Node) -> bool:
    """Whether every bit of an integer is set in every element, or it is true."""
    splat, element_type = splat_of(node), element(node)
    if splat is None or element_type is None:
        return False
    if element_type.kind is DTypeKind.UNSIGNED:
        return int(splat) == 2**element_type.bits - 1
    return bool(splat == (1 if element_type.kind is DTypeKind.BOOLEAN else -1))


def is_same_type(left: Node, right: Node) -> bool:
    """Whether two values have one type, layouts included."""
    return left.type is right.type


def is_same_element(left: Node, right: Node) -> bool:
    """Whether two static arrays have one element type."""
    return element(left) is not None and element(left) is element(right)


def varies_more(left: Node, right: Node) -> bool:
    """Whether the first of two values is less of a constant: no constant, or an array where the other is a number."""
    return not is_constant_like(left) or (not is_constant(right) and is_constant(left))


def is_less(low: Node, high: Node) -> bool:
    """Whether two constants are one number each, and the first is less."""
    first, second = splat_of(low), splat_of(high)
    if first is None or second is None or not (is_integer(low) or is_real(low)):
        return False
    with np.errstate(invalid="ignore"):
        return bool(np.less(first, second))


def is_same_value(left: Node, right: Node) -> bool:
    """Whether two nodes are one, or apply the same op to the same operands."""
    if left is right:
        return True
    if not isinstance(left, Apply) or not isinstance(right, Apply) or not left.has_row or not right.has_row:
        return False
    if left.op is not right.op or left.type is not right.type or not may_merge(left):
        return False
    return left.operands == right.operands and left.attributes == right.attributes


def is_non_negative(node: Node, depth: int = _MAX_DEPTH) -> bool:
    """Whether every element is known to be non-negative or NaN, and no float is -0."""
    element_type = element(node)
    if element_type is None or element_type.is_complex or depth == 0:
        return False
    if element_type.kind in (DTypeKind.UNSIGNED, DTypeKind.BOOLEAN):
        return True
    if isinstance(node, Constant):
        return _is_constant_not_negative(node)
    if not isinstance(node, Apply) or not node.has_row:
        return False
    below = [is_non_negative(operand, depth - 1) for operand in node.operands] if node.opcode in _FROM_OPERANDS else []
    match node.opcode:
        case "exponential" | "logistic" | "cosh":
            return True
        case "abs":
            return element_type.is_float or below[0]
        case "multiply":
            return element_type.is_float and node.operands[0] is node.operands[1]
        case "convert":
            return _widens(node) and is_non_negative(node.operands[0], depth - 1)
        case "iota":
            return _counts_without_wrapping(node)
        case "power":
            return element_type.is_float and below[0]
        case "select":
            return below[1] and below[2]
        case "sqrt" | "broadcast" | "reshape" | "transpose" | "slice":
            return below[0]
        case "minimum":
            return all(below)
        case "maximum":
            return all(below) if element_type.is_float else any(below)
    return False


_FROM_OPERANDS = frozenset(
    {"abs", "power", "select", "sqrt", "broadcast", "reshape", "transpose", "slice", "minimum", "maximum"}
)


def is_at_least_zero(node: Node, depth: int = _MAX_DEPTH) -> bool:
    """Whether every element is known to be at least zero (-0 included) or NaN."""
    if is_non_negative(node, depth):
        return True
    if depth == 0 or not is_real(node):
        return False
    match node.opcode:
        case "maximum":
            return any(is_at_least_zero(operand, depth - 1) for operand in node.operands)
        case "minimum":
            return all(is_at_least_zero(operand, depth - 1) for operand in node.operands)
        case "select":
            return all(is_at_least_zero(operand, depth - 1) for operand in node.operands[1:])
        case "sqrt" | "broadcast" | "reshape" | "transpose" | "slice":
            return is_at_least_zero(node.operands[0], depth - 1)
    return False


def _is_constant_not_negative(node: Constant) -> bool:
    value = node.value
    if not isinstance(value, Literal) or value.is_elided or value.is_tuple:
        return False
    numbers = value.numpy()
    with np.errstate(all="ignore"):
        wide = numbers.astype(np.float64)
    return bool((~np.signbit(wide) & ~np.isnan(wide)).all())


def _widens(node: Apply) -> bool:
    """Whether a conversion yields a float, or more bits than it is given."""
    source, result = element(node.operands[0]), element(node)
    if source is None or result is None or source.is_complex:
        return False
    return result.is_float or source.kind is DTypeKind.BOOLEAN or (not source.is_float and source.bits < result.bits)


def _counts_without_wrapping(node: Apply) -> bool:
    array_type = tensor_type(node)
    if array_type is None or array_type.dtype.is_complex:
        return False
    size = array_type.dims[node.attribute("iota_dimension")]
    return array_type.dtype.is_float or size <= 2 ** (array_type.dtype.bits - 1)


_OF_TYPES: dict[str, tuple[Callable[[Node], bool], Requirement | None]] = {
    "integer": (is_integer, integers()),
    "signed": (is_signed, integers()),
    "unsigned": (is_unsigned, integers()),
    "predicate": (is_predicate, predicates()),
    "real": (is_real, floats()),
    "complex": (is_complex, complex_numbers()),
    "inexact": (is_inexact, inexact_numbers()),
    "floating": (is_floating, floats()),
    "fractional": (lambda node: is_floating(node) or is_complex(node), inexact_numbers()),
    "static": (lambda node: element(node) is not None, None),
}
"""Conditions on the type of a value, with what the index may ask of the root's."""
_OF_VALUES: dict[str, tuple[Callable[[Node], bool], Callable[[int], Requirement] | None]] = {
    "constant": (is_constant_like, constant_at),
    "literal": (is_constant, lambda at: operand_is(at, "constant")),
    "scalar-constant": (lambda node: scalar_beneath(node) is not None, constant_at),
    "number": (is_number, number_at),
    "zero": (is_zero, lambda at: number_at(at, 0)),
    "all-ones": (has_all_bits, number_at),
    "non-negative": (is_non_negative, None),
    "at-least-zero": (is_at_least_zero, None),
    "broadcast": (lambda node: node.opcode == "broadcast", lambda at: operand_is(at, "broadcast")),
    "used once": (used_once, None),
}
"""Conditions on a value, with what the index may ask of an operand."""
for _name, (_holds, _required) in _OF_TYPES.items():
    register_condition(_name, _holds, of_root=_required)
for _name, (_holds, _needed) in _OF_VALUES.items():
    register_condition(_name, _holds, of_operand=_needed, of_users=_holds is used_once)
for _name, _relation in {
    "same-type": is_same_type,
    "same-element": is_same_element,
    "same-value": is_same_value,
    "varies-more": varies_more,
    "less": is_less,
}.items():
    register_condition(_name, _relation)
for _name, _function in {"combined": combined, "like": applied_like, "again": applied_again}.items():
    register_builder(_name, _function)
