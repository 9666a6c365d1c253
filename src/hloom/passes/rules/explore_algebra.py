"""Rules for equality saturation on sums and products of numbers: common factors, conjugates, signs, guards and masks;
sums of Fourier transforms.

Gradients of tanh, logistic and softplus, optimizers' steps and scans are full of them. Numbers change by rounding.
"""

from __future__ import annotations

from collections.abc import Iterator

from hloom.ir import Apply, Node, PaddingDimension, TensorType, Trait
from hloom.passes.rules.dimensions import broadcast_dims
from hloom.rewrite import (
    Builder,
    Family,
    is_splat,
    register_builder,
    register_condition,
    splat_of,
    static_type,
    tensor_type,
)

EXPLORE_ALGEBRA = Family("explore-algebra")

MOST_DEPTH = 12
"""How far above a guard a NaN is followed."""


EXPLORE_ALGEBRA.table("""
term-and-its-multiple: f(a, multiply(a, b)) -> multiply(a, f(1, b)); f(multiply(a, b), a) -> multiply(a, f(b, 1))
    where in order, floating, a is not broadcast for f in add, subtract  # rounded in another place
sum-of-transforms: f(a:fft(x), b:fft(y)) -> like(a, f(x, y))
    where in order, same-attributes(a, b), same-type(x, y) for f in add, subtract  # transforms are linear
multiple-of-one-and-more: multiply(a, i:f(1, b)) -> f(a, multiply(a, b)); multiply(a, i:f(b, 1)) -> f(multiply(a, b), a)
    where i is in order, floating, a and b are not broadcast for f in add, subtract  # rounded in another place
""")


@EXPLORE_ALGEBRA.rewrites("multiply", because="takes equal constants for one value, in any order of factors")
def product_of_conjugates(build: Builder, node: Apply) -> Node | None:
    """(a * (c - t)) * (c + t) -> a * (c * c - t * t), for a number c; so without a"""
    if not _is_float(node):
        return None
    for product, second in _orders(node):
        if second.opcode not in ("add", "subtract"):
            continue
        squares = _difference_of_squares(build, product, second)
        if squares is not None:
            return squares
        for value, first in _orders(product) if product.opcode == "multiply" else ():
            squares = _difference_of_squares(build, first, second)
            if squares is not None:
                return build.op("multiply", value, squares)
    return build.decline("it is not a product of a sum and a difference of the same")


def _difference_of_squares(build: Builder, one: Node, other: Node) -> Node | None:
    """What (c - t) * (c + t) is, or (t - c) * (t + c), for operands in any order; None for others."""
    if {one.opcode, other.opcode} != {"add", "subtract"}:
        return None
    total, difference = (one, other) if one.opcode == "add" else (other, one)
    first, second = difference.operands
    if not any(_is_same(first, one) and _is_same(second, two) for one, two in _orders(total)):
        return None
    if splat_of(first) is None and splat_of(second) is None:
        return None
    return build.op("subtract", build.op("multiply", first, first), build.op("multiply", second, second))


EXPLORE_ALGEBRA.table("""
broadcast-out-of-second: f(x, g(y, b:broadcast(z))) -> h(f(x, y), b) if x is not broadcast;
    f(x, g(y, b:broadcast(z))) -> f(h(x, b), y) if x is broadcast where floating, y is not broadcast
    for f/g/h in divide/multiply/divide, divide/divide/multiply, subtract/add/subtract, subtract/subtract/add
    # so that it meets another broadcast; rounded in another place
negation-outwards: f(negate(x), y) -> negate(f(x, y)); f(y, negate(x)) -> negate(f(y, x))
    where in order, floating, x is floating for f in multiply, divide  # the sign alone changes
negation-into-broadcast: negate(p:f(b:broadcast(y), x)) -> f(broadcast-as(b, negate(y)), x);
    negate(p:f(x, b:broadcast(y))) -> f(x, broadcast-as(b, negate(y)))
    where p is in order, floating for f in multiply, divide  # the sign alone changes
negation-of-difference: negate(subtract(x, y)) -> subtract(y, x) if floating  # of equal numbers the zeros' signs differ
guard-against-nan: select(g:compare(x, x, direction=NE), a, b) -> b; select(g:compare(x, x, direction=EQ), a, b) -> a
    where g is test-for-nan, same-dims(g, root), x is floating, nan-wherever(a, x), nan-wherever(b, x)
    # both are NaN where the other is chosen
""")


