"""Value range analysis of integers: interval arithmetic over a few ops, to a fixed depth."""

from __future__ import annotations

from hloom.ir import Apply, DTypeKind, Node, integer_range
from hloom.passes.rules.value_properties import element
from hloom.rewrite import array_value, scalar_integer, tensor_type

_MAX_DEPTH = 6
"""How many operands of operands are looked at: bounds get wider with each, and work doubles."""

Bounds = tuple[int, int]


def integer_bounds(node: Node, depth: int = _MAX_DEPTH) -> Bounds | None:
    """The least and the greatest element that a static array of integers or pred may have; None for all else."""
    element_type = element(node)
    if element_type is None or not (element_type.is_integer or element_type.kind is DTypeKind.BOOLEAN):
        return None
    widest = (0, 1) if element_type.kind is DTypeKind.BOOLEAN else integer_range(element_type)
    if depth == 0:
        return widest
    bounds = _constant_bounds(node) or (_bounds_of_op(node, widest, depth) if isinstance(node, Apply) else None)
    if bounds is None or bounds[0] < widest[0] or bounds[1] > widest[1]:
        return widest
    return bounds


def _constant_bounds(node: Node) -> Bounds | None:
    value = scalar_integer(node)
    if value is not None:
        return value, value
    numbers = array_value(node)
    if numbers is None or not numbers.size or numbers.dtype.kind not in "iu":
        return None
    return int(numbers.min()), int(numbers.max())


def _bounds_of_op(node: Apply, widest: Bounds, depth: int) -> Bounds | None:
    below = [integer_bounds(operand, depth - 1) for operand in node.operands] if node.opcode in _FROM_OPERANDS else []
    known = [bounds for bounds in below if bounds is not None]
    if len(known) < len(below):
        return None
    match node.opcode, known:
        case "iota", _:
            return _iota_bounds(node)
        case "convert" | "broadcast" | "reshape" | "transpose" | "slice" | "reverse" | "copy", [only]:
            return only
        case "minimum", [left, right]:
            return min(left[0], right[0]), min(left[1], right[1])
        case "maximum", [left, right]:
            return max(left[0], right[0]), max(left[1], right[1])
        case "add", [left, right]:
            return left[0] + right[0], left[1] + right[1]
        case "clamp", [low, operand, high]:
            return min(max(low[0], operand[0]), high[0]), min(max(low[1], operand[1]), high[1])
        case "select", [_, on_true, on_false]:
            return min(on_true[0], on_false[0]), max(on_true[1], on_false[1])
        case "and", [left, right] if min(left[0], right[0]) >= 0:
            return 0, min(left[1], right[1])
        case "remainder", [dividend, divisor] if divisor[0] > 0:
            return max(dividend[0], 1 - divisor[1]) if dividend[0] < 0 else 0, min(max(dividend[1], 0), divisor[1] - 1)
        case "sign", [_]:
            return max(-1, widest[0]), 1
        case "subtract", [left, right]:
            return left[0] - right[1], left[1] - right[0]
        case "negate", [only]:
            return -only[1], -only[0]
        case "abs", [only]:  # of the least integer it is that one again: no bounds
            return max(0, only[0], -only[1]), max(-only[0], only[1])
        case "multiply", [left, right]:
            corners = [first * second for first in left for second in right]
            return min(corners), max(corners)
    return None


_FROM_OPERANDS = frozenset(
    {
        *("convert", "broadcast", "reshape", "transpose", "slice", "reverse", "copy", "minimum", "maximum", "add"),
        *("clamp", "select", "and", "remainder", "sign", "subtract", "negate", "abs", "multiply"),
    }
)


def _iota_bounds(node: Apply) -> Bounds | None:
    """The range of an iota; one that wraps around has none."""
    array_type = tensor_type(node)
    if array_type is None:
        return None
    return 0, max(0, array_type.dims[node.attribute("iota_dimension")] - 1)
