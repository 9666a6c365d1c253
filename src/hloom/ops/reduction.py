"""Reductions, windows, sorting and batch normalisation: their rows, and the rules of reduce, sort and batch-norm ops.

The others' rules are in `windows` and `scan_rules`. Source: xla/service/shape_inference.cc,
InferBatchNormTrainingShape and those after it.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloom.ir import (
    AxisMap,
    AxisMapBuilder,
    DTypeKind,
    Effect,
    FactorKind,
    Graph,
    TensorType,
    Trait,
    TupleType,
    Type,
    TypeProblem,
    dtype,
    optional,
    required,
)
from hloom.ops.reducers import accumulators, check_element, check_predicate, halves, reduced_kind
from hloom.ops.rows import BOOLEAN, DIMENSIONS, FLOAT, GRAPH, INTEGER, TO_APPLY, WINDOW, row, table
from hloom.ops.scan_rules import infer_scan, scan_axes
from hloom.ops.shapes import (
    array,
    arrays,
    dimension_in,
    extents,
    of_kinds,
    same_dims,
    same_elements,
    sizes_agree,
    tensor,
)
from hloom.ops.windows import (
    infer_reduce_window,
    infer_select_and_scatter,
    reduce_window_axes,
    select_and_scatter_axes,
)

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


_FLOAT = frozenset({DTypeKind.FLOAT})


def infer_batch_norm_training(operand: Type, scale: Type, offset: Type, *, feature_index: int) -> TupleType:
    """(the normalised operand, the mean and the variance of each feature)."""
    operand_type, feature = _check(operand, {"scale": scale, "offset": offset}, feature_index)
    return TupleType((operand_type, feature, feature))


def infer_batch_norm_inference(
    operand: Type, scale: Type, offset: Type, mean: Type, variance: Type, *, feature_index: int
) -> TensorType:
    """The operand's type."""
    vectors = {"scale": scale, "offset": offset, "mean": mean, "variance": variance}
    return _check(operand, vectors, feature_index)[0]


def infer_batch_norm_grad(
    operand: Type, scale: Type, mean: Type, variance: Type, gradient: Type, *, feature_index: int
) -> TupleType:
    """(the operand's gradient, those of scale and offset for each feature)."""
    operand_type, feature = _check(operand, {"scale": scale, "mean": mean, "variance": variance}, feature_index)
    given = array(gradient, "the gradient")
    if not (same_dims(operand_type, given) and same_elements(operand_type, given)):
        raise TypeProblem(f"the gradient must have the operand's type {operand_type}, but is {given}")
    return TupleType((operand_type, feature, feature))


def normalisation_axes(*operands: Type, feature_index: int) -> AxisMap:
    """([n,f], [f], [f]) -> ([n,f], [f], [f]): f is parallel; statistics are taken over all others, which are whole."""
    return _axes(operands, feature_index, FactorKind.NEED_REPLICATION, statistics=2)


def pointwise_normalisation_axes(*operands: Type, feature_index: int) -> AxisMap:
    """([n,f], [f], [f], [f], [f]) -> [n,f]: all is parallel, as the statistics are given."""
    return _axes(operands, feature_index, FactorKind.PARALLEL, statistics=0)


def _axes(operands: Sequence[Type], feature_index: int, others: FactorKind, statistics: int) -> AxisMap:
    operand_type = array(operands[0])
    dimension_in(feature_index, operand_type, "feature_index:")
    build = AxisMapBuilder()
    factors = [
        [build.factor(size, FactorKind.PARALLEL if dim == feature_index else others)]
        for dim, size in enumerate(operand_type.dims)
    ]
    vector = [factors[feature_index]]
    for operand in operands:
        build.operand(*(vector if array(operand).rank == 1 else factors))
    build.result(*factors)
    for _ in range(statistics):
        build.result(*vector)
    return build.finish()


def _check(operand: Type, vectors: dict[str, Type], feature_index: int) -> tuple[TensorType, TensorType]:
    """The operand, and the type of one value per feature."""
    operand_type = array(operand)
    of_kinds(operand_type, _FLOAT)
    dimension_in(feature_index, operand_type, "feature_index:")
    size, moves = extents(operand_type)[feature_index]
    for role, vector_type in vectors.items():
        vector = array(vector_type, f"the {role}")
        if vector.rank != 1 or not sizes_agree(vector.dims[0], size) or not same_elements(vector, operand_type):
            raise TypeProblem(
                f"the {role} must be {operand_type.dtype}[{size}], one value for each feature, but is {vector}"
            )
    return operand_type, tensor(operand_type.dtype, [(size, moves)])


