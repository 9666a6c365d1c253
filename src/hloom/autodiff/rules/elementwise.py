"""Elementwise ops.

The conventions are JAX's: at a tie, maximum and minimum hand half to each operand; a real function of complex numbers
has the derivative of its real and imaginary parts, and cotangents are not conjugated. Source of the formulas that take
care of zeros and infinities: jax/_src/lax/lax.py, the functions that define each primitive's JVP.
"""

from __future__ import annotations

import math
from typing import Any

from hloom.autodiff.backward import Backward
from hloom.autodiff.emitter import REAL_OF, Emitter, array_type
from hloom.autodiff.linear import Linear, LinearOps
from hloom.autodiff.recognition import splat
from hloom.autodiff.table import none, rules, transposition, zero
from hloom.ir import Apply, Node

MOST_MULTIPLIED = 16
"""Up to which exponent products are seen to be powers."""

zero(
    "ceil floor round-nearest-afz round-nearest-even",
    because="it is constant except where it jumps",
)
zero(
    "and or xor not shift-left shift-right-arithmetic shift-right-logical mulhi count-leading-zeros popcnt compare "
    "is-finite",
    because="its result is not a floating-point number",
)
none("stochastic-convert", because="its result is drawn at random")


@rules("add")
def add(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    return t.add(*tangents)


@rules("subtract")
def subtract(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    return t.sub(*tangents)


@rules("negate")
def negate(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    return t.neg(tangents[0])


@rules("multiply")
def multiply(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    x, y = node.operands
    if x is y:
        return t.mul(t.primal.add(x, x), tangents[0])
    for power, base, tangent in ((x, y, tangents[1]), (y, x, tangents[0])):
        exponent = _power_of(power, base) if power.opcode == "multiply" else 0
        if exponent > 1:
            return t.mul(t.primal.mul(t.primal.like(exponent + 1, node), power), tangent)
    return t.add(t.mul(y, tangents[0]), t.mul(x, tangents[1]))


def _power_of(node: Node, base: Node) -> int:
    """The exponent where a node is a product of one value with itself, by multiplications of powers by the value."""
    exponent = 1
    while node is not base:
        if node.opcode != "multiply" or base not in node.operands or exponent > MOST_MULTIPLIED:
            return 0
        node = node.operands[1] if node.operands[0] is base else node.operands[0]
        exponent += 1
    return exponent


@rules("divide")
def divide(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    """d(x/y) = (dx - (x/y) dy) / y: one division in either mode."""
    return t.div(t.sub(tangents[0], t.mul(node, tangents[1])), node.operands[1])


@rules("remainder")
def remainder(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    """x - y trunc(x/y), the quotient a constant."""
    if tangents[1] is None:
        return tangents[0]
    p, (x, y) = t.primal, node.operands
    quotient = p.div(p.sub(x, node), y)
    return t.sub(tangents[0], t.mul(p.op("round-nearest-afz", quotient), tangents[1]))


@rules("maximum minimum")
def extremes(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    """The greater or smaller operand's tangent; at a tie half of each."""
    p, (x, y) = t.primal, node.operands
    if x is y:
        return tangents[0]
    first, second = ("GT", "LT") if node.opcode == "maximum" else ("LT", "GT")
    half = p.select(p.compare("EQ", x, y), p.like(0.5, node), p.like(0.0, node))
    one = p.like(1.0, node)
    total = None
    for tangent, direction in zip(tangents, (first, second), strict=True):
        if tangent is not None:
            total = t.add(total, t.mul(p.select(p.compare(direction, x, y), one, half), tangent))
    return total


@rules("clamp")
def clamp(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    """The operand's tangent strictly between the bounds, a bound's where it is in force, as in JAX."""
    p, (low, x, high) = t.primal, node.operands
    value_type = array_type(node)
    wide = [p.broadcast(bound, value_type.dims) if not array_type(bound).rank else bound for bound in (low, high)]
    below, above = p.compare("GT", wide[0], x), p.compare("LT", wide[1], x)
    total = None
    if tangents[1] is not None:
        inside = p.op("and", p.compare("GT", x, wide[0]), p.compare("LT", x, wide[1]))
        total = t.select(inside, tangents[1], None)
    for bound, tangent, holds in ((low, tangents[0], below), (high, tangents[2], above)):
        if tangent is not None:
            whole = tangent if array_type(bound).rank else t.broadcast(tangent, value_type.dims)
            total = t.add(total, t.select(holds, whole, None))
    return total


@rules("select")
def select(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    """The chosen tangent. Nothing of the other reaches the result, so that its infinities do no harm."""
    return t.select(node.operands[0], tangents[1], tangents[2])


@rules("abs")
def absolute(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    """dx or -dx, dx at zero, as in JAX; of a complex number Re(conj(z) dz) / |z|, and zero at zero."""
    p, x = t.primal, node.operands[0]
    if array_type(x).dtype not in REAL_OF:
        return t.select(p.compare("GE", x, p.like(0, x)), tangents[0], t.neg(tangents[0]))
    is_zero = p.compare("EQ", node, p.like(0.0, node))
    divisor = p.select(is_zero, p.like(1.0, node), node)
    unit = p.op("complex", p.div(p.op("real", x), divisor), p.neg(p.div(p.op("imag", x), divisor)))
    return t.op("real", t.mul(unit, tangents[0]))


@rules("sign")
def sign(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    """Zero; of a complex number z/|z| what moves it around the circle: (dz - u Re(conj(u) dz)) / |z|."""
    p, x = t.primal, node.operands[0]
    if array_type(x).dtype not in REAL_OF:
        return None
    size = p.op("abs", x)
    safe = p.select(p.compare("EQ", size, p.like(0.0, size)), p.like(1.0, size), size)
    along = t.op("real", t.mul(p.conjugate(node), tangents[0]))
    still = t.mul(node, t.op("complex", along, t.zero(size)))
    return t.div(t.sub(tangents[0], still), p.op("complex", safe, p.like(0.0, safe)))


@rules("real imag")
def parts(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    if array_type(node.operands[0]).dtype not in REAL_OF:
        return tangents[0] if node.opcode == "real" else None
    return t.op(node.opcode, tangents[0])


@rules("complex")
def whole(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    real, imaginary = (
        tangent if tangent is not None else t.zero(operand)
        for tangent, operand in zip(tangents, node.operands, strict=True)
    )
    return t.op("complex", real, imaginary)


@rules("convert")
def convert(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    return t.convert(tangents[0], array_type(node).dtype)


@rules("reduce-precision")
def reduce_precision(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    """The tangent in the same precision, as in JAX."""
    return t.op("reduce-precision", tangents[0], **node.attributes)


@rules("power")
def power(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    """y x^(y-1) dx, zero where y is zero; log(x) x^y dy, zero where x and the power are zero."""
    p, (x, y) = t.primal, node.operands
    total = None
    if tangents[0] is not None:
        total = t.mul(_of_base(p, x, y), tangents[0])
    if tangents[1] is not None:
        is_zero = p.compare("EQ", x, p.like(0, x))
        safe = p.select(is_zero, p.like(1, x), x)
        total = t.add(total, t.mul(p.mul(p.elementwise("log", safe), node), tangents[1]))
    return total


def _of_base(p: Emitter, x: Node, y: Node) -> Node:
    """y x^(y-1): a product where y is 2; zero, whatever x is, where y is."""
    known = splat(y)
    if known == 2:
        return p.add(x, x)
    one = p.like(1, y)
    if known is not None and known != 0:
        return p.mul(y, p.elementwise("power", x, p.like(known - 1, y)))
    is_zero = p.compare("EQ", y, p.like(0, y))
    return p.mul(y, p.elementwise("power", x, p.select(is_zero, one, p.sub(y, one))))


@rules("atan2")
def atan2(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    """(x dy - y dx) / (x² + y²)."""
    p, (y, x) = t.primal, node.operands
    square = p.add(p.mul(x, x), p.mul(y, y))
    return t.div(t.sub(t.mul(x, tangents[0]), t.mul(y, tangents[1])), square)


def _scaled(opcodes: str, factor: Any) -> None:
    """A function of one number, by its derivative: (emitter, operand, result) -> factor."""

    @rules(opcodes)
    def linearize(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
        return t.mul(factor(t.primal, node.operands[0], node), tangents[0])


def _divided(opcodes: str, divisor: Any) -> None:
    """A function of one number, by what its derivative is the inverse of."""

    @rules(opcodes)
    def linearize(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
        return t.div(tangents[0], divisor(t.primal, node.operands[0], node))


def _one_minus_square(p: Any, x: Node) -> Node:
    return p.sub(p.like(1, x), p.mul(x, x))


_scaled("exponential", lambda p, x, y: y)
_scaled("exponential-minus-one", lambda p, x, y: p.add(y, p.like(1, y)))
_scaled("logistic", lambda p, x, y: p.mul(y, p.sub(p.like(1, y), y)))
_scaled("tanh", lambda p, x, y: _one_minus_square(p, y))
_scaled("tan", lambda p, x, y: p.add(p.like(1, y), p.mul(y, y)))
_scaled("sine", lambda p, x, y: p.elementwise("cosine", x))
_scaled("cosine", lambda p, x, y: p.neg(p.elementwise("sine", x)))
_scaled("sinh", lambda p, x, y: p.elementwise("cosh", x))
_scaled("cosh", lambda p, x, y: p.elementwise("sinh", x))
_scaled("sqrt", lambda p, x, y: p.div(p.like(0.5, y), y))
_scaled("rsqrt", lambda p, x, y: p.mul(p.like(-0.5, y), p.div(y, x)))
_scaled("cbrt", lambda p, x, y: p.div(y, p.mul(p.like(3, x), x)))
_scaled(
    "erf",
    lambda p, x, y: p.mul(p.like(2 / math.sqrt(math.pi), x), p.elementwise("exponential", p.neg(p.mul(x, x)))),
)
_scaled("asin", lambda p, x, y: p.elementwise("rsqrt", _one_minus_square(p, x)))
_scaled("acos", lambda p, x, y: p.neg(p.elementwise("rsqrt", _one_minus_square(p, x))))
_scaled("asinh", lambda p, x, y: p.elementwise("rsqrt", p.add(p.mul(x, x), p.like(1, x))))
_scaled(
    "acosh",
    lambda p, x, y: p.mul(
        p.elementwise("rsqrt", p.sub(x, p.like(1, x))), p.elementwise("rsqrt", p.add(x, p.like(1, x)))
    ),
)
_divided("atanh", lambda p, x, y: _one_minus_square(p, x))
_divided("log", lambda p, x, y: x)
_divided("log-plus-one", lambda p, x, y: p.add(x, p.like(1, x)))


# Transpositions


@transposition("add")
def transpose_add(b: Backward, value: Linear, cotangent: Node) -> None:
    for operand in value.operands:
        b.give(operand, cotangent)


@transposition("subtract")
def transpose_subtract(b: Backward, value: Linear, cotangent: Node) -> None:
    b.give(value.operands[0], cotangent)
    b.give_negative(value.operands[1], cotangent)


@transposition("negate")
def transpose_negate(b: Backward, value: Linear, cotangent: Node) -> None:
    b.give_negative(value.operands[0], cotangent)


@transposition("multiply")
def transpose_multiply(b: Backward, value: Linear, cotangent: Node) -> None:
    tangent, factor = value.operands
    b.give(tangent, b.elementwise("multiply", cotangent, factor))


@transposition("divide")
def transpose_divide(b: Backward, value: Linear, cotangent: Node) -> None:
    tangent, divisor = value.operands
    b.give(tangent, b.div(cotangent, divisor))


@transposition("select")
def transpose_select(b: Backward, value: Linear, cotangent: Node) -> None:
    predicate, on_true, on_false = value.operands
    b.give_masked(on_true, predicate, True, cotangent)
    b.give_masked(on_false, predicate, False, cotangent)


@transposition("convert")
def transpose_convert(b: Backward, value: Linear, cotangent: Node) -> None:
    """Converted back; of a real number made complex, the real part."""
    source = array_type(value.operands[0]).dtype
    if value.type.dtype.is_complex and not source.is_complex:  # pyright: ignore[reportAttributeAccessIssue]
        cotangent = b.op("real", cotangent)
    b.give(value.operands[0], b.convert(cotangent, source))


@transposition("reduce-precision")
def transpose_reduce_precision(b: Backward, value: Linear, cotangent: Node) -> None:
    b.give(value.operands[0], b.op("reduce-precision", cotangent, **value.attributes))


@transposition("real")
def transpose_real(b: Backward, value: Linear, cotangent: Node) -> None:
    b.give(value.operands[0], b.op("complex", cotangent, b.like(0, cotangent)))


@transposition("imag")
def transpose_imag(b: Backward, value: Linear, cotangent: Node) -> None:
    """Im z = Re(-i z), so that the cotangent c becomes -i c."""
    b.give(value.operands[0], b.op("complex", b.like(0, cotangent), b.neg(cotangent)))


@transposition("complex")
def transpose_complex(b: Backward, value: Linear, cotangent: Node) -> None:
    real, imaginary = value.operands
    if isinstance(real, Linear):
        b.give(real, b.op("real", cotangent))
    if isinstance(imaginary, Linear):
        b.give(imaginary, b.neg(b.op("imag", cotangent)))
