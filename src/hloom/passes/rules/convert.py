"""Rules on convert, bitcast-convert, complex, real, imag and rounding; they are exact.

Follows XLA's xla/hlo/transforms/simplifiers/algebraic_simplifier.cc (HandleConvert, HandleBitcastConvert,
HandleComplex, HandleReal, HandleImag).
"""

from __future__ import annotations

import ml_dtypes

from hloom.ir import Apply, DType, DTypeKind, Node, TensorType
from hloom.passes.rules.broadcast import UNARY
from hloom.passes.rules.dimensions import same_layout
from hloom.passes.rules.value_properties import (
    ORDINARY,
    element,
)
from hloom.rewrite import (
    Builder,
    Family,
    operand_is,
    register_builder,
    register_condition,
    tensor_type,
    used_once,
)

CONVERT = Family("convert", formerly="conversion")
CONVERT_CHAINS = Family("convert-chains")
"""Follows xla/hlo/transforms/simplifiers/simplify_fp_conversions.cc (SimplifyFPConversions)."""

_WRAPPING = ("add", "subtract", "multiply")


CONVERT.table("""
convert-to-same-type [3]: convert(x) -> x if same-element(x, root)  # nothing is converted
convert-there-and-back [3]: convert(between:convert(x)) -> x if same-element(x, root), holds-values(between, x)
    # the type between holds each value of x
convert-by-a-wider-type: convert(between:convert(x)) -> converted(x, root) if one-conversion-decides(x, between, root)
    # the type between holds each value of x; not from integers by floats to narrower integers, which would wrap around
narrow-integers-computed-wide [1, depth 3]: convert(w:f(a:convert(x), b:convert(y))) -> f(x, y)
    if w is wrapping or unsigned
    where integer, w and a and b are used once, narrower-integer(root, w), same-element(x, root), same-element(y, root)
    for f in add, subtract, multiply, divide, remainder  # the wide integers are of the same signedness
bitcast-convert-to-same-type [3]: bitcast-convert(x) -> x if same-element(x, root)  # nothing is converted
bitcast-convert-twice [2]: bitcast-convert(between:bitcast-convert(x)) -> bitcast-convert(x, type=root)
    where static, between is static  # the same bits
""")


@CONVERT.rewrites("bitcast-convert", requires=operand_is(0, "concatenate"), because="takes any number of operands")
def bitcast_convert_of_concatenation(build: Builder, node: Apply) -> Node | None:
    """bitcast-convert(concatenate(bitcast-convert(x), bitcast-convert(y))) -> concatenate(x, y), of the last type."""
    joined = node.operands[0]
    if not isinstance(joined, Apply) or joined.opcode != "concatenate" or element(node) is None:
        return None
    if any(operand.opcode != "bitcast-convert" for operand in joined.operands):
        return None
    sources = [operand.operands[0] for operand in joined.operands]
    if any(element(source) is not element(node) for source in sources):
        return None
    (dimension,) = joined.attributes["dimensions"]
    ranks = {array_type.rank for array_type in map(tensor_type, sources) if array_type}
    return build.like(joined, *sources) if ranks and dimension < min(ranks) else None


@CONVERT.rewrites(
    "bitcast", depth=3, requires=operand_is(0, *UNARY), because="matches any elementwise op of one operand"
)
def bitcasts_around_one_op(build: Builder, node: Apply) -> Node | None:
    """bitcast(f(bitcast(x))) -> bitcast(f(x)), of an f that works element by element, all of one type and layout."""
    middle, array_type = node.operands[0], tensor_type(node)
    if not isinstance(middle, Apply) or middle.opcode not in UNARY or not used_once(middle):
        return None
    inner = middle.operands[0]
    source = tensor_type(inner.operands[0]) if inner.opcode == "bitcast" else None
    if source is None or array_type is None or source.dtype is not array_type.dtype:
        return None
    if element(middle) is not array_type.dtype or not same_layout(middle.type, inner.type):
        return None
    if any(_is_tiled(bitcast) for bitcast in (inner, inner.operands[0])):
        return None
    return build.op("bitcast", build.like(middle, inner.operands[0], type=source), type=node.type)


CONVERT.table("""
complex-of-its-parts [3]: complex(real(x), imag(x)) -> x  # of a complex x
part-of-complex [3]: real(complex(x, y)) -> x; imag(complex(x, y)) -> y  # nothing is computed
part-of-real [2]: real(x) -> x; imag(x) -> 0 where same-float(x, root)  # x is not complex
integer-is-finite [2]: is-finite(c:convert(x)) -> true if x is integer or predicate, c is real, reaches-as-far(c, x)
    # the float holds the greatest integer without overflow
rounding-of-whole [2]: f(r:ceil|floor|round-nearest-afz|round-nearest-even(x)) -> r;
    f(c:convert(x)) -> c if x is integer or predicate
    for f in ceil, floor, round-nearest-afz, round-nearest-even  # it is whole already
""")


