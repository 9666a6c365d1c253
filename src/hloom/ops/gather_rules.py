"""Type inference and axis maps of gathers."""

from __future__ import annotations

from collections.abc import Sequence

from hloom.ir import UNBOUNDED, AxisMap, AxisMapBuilder, DTypeKind, FactorKind, TensorType, Type, TypeProblem
from hloom.ops.shapes import Extent, array, extents, of_kinds, sizes_agree, tensor

Integers = tuple[int, ...]

INTEGER = frozenset({DTypeKind.SIGNED, DTypeKind.UNSIGNED})


def infer_gather(
    operand: Type,
    indices: Type,
    *,
    offset_dims: Integers,
    collapsed_slice_dims: Integers,
    start_index_map: Integers,
    operand_batching_dims: Integers,
    start_indices_batching_dims: Integers,
    index_vector_dim: int,
    slice_sizes: Integers,
) -> Type:
    """Windows of `slice_sizes`, one per index vector; `offset_dims` says which result dimensions are the windows'."""
    operand_type, starts = array(operand), array(indices, "the indices")
    of_kinds(starts, INTEGER, "the indices")
    places = indexed_places(starts, index_vector_dim)
    rank = len(offset_dims) + len(places)
    check_numbers(offset_dims, rank, "offset_dims", "the result", ordered=True)
    check_mapping(operand_type, starts, index_vector_dim, start_index_map, "start_index_map")
    check_numbers(collapsed_slice_dims, operand_type.rank, "collapsed_slice_dims", operand_type, ordered=True)
    batching = operand_batching_dims, start_indices_batching_dims
    check_batching(
        operand_type, starts, index_vector_dim, batching, ("operand_batching_dims", "start_indices_batching_dims")
    )
    gone = set(collapsed_slice_dims) | set(operand_batching_dims)
    check_apart(
        {"collapsed_slice_dims": collapsed_slice_dims, "operand_batching_dims": operand_batching_dims},
        {"start_index_map": start_index_map, "operand_batching_dims": operand_batching_dims},
    )
    if len(slice_sizes) != operand_type.rank:
        raise TypeProblem(f"slice_sizes must give every dimension of {operand_type} a size: {operand_type.rank} sizes")
    if len(offset_dims) + len(gone) != operand_type.rank:
        left = operand_type.rank - len(gone)
        raise TypeProblem(
            f"offset_dims must name {left} places, for the dimensions of {operand_type} that are not taken away"
        )
    window = [_window(dimension, wanted, dim, gone) for dim, (dimension, wanted) in _sized(operand_type, slice_sizes)]
    offsets = iter([dimension for dim, dimension in enumerate(window) if dim not in gone])
    batches = iter([extents(starts)[dim] for dim in places])
    return tensor(operand_type.dtype, [next(offsets if dim in offset_dims else batches) for dim in range(rank)])


def _sized(array_type: TensorType, slice_sizes: Integers) -> enumerate[tuple[Extent, int]]:
    return enumerate(zip(extents(array_type), slice_sizes, strict=True))


def _window(extent: Extent, wanted: int, dim: int, gone: set[int]) -> Extent:
    """The extent of a window along a dimension; dynamic if it takes all of a dynamic dimension."""
    size, moves = extent
    if size != UNBOUNDED and not 0 <= wanted <= size:
        raise TypeProblem(f"slice_sizes: {wanted} does not fit into dimension {dim} of size {size}")
    if dim in gone and wanted > 1:
        raise TypeProblem(f"slice_sizes: {wanted} of dimension {dim}, which is taken away, must be 1 or 0")
    return wanted, moves and wanted == size


def gather_axes(
    operand: Type,
    indices: Type,
    *,
    offset_dims: Integers,
    collapsed_slice_dims: Integers,
    operand_batching_dims: Integers,
    start_indices_batching_dims: Integers,
    index_vector_dim: int,
    slice_sizes: Integers,
) -> AxisMap:
    """A dimension taken whole is parallel; if one element is taken, a split masks and sums.

    gather(f32[8,4], s32[5,1]), slice_sizes={1,4}   is   ([a,b], [c,1]) -> [c,b]   a indexed
    """
    operand_type, starts = array(operand), array(indices, "the indices")
    build = AxisMapBuilder()
    batches = index_factors(build, starts, index_vector_dim, FactorKind.PARALLEL, "")
    taken: list[list[int]] = []
    window: list[list[int]] = []
    for dim, (size, wanted) in enumerate(zip(operand_type.dims, slice_sizes, strict=True)):
        if dim in operand_batching_dims:
            taken.append(batches[start_indices_batching_dims[operand_batching_dims.index(dim)]])
            continue
        large, small = window_factors(build, size, wanted)
        if dim in collapsed_slice_dims:
            large = large if size != wanted else []
        else:
            window.append(small)
        taken.append(large)
    build.operand(*taken).operand(*batches)
    offsets, places = iter(window), iter(indexed_places(starts, index_vector_dim))
    rank = len(offset_dims) + len(indexed_places(starts, index_vector_dim))
    result = [next(offsets) if dim in offset_dims else batches[next(places)] for dim in range(rank)]
    return build.result(*result).finish()


