"""Expands ops that XLA's CPU backend or StableHLO lack into ops that they have.

Inverse and hyperbolic functions follow the formulas of chlo's legalization to StableHLO (chlo_legalize_to_stablehlo)
where those are accurate near zero and for large arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from hloom.ir import DTYPES, DTypeKind, Literal, Node, SliceDimension, TensorType, TupleType, Type
from hloom.runtime.emitter import ReplacementEmitter, tensor_type
from hloom.text import Unsupported


class Arithmetic:
    """Elementwise expressions over arrays of one type."""

    def __init__(self, emitter: ReplacementEmitter, array_type: TensorType) -> None:
        self.emitter = emitter
        self.kind = array_type

    def __call__(self, opcode: str, *inputs: Node | float) -> Node:
        """An op of arrays, or of numbers standing for arrays of them."""
        nodes = tuple(value if isinstance(value, Node) else self.emitter.splat(value, self.kind) for value in inputs)
        return self.emitter.apply(opcode, nodes, self.kind)

    def where(self, direction: str, left: Node, right: float, then: Node, otherwise: Node) -> Node:
        """`then` where the comparison holds, else `otherwise`."""
        predicate_type = TensorType(DTYPES["pred"], self.kind.dims)
        limit = self.emitter.splat(right, self.kind)
        holds = self.emitter.apply("compare", (left, limit), predicate_type, direction=direction)
        return self.emitter.apply("select", (holds, then, otherwise), self.kind)


def expand_float(node: Node) -> None:
    """Replace a function of one real array by its formula; types below f32 are computed in f32.

    Raises Unsupported for complex arrays.
    """
    result_type = tensor_type(node if node.type else node.operands[0])
    if not result_type.dtype.is_float:
        raise Unsupported(f"XLA's CPU backend has no {node.opcode} of {result_type.dtype}")
    emitter = ReplacementEmitter(node)
    wide = TensorType(result_type.dtype if result_type.dtype.bits > 16 else DTYPES["f32"], result_type.dims)
    operand = node.operands[0]
    if wide.dtype is not result_type.dtype:
        operand = emitter.apply("convert", (operand,), wide)
    value = FORMULAS[node.opcode](Arithmetic(emitter, wide), operand)
    if wide.dtype is not result_type.dtype:
        value = emitter.apply("convert", (value,), TensorType(result_type.dtype, result_type.dims))
    emitter.finish(value)


def _acos(a: Arithmetic, x: Node) -> Node:
    """2 atan2(sqrt((1-x)(1+x)), 1+x), and pi at -1, where both arguments are zero."""
    root = a("sqrt", a("multiply", a("subtract", 1, x), a("add", 1, x)))
    value = a("multiply", 2, a("atan2", root, a("add", 1, x)))
    return a.where("EQ", x, -1, a("add", math.pi, a("multiply", 0, x)), value)


def _asin(a: Arithmetic, x: Node) -> Node:
    root = a("sqrt", a("multiply", a("subtract", 1, x), a("add", 1, x)))
    return a("multiply", 2, a("atan2", x, a("add", 1, root)))


def _acosh(a: Arithmetic, x: Node) -> Node:
    """log1p(t + sqrt(t) sqrt(t+2)) with t = x-1, which neither overflows nor cancels out; huge x by its logarithm."""
    above = a("subtract", x, 1)
    roots = a("multiply", a("sqrt", above), a("sqrt", a("add", above, 2)))
    return _where_huge(a, x, a("log-plus-one", a("add", above, roots)))


def _asinh(a: Arithmetic, x: Node) -> Node:
    """sign(x) log1p(|x| + x^2 / (1 + sqrt(x^2 + 1))); huge |x| by its logarithm."""
    size = a("abs", x)
    square = a("multiply", x, x)
    tail = a("divide", square, a("add", 1, a("sqrt", a("add", square, 1))))
    value = _where_huge(a, size, a("log-plus-one", a("add", size, tail)))
    return a("multiply", a("sign", x), value)


def _where_huge(a: Arithmetic, x: Node, value: Node) -> Node:
    """log(2x) where x is so great that x*x + 1 is x*x."""
    return a.where("GT", x, 1e10, a("add", a("log", x), math.log(2)), value)


def _atanh(a: Arithmetic, x: Node) -> Node:
    return a("multiply", 0.5, a("subtract", a("log-plus-one", x), a("log-plus-one", a("negate", x))))


def _sinh(a: Arithmetic, x: Node) -> Node:
    """From exp(|x|/2), which overflows only where the result does; small x from exp(x)-1."""
    half = a("exponential", a("multiply", 0.5, a("abs", x)))
    great = a("subtract", a("multiply", a("multiply", 0.5, half), half), a("divide", a("divide", 0.5, half), half))
    less_one = a("exponential-minus-one", x)
    ratio = a("divide", less_one, a("add", less_one, 1))
    small = a("multiply", 0.5, a("add", less_one, ratio))
    return a.where("LT", a("abs", x), 1, small, a("multiply", a("sign", x), great))


def _cosh(a: Arithmetic, x: Node) -> Node:
    half = a("exponential", a("multiply", 0.5, a("abs", x)))
    return a("add", a("multiply", a("multiply", 0.5, half), half), a("divide", a("divide", 0.5, half), half))


FORMULAS: dict[str, Callable[[Arithmetic, Node], Node]] = {
    "acos": _acos,
    "acosh": _acosh,
    "asin": _asin,
    "asinh": _asinh,
    "atanh": _atanh,
    "cosh": _cosh,
    "sinh": _sinh,
}


def expand_high_multiply(node: Node) -> None:
    """Replace mulhi, the upper half of a product, by a wider product, or for 64 bits by four products of halves."""
    result_type = tensor_type(node if node.type else node.operands[0])
    if not result_type.dtype.is_integer or result_type.dtype.bits < 8:
        raise Unsupported(f"XLA's CPU backend has no mulhi of {result_type.dtype}")
    emitter = ReplacementEmitter(node)
    left, right = node.operands
    if result_type.dtype.bits == 64:
        emitter.finish(_high_multiply_64(emitter, result_type, left, right))
        return
    letter = "s" if result_type.dtype.kind is DTypeKind.SIGNED else "u"
    wide = Arithmetic(emitter, TensorType(DTYPES[f"{letter}{result_type.dtype.bits * 2}"], result_type.dims))
    product = wide("multiply", wide("convert", left), wide("convert", right))
    high = wide("shift-right-logical", product, result_type.dtype.bits)
    emitter.finish(emitter.apply("convert", (high,), TensorType(result_type.dtype, result_type.dims)))


def _high_multiply_64(emitter: ReplacementEmitter, result_type: TensorType, left: Node, right: Node) -> Node:
    """Schoolbook multiplication of halves; for signed numbers, each negative one takes the other away once."""
    a = Arithmetic(emitter, TensorType(DTYPES["u64"], result_type.dims))
    x, y = a("convert", left), a("convert", right)
    low_x, low_y = a("and", x, 0xFFFFFFFF), a("and", y, 0xFFFFFFFF)
    high_x, high_y = a("shift-right-logical", x, 32), a("shift-right-logical", y, 32)
    cross, other = a("multiply", low_x, high_y), a("multiply", high_x, low_y)
    middle = a("shift-right-logical", a("multiply", low_x, low_y), 32)
    middle = a("add", a("add", middle, a("and", cross, 0xFFFFFFFF)), a("and", other, 0xFFFFFFFF))
    high = a("add", a("multiply", high_x, high_y), a("shift-right-logical", middle, 32))
    high = a("add", a("add", high, a("shift-right-logical", cross, 32)), a("shift-right-logical", other, 32))
    if result_type.dtype.kind is not DTypeKind.SIGNED:
        return high
    signed = Arithmetic(emitter, TensorType(result_type.dtype, result_type.dims))
    zero = emitter.splat(0, signed.kind)
    for number, partner in ((left, right), (right, left)):
        correction = signed.where("LT", number, 0, partner, zero)
        high = a("subtract", high, a("convert", correction))
    return signed("convert", high)


def split_index_vector(node: Node) -> None:
    """Give dynamic-slice and dynamic-update-slice a scalar per dimension, where an old text has a vector of them.

    dynamic-slice(x, starts)  ->  dynamic-slice(x, starts[0], starts[1])
    """
    count = 1 if node.opcode == "dynamic-slice" else 2
    starts = node.operands[count:]
    if len(starts) != 1 or tensor_type(starts[0]).rank != 1:
        return
    emitter = ReplacementEmitter(node)
    dtype = tensor_type(starts[0]).dtype
    scalars = []
    for axis in range(tensor_type(starts[0]).dims[0]):
        bounds = (SliceDimension(axis, axis + 1),)
        element = emitter.apply("slice", starts, TensorType(dtype, (1,)), slice=bounds)
        scalars.append(emitter.reshape(element, dtype, ()))
    node.graph.set_operands(node, (*node.operands[:count], *scalars))


DEEPEST = 100
"""The maximum nesting depth of tuples here; what XLA prints has two or three levels."""


def expand_constant(node: Any) -> None:
    """Make a constant of a tuple from constants of its elements.

    constant((1, {2, 3}))  ->  tuple(constant(1), constant({2, 3}))
    """
    if isinstance(node.value, Literal) and node.value.is_tuple:
        _check_depth(node.value.type)
        emitter = ReplacementEmitter(node)
        emitter.finish(_constant(emitter, node.value))


def expand_select(node: Node) -> None:
    """Select each array of a tuple: tuple-select is an opcode of 2020 that XLA has dropped.

    tuple-select(p, t, f)  ->  tuple(select(p, t#0, f#0), ...)
    """
    predicate, one, other = node.operands
    _check_depth(node.type)
    emitter = ReplacementEmitter(node)
    emitter.finish(_select(emitter, predicate, one, other, node.type))


def _check_depth(value_type: Type | None) -> None:
    level: list[Type | None] = [value_type]
    for _ in range(DEEPEST):
        level = [element for outer in level if isinstance(outer, TupleType) for element in outer.elements]
    if level:
        raise Unsupported(f"its tuples nest deeper than {DEEPEST}")


def _constant(emitter: ReplacementEmitter, literal: Literal) -> Node:
    if not literal.is_tuple:
        return emitter.graph.add_constant(literal, literal.type, before=emitter.node)
    elements = tuple(_constant(emitter, element) for element in literal.elements)
    return emitter.apply("tuple", elements, literal.type)


def _select(emitter: ReplacementEmitter, predicate: Node, one: Node, other: Node, value_type: Type | None) -> Node:
    if value_type is None:
        raise Unsupported("its type is not written")
    if not isinstance(value_type, TupleType):
        return emitter.apply("select", (predicate, one, other), value_type)
    chosen = []
    for index, element in enumerate(value_type.elements):
        parts = [emitter.apply("get-tuple-element", (operand,), element, index=index) for operand in (one, other)]
        chosen.append(_select(emitter, predicate, parts[0], parts[1], element))
    return emitter.apply("tuple", tuple(chosen), value_type)