def infer_reduce(*operands: Type, dimensions: Sequence[int], to_apply: Graph) -> Type:
    """What is left of the first input's dimensions, in the reducer's element types.

    Source: xla/service/shape_inference.cc, InferReduceShape.
    """
    inputs, starts = halves(operands)
    _check_dimensions(inputs[0], dimensions)
    elements, as_tuple = accumulators(to_apply, inputs, starts)
    kept = [extent for dim, extent in enumerate(extents(inputs[0])) if dim not in dimensions]
    results = [tensor(element, kept) for element in elements]
    return TupleType(results) if as_tuple else results[0]


def reduce_axes(*operands: Type, dimensions: Sequence[int], to_apply: Graph) -> AxisMap:
    """([i,r], []) -> [i]: r is reduced by the computation's opcode; whole where that is not known."""
    inputs, _ = halves(operands)
    _check_dimensions(inputs[0], dimensions)
    factor_kind, reducer = reduced_kind(to_apply)
    build = AxisMapBuilder()
    factors = [
        build.factor(size, factor_kind, reducer) if dim in dimensions else build.factor(size)
        for dim, size in enumerate(inputs[0].dims)
    ]
    for _ in inputs:
        build.operand(*[[factor] for factor in factors])
    for _ in inputs:
        build.operand()
    for _ in inputs:
        build.result(*[[factor] for dim, factor in enumerate(factors) if dim not in dimensions])
    return build.finish()


def _check_dimensions(array_type: TensorType, dimensions: Sequence[int]) -> None:
    for dim in dimensions:
        dimension_in(dim, array_type, "dimensions:")
    if len(set(dimensions)) != len(dimensions):
        raise TypeProblem(f"dimensions={{{','.join(map(str, dimensions))}}} names a dimension twice")


_BATCH_NORM = {"epsilon": required(FLOAT), "feature_index": required(INTEGER)}
_CALLS = Effect.CALLS

ROWS = table(
    row(
        "reduce",
        (2, None),
        {**DIMENSIONS, **TO_APPLY},
        operand_step=2,
        infer=infer_reduce,
        axes=reduce_axes,
        effect=_CALLS,
    ),
    row(
        "reduce-window",
        (2, None),
        {**WINDOW, **TO_APPLY},
        operand_step=2,
        infer=infer_reduce_window,
        axes=reduce_window_axes,
        effect=_CALLS,
    ),
    row(
        "select-and-scatter",
        3,
        {**WINDOW, "select": required(GRAPH), "scatter": required(GRAPH)},
        infer=infer_select_and_scatter,
        axes=select_and_scatter_axes,
        effect=_CALLS,
    ),
    row(
        "sort",
        (1, None),
        {**DIMENSIONS, "is_stable": optional(BOOLEAN, False), **TO_APPLY},
        infer=infer_sort,
        axes=sort_axes,
        effect=_CALLS,
    ),
    row(
        "topk",
        1,
        {"k": required(INTEGER), "largest": optional(BOOLEAN, True), "is_stable": optional(BOOLEAN, False)},
        infer=infer_topk,
        axes=topk_axes,
    ),
    row(
        "scan",
        (0, None),
        {
            **DIMENSIONS,
            "num_carries": required(INTEGER),
            "is_reverse": optional(BOOLEAN, False),
            "is_associative": optional(BOOLEAN),
            **TO_APPLY,
        },
        infer=infer_scan,
        axes=scan_axes,
        effect=_CALLS,
    ),
    row(
        "batch-norm-training",
        3,
        _BATCH_NORM,
        infer=infer_batch_norm_training,
        axes=normalisation_axes,
        traits=(Trait.ROUNDS,),
    ),
    row(
        "batch-norm-inference",
        5,
        _BATCH_NORM,
        infer=infer_batch_norm_inference,
        axes=pointwise_normalisation_axes,
        traits=(Trait.ROUNDS,),
    ),
    row(
        "batch-norm-grad", 5, _BATCH_NORM, infer=infer_batch_norm_grad, axes=normalisation_axes, traits=(Trait.ROUNDS,)
    ),
)
