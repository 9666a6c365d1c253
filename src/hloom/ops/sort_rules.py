"""Sorting, and the greatest or least few."""

from __future__ import annotations

from collections.abc import Sequence

from hloom.ir import AxisMap, AxisMapBuilder, FactorKind, Graph, TensorType, TupleType, Type, TypeProblem, dtype
from hloom.ops.reducers import check_element, check_predicate
from hloom.ops.shapes import array, arrays, dimension_in, extents, same_dims, tensor

_S32 = dtype("s32")


def infer_sort(*operands: Type, dimensions: Sequence[int], to_apply: Graph) -> Type:
    """The operands' types, as a tuple where there are several.

    The comparison takes two elements of each operand, side by side, and yields pred[]; its types and the dimension are
    what XLA checks in its verifier, not in its parser. Source: xla/service/hlo_verifier.cc, HandleSort.
    """
    kinds = _check_operands(operands, dimensions)
    check_predicate(to_apply, 2 * len(kinds))
    for dim in range(2 * len(kinds)):
        check_element(to_apply, dim, kinds[dim // 2])
    return TupleType(kinds) if len(kinds) > 1 else kinds[0]


def sort_axes(*operands: Type, dimensions: Sequence[int]) -> AxisMap:
    """([b,s], [b,s]) -> ([b,s], [b,s]): the sorted dimension is whole."""
    kinds = _check_operands(operands, dimensions)
    build = AxisMapBuilder()
    factors = [
        [build.factor(size, FactorKind.NEED_REPLICATION if dim in dimensions else FactorKind.PARALLEL)]
        for dim, size in enumerate(kinds[0].dims)
    ]
    for _ in kinds:
        build.operand(*factors)
    for _ in kinds:
        build.result(*factors)
    return build.finish()


def infer_topk(operand: Type, *, k: int) -> TupleType:
    """The k values along the last dimension, and where they stood. Source: InferTopKShape."""
    array_type = _check_topk(operand, k)
    dimensions = [*extents(array_type)[:-1], (k, False)]
    return TupleType((tensor(array_type.dtype, dimensions), tensor(_S32, dimensions)))


def topk_axes(operand: Type, *, k: int) -> AxisMap:
    """[b,n] -> ([b,k], [b,k]): n and k are whole."""
    array_type = _check_topk(operand, k)
    build = AxisMapBuilder()
    batch = [[build.factor(size)] for size in array_type.dims[:-1]]
    searched, chosen = (build.factor(size, FactorKind.NEED_REPLICATION) for size in (array_type.dims[-1], k))
    build.operand(*batch, [searched])
    return build.result(*batch, [chosen]).result(*batch, [chosen]).finish()


def _check_operands(operands: Sequence[Type], dimensions: Sequence[int]) -> list[TensorType]:
    kinds = arrays(operands)
    for number, array_type in enumerate(kinds[1:], 1):
        if not same_dims(kinds[0], array_type):
            raise TypeProblem(
                f"all operands must have the dimensions of {kinds[0]}, but operand {number} is {array_type}"
            )
    if len(dimensions) != 1:
        raise TypeProblem(f"dimensions={{{','.join(map(str, dimensions))}}} must name one dimension")
    if kinds[0].rank or dimensions[0]:
        dimension_in(dimensions[0], kinds[0], "dimensions:")
    return kinds


def _check_topk(operand: Type, k: int) -> TensorType:
    operand_type = array(operand)
    if not operand_type.rank:
        raise TypeProblem(f"the operand {operand_type} has no dimension to search")
    if not 0 <= k <= operand_type.dims[-1]:
        raise TypeProblem(f"k={k} must be no more than the last dimension of the operand {operand_type}")
    return operand_type
