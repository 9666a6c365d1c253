"""Value-preserving rules on reduce and reduce-precision. Sums keep their order.

Follows XLA's xla/hlo/transforms/simplifiers/algebraic_simplifier.cc (HandleReduce, HandleReducePrecision).
"""

from __future__ import annotations

from hloom.ir import Apply, Node, TensorType, TupleType
from hloom.passes.rules.dimensions import dims_unmodified_by_reshape
from hloom.passes.rules.reducers import is_exact, is_identity, same_constant, same_reduction, wrapped
from hloom.passes.rules.reduction import (
    broadcast_of_reduced,
    broadcast_remaining,
    combine_with_init,
    combined_reduces,
    concatenates_reduced_dim,
    is_idempotent_reduction,
    make_reduce,
    may_pass_transpose,
    merged_reduces,
    passed_through_broadcast,
    reduce_below_transpose,
    reduction_of,
    repetitions,
    sum_of_repeated,
)
from hloom.rewrite import Builder, Family, emptiness, integers, operand_is, register_condition, tensor_type, used_once

REDUCE = Family("reduce", formerly="reducing", because="computes which dimensions are reduced")


@REDUCE.rewrites("reduce", benefit=9, depth=1, requires=emptiness(), because="takes any number of arrays")
def reduce_of_nothing(build: Builder, node: Apply) -> Node | None:
    """reduce(f32[2,0], start) -> broadcast(start): nothing is combined with it."""
    results = _results(node)
    source = tensor_type(node.operands[0])
    if results is None or source is None or (source.element_count and results[0].element_count):
        return None
    starts = node.operands[len(node.operands) // 2 :]
    filled = [_filled(build, *pair) for pair in zip(starts, results, strict=True)]
    return build.op("tuple", *filled) if isinstance(node.type, TupleType) else filled[0]


@REDUCE.rewrites("reduce", benefit=4, depth=2, because="makes the op that the computation is of")
def reduce_of_single_elements(build: Builder, node: Apply) -> Node | None:
    """reduce(f32[4,1], start), dimensions={1}, add -> add(reshape(x), broadcast(start)).

    Each element is combined with the start only, as before; where no value changes by it, not even -0, it goes.
    """
    outer = reduction_of(node)
    if outer is None or outer.operand_type.element_count != outer.result.element_count:
        return None
    if not outer.combiner:
        return build.decline("what the computation does is not known")
    value = build.reshape(outer.operand, outer.result.with_layout(None))
    return value if is_identity(outer.combiner, outer.start) else combine_with_init(build, outer, value)


@REDUCE.rewrites("reduce", benefit=3, depth=2, requires=operand_is(0, "transpose"))
def reduce_of_transpose(build: Builder, node: Apply) -> Node | None:
    """reduce(transpose(x, {1,0}), start), dimensions={0} -> reduce(x, start), dimensions={1}; transposed if needed.

    Where the elements are combined in the same order, or where no order rounds.
    """
    outer = reduction_of(node)
    if outer is None or not may_pass_transpose(outer):
        return None
    order = outer.operand.attributes["dimensions"]
    moved = [order[dim] for dim in sorted(outer.dimensions)]
    if moved != sorted(moved) and not is_exact(outer.combiner, outer.operand_type.dtype):
        return build.decline("the elements would be combined in another order")
    return reduce_below_transpose(build, outer)


@REDUCE.rewrites(
    "reduce",
    benefit=3,
    depth=2,
    requires=operand_is(0, "reduce"),
    because="compares two computations, and joins their dimensions",
)
def reduce_of_reduce(build: Builder, node: Apply) -> Node | None:
    """reduce(reduce(x, start), start) -> reduce(x, start) along the dimensions of both.

    Where no order rounds, and where the start, met once more or less, changes nothing.
    """
    outer, inner = reduction_of(node), reduction_of(node.operands[0])
    if outer is None or inner is None or not used_once(outer.operand):
        return None
    if not same_reduction(outer.graph, inner.graph) or not is_exact(outer.combiner, outer.operand_type.dtype):
        return None
    if not same_constant(outer.start, inner.start):
        return build.decline("they start from different values")
    if not is_idempotent_reduction(outer) and not is_identity(outer.combiner, outer.start):
        return build.decline("the start would be met less often")
    return merged_reduces(build, outer, inner)


@REDUCE.rewrites("reduce", benefit=3, depth=2, requires=operand_is(0, "reshape"))
def reduce_of_reshape(build: Builder, node: Apply) -> Node | None:
    """reduce(reshape(x)) -> reduce(x), or reshape(reduce(x)): the same elements in the same order.

    The one where the reshape changes only dimensions that are reduced, the other where it changes only others.
    """
    outer = reduction_of(node)
    if outer is None or outer.operand.opcode != "reshape":
        return None
    source = tensor_type(outer.operand.operands[0])
    if source is None or not source.element_count:
        return None
    origins = {after: before for before, after in dims_unmodified_by_reshape(source.dims, outer.operand_type.dims)}
    if all(dim in origins for dim in outer.kept):
        stays = {origins[dim] for dim in outer.kept}
        reduced = [dim for dim in range(source.rank) if dim not in stays]
        return make_reduce(build, outer, outer.operand.operands[0], reduced) if reduced else None
    if used_once(outer.operand) and all(dim in origins for dim in outer.dimensions):
        inner = make_reduce(build, outer, outer.operand.operands[0], [origins[dim] for dim in outer.dimensions])
        return build.reshape(inner, outer.result.with_layout(None))
    return build.decline("the reshape mixes dimensions that are reduced with others")


@REDUCE.rewrites(
    "reduce", benefit=2, depth=2, requires=operand_is(0, "concatenate"), because="takes any number of parts"
)
def reduce_of_concatenate(build: Builder, node: Apply) -> Node | None:
    """reduce(concatenate(x, y)), maximum -> maximum(reduce(x), reduce(y)).

    Along a dimension that is reduced, where no order rounds and meeting the start once per part changes nothing.
    """
    outer = reduction_of(node)
    if outer is None or not concatenates_reduced_dim(outer) or not is_exact(outer.combiner, outer.operand_type.dtype):
        return None
    if not is_idempotent_reduction(outer) and not is_identity(outer.combiner, outer.start):
        return build.decline("the start would be met once per part")
    return combined_reduces(build, outer)


REDUCE.table("""
reduce-of-pad [2]: reduce(pad(x, v), s) -> reduced(root, x) if padded-along-reduced, neutral-in(v, root)
    # combining what is padded with changes nothing
""")


@REDUCE.rewrites(
    "reduce", benefit=2, depth=2, requires=operand_is(0, "broadcast"), because="makes the op that the computation is of"
)
def reduce_of_repeated(build: Builder, node: Apply) -> Node | None:
    """reduce(broadcast(x), start), maximum -> broadcast(maximum(x, start)), along what the broadcast repeats.

    For maximum, minimum, and, or: meeting an element again changes nothing.
    """
    outer = reduction_of(node)
    if outer is None or not is_idempotent_reduction(outer) or not repetitions(outer):
        return None
    return broadcast_remaining(build, outer, combine_with_init(build, outer, outer.operand.operands[0]))


@REDUCE.rewrites("reduce", benefit=2, depth=2, requires=operand_is(0, "broadcast"))
def reduce_before_broadcast(build: Builder, node: Apply) -> Node | None:
    """reduce(broadcast(x), start) -> broadcast(reduce(x, start)), along dimensions of x itself."""
    outer = reduction_of(node)
    reduced = passed_through_broadcast(outer) if outer is not None else None
    if outer is None or reduced is None:
        return None
    if reduced != sorted(reduced) and not is_exact(outer.combiner, outer.operand_type.dtype):
        return build.decline("the elements would be combined in another order")
    return broadcast_of_reduced(build, outer, reduced)


@REDUCE.rewrites(
    "reduce", benefit=1, depth=2, requires=(integers(), operand_is(0, "broadcast")), because="counts the repetitions"
)
def integer_sum_of_repeated(build: Builder, node: Apply) -> Node | None:
    """reduce(broadcast(x), start), add -> broadcast(add(start, multiply(x, count))), for integers; both wrap around."""
    outer = reduction_of(node)
    if outer is None or outer.combiner != "add" or not outer.operand_type.dtype.is_integer:
        return None
    count = repetitions(outer)
    return sum_of_repeated(build, outer, wrapped(count, outer.operand_type.dtype)) if count else None


REDUCE.table("""
reduce-precision-to-own [2]: reduce-precision(x, exponent_bits=e, mantissa_bits=m) -> x if own-precision(root, e, m)
    # to the bits that its type has
reduce-precision-again: reduce-precision(r:reduce-precision(x, exponent_bits=a, mantissa_bits=b), exponent_bits=c,
    mantissa_bits=d) -> r if as-many(c, a), as-many(d, b)  # to as many bits or more
""")


_BITS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}
"""How many bits of exponent and mantissa the types have."""


def _results(node: Apply) -> list[TensorType] | None:
    elements = node.type.elements if isinstance(node.type, TupleType) else (node.type,)
    static = [element for element in elements if isinstance(element, TensorType) and element.is_static]
    return static if len(static) == len(elements) and 2 * len(static) == len(node.operands) else None


def _filled(build: Builder, start: Node, result: TensorType) -> Node:
    return build.broadcast(start, result.with_layout(None)) if result.rank else start


def _is_own_precision(node: Node, exponent: int, mantissa: int) -> bool:
    array_type = tensor_type(node)
    return array_type is not None and _BITS.get(array_type.dtype.name) == (exponent, mantissa)


register_condition("as-many", lambda count, other: None not in (count, other) and count >= other)
register_condition("own-precision", _is_own_precision)
