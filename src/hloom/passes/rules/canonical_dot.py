"""Products of matrices, one by one or in batches, of every dot.

Follows XLA's xla/hlo/transforms/expanders/dot_decomposer.cc (CanonicalizeDot).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from hloom.ir import Apply, Node, TensorType
from hloom.ops import DotNumbers
from hloom.passes.computation_order import has_control_dependencies
from hloom.passes.rules.dimensions import resized
from hloom.passes.rules.dot import free_dims, make_dot, numbers_of, static_operands
from hloom.rewrite import Builder, Family, tensor_type

CANONICAL_DOT = Family("canonical-dot")


@CANONICAL_DOT.rewrites("dot", depth=1, because="computes the shapes of matrices and which dimensions they pair")
def dot_of_matrices(build: Builder, node: Apply) -> Node | None:
    """dot(f32[8,4,6], f32[6,5]) -> reshape(dot(reshape(x) [32,6], y)): batches first, then one dimension per role"""
    types, result = static_operands(node), tensor_type(node)
    if types is None or result is None or len(node.operands) != 2 or has_control_dependencies(node):
        return None
    numbers = numbers_of(node)
    left, right = types[0], types[1]
    rows = free_dims(left.rank, numbers.lhs_batch, numbers.lhs_contracting)
    columns = free_dims(right.rank, numbers.rhs_batch, numbers.rhs_contracting)
    if _is_canonical(numbers, rows, columns):
        return build.decline("it is a product of matrices")
    lhs, row_count = _matrix(build, node.operands[0], left, numbers.lhs_batch, (rows, numbers.lhs_contracting))
    rhs, _ = _matrix(build, node.operands[1], right, numbers.rhs_batch, (numbers.rhs_contracting, columns), first=1)
    batches = tuple(range(len(numbers.lhs_batch)))
    contracted = len(batches) + (row_count != 1)
    canonical = DotNumbers(batches, batches, (contracted,), (len(batches),))
    return build.reshape(make_dot(build, node, lhs, rhs, canonical), result.with_layout(None))


def _is_canonical(numbers: DotNumbers, rows: Sequence[int], columns: Sequence[int]) -> bool:
    batches = tuple(range(len(numbers.lhs_batch)))
    if (numbers.lhs_batch, numbers.rhs_batch) != (batches, batches):
        return False
    return len(numbers.lhs_contracting) == 1 and len(rows) <= 1 and len(columns) <= 1


def _matrix(
    build: Builder,
    operand: Node,
    array_type: TensorType,
    batch: Sequence[int],
    roles: tuple[Sequence[int], Sequence[int]],
    first: int = 0,
) -> tuple[Node, int]:
    """An operand with its batches, and one dimension for each role; and how many elements the free one has.

    The free role is the first of the left operand, and the second of the right one, where `first` is 1; of one
    element, it is left out.
    """
    order = [*batch, *roles[0], *roles[1]]
    if order != sorted(order):
        operand = build.transpose(operand, order)
    counts = [math.prod(array_type.dims[dim] for dim in role) for role in roles]
    free = counts[first]
    if free == 1:
        counts.pop(first)
    return build.reshape(operand, resized(array_type, [*(array_type.dims[dim] for dim in batch), *counts])), free
