"""Type inference and axis maps of scatters."""

from __future__ import annotations

from collections.abc import Sequence

from hloom.ir import (
    AxisMap,
    AxisMapBuilder,
    FactorKind,
    Graph,
    TensorType,
    TupleType,
    Type,
    TypeProblem,
)
from hloom.ops.gather_rules import (
    INTEGER,
    Integers,
    check_apart,
    check_batching,
    check_mapping,
    check_numbers,
    index_factors,
    indexed_places,
    window_factors,
)
from hloom.ops.reducers import accumulators, reduced_kind
from hloom.ops.shapes import arrays, of_kinds, sizes_agree


def infer_scatter(
    *operands: Type,
    update_window_dims: Integers,
    inserted_window_dims: Integers,
    scatter_dims_to_operand_dims: Integers,
    input_batching_dims: Integers,
    scatter_indices_batching_dims: Integers,
    index_vector_dim: int,
    to_apply: Graph,
) -> Type:
    """The operand's type, or the tuple of the operands' types, after checking the windows of the updates."""
    inputs, starts, updates = _parts(operands)
    of_kinds(starts, INTEGER, "the indices")
    places = indexed_places(starts, index_vector_dim)
    gone = set(inserted_window_dims) | set(input_batching_dims)
    batching = input_batching_dims, scatter_indices_batching_dims
    check_apart(
        {"inserted_window_dims": inserted_window_dims, "input_batching_dims": input_batching_dims},
        {"scatter_dims_to_operand_dims": scatter_dims_to_operand_dims, "input_batching_dims": input_batching_dims},
    )
    for array_type, update in zip(inputs, updates, strict=True):
        if array_type.dims != inputs[0].dims:
            raise TypeProblem(f"the operands must have the same dimensions, but are {inputs[0]} and {array_type}")
        if update.rank != len(places) + len(update_window_dims):
            raise TypeProblem(
                f"the updates must have {len(places)} dimensions of the indices and {len(update_window_dims)} of the "
                f"windows, but are {update}"
            )
        check_numbers(update_window_dims, update.rank, "update_window_dims", update, ordered=True)
        check_numbers(inserted_window_dims, array_type.rank, "inserted_window_dims", array_type, ordered=True)
        if len(update_window_dims) + len(gone) != array_type.rank:
            left = array_type.rank - len(gone)
            raise TypeProblem(f"update_window_dims must name {left} dimensions, for those of {array_type} not inserted")
        check_mapping(
            array_type, starts, index_vector_dim, scatter_dims_to_operand_dims, "scatter_dims_to_operand_dims"
        )
        names = "input_batching_dims", "scatter_indices_batching_dims"
        check_batching(array_type, starts, index_vector_dim, batching, names)
        _check_windows(array_type, update, update_window_dims, gone)
        _check_scattered(starts, update, update_window_dims, places)
    accumulators(to_apply, updates, [TensorType(array_type.dtype) for array_type in inputs])
    return inputs[0] if len(inputs) == 1 else TupleType(inputs)


def _parts(operands: Sequence[Type]) -> tuple[list[TensorType], TensorType, list[TensorType]]:
    """The operands proper, the indices, the updates; raises TypeProblem."""
    count, rest = divmod(len(operands), 2)
    if rest != 1 or count == 0:
        raise TypeProblem(f"a scatter takes n operands, the indices and n updates, but is given {len(operands)}")
    kinds = arrays(operands)
    return kinds[:count], kinds[count], kinds[count + 1 :]


def _check_windows(array_type: TensorType, update: TensorType, update_window_dims: Integers, gone: set[int]) -> None:
    window = [size for dim, size in enumerate(array_type.dims) if dim not in gone]
    for dim, size in zip(update_window_dims, window, strict=True):
        if update.dims[dim] > size:
            raise TypeProblem(
                f"dimension {dim} of the updates {update} is larger than that of the operand {array_type} it goes to: "
                f"{update.dims[dim]} > {size}"
            )


def _check_scattered(starts: TensorType, update: TensorType, update_window_dims: Integers, places: list[int]) -> None:
    scattered = [dim for dim in range(update.rank) if dim not in update_window_dims]
    for dim, index_place in zip(scattered, places, strict=True):
        if not sizes_agree(update.dims[dim], starts.dims[index_place]):
            raise TypeProblem(
                f"dimension {dim} of the updates {update} must be as large as dimension {index_place} of the "
                f"indices {starts}"
            )


def scatter_axes(
    *operands: Type,
    update_window_dims: Integers,
    inserted_window_dims: Integers,
    input_batching_dims: Integers,
    scatter_indices_batching_dims: Integers,
    index_vector_dim: int,
    to_apply: Graph,
) -> AxisMap:
    """A split of the updates leaves partial results; a split of a written dimension only masks.

    scatter(f32[8,4], s32[5,1], f32[5,4]) that adds   is   ([a,b], [c,1], [c,b]) -> [a,b]
    with a indexed, b parallel, c reduced by add
    """
    inputs, starts, updates = _parts(operands)
    build = AxisMapBuilder()
    combined = reduced_kind(to_apply)
    scattered = index_factors(build, starts, index_vector_dim, *combined, scatter_indices_batching_dims)
    made: list[list[int]] = []
    window: list[list[int]] = []
    sizes = iter([updates[0].dims[dim] for dim in update_window_dims])
    for dim, size in enumerate(inputs[0].dims):
        if dim in input_batching_dims:
            made.append(scattered[scatter_indices_batching_dims[input_batching_dims.index(dim)]])
        elif dim in inserted_window_dims:
            made.append([build.factor(size, FactorKind.INDEXED)])
        else:
            large, small = window_factors(build, size, next(sizes))
            made.append(large)
            window.append(small)
    parts, places = iter(window), iter(indexed_places(starts, index_vector_dim))
    rank = updates[0].rank
    update = [next(parts) if dim in update_window_dims else scattered[next(places)] for dim in range(rank)]
    for _ in inputs:
        build.operand(*made)
    build.operand(*scattered)
    for _ in updates:
        build.operand(*update)
    for _ in inputs:
        build.result(*made)
    return build.finish()
