"""Inexact rules on reduce: sums in another order, and init values taken for identities.

Follows XLA's xla/hlo/transforms/simplifiers/algebraic_simplifier.cc (HandleReduce).
"""

from __future__ import annotations

from hloom.ir import Apply, Node, TensorType, TupleType, float_range
from hloom.passes.rules.reducers import may_be_reduction_identity, same_constant, same_reduction
from hloom.passes.rules.reduction import (
    broadcast_of_reduced,
    combined_reduces,
    concatenates_reduced_dim,
    may_pass_transpose,
    merged_reduces,
    passed_through_broadcast,
    reduce_below_transpose,
    reduction_of,
    repetitions,
    sum_of_repeated,
)
from hloom.rewrite import Builder, Family, floats, operand_is, tensor_type, used_once

REDUCE_INEXACT = Family("reduce-inexact", formerly="reducing-relaxed", because="computes which dimensions are reduced")


@REDUCE_INEXACT.rewrites("reduce", benefit=8, depth=2, because="takes any number of arrays")
def reduce_as_reshape(build: Builder, node: Apply) -> Node | None:
    """reduce(f32[4,1], start), dimensions={1} -> reshape(x), of several arrays too: XLA takes the start for neutral.

    Not where the start is a constant that plainly is not; only the sign of a zero is lost.
    """
    types = [tensor_type(operand) for operand in node.operands[: len(node.operands) // 2]]
    results = node.type.elements if isinstance(node.type, TupleType) else (node.type,)
    if len(results) != len(types):
        return None
    values: list[Node] = []
    for source, array_type, result in zip(node.operands, types, results, strict=False):
        if (
            array_type is None
            or not isinstance(result, TensorType)
            or not result.is_static
            or array_type.dtype is not result.dtype
        ):
            return None
        if array_type.element_count != result.element_count:
            return None
        values.append(build.reshape(source, result.with_layout(None)))
    outer = reduction_of(node)
    if outer is not None and not may_be_reduction_identity(outer.combiner, outer.start):
        return build.decline("the start is not an identity of the computation")
    return build.op("tuple", *values) if isinstance(node.type, TupleType) else values[0]


REDUCE_INEXACT.table("""
sum-of-negated [7]: reduce(negate(x), s) -> negate(reduced(root, x)) if floating, sum-of-one, s is zero
    # only the sign of a zero may differ
""")


@REDUCE_INEXACT.rewrites("reduce", benefit=3, depth=2, requires=operand_is(0, "transpose"))
def reduce_of_any_transpose(build: Builder, node: Apply) -> Node | None:
    """reduce(transpose(x)) -> reduce(x), transposed if needed, in whatever order the elements then stand."""
    outer = reduction_of(node)
    return reduce_below_transpose(build, outer) if outer is not None and may_pass_transpose(outer) else None


@REDUCE_INEXACT.rewrites("reduce", benefit=2, depth=2, requires=operand_is(0, "broadcast"))
def reduce_before_turning_broadcast(build: Builder, node: Apply) -> Node | None:
    """reduce(broadcast(x), dimensions={1,0}) -> broadcast(reduce(x)), in whatever order the elements then stand."""
    outer = reduction_of(node)
    reduced = passed_through_broadcast(outer) if outer is not None else None
    return broadcast_of_reduced(build, outer, reduced) if outer is not None and reduced is not None else None


@REDUCE_INEXACT.rewrites(
    "reduce",
    benefit=3,
    depth=2,
    requires=operand_is(0, "reduce"),
    because="compares two computations, and joins their dimensions",
)
def reduce_of_equal_reduce(build: Builder, node: Apply) -> Node | None:
    """reduce(reduce(x, start), start) -> reduce(x, start) along the dimensions of both, grouped anew."""
    outer, inner = reduction_of(node), reduction_of(node.operands[0])
    if outer is None or inner is None or not used_once(outer.operand):
        return None
    if not same_reduction(outer.graph, inner.graph) or not same_constant(outer.start, inner.start):
        return None
    if not may_be_reduction_identity(outer.combiner, outer.start):
        return build.decline("the start is not an identity of the computation")
    return merged_reduces(build, outer, inner)


@REDUCE_INEXACT.rewrites(
    "reduce", benefit=2, depth=2, requires=operand_is(0, "concatenate"), because="takes any number of parts"
)
def sum_of_concatenate(build: Builder, node: Apply) -> Node | None:
    """reduce(concatenate(x, y)), add -> add(reduce(x), reduce(y)), along a dimension that is reduced."""
    outer = reduction_of(node)
    if outer is None or not outer.combiner or not concatenates_reduced_dim(outer):
        return None
    if not may_be_reduction_identity(outer.combiner, outer.start):
        return build.decline("the start is not an identity of the computation")
    return combined_reduces(build, outer)


REDUCE_INEXACT.table("""
sum-of-pad [2]: reduce(pad(x, 0), s) -> reduced(root, x) if sum-of-one, padded-along-reduced  # -0 may stay -0
""")


@REDUCE_INEXACT.rewrites(
    "reduce", benefit=1, depth=2, requires=(floats(), operand_is(0, "broadcast")), because="counts the repetitions"
)
def sum_of_repeated_floats(build: Builder, node: Apply) -> Node | None:
    """reduce(broadcast(x), start), add -> broadcast(add(start, multiply(x, count))): rounded once, not at each step."""
    outer = reduction_of(node)
    if outer is None or outer.combiner != "add" or not outer.operand_type.dtype.is_float:
        return None
    count = repetitions(outer)
    if count and count > float_range(outer.operand_type.dtype)[1]:
        return build.decline("the element type does not hold the count")
    return sum_of_repeated(build, outer, count) if count else None