def _yields_nan(node: Node, source: Node, depth: int = MOST_DEPTH) -> bool:
    """Whether an array is known to be NaN wherever a source of the same shape is."""
    if node is source:
        return True
    if not node.has_trait(Trait.PROPAGATES_NAN) or not depth or not _is_float(node):
        return False
    return any(_yields_nan(operand, source, depth - 1) for operand in node.operands)


EXPLORE_ALGEBRA.table("""
choices-among-two: select(p, select(q, a, b), b) -> select(and(p, q), a, b);
    select(p, a, select(q, a, b)) -> select(or(p, q), a, b) where same-type(p, q)  # both predicates decide at once
logistic-of-exponential: divide(1, add(1, exponential(negate(x)))) -> logistic(x) if floating  # its definition
""")


@EXPLORE_ALGEBRA.rewrites("add", because="computes along which dimension elements take turns")
def interleaved(build: Builder, node: Apply) -> Node | None:
    """pad(x, 0), padding=0_1_1 + pad(y, 0), padding=1_0_1 -> reshape(concatenate(x, y)): their elements take turns

    So does `jax.lax.associative_scan` put together what it computed of even and of odd elements.
    """
    for first, second in _orders(node):
        if first.opcode != "pad" or second.opcode != "pad" or not isinstance(first, Apply):
            continue
        source = tensor_type(first.operands[0])
        if source is None or tensor_type(second.operands[0]) != source or not _zeros(first, second):
            continue
        along = _dimension_of_turns(first, second)
        if along is None:
            continue
        parts = [first.operands[0], second.operands[0]]
        dims = list(source.dims)
        if along == len(dims) - 1:
            dims.append(1)
            parts = [build.reshape(part, TensorType(source.dtype, dims)) for part in parts]
        whole = build.op("concatenate", *parts, dimensions=(along + 1,))
        return build.op("reshape", whole, type=static_type(node))
    return build.decline("the operands are not padded so that their elements take turns")


def _zeros(*pads: Node) -> bool:
    return all(is_splat(pad.operands[1], 0) or is_splat(pad.operands[1], -0.0) for pad in pads)


def _dimension_of_turns(first: Apply, second: Node) -> int | None:
    """The one dimension along which two pads keep elements apart for those of the other, the first one first."""
    assert isinstance(second, Apply), "a pad"
    paddings = list(zip(first.attributes["padding"], second.attributes["padding"], strict=True))
    nothing, turns = (PaddingDimension(0, 0),) * 2, (PaddingDimension(0, 1, 1), PaddingDimension(1, 0, 1))
    along = [dim for dim, pair in enumerate(paddings) if pair != nothing]
    return along[0] if len(along) == 1 and paddings[along[0]] == turns else None


def _orders(node: Node) -> Iterator[tuple[Node, Node]]:
    """Both orders of the operands of an op of two."""
    first, second = node.operands
    yield first, second
    yield second, first


def _is_same(one: Node, other: Node) -> bool:
    """Whether two nodes are one, or spread one number."""
    value = splat_of(one)
    return one is other or (value is not None and value == splat_of(other))


def _one(build: Builder, node: Node) -> Node:
    array_type = static_type(node)
    return build.broadcast(build.constant(1, array_type.dtype), array_type)


def _shape(node: Node) -> tuple[int, ...]:
    return tuple(static_type(node).dims)


def _is_float(node: Node) -> bool:
    array_type = tensor_type(node)
    return array_type is not None and array_type.dtype.is_float


def _broadcast_as(build: Builder, spread: Node, source: Node) -> Node:
    """Another value broadcast to where a broadcast puts its own."""
    return build.op("broadcast", source, type=static_type(spread), dimensions=broadcast_dims(spread))


register_builder("broadcast-as", _broadcast_as)
register_condition("test-for-nan", lambda node: node.attributes.get("type", "FLOAT") == "FLOAT")
register_condition("same-dims", lambda one, other: _shape(one) == _shape(other))
register_condition("nan-wherever", _yields_nan)
