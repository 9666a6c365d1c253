"""Ops that XLA's CPU backend lacks, written out in those that it has."""

from __future__ import annotations

import math
from collections.abc import Callable

from hloom.ir import DTYPES, Kind, Node, SliceDimension, TensorType
from hloom.runtime.emit import Emitter, tensor_type
from hloom.text import Unsupported


class Arithmetic:
    """Elementwise expressions over arrays of one type."""

    def __init__(self, emitter: Emitter, kind: TensorType) -> None:
        self.emitter = emitter
        self.kind = kind

    def __call__(self, opcode: str, *inputs: Node | float) -> Node:
        """An op of arrays, or of numbers standing for arrays of them."""
        nodes = tuple(each if isinstance(each, Node) else self.emitter.splat(each, self.kind) for each in inputs)
        return self.emitter.apply(opcode, nodes, self.kind)

    def where(self, direction: str, left: Node, right: float, then: Node, otherwise: Node) -> Node:
        """`then` where the comparison holds, else `otherwise`."""
        kind = TensorType(DTYPES["pred"], self.kind.dims)
        limit = self.emitter.splat(right, self.kind)
        holds = self.emitter.apply("compare", (left, limit), kind, direction=direction)
        return self.emitter.apply("select", (holds, then, otherwise), self.kind)


def expand_float(node: Node) -> None:
    """Replace a function of one real array by its formula; types below f32 are computed in f32.

    Raises Unsupported for complex arrays.
    """
    kind = tensor_type(node if node.type else node.inputs[0])
    if not kind.dtype.is_float:
        raise Unsupported(f"XLA's CPU backend has no {node.opcode} of {kind.dtype}")
    emitter = Emitter(node)
    wide = TensorType(kind.dtype if kind.dtype.bits > 16 else DTYPES["f32"], kind.dims)
    operand = node.inputs[0]
    if wide.dtype is not kind.dtype:
        operand = emitter.apply("convert", (operand,), wide)
    value = FORMULAS[node.opcode](Arithmetic(emitter, wide), operand)
    if wide.dtype is not kind.dtype:
        value = emitter.apply("convert", (value,), TensorType(kind.dtype, kind.dims))
    emitter.finish(value)


def _acos(a: Arithmetic, x: Node) -> Node:
    """2 atan2(sqrt((1-x)(1+x)), 1+x), and pi at -1, where both arguments are nought."""
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
    kind = tensor_type(node if node.type else node.inputs[0])
    if not kind.dtype.is_integer or kind.dtype.bits < 8:
        raise Unsupported(f"XLA's CPU backend has no mulhi of {kind.dtype}")
    emitter = Emitter(node)
    left, right = node.inputs
    if kind.dtype.bits == 64:
        emitter.finish(_high_multiply_64(emitter, kind, left, right))
        return
    letter = "s" if kind.dtype.kind is Kind.SIGNED else "u"
    wide = Arithmetic(emitter, TensorType(DTYPES[f"{letter}{kind.dtype.bits * 2}"], kind.dims))
    product = wide("multiply", wide("convert", left), wide("convert", right))
    high = wide("shift-right-logical", product, kind.dtype.bits)
    emitter.finish(emitter.apply("convert", (high,), TensorType(kind.dtype, kind.dims)))


def _high_multiply_64(emitter: Emitter, kind: TensorType, left: Node, right: Node) -> Node:
    """Schoolbook multiplication of halves; for signed numbers, each negative one takes the other away once."""
    a = Arithmetic(emitter, TensorType(DTYPES["u64"], kind.dims))
    x, y = a("convert", left), a("convert", right)
    low_x, low_y = a("and", x, 0xFFFFFFFF), a("and", y, 0xFFFFFFFF)
    high_x, high_y = a("shift-right-logical", x, 32), a("shift-right-logical", y, 32)
    cross, other = a("multiply", low_x, high_y), a("multiply", high_x, low_y)
    middle = a("shift-right-logical", a("multiply", low_x, low_y), 32)
    middle = a("add", a("add", middle, a("and", cross, 0xFFFFFFFF)), a("and", other, 0xFFFFFFFF))
    high = a("add", a("multiply", high_x, high_y), a("shift-right-logical", middle, 32))
    high = a("add", a("add", high, a("shift-right-logical", cross, 32)), a("shift-right-logical", other, 32))
    if kind.dtype.kind is not Kind.SIGNED:
        return high
    signed = Arithmetic(emitter, TensorType(kind.dtype, kind.dims))
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
    starts = node.inputs[count:]
    if len(starts) != 1 or tensor_type(starts[0]).rank != 1:
        return
    emitter = Emitter(node)
    dtype = tensor_type(starts[0]).dtype
    scalars = []
    for axis in range(tensor_type(starts[0]).dims[0]):
        place = (SliceDimension(axis, axis + 1),)
        element = emitter.apply("slice", starts, TensorType(dtype, (1,)), slice=place)
        scalars.append(emitter.reshape(element, dtype, ()))
    node.graph.set_inputs(node, (*node.inputs[:count], *scalars))