CONVERT_CHAINS.table("""
convert-of-convert-of-floats: convert(between:convert(x)) -> in-place(x, root) if same-element(x, root);
    convert(between:convert(x)) -> converted(x, root) where floating, between is floating, x is static
    # of two conversions of floats one is left: what was rounded between is not
""")


def preserves_values(source: DType, result: DType) -> bool:
    """Whether every value of one element type is one of another."""
    if source is result:
        return True
    if source.kind is DTypeKind.BOOLEAN:
        return not result.is_complex
    if result.kind is DTypeKind.BOOLEAN:
        return False
    if source.is_complex or result.is_complex:
        return source.is_complex and result.is_complex and source.bits <= result.bits
    if source.is_float:
        return result.is_float and _holds_floats(source, result)
    if result.is_float:
        return _mantissa(result) >= source.bits - (source.kind is DTypeKind.SIGNED) and _reaches(result, source)
    if source.kind is result.kind:
        return source.bits <= result.bits
    return source.kind is DTypeKind.UNSIGNED and source.bits < result.bits


def _holds_floats(source: DType, result: DType) -> bool:
    if not (_is_common(source) and _is_common(result)):
        return False
    one, other = ml_dtypes.finfo(source.numpy), ml_dtypes.finfo(result.numpy)
    return one.nmant <= other.nmant and one.maxexp <= other.maxexp and one.minexp >= other.minexp


def _mantissa(element_type: DType) -> int:
    return int(ml_dtypes.finfo(element_type.numpy).nmant) + 1


def _reaches(element_type: DType, source: DType) -> bool:
    """Whether a float type reaches as far as an integer type."""
    return float(ml_dtypes.finfo(element_type.numpy).max) >= 2.0**source.bits


def _is_common(element_type: DType) -> bool:
    """Whether it is anything but one of the small floats, whose conversions have rules of their own."""
    return not element_type.is_float or element_type.name in ORDINARY


def _is_tiled(node: Node) -> bool:
    array_type = tensor_type(node)
    return array_type is not None and array_type.layout is not None and bool(array_type.layout.tiles)


def _holds_values(node: Node, source: Node) -> bool:
    """Whether the element type of one array holds every value of another's."""
    result, given = element(node), element(source)
    return result is not None and given is not None and preserves_values(given, result)


def _reaches_as_far(node: Node, source: Node) -> bool:
    result, given = element(node), element(source)
    return result is not None and given is not None and _reaches(result, given)


register_condition("holds-values", _holds_values)
register_condition("reaches-as-far", _reaches_as_far)


def _is_same_float(node: Node, other: Node) -> bool:
    one, second = node.type, other.type
    return (
        isinstance(one, TensorType)
        and isinstance(second, TensorType)
        and one.dtype is second.dtype
        and one.dtype.is_float
    )


register_condition("same-float", _is_same_float)


def _is_decided_at_once(source: Node, between: Node, node: Node) -> bool:
    """Whether a conversion by a type between yields what one without it does.

    Floats are brought into the range of integers, where integers wrap around.
    """
    first, middle, last = element(source), element(between), element(node)
    if first is None or middle is None or last is None or not preserves_values(first, middle):
        return False
    if middle.is_complex or last.is_complex or not (_is_common(first) and _is_common(middle) and _is_common(last)):
        return False
    return not (first.is_integer and middle.is_float and last.is_integer) or preserves_values(first, last)


def _is_narrower_integer(node: Node, wide: Node) -> bool:
    """Whether both are of integers of whole bytes and one signedness, and the first of no more bits."""
    narrow, result = element(node), element(wide)
    if narrow is None or result is None or not narrow.is_integer or narrow.kind is not result.kind:
        return False
    return 8 <= narrow.bits <= result.bits


def _converted(build: Builder, node: Node, like: Node) -> Node:
    """A value in the element type of another; itself where it has that."""
    element_type = element(like)
    assert element_type is not None, f"{like!r} is not a static array"
    return build.convert(node, element_type)


register_condition("one-conversion-decides", _is_decided_at_once)
register_condition("narrower-integer", _is_narrower_integer)
register_condition("wrapping", lambda node: node.opcode in _WRAPPING)
register_builder("converted", _converted)
