"""Rules on convert, bitcast-convert, complex, real, imag and rounding; they are exact.

Follows XLA's xla/hlo/transforms/simplifiers/algebraic_simplifier.cc (HandleConvert, HandleBitcastConvert,
HandleComplex, HandleReal, HandleImag).
"""

from __future__ import annotations

import ml_dtypes

from hloom.ir import Apply, DType, DTypeKind, Node, TensorType
from hloom.passes.rules.broadcast import UNARY
from hloom.passes.rules.dimensions import replace_if_compatible, same_layout
from hloom.passes.rules.value_properties import (
    ORDINARY,
    element,
    is_unsigned,
)
from hloom.rewrite import Builder, Family, integers, operand_is, register_condition, tensor_type, used_once

CONVERT = Family("convert", formerly="conversion")
CONVERT_CHAINS = Family("convert-chains")

_WRAPPING = ("add", "subtract", "multiply")


CONVERT.table("""
convert-to-same-type [3]: convert(x) -> x if same-element(x, root)  # nothing is converted
convert-there-and-back [3]: convert(between:convert(x)) -> x if same-element(x, root), holds-values(between, x)
    # the type between holds each value of x
""")


@CONVERT.rewrites("convert", requires=operand_is(0, "convert"))
def convert_by_a_wider_type(build: Builder, node: Apply) -> Node | None:
    """convert(convert(x)) -> convert(x), where the type between holds each value of x: one conversion decides.

    Not from integers by floats to narrower integers: floats are brought into their range, integers wrap around.
    """
    inner = node.operands[0]
    if inner.opcode != "convert":
        return None
    first, between, last = element(inner.operands[0]), element(inner), element(node)
    if first is None or between is None or last is None or not preserves_values(first, between):
        return None
    if between.is_complex or last.is_complex or not (_is_common(first) and _is_common(between) and _is_common(last)):
        return None
    if first.is_integer and between.is_float and last.is_integer and not preserves_values(first, last):
        return None
    return build.convert(inner.operands[0], last)


@CONVERT.rewrites("convert", depth=3, requires=(integers(), operand_is(0, *_WRAPPING, "divide", "remainder")))
def narrow_integers_computed_wide(build: Builder, node: Apply) -> Node | None:
    """convert(add(convert(x), convert(y))) -> add(x, y), of integers converted to wider ones of the same signedness

    So too subtract and multiply, which wrap around, and divide and remainder of unsigned ones.
    """
    wide = node.operands[0]
    if wide.opcode not in (*_WRAPPING, "divide", "remainder") or not used_once(wide):
        return None
    if wide.opcode not in _WRAPPING and not is_unsigned(wide):
        return None
    left, right = wide.operands
    if left.opcode != "convert" or right.opcode != "convert" or not used_once(left) or not used_once(right):
        return None
    narrow, result = element(node), element(wide)
    if narrow is None or result is None or not narrow.is_integer or narrow.kind is not result.kind:
        return None
    if min(narrow.bits, result.bits) < 8 or narrow.bits > result.bits:
        return None
    if any(element(conversion.operands[0]) is not narrow for conversion in (left, right)):
        return None
    return build.op(wide.opcode, left.operands[0], right.operands[0])


CONVERT.table("""
bitcast-convert-to-same-type [3]: bitcast-convert(x) -> x if same-element(x, root)  # nothing is converted
bitcast-convert-twice [2]: bitcast-convert(between:bitcast-convert(x)) -> bitcast-convert(x, type=root)
    where static, between is static  # the same bits
""")


@CONVERT.rewrites("bitcast-convert", requires=operand_is(0, "concatenate"))
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


@CONVERT.rewrites("bitcast", depth=3, requires=operand_is(0, *UNARY))
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
""")


CONVERT.table("""
integer-is-finite [2]: is-finite(c:convert(x)) -> true if x is integer or predicate, c is real, reaches-as-far(c, x)
    # the float holds the greatest integer without overflow
rounding-of-whole [2]: f(r:ceil|floor|round-nearest-afz|round-nearest-even(x)) -> r;
    f(c:convert(x)) -> c if x is integer or predicate
    for f in ceil, floor, round-nearest-afz, round-nearest-even  # it is whole already
""")


@CONVERT_CHAINS.rewrites("convert", depth=2, requires=operand_is(0, "convert"))
def convert_of_convert_of_floats(build: Builder, node: Apply) -> Node | None:
    """convert(f32, convert(bf16, x)) -> x, of an x of f32; of floats that become others twice, one conversion is left

    What was rounded between is not. Follows XLA's xla/hlo/transforms/simplifiers/simplify_fp_conversions.cc
    (SimplifyFPConversions).
    """
    inner = node.operands[0]
    source, between, made = tensor_type(inner.operands[0]), tensor_type(inner), tensor_type(node)
    if source is None or between is None or made is None or not (between.dtype.is_float and made.dtype.is_float):
        return build.decline("it is not of floats all the way")
    if source.dtype is made.dtype:
        return replace_if_compatible(build, node, inner.operands[0])
    return build.convert(inner.operands[0], made.dtype)


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
