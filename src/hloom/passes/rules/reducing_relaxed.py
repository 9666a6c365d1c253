"""Reductions as XLA rewrites them by default: sums may round in another order, and a start counts as an identity."""

from __future__ import annotations

from hloom.ir import Apply, Node, TensorType, TupleType
from hloom.ir.number_conversion import float_range
from hloom.passes.rules.combining import may_be_identity, same_combination, same_constant
from hloom.passes.rules.reductions import (
    broadcast_of_reduced,
    combined_reduces,
    is_along_reduced,
    make_reduce,
    may_pass_transpose,
    merged_reduces,
    padded_along,
    passed_through_broadcast,
    reduce_below_transpose,
    reduction_of,
    repetitions,
    sum_of_repeated,
)
from hloom.rewrite import Builder, Family, is_splat, tensor_type, used_once

REDUCING_RELAXED = Family("reducing-relaxed")


@REDUCING_RELAXED.rewrites("reduce", benefit=8, depth=2)
def reduce_as_reshape(build: Builder, node: Apply) -> Node | None:
    """reduce(f32[4,1], start), dimensions={1} -> reshape(x), of several arrays too: XLA takes the start for neutral.

    Not where the start is a constant that plainly is not; only the sign of a zero is lost.
    """
    kinds = [tensor_type(each) for each in node.inputs[: len(node.inputs) // 2]]
    results = node.type.elements if isinstance(node.type, TupleType) else (node.type,)
    if len(results) != len(kinds):
        return None
    values: list[Node] = []
    for source, kind, result in zip(node.inputs, kinds, results, strict=False):
        if kind is None or not isinstance(result, TensorType) or not result.is_static or kind.dtype is not result.dtype:
            return None
        if kind.element_count != result.element_count:
            return None
        values.append(build.reshape(source, result.with_layout(None)))
    outer = reduction_of(node)
    if outer is not None and not may_be_identity(outer.combiner, outer.start):
        return build.decline("the start is no identity of the computation")
    return build.op("tuple", *values) if isinstance(node.type, TupleType) else values[0]


@REDUCING_RELAXED.rewrites("reduce", benefit=7, depth=2)
def sum_of_negated(build: Builder, node: Apply) -> Node | None:
    """reduce(negate(x), 0), add -> negate(reduce(x, 0)), for floats: only the sign of a zero may differ."""
    outer = reduction_of(node)
    if outer is None or outer.combiner != "add" or not outer.kind.dtype.is_float:
        return None
    if outer.operand.opcode != "negate" or not (is_splat(outer.start, 0) or is_splat(outer.start, -0.0)):
        return None
    return build.op("negate", make_reduce(build, outer, outer.operand.inputs[0], outer.dimensions))


@REDUCING_RELAXED.rewrites("reduce", benefit=3, depth=2)
def reduce_of_any_transpose(build: Builder, node: Apply) -> Node | None:
    """reduce(transpose(x)) -> reduce(x), transposed if needed, in whatever order the elements then stand."""
    outer = reduction_of(node)
    return reduce_below_transpose(build, outer) if outer is not None and may_pass_transpose(outer) else None


@REDUCING_RELAXED.rewrites("reduce", benefit=2, depth=2)
def reduce_before_turning_broadcast(build: Builder, node: Apply) -> Node | None:
    """reduce(broadcast(x), dimensions={1,0}) -> broadcast(reduce(x)), in whatever order the elements then stand."""
    outer = reduction_of(node)
    reduced = passed_through_broadcast(outer) if outer is not None else None
    return broadcast_of_reduced(build, outer, reduced) if outer is not None and reduced is not None else None


@REDUCING_RELAXED.rewrites("reduce", benefit=3, depth=2)
def reduce_of_equal_reduce(build: Builder, node: Apply) -> Node | None:
    """reduce(reduce(x, start), start) -> reduce(x, start) along the dimensions of both, grouped anew."""
    outer, inner = reduction_of(node), reduction_of(node.inputs[0])
    if outer is None or inner is None or not used_once(outer.operand):
        return None
    if not same_combination(outer.graph, inner.graph) or not same_constant(outer.start, inner.start):
        return None
    if not may_be_identity(outer.combiner, outer.start):
        return build.decline("the start is no identity of the computation")
    return merged_reduces(build, outer, inner)


@REDUCING_RELAXED.rewrites("reduce", benefit=2, depth=2)
def sum_of_concatenate(build: Builder, node: Apply) -> Node | None:
    """reduce(concatenate(x, y)), add -> add(reduce(x), reduce(y)), along a dimension that is reduced."""
    outer = reduction_of(node)
    if outer is None or not outer.combiner or not is_along_reduced(outer):
        return None
    if not may_be_identity(outer.combiner, outer.start):
        return build.decline("the start is no identity of the computation")
    return combined_reduces(build, outer)


@REDUCING_RELAXED.rewrites("reduce", benefit=2, depth=2)
def sum_of_pad(build: Builder, node: Apply) -> Node | None:
    """reduce(pad(x, 0)), add -> reduce(x), where the padding lies along what is reduced: -0 may stay -0."""
    outer = reduction_of(node)
    if outer is None or outer.combiner != "add" or not padded_along(outer):
        return None
    if not is_splat(outer.operand.inputs[1], 0):
        return build.decline("it is not padded with zeros")
    return make_reduce(build, outer, outer.operand.inputs[0], outer.dimensions)


@REDUCING_RELAXED.rewrites("reduce", benefit=1, depth=2)
def sum_of_repeated_floats(build: Builder, node: Apply) -> Node | None:
    """reduce(broadcast(x), start), add -> broadcast(add(start, multiply(x, count))): rounded once, not at each step."""
    outer = reduction_of(node)
    if outer is None or outer.combiner != "add" or not outer.kind.dtype.is_float:
        return None
    count = repetitions(outer)
    if count and count > float_range(outer.kind.dtype)[1]:
        return build.decline("the element type does not hold the count")
    return sum_of_repeated(build, outer, count) if count else None
