"""Batch normalisation: training, inference and the gradient.

Source: xla/service/shape_inference.cc, InferBatchNormTrainingShape and those after it.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloom.ir import AxisMap, AxisMapBuilder, DTypeKind, FactorKind, TensorType, TupleType, Type, TypeProblem
from hloom.ops.shapes import array, dimension_in, extents, of_kinds, same_dims, same_elements, sizes_agree, tensor

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