def index_factors(
    build: AxisMapBuilder,
    starts: TensorType,
    index_vector_dim: int,
    factor_kind: FactorKind,
    reducer: str,
    batching: Integers = (),
) -> list[list[int]]:
    """A factor for each dimension of the indices; the index vector's is whole, or absent if its size is 1.

    Factors of the `batching` dimensions are parallel, whatever `factor_kind` says.
    """
    factors: list[list[int]] = []
    for dim, size in enumerate(starts.dims):
        if dim == index_vector_dim:
            factors.append([build.factor(size, FactorKind.NEED_REPLICATION)] if size != 1 else [])
        elif dim in batching:
            factors.append([build.factor(size)])
        else:
            factors.append([build.factor(size, factor_kind, reducer)])
    return factors


def indexed_places(starts: TensorType, index_vector_dim: int) -> list[int]:
    """The dimensions of the indices other than the index vector's; raises TypeProblem."""
    if not 0 <= index_vector_dim <= starts.rank:
        raise TypeProblem(f"index_vector_dim={index_vector_dim} must be 0 to {starts.rank} for the indices {starts}")
    return [dim for dim in range(starts.rank) if dim != index_vector_dim]


def check_numbers(numbers: Integers, rank: int, name: str, of: object, *, ordered: bool = False) -> None:
    """Raise TypeProblem unless these are distinct dimension numbers below the rank, ascending if required."""
    text = f"{name}={{{','.join(map(str, numbers))}}}"
    for number in numbers:
        if not 0 <= number < rank:
            raise TypeProblem(f"{text}: {number} is not one of the {rank} dimensions of {of}")
    if len(set(numbers)) != len(numbers):
        raise TypeProblem(f"{text} names a dimension twice")
    if ordered and list(numbers) != sorted(numbers):
        raise TypeProblem(f"{text} must be in ascending order")


def check_mapping(
    array_type: TensorType, starts: TensorType, index_vector_dim: int, mapping: Integers, name: str
) -> None:
    """Raise TypeProblem unless each element of an index vector belongs to a dimension of the operand."""
    length = starts.dims[index_vector_dim] if index_vector_dim < starts.rank else 1
    if not sizes_agree(length, len(mapping)):
        raise TypeProblem(f"{name} must name a dimension for each of the {length} elements of an index vector")
    check_numbers(mapping, array_type.rank, name, array_type)


def check_batching(
    operand_type: TensorType,
    starts: TensorType,
    index_vector_dim: int,
    dims: tuple[Integers, Integers],
    names: tuple[str, str],
) -> None:
    """Raise TypeProblem unless the batching dimensions of operand and indices match."""
    ours, theirs = dims
    if len(ours) != len(theirs):
        raise TypeProblem(f"{names[0]} and {names[1]} must name equally many dimensions")
    check_numbers(ours, operand_type.rank, names[0], operand_type, ordered=True)
    check_numbers(theirs, starts.rank, names[1], starts)
    for our, their in zip(ours, theirs, strict=True):
        if their == index_vector_dim:
            raise TypeProblem(f"{names[1]} must not name index_vector_dim={index_vector_dim}")
        if not sizes_agree(operand_type.dims[our], starts.dims[their]):
            raise TypeProblem(
                f"dimension {our} of {operand_type} and dimension {their} of {starts} are batched together: "
                "their sizes must be the same"
            )


def check_apart(*pairs: dict[str, Sequence[int]]) -> None:
    """Raise TypeProblem if two attributes that exclude each other name the same dimension."""
    for pair in pairs:
        (first, some), (second, others) = pair.items()
        both = sorted(set(some) & set(others))
        if both:
            raise TypeProblem(f"{first} and {second} both name dimension {both[0]}")


def window_factors(build: AxisMapBuilder, size: int, wanted: int) -> tuple[list[int], list[int]]:
    """The factors of a dimension and of a window into it.

    A window as large as the dimension is the dimension. If the window is one element and the dimension is split, only
    the device that holds the element reads it. Any other window may span devices: both need replication.
    """
    if size == wanted:
        shared = [build.factor(size)]
        return shared, shared
    if wanted == 1:
        return [build.factor(size, FactorKind.INDEXED)], []
    return [build.factor(size, FactorKind.NEED_REPLICATION)], [build.factor(wanted, FactorKind.NEED_REPLICATION)]
