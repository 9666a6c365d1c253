"""The lowering of primitives that move elements."""

from __future__ import annotations

import math
from itertools import accumulate

import numpy as np

from hloom.dialects.arrays import HloArray, table_of
from hloom.dialects.mindir.data_types import TYPE_IDS
from hloom.dialects.mindir.lowered_values import LoweredValue, aggregate
from hloom.dialects.mindir.lowering_context import Primitive
from hloom.dialects.mindir.values import Number
from hloom.ir import Literal, Node, PaddingDimension, SliceDimension, TensorType, dtype

TABLE, lowers = table_of()


@lowers("Reshape", "View")
def _reshape(primitive: Primitive) -> HloArray:
    """One dimension may be -1 and takes the rest."""
    x, dims = primitive.x, primitive.dims(1)
    if dims.count(-1) == 1:
        known = -math.prod(dims)
        dims = tuple(x.type.element_count // max(known, 1) if size == -1 else size for size in dims)
    if any(size < 0 for size in dims) or math.prod(dims) != x.type.element_count:
        raise primitive.error(f"{x.type} cannot be reshaped to {list(primitive.dims(1))}")
    return x.reshape(dims)


@lowers("Flatten", "FlattenExt")
def _flatten(primitive: Primitive) -> HloArray:
    """Dimensions from one to another as one; Flatten keeps the first alone."""
    x, rank = primitive.x, primitive.x.rank
    first, last = 1, rank - 1
    if primitive.name.endswith("Ext"):
        first, last = primitive.axis(1, x, 0), primitive.axis(2, x, -1)
    dims = x.dims
    if first > last:
        return x.reshape((*dims, 1)) if rank == 1 else x
    return x.reshape((*dims[:first], math.prod(dims[first : last + 1]), *dims[last + 1 :]))


@lowers("Transpose", "TransposeView")
def _transpose(primitive: Primitive) -> HloArray:
    rank = primitive.x.type.rank
    order = [primitive.axis_of(axis, rank) for axis in primitive.dims(1)]
    if sorted(order) != list(range(rank)):
        raise primitive.error(f"{order} is not an order of {rank} dimensions")
    return primitive.x.transpose(order)


@lowers("TransposeExtView")
def _swap(primitive: Primitive) -> HloArray:
    x = primitive.x
    order = list(range(x.rank))
    first, second = primitive.axis(1, x), primitive.axis(2, x)
    order[first], order[second] = order[second], order[first]
    return x.transpose(order)


@lowers("ExpandDims", "ExpandDimsView")
def _expand(primitive: Primitive) -> HloArray:
    x = primitive.x
    rank = x.rank
    axis = primitive.axis_of(primitive.static(1), rank + 1)
    dims = x.dims
    return x.reshape((*dims[:axis], 1, *dims[axis:]))


@lowers("Squeeze")
def _squeeze(primitive: Primitive) -> HloArray:
    """Drop the given dimensions, or all of size 1 if none are given."""
    x = primitive.x
    dims = x.dims
    given = primitive.static(1, primitive.attribute("axis", ()))
    axes = given if isinstance(given, tuple) else (given,)
    dropped = {primitive.axis_of(axis, len(dims)) for axis in axes} or {i for i, size in enumerate(dims) if size == 1}
    if any(dims[axis] != 1 for axis in dropped):
        raise primitive.error(f"the dimensions {sorted(dropped)} of {x.type} are not of size 1")
    return x.reshape([size for dim, size in enumerate(dims) if dim not in dropped])


@lowers("BroadcastTo", "BroadcastToView")
def _broadcast_to(primitive: Primitive) -> HloArray:
    """-1 keeps a dimension."""
    x = primitive.x
    wanted = primitive.dims(1) if len(primitive.operands) > 1 else primitive.attribute("shape", ())
    own = x.dims
    ahead = len(wanted) - len(own)
    dims = [own[dim - ahead] if size == -1 and dim >= ahead else size for dim, size in enumerate(wanted)]
    if (
        ahead < 0
        or any(size < 0 for size in dims)
        or any(size not in (1, dims[ahead + dim]) for dim, size in enumerate(own))
    ):
        raise primitive.error(f"{x.type} cannot be broadcast to {list(wanted)}")
    return x.stretch(dims)


@lowers("Tile")
def _tile(primitive: Primitive) -> HloArray:
    """An array repeated along each dimension, with the counts given from the last dimension on."""
    x = primitive.x
    counts = list(primitive.dims(1))
    dims = list(x.dims)
    rank = max(len(counts), len(dims))
    dims = [1] * (rank - len(dims)) + dims
    counts = [1] * (rank - len(counts)) + counts
    spread_dims = [size for pair in zip(counts, dims, strict=True) for size in pair]
    spread = x.reshape(dims).spread(spread_dims, tuple(range(1, 2 * rank, 2)))
    return spread.reshape([count * size for count, size in zip(counts, dims, strict=True)])


@lowers("Concat")
def _concat(primitive: Primitive) -> HloArray:
    """A tuple of arrays, or arrays, and the dimension."""
    if len(primitive.operands) == 2 and not isinstance(primitive.operands[0], Node):
        values, axis = primitive.elements(0), primitive.static(1)
    else:
        values = _operands_of_tuple(primitive)
        axis = primitive.attribute("axis", 0)
    arrays = [primitive.as_array(value) for value in values]
    element = primitive.result.dtype if primitive.result else arrays[0].dtype
    arrays = [array.convert(element) for array in arrays]
    return primitive.build.concatenate(arrays, primitive.axis_of(axis, arrays[0].rank))


def _operands_of_tuple(primitive: Primitive) -> tuple[LoweredValue, ...]:
    return primitive.operands if isinstance(primitive.operands[0], Node) else primitive.elements(0)


@lowers("Stack", "StackExt")
def _stack(primitive: Primitive) -> HloArray:
    arrays = [primitive.as_array(value) for value in _operands_of_tuple(primitive)]
    rank = arrays[0].rank
    given = primitive.static(1) if primitive.name.endswith("Ext") else primitive.attribute("axis", 0)
    axis = primitive.axis_of(given, rank + 1)
    dims = arrays[0].dims
    parts = [array.reshape((*dims[:axis], 1, *dims[axis:])) for array in arrays]
    return primitive.build.concatenate(parts, axis)


@lowers("Split")
def _split(primitive: Primitive) -> list[HloArray]:
    """Split into parts of equal size: (x, dimension, count)."""
    x = primitive.x
    axis = primitive.axis(1, x, primitive.attribute("axis", 0))
    count = primitive.static(2, primitive.attribute("output_num", 1))
    size = x.dims[axis]
    if not isinstance(count, int) or count < 1 or size % count:
        raise primitive.error(f"{size} elements cannot be split into {count} parts")
    return _slices(x, axis, [size // count] * count)


@lowers("SplitTensor", "SplitTensorView")
def _split_by_size(primitive: Primitive) -> list[HloArray]:
    """Split into parts of one size, the last one possibly smaller: (x, size, dimension)."""
    x = primitive.x
    size, axis = primitive.static(1), primitive.axis(2, x, 0)
    whole = x.dims[axis]
    if not isinstance(size, int) or size < 1:
        raise primitive.error(f"{size} is not a size of parts")
    sizes = [min(size, whole - start) for start in range(0, whole, size)]
    return _slices(x, axis, sizes)


@lowers("SplitWithSize", "SplitWithSizeView", "SplitV")
def _split_by_sizes(primitive: Primitive) -> list[HloArray]:
    """Split into parts of given sizes; one may be -1 and takes the rest."""
    x = primitive.x
    axis = primitive.axis(2, x, primitive.attribute("split_dim", 0))
    sizes = list(primitive.dims(1)) if len(primitive.operands) > 1 else list(primitive.attribute("size_splits", ()))
    if sizes.count(-1) == 1:
        sizes[sizes.index(-1)] = x.dims[axis] - sum(sizes) - 1
    if sum(sizes) != x.dims[axis] or any(size < 0 for size in sizes):
        raise primitive.error(f"{x.dims[axis]} elements cannot be split into parts of {sizes}")
    return _slices(x, axis, sizes)


def _slices(x: HloArray, axis: int, sizes: list[int]) -> list[HloArray]:
    starts = accumulate(sizes, initial=0)
    return [x.narrowed(axis, start, size) for start, size in zip(starts, sizes, strict=False)]


@lowers("Slice")
def _slice(primitive: Primitive) -> HloArray:
    """(x, first indices, sizes); a size of -1 goes to the end."""
    dims = primitive.x.type.dims
    starts, sizes = primitive.dims(1), primitive.dims(2)
    limits = [end if size == -1 else start + size for start, size, end in zip(starts, sizes, dims, strict=True)]
    ranges = tuple(SliceDimension(start, limit) for start, limit in zip(starts, limits, strict=True))
    return primitive.x.op("slice", slice=ranges)


@lowers("SliceExt", "SliceExtView", "Narrow", "NarrowView")
def _slice_of_dimension(primitive: Primitive) -> HloArray:
    """SliceExt is (x, dimension, start, end, step), Narrow (x, dimension, start, length)."""
    x = primitive.x
    axis = primitive.axis(1, x)
    size = x.dims[axis]
    start = _within(primitive.static(2), size)
    if "Narrow" in primitive.name:
        return x.narrowed(axis, start, primitive.static(3))
    ranges = [SliceDimension(0, size) for size in x.dims]
    limit = max(_within(primitive.static(3), size), start)
    ranges[axis] = SliceDimension(start, limit, primitive.static(4, 1))
    return x.op("slice", slice=tuple(ranges))


def _within(index: int, size: int) -> int:
    """An index, negative ones counted from the end, within bounds."""
    return max(0, min(size, index + size if index < 0 else index))


@lowers("SelectExtView", "SelectView")
def _select_index(primitive: Primitive) -> HloArray:
    """One index of a dimension: (x, dimension, index)."""
    x = primitive.x
    axis, index = primitive.axis(1, x), primitive.static(2)
    dims = x.dims
    index = primitive.axis_of(index, dims[axis])
    part = x.narrowed(axis, index, 1)
    return part.reshape((*dims[:axis], *dims[axis + 1 :]))


@lowers("StridedSlice")
def _strided_slice(primitive: Primitive) -> HloArray:
    """(x, starts, ends, steps) and bit masks by entry, after the dimension's own.

    They say which starts and ends do not count, which entry stands for all dimensions that no other one does, which
    ones make a dimension of size 1, and which drop theirs.
    """
    x = primitive.x
    names = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    masks = {name: primitive.static(4 + i, primitive.attribute(name, 0)) for i, name in enumerate(names)}
    dims = x.dims
    starts, ends, steps = primitive.dims(1), primitive.dims(2), primitive.dims(3)
    ranges: list[SliceDimension] = []
    reversed_dims: list[int] = []
    sizes: list[int] = []
    for entry, (start, end, step) in enumerate(zip(starts, ends, steps, strict=True)):
        is_set = {name: bool(mask >> entry & 1) for name, mask in masks.items()}
        if is_set["ellipsis_mask"]:
            whole = _whole_dimensions(primitive, len(starts), masks["ellipsis_mask"], masks["new_axis_mask"], len(dims))
            sizes += dims[len(ranges) : len(ranges) + whole]
            ranges += [SliceDimension(0, size) for size in dims[len(ranges) : len(ranges) + whole]]
            continue
        if is_set["new_axis_mask"]:
            sizes.append(1)
            continue
        axis = len(ranges)
        if axis == len(dims):
            raise primitive.error(f"{x.type} has fewer dimensions than {len(starts)} ranges want")
        if is_set["shrink_axis_mask"]:
            index = primitive.axis_of(start, dims[axis])
            ranges.append(SliceDimension(index, index + 1))
            continue
        bounds = slice(None if is_set["begin_mask"] else start, None if is_set["end_mask"] else end, step)
        indices = range(dims[axis])[bounds]
        sizes.append(len(indices))
        if step < 0 and len(indices):
            reversed_dims.append(axis)
            ranges.append(SliceDimension(indices[-1], indices[0] + 1, -step))
        else:
            ranges.append(SliceDimension(indices.start, max(indices.stop, indices.start), abs(step)))
    sizes += dims[len(ranges) :]
    ranges += [SliceDimension(0, size) for size in dims[len(ranges) :]]
    part = x.op("slice", slice=tuple(ranges))
    if reversed_dims:
        part = part.op("reverse", dimensions=tuple(reversed_dims))
    return part.reshape(sizes)


def _whole_dimensions(primitive: Primitive, count: int, ellipsis_mask: int, new_axis_mask: int, rank: int) -> int:
    """For how many dimensions an ellipsis stands."""
    whole = rank - sum(1 for entry in range(count) if not (ellipsis_mask | new_axis_mask) >> entry & 1)
    if ellipsis_mask & (ellipsis_mask - 1) or whole < 0:
        raise primitive.error(f"ellipsis_mask={ellipsis_mask} does not fit {count} ranges of {rank} dimensions")
    return whole


@lowers("Gather", "Embedding", "IndexSelect")
def _gather(primitive: Primitive) -> HloArray:
    """Rows by index, zeros out of range: Gather is (x, indices, dimension, ...), Embedding (indices, x)."""
    if primitive.name == "Embedding":
        indices, x = primitive.arrays(0, 1)
        axis = 0
    elif primitive.name == "IndexSelect":
        x, indices = primitive.arrays(0, 2)
        axis = primitive.axis(1, x)
    else:
        x, indices = primitive.arrays(0, 1)
        axis = primitive.axis(2, x, 0)
        batch = primitive.static(3, primitive.attribute("batch_dims", 0))
        if batch:
            return _gather_in_batches(primitive, x, indices, axis, primitive.axis_of(batch, indices.rank + 1))
        indices = from_the_front(indices, x.dims[axis])
    offsets = [dim if dim < axis else dim + indices.rank - 1 for dim in range(x.rank) if dim != axis]
    gathered = x.op(
        "gather",
        indices,
        offset_dims=tuple(offsets),
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
        index_vector_dim=indices.rank,
        slice_sizes=tuple(1 if dim == axis else size for dim, size in enumerate(x.dims)),
    )
    return _zero_outside(gathered, indices, x.dims[axis], tuple(range(axis, axis + indices.rank)))


def from_the_front(indices: HloArray, size: int) -> HloArray:
    """Indices with negative ones, which count from the end, made positive."""
    return (indices < 0).select(indices + size, indices)


def _zero_outside(gathered: HloArray, indices: HloArray, size: int, places: tuple[int, ...]) -> HloArray:
    """What is gathered, with zeros where an index is out of range; `places` are the dimensions of the indices."""
    inside = (indices >= 0) & (indices < size)
    return inside.spread(gathered.dims, places).select(gathered, 0)


def _gather_in_batches(primitive: Primitive, x: HloArray, indices: HloArray, axis: int, batch: int) -> HloArray:
    """Rows by index, each batch its own: the dimensions of batches as one dimension of a flat array of rows.

    x is (batches, before, rows, behind), the indices (batches, picked); the result (batches, before, picked, behind).
    """
    dims, index_dims = x.dims, indices.dims
    if axis < batch or dims[:batch] != index_dims[:batch]:
        raise primitive.error(f"{batch} dimensions of batches do not fit {x.type} and {indices.type}")
    batches, picked = math.prod(dims[:batch]), math.prod(index_dims[batch:])
    before, rows, behind = math.prod(dims[batch:axis]), dims[axis], math.prod(dims[axis + 1 :])
    flat = x.reshape((batches, before, rows, behind))
    numbers = from_the_front(indices.reshape((batches, picked)), rows)
    places = x.build.indices((batches, picked, 1), 0, numbers.dtype)
    gathered = flat.op(
        "gather",
        x.build.concatenate([places, numbers.reshape((batches, picked, 1))], 2),
        offset_dims=(1, 3),
        collapsed_slice_dims=(0, 2),
        start_index_map=(0, 2),
        index_vector_dim=2,
        slice_sizes=(1, before, 1, behind),
    )
    kept = _zero_outside(gathered, numbers, rows, (0, 2))
    return kept.reshape((*dims[:axis], *index_dims[batch:], *dims[axis + 1 :]))


@lowers("GatherNd")
def _gather_nd(primitive: Primitive) -> HloArray:
    """Parts of an array at indices into its first dimensions, which the last dimension of the indices holds."""
    x, indices = primitive.arrays(0, 1)
    count, batch = indices.dims[-1], indices.rank - 1
    return x.op(
        "gather",
        indices,
        offset_dims=tuple(range(batch, batch + x.rank - count)),
        collapsed_slice_dims=tuple(range(count)),
        start_index_map=tuple(range(count)),
        index_vector_dim=batch,
        slice_sizes=(1,) * count + x.dims[count:],
    )


@lowers("OneHot", "OneHotExt")
def _one_hot(primitive: Primitive) -> HloArray:
    """One value at an index and another elsewhere, along a further dimension."""
    indices, on, off = primitive.arrays(0, 2, 3)
    axis = primitive.axis_of(primitive.static(4, primitive.attribute("axis", -1)), indices.rank + 1)
    dims = (*indices.dims[:axis], primitive.static(1), *indices.dims[axis:])
    others = tuple(dim for dim in range(len(dims)) if dim != axis)
    places = primitive.build.indices(dims, axis, indices.dtype)
    is_set = places.compare(indices.spread(dims, others), "EQ")
    return is_set.select(on.reshape(()).spread(dims), off.reshape(()).spread(dims))


@lowers("Zeros", "Ones", "ZerosLikeExt", "OnesLikeExt")
def _constant_array(primitive: Primitive) -> HloArray:
    name = primitive.name
    if name.endswith("LikeExt"):
        type_ = primitive.result or primitive.x.type
    else:
        element = TYPE_IDS.get(primitive.static(1, 43)) or dtype("f32")
        type_ = primitive.result or TensorType(element, primitive.dims(0))
    literal = Literal.splat(type_, type_.dtype.numpy.type(name.startswith("Ones")))
    return primitive.build.array(literal)


@lowers("FillScalar", "Fill", "FillV2", "FillTensor", "FullLike")
def _filled(primitive: Primitive) -> HloArray:
    """One number everywhere: Fill is (type, dimensions, number), the others (dimensions, number, type)."""
    name = primitive.name
    dims_index, number_index = (1, 2) if name == "Fill" else (0, 1)
    dims = primitive.x.type.dims if name == "FullLike" else primitive.dims(dims_index)
    element = primitive.result.dtype if primitive.result else None
    return primitive.array(number_index, element).reshape(()).spread(dims)


@lowers("Arange", "Range")
def _range(primitive: Primitive) -> HloArray:
    """Numbers from one to another by a step."""
    start, end, step = (primitive.static(index) for index in range(3))
    count = max(0, math.ceil((end - start) / step))
    element = primitive.result.dtype if primitive.result else dtype("s64")
    return primitive.build.indices((count,), 0, element) * step + start


@lowers("Tril", "TrilExt", "Triu")
def _triangle(primitive: Primitive) -> HloArray:
    """The elements on and below (above) a diagonal; zero elsewhere."""
    diagonal = primitive.static(1, primitive.attribute("diagonal", 0))
    direction = "LE" if primitive.name.startswith("Tril") else "GE"
    return primitive.x.lower_triangle(diagonal, 0, dtype("s64"), direction)


@lowers("Pad", "PadV3", "ConstantPadND")
def _pad(primitive: Primitive) -> HloArray:
    """Pad has pairs by dimension in its attribute; the others numbers from the last dimension on, and a value."""
    build, x = primitive.build, primitive.x
    dims = x.dims
    if primitive.name == "Pad":
        pairs, value = primitive.attribute("paddings", ()), build.number(0, x.dtype)
    else:
        numbers = primitive.dims(1)
        if primitive.name == "PadV3" and primitive.attribute("mode", "constant") != "constant":
            raise primitive.error("padding other than by a constant has no lowering")
        given = [(numbers[i], numbers[i + 1]) for i in range(0, len(numbers), 2)]
        if not primitive.attribute("paddings_contiguous", True):
            half = len(numbers) // 2
            given = list(zip(numbers[:half], numbers[half:], strict=True))
        pairs = [(0, 0)] * (len(dims) - len(given)) + given[::-1]
        value = build.number(0, x.dtype)
        if len(primitive.operands) > 2 and isinstance(primitive.operands[2], (Node, Number)):
            value = primitive.array(2, x.dtype).reshape(())
    padding = tuple(PaddingDimension(low, high) for low, high in pairs)
    return x.op("pad", value, padding=padding)


@lowers("ReverseV2")
def _reverse(primitive: Primitive) -> HloArray:
    x = primitive.x
    axes = primitive.axes(1, x) if len(primitive.operands) > 1 else primitive.attribute("axis", ())
    rank = x.rank
    return x.op("reverse", dimensions=tuple(primitive.axis_of(axis, rank) for axis in axes))


@lowers("Shape")
def _shape(primitive: Primitive) -> LoweredValue:
    """The dimensions as a tuple of numbers, which are known here."""
    return aggregate([Number("I64", str(size)) for size in primitive.x.type.dims])


@lowers("TensorShape")
def _shape_array(primitive: Primitive) -> HloArray:
    """The dimensions as an array."""
    dims = np.array(primitive.x.type.dims, np.int64)
    literal = Literal.array(TensorType(dtype("s64"), dims.shape), dims)
    return primitive.build.array(literal)
