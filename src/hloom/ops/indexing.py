"""Gathers, scatters and slices with computed offsets."""

from __future__ import annotations

from collections.abc import Sequence

from hloom.ir import (
    UNBOUNDED,
    AxisMap,
    AxisMapBuilder,
    BufferType,
    DTypeKind,
    FactorKind,
    TensorType,
    Trait,
    Type,
    TypeProblem,
    optional,
    required,
)
from hloom.ops.buffer_checks import check_writer
from hloom.ops.gather_rules import gather_axes, infer_gather, window_factors
from hloom.ops.rows import BOOLEAN, INTEGER, INTEGERS, TO_APPLY, row, table, typed_row
from hloom.ops.scatter_rules import infer_scatter, scatter_axes
from hloom.ops.shapes import Extent, array, arrays, extents, same_elements, tensor

_SORTED = {"indices_are_sorted": optional(BOOLEAN, False)}


def _check_start(array_type: TensorType, start: Sequence[Type]) -> None:
    """Raise TypeProblem unless the operands give a slice's start: one integer per dimension, or one vector."""
    indices = arrays(start)
    for index in indices:
        if index.dtype.kind not in (DTypeKind.SIGNED, DTypeKind.UNSIGNED):
            raise TypeProblem(f"the start indices must be integers, but one is {index}")
    if indices and indices[0].rank == 1:
        if len(indices) != 1 or indices[0].dims[0] != array_type.rank:
            given = ", ".join(map(str, indices))
            raise TypeProblem(
                f"the start must be one vector of {array_type.rank} indices for {array_type}, but is {given}"
            )
        return
    if len(indices) != array_type.rank:
        raise TypeProblem(
            f"{array_type} needs {array_type.rank} start indices, one per dimension, but {len(indices)} are given"
        )
    for index in indices:
        if index.rank or index is not indices[0]:
            raise TypeProblem(f"the start indices must be scalars of one type, but are {indices[0]} and {index}")


def _dynamic_slice(operand: Type, *start: Type, dynamic_slice_sizes: tuple[int, ...]) -> Type:
    operand_type = array(operand)
    _check_start(operand_type, start)
    if len(dynamic_slice_sizes) != operand_type.rank:
        raise TypeProblem(
            f"dynamic_slice_sizes must give every dimension of {operand_type} a size: {operand_type.rank} sizes"
        )
    sizes = zip(extents(operand_type), dynamic_slice_sizes, strict=True)
    return tensor(operand_type.dtype, [_sliced(*pair, dim) for dim, pair in enumerate(sizes)])


def _sliced(extent: Extent, wanted: int, dim: int) -> Extent:
    size, moves = extent
    if wanted < 0 or (size != UNBOUNDED and wanted > size):
        raise TypeProblem(f"a slice of size {wanted} does not fit into dimension {dim} of size {size}")
    return wanted, moves and wanted > 1 and wanted == size


def _dynamic_slice_axes(operand: Type, *start: Type, dynamic_slice_sizes: tuple[int, ...]) -> AxisMap:
    """Dimensions taken whole are parallel; if one element is taken, a split masks and sums.

    dynamic-slice(f32[8,4,6], s32[], s32[], s32[]), sizes {1,4,3}   is   ([a,b,c], [], [], []) -> [1,b,d]
    with a indexed, b parallel, c and d whole
    """
    build = AxisMapBuilder()
    taken: list[list[int]] = []
    made: list[list[int]] = []
    for size, wanted in zip(array(operand).dims, dynamic_slice_sizes, strict=True):
        large, small = window_factors(build, size, wanted)
        taken.append(large)
        made.append(small)
    build.operand(*taken)
    _add_start(build, start)
    return build.result(*made).finish()


def _add_start(build: AxisMapBuilder, start: Sequence[Type]) -> None:
    for index in arrays(start):
        build.operand(*[[build.factor(size, FactorKind.NEED_REPLICATION)] for size in index.dims])


def _dynamic_update_slice(operand: Type, update: Type, *start: Type) -> Type:
    if isinstance(operand, BufferType):
        return BufferType(_dynamic_update_slice(operand.element, update, *start))
    operand_type, part = array(operand), array(update, "the update")
    _check_start(operand_type, start)
    if part.rank != operand_type.rank:
        raise TypeProblem(f"the update must have the rank of {operand_type}, but is {part}")
    if not same_elements(operand_type, part):
        raise TypeProblem(f"the update must have the element type of {operand_type}, but is {part}")
    sizes = zip(extents(operand_type), extents(part), strict=True)
    return tensor(operand_type.dtype, [_updated(*pair, dim) for dim, pair in enumerate(sizes)])


def _updated(extent: Extent, part: Extent, dim: int) -> Extent:
    size, moves = extent
    if size != UNBOUNDED and part[0] > size:
        raise TypeProblem(f"an update of size {part[0]} does not fit into dimension {dim} of size {size}")
    return size, moves or (part[1] and part[0] == size)


def _dynamic_update_slice_axes(operand: Type, update: Type, *start: Type) -> AxisMap:
    """Dimensions written whole are parallel; if one element is written, a split only masks: the result stays split.

    dynamic-update-slice(f32[8,4], f32[1,4], s32[], s32[])   is   ([a,b], [1,b], [], []) -> [a,b]   a indexed
    """
    build = AxisMapBuilder()
    made: list[list[int]] = []
    parts: list[list[int]] = []
    for size, wanted in zip(array(operand).dims, array(update, "the update").dims, strict=True):
        large, small = window_factors(build, size, wanted)
        made.append(large)
        parts.append(small)
    build.operand(*made).operand(*parts)
    _add_start(build, start)
    return build.result(*made).finish()


ROWS = table(
    typed_row(
        "dynamic-slice",
        (1, None),
        {"dynamic_slice_sizes": required(INTEGERS)},
        infer=_dynamic_slice,
        axes=_dynamic_slice_axes,
        traits=(Trait.MOVES_DATA, Trait.READS_PART),
    ),
    typed_row(
        "dynamic-update-slice",
        (2, None),
        infer=_dynamic_update_slice,
        check=check_writer,
        takes_buffers=True,
        axes=_dynamic_update_slice_axes,
        traits=(Trait.MOVES_DATA,),
    ),
    row(
        "gather",
        2,
        {
            "offset_dims": required(INTEGERS),
            "collapsed_slice_dims": required(INTEGERS),
            "start_index_map": required(INTEGERS),
            "operand_batching_dims": optional(INTEGERS, ()),
            "start_indices_batching_dims": optional(INTEGERS, ()),
            "index_vector_dim": required(INTEGER),
            "slice_sizes": required(INTEGERS),
            **_SORTED,
        },
        infer=infer_gather,
        axes=gather_axes,
        traits=(Trait.MOVES_DATA, Trait.READS_PART),
    ),
    row(
        "scatter",
        (3, None),
        {
            "update_window_dims": required(INTEGERS),
            "inserted_window_dims": required(INTEGERS),
            "scatter_dims_to_operand_dims": required(INTEGERS),
            "input_batching_dims": optional(INTEGERS, ()),
            "scatter_indices_batching_dims": optional(INTEGERS, ()),
            "index_vector_dim": required(INTEGER),
            **_SORTED,
            "unique_indices": optional(BOOLEAN, False),
            **TO_APPLY,
        },
        operand_step=2,
        infer=infer_scatter,
        axes=scatter_axes,
    ),
)
