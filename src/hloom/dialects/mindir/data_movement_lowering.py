"""The lowering of primitives that move elements."""

from __future__ import annotations

import math

import numpy as np

from hloom.dialects.mindir.data_types import TYPE_IDS
from hloom.dialects.mindir.lowered_values import LoweredValue, aggregate
from hloom.dialects.mindir.lowering_context import Primitive, table_of
from hloom.dialects.mindir.values import Number
from hloom.dialects.oneflow.builder import HloBuilder, tensor
from hloom.ir import Literal, Node, PaddingDimension, SliceDimension, TensorType, dtype

TABLE, lowers = table_of()


@lowers("Reshape", "View")
def _reshape(primitive: Primitive) -> Node:
    """One dimension may be -1, which is what is left."""
    x, dims = primitive.x, primitive.dims(1)
    if dims.count(-1) == 1:
        known = -math.prod(dims)
        dims = tuple(tensor(x).element_count // max(known, 1) if size == -1 else size for size in dims)
    if any(size < 0 for size in dims) or math.prod(dims) != tensor(x).element_count:
        raise primitive.error(f"{tensor(x)} cannot be reshaped to {list(primitive.dims(1))}")
    return primitive.build.reshape(x, dims)


@lowers("Flatten", "FlattenExt")
def _flatten(primitive: Primitive) -> Node:
    """Dimensions from one to another as one; Flatten keeps the first alone."""
    x, rank = primitive.x, tensor(primitive.x).rank
    first, last = 1, rank - 1
    if primitive.node.opcode.endswith("Ext"):
        first, last = primitive.axis(1, x, 0), primitive.axis(2, x, -1)
    dims = tensor(x).dims
    if first > last:
        return primitive.build.reshape(x, (*dims, 1)) if rank == 1 else x
    return primitive.build.reshape(x, (*dims[:first], math.prod(dims[first : last + 1]), *dims[last + 1 :]))


@lowers("Transpose", "TransposeView")
def _transpose(primitive: Primitive) -> Node:
    rank = primitive.x_type.rank
    order = [primitive.axis_of(axis, rank) for axis in primitive.dims(1)]
    if sorted(order) != list(range(rank)):
        raise primitive.error(f"{order} is not an order of {rank} dimensions")
    return primitive.build.transpose(primitive.x, order)


@lowers("TransposeExtView")
def _swap(primitive: Primitive) -> Node:
    x = primitive.x
    order = list(range(tensor(x).rank))
    first, second = primitive.axis(1, x), primitive.axis(2, x)
    order[first], order[second] = order[second], order[first]
    return primitive.build.transpose(x, order)


@lowers("ExpandDims", "ExpandDimsView")
def _expand(primitive: Primitive) -> Node:
    x = primitive.x
    rank = tensor(x).rank
    axis = primitive.axis_of(primitive.static(1), rank + 1)
    dims = tensor(x).dims
    return primitive.build.reshape(x, (*dims[:axis], 1, *dims[axis:]))


@lowers("Squeeze")
def _squeeze(primitive: Primitive) -> Node:
    """Without the dimensions given; where none are, without all of size 1."""
    x = primitive.x
    dims = tensor(x).dims
    given = primitive.static(1, primitive.attribute("axis", ()))
    axes = given if isinstance(given, tuple) else (given,)
    dropped = {primitive.axis_of(axis, len(dims)) for axis in axes} or {i for i, size in enumerate(dims) if size == 1}
    if any(dims[axis] != 1 for axis in dropped):
        raise primitive.error(f"the dimensions {sorted(dropped)} of {tensor(x)} are not of size 1")
    return primitive.build.reshape(x, [size for dim, size in enumerate(dims) if dim not in dropped])


@lowers("BroadcastTo", "BroadcastToView")
def _broadcast_to(primitive: Primitive) -> Node:
    """-1 keeps a dimension."""
    x = primitive.x
    wanted = primitive.dims(1) if len(primitive.operands) > 1 else primitive.attribute("shape", ())
    own = tensor(x).dims
    ahead = len(wanted) - len(own)
    dims = [own[dim - ahead] if size == -1 and dim >= ahead else size for dim, size in enumerate(wanted)]
    if (
        ahead < 0
        or any(size < 0 for size in dims)
        or any(size not in (1, dims[ahead + dim]) for dim, size in enumerate(own))
    ):
        raise primitive.error(f"{tensor(x)} cannot be broadcast to {list(wanted)}")
    return primitive.build.stretch(x, dims)


@lowers("Tile")
def _tile(primitive: Primitive) -> Node:
    """An array repeated along each dimension, with the counts given from the last dimension on."""
    build, x = primitive.build, primitive.x
    counts = list(primitive.dims(1))
    dims = list(tensor(x).dims)
    rank = max(len(counts), len(dims))
    dims = [1] * (rank - len(dims)) + dims
    counts = [1] * (rank - len(counts)) + counts
    spread_dims = [size for pair in zip(counts, dims, strict=True) for size in pair]
    spread = build.broadcast(build.reshape(x, dims), spread_dims, tuple(range(1, 2 * rank, 2)))
    return build.reshape(spread, [count * size for count, size in zip(counts, dims, strict=True)])


@lowers("Concat")
def _concat(primitive: Primitive) -> Node:
    """A tuple of arrays, or arrays, and the dimension."""
    if len(primitive.operands) == 2 and not isinstance(primitive.operands[0], Node):
        values, axis = primitive.elements(0), primitive.static(1)
    else:
        values = _operands_of_tuple(primitive)
        axis = primitive.attribute("axis", 0)
    arrays = [primitive.as_array(value) for value in values]
    element = primitive.result.dtype if primitive.result else tensor(arrays[0]).dtype
    arrays = [primitive.build.convert(array, element) for array in arrays]
    dimension = primitive.axis_of(axis, tensor(arrays[0]).rank)
    return primitive.build.op("concatenate", *arrays, dimensions=(dimension,))


def _operands_of_tuple(primitive: Primitive) -> tuple[LoweredValue, ...]:
    return primitive.operands if isinstance(primitive.operands[0], Node) else primitive.elements(0)


@lowers("Stack", "StackExt")
def _stack(primitive: Primitive) -> Node:
    build = primitive.build
    arrays = [primitive.as_array(value) for value in _operands_of_tuple(primitive)]
    rank = tensor(arrays[0]).rank
    given = primitive.static(1) if primitive.node.opcode.endswith("Ext") else primitive.attribute("axis", 0)
    axis = primitive.axis_of(given, rank + 1)
    dims = tensor(arrays[0]).dims
    parts = [build.reshape(array, (*dims[:axis], 1, *dims[axis:])) for array in arrays]
    return build.op("concatenate", *parts, dimensions=(axis,))


@lowers("Split")
def _split(primitive: Primitive) -> tuple[Node, ...]:
    """Split into parts of equal size: (x, dimension, count)."""
    x = primitive.x
    axis = primitive.axis(1, x, primitive.attribute("axis", 0))
    count = primitive.static(2, primitive.attribute("output_num", 1))
    size = tensor(x).dims[axis]
    if not isinstance(count, int) or count < 1 or size % count:
        raise primitive.error(f"{size} elements cannot be split into {count} parts")
    return tuple(_slices(primitive.build, x, axis, [size // count] * count))


@lowers("SplitTensor", "SplitTensorView")
def _split_by_size(primitive: Primitive) -> tuple[Node, ...]:
    """Into parts of a size, the last one smaller where it must be: (x, size, dimension)."""
    x = primitive.x
    size, axis = primitive.static(1), primitive.axis(2, x, 0)
    whole = tensor(x).dims[axis]
    if not isinstance(size, int) or size < 1:
        raise primitive.error(f"{size} is not a size of parts")
    sizes = [min(size, whole - start) for start in range(0, whole, size)]
    return tuple(_slices(primitive.build, x, axis, sizes))


@lowers("SplitWithSize", "SplitWithSizeView", "SplitV")
def _split_by_sizes(primitive: Primitive) -> tuple[Node, ...]:
    """Into parts of sizes, of which one may be -1, which is what is left."""
    x = primitive.x
    axis = primitive.axis(2, x, primitive.attribute("split_dim", 0))
    sizes = list(primitive.dims(1)) if len(primitive.operands) > 1 else list(primitive.attribute("size_splits", ()))
    if sizes.count(-1) == 1:
        sizes[sizes.index(-1)] = tensor(x).dims[axis] - sum(sizes) - 1
    if sum(sizes) != tensor(x).dims[axis] or any(size < 0 for size in sizes):
        raise primitive.error(f"{tensor(x).dims[axis]} elements cannot be split into parts of {sizes}")
    return tuple(_slices(primitive.build, x, axis, sizes))


def _slices(build: HloBuilder, x: Node, axis: int, sizes: list[int]) -> list[Node]:
    parts: list[Node] = []
    start = 0
    for size in sizes:
        parts.append(narrowed(build, x, axis, start, size))
        start += size
    return parts


def narrowed(build: HloBuilder, x: Node, axis: int, start: int, length: int) -> Node:
    """Some of the indices of one dimension."""
    ranges = [SliceDimension(0, size) for size in tensor(x).dims]
    ranges[axis] = SliceDimension(start, start + length)
    return build.op("slice", x, slice=tuple(ranges))


@lowers("Slice")
def _slice(primitive: Primitive) -> Node:
    """(x, first indices, sizes); a size of -1 goes to the end."""
    dims = primitive.x_type.dims
    starts, sizes = primitive.dims(1), primitive.dims(2)
    limits = [end if size == -1 else start + size for start, size, end in zip(starts, sizes, dims, strict=True)]
    ranges = tuple(SliceDimension(start, limit) for start, limit in zip(starts, limits, strict=True))
    return primitive.build.op("slice", primitive.x, slice=ranges)


@lowers("SliceExt", "SliceExtView", "Narrow", "NarrowView")
def _slice_of_dimension(primitive: Primitive) -> Node:
    """SliceExt is (x, dimension, start, end, step), Narrow (x, dimension, start, length)."""
    x = primitive.x
    axis = primitive.axis(1, x)
    size = tensor(x).dims[axis]
    start = _within(primitive.static(2), size)
    if "Narrow" in primitive.node.opcode:
        return narrowed(primitive.build, x, axis, start, primitive.static(3))
    ranges = [SliceDimension(0, size) for size in tensor(x).dims]
    limit = max(_within(primitive.static(3), size), start)
    ranges[axis] = SliceDimension(start, limit, primitive.static(4, 1))
    return primitive.build.op("slice", x, slice=tuple(ranges))


def _within(index: int, size: int) -> int:
    """An index, negative ones counted from the end, within bounds."""
    return max(0, min(size, index + size if index < 0 else index))


@lowers("SelectExtView", "SelectView")
def _select_index(primitive: Primitive) -> Node:
    """One index of a dimension: (x, dimension, index)."""
    x = primitive.x
    axis, index = primitive.axis(1, x), primitive.static(2)
    dims = tensor(x).dims
    index = primitive.axis_of(index, dims[axis])
    part = narrowed(primitive.build, x, axis, index, 1)
    return primitive.build.reshape(part, (*dims[:axis], *dims[axis + 1 :]))


@lowers("StridedSlice")
def _strided_slice(primitive: Primitive) -> Node:
    """(x, starts, ends, steps) and bit masks by entry, after the dimension's own.

    They say which starts and ends do not count, which entry stands for all dimensions that no other one does, which
    ones make a dimension of size 1, and which drop theirs.
    """
    build, x = primitive.build, primitive.x
    names = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    masks = {name: primitive.static(4 + i, primitive.attribute(name, 0)) for i, name in enumerate(names)}
    dims = tensor(x).dims
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
            raise primitive.error(f"{tensor(x)} has fewer dimensions than {len(starts)} ranges want")
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
    part: Node = build.op("slice", x, slice=tuple(ranges))
    if reversed_dims:
        part = build.op("reverse", part, dimensions=tuple(reversed_dims))
    return build.reshape(part, sizes)


def _whole_dimensions(primitive: Primitive, count: int, ellipsis_mask: int, new_axis_mask: int, rank: int) -> int:
    """For how many dimensions an ellipsis stands."""
    whole = rank - sum(1 for entry in range(count) if not (ellipsis_mask | new_axis_mask) >> entry & 1)
    if ellipsis_mask & (ellipsis_mask - 1) or whole < 0:
        raise primitive.error(f"ellipsis_mask={ellipsis_mask} does not fit {count} ranges of {rank} dimensions")
    return whole


@lowers("Gather", "Embedding", "IndexSelect")
def _gather(primitive: Primitive) -> Node:
    """Rows by index, zeros out of range: Gather is (x, indices, dimension, ...), Embedding (indices, x)."""
    build = primitive.build
    if primitive.node.opcode.endswith("Embedding"):
        x, indices, axis = primitive.array(1), primitive.array(0), 0
    elif primitive.node.opcode.endswith("IndexSelect"):
        x, indices = primitive.array(0), primitive.array(2)
        axis = primitive.axis(1, x)
    else:
        x, indices = primitive.array(0), primitive.array(1)
        axis = primitive.axis(2, x, 0)
        batch = primitive.static(3, primitive.attribute("batch_dims", 0))
        if batch:
            return _gather_in_batches(primitive, x, indices, axis, primitive.axis_of(batch, tensor(indices).rank + 1))
    dims, index_dims = tensor(x).dims, tensor(indices).dims
    if primitive.node.opcode.endswith("Gather"):
        indices = _from_the_front(build, indices, dims[axis])
    rank = len(index_dims)
    offsets = [dim if dim < axis else dim + rank - 1 for dim in range(len(dims)) if dim != axis]
    gathered: Node = build.op(
        "gather",
        x,
        indices,
        offset_dims=tuple(offsets),
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
        index_vector_dim=rank,
        slice_sizes=tuple(1 if dim == axis else size for dim, size in enumerate(dims)),
    )
    inside = build.op(
        "and",
        build.compare("GE", indices, build.like(0, indices)),
        build.compare("LT", indices, build.like(dims[axis], indices)),
    )
    result_dims = tensor(gathered).dims
    is_inside = build.broadcast(inside, result_dims, tuple(range(axis, axis + rank)))
    return build.op("select", is_inside, gathered, build.like(0, gathered))


def _from_the_front(build: HloBuilder, indices: Node, size: int) -> Node:
    """Indices of which negative ones count from the end."""
    below = build.compare("LT", indices, build.like(0, indices))
    return build.op("select", below, build.op("add", indices, build.like(size, indices)), indices)


def _gather_in_batches(primitive: Primitive, x: Node, indices: Node, axis: int, batch: int) -> Node:
    """Rows by index, each batch its own: the dimensions of batches as one dimension of a flat array of rows.

    x is (batches, before, rows, behind), the indices (batches, picked); the result (batches, before, picked, behind).
    """
    build, dims, index_dims = primitive.build, tensor(x).dims, tensor(indices).dims
    if axis < batch or dims[:batch] != index_dims[:batch]:
        raise primitive.error(f"{batch} dimensions of batches do not fit {tensor(x)} and {tensor(indices)}")
    batches, picked = math.prod(dims[:batch]), math.prod(index_dims[batch:])
    before, rows, behind = math.prod(dims[batch:axis]), dims[axis], math.prod(dims[axis + 1 :])
    flat = build.reshape(x, (batches, before, rows, behind))
    numbers = _from_the_front(build, build.reshape(indices, (batches, picked)), rows)
    pair = [build.iota(tensor(numbers).dtype, (batches, picked, 1), 0), build.reshape(numbers, (batches, picked, 1))]
    gathered: Node = build.op(
        "gather",
        flat,
        build.op("concatenate", *pair, dimensions=(2,)),
        offset_dims=(1, 3),
        collapsed_slice_dims=(0, 2),
        start_index_map=(0, 2),
        index_vector_dim=2,
        slice_sizes=(1, before, 1, behind),
    )
    zero = build.like(0, numbers)
    inside = build.op(
        "and", build.compare("GE", numbers, zero), build.compare("LT", numbers, build.like(rows, numbers))
    )
    is_inside = build.broadcast(inside, tensor(gathered).dims, (0, 2))
    kept = build.op("select", is_inside, gathered, build.like(0, gathered))
    return build.reshape(kept, (*dims[:axis], *index_dims[batch:], *dims[axis + 1 :]))


@lowers("GatherNd")
def _gather_nd(primitive: Primitive) -> Node:
    """Parts of an array at indices into its first dimensions, which the last dimension of the indices holds."""
    x, indices = primitive.x, primitive.array(1)
    dims, index_dims = tensor(x).dims, tensor(indices).dims
    count, batch = index_dims[-1], len(index_dims) - 1
    return primitive.build.op(
        "gather",
        x,
        indices,
        offset_dims=tuple(range(batch, batch + len(dims) - count)),
        collapsed_slice_dims=tuple(range(count)),
        start_index_map=tuple(range(count)),
        index_vector_dim=batch,
        slice_sizes=(1,) * count + dims[count:],
    )


@lowers("OneHot", "OneHotExt")
def _one_hot(primitive: Primitive) -> Node:
    """One value at an index and another elsewhere, along a further dimension."""
    build, indices = primitive.build, primitive.x
    depth = primitive.static(1)
    on, off = primitive.array(2), primitive.array(3)
    rank = tensor(indices).rank
    axis = primitive.axis_of(primitive.static(4, primitive.attribute("axis", -1)), rank + 1)
    own = tensor(indices).dims
    dims = (*own[:axis], depth, *own[axis:])
    others = tuple(dim for dim in range(rank + 1) if dim != axis)
    places = build.iota(tensor(indices).dtype, dims, axis)
    is_set = build.compare("EQ", places, build.broadcast(indices, dims, others))
    return build.op(
        "select",
        is_set,
        build.broadcast(build.reshape(on, ()), dims, ()),
        build.broadcast(build.reshape(off, ()), dims, ()),
    )


@lowers("Zeros", "Ones", "ZerosLikeExt", "OnesLikeExt")
def _constant_array(primitive: Primitive) -> Node:
    name = primitive.node.opcode.removeprefix("mindir.")
    if name.endswith("LikeExt"):
        type_ = primitive.result or primitive.x_type
    else:
        element = TYPE_IDS.get(primitive.static(1, 43)) or dtype("f32")
        type_ = primitive.result or TensorType(element, primitive.dims(0))
    literal = Literal.splat(type_, type_.dtype.numpy.type(name.startswith("Ones")))
    return primitive.build.graph.add_constant(literal, type_)


@lowers("FillScalar", "Fill", "FillV2", "FillTensor", "FullLike")
def _filled(primitive: Primitive) -> Node:
    """One number everywhere: Fill is (type, dimensions, number), the others (dimensions, number, type)."""
    name = primitive.node.opcode.removeprefix("mindir.")
    dims_index, number_index = (1, 2) if name == "Fill" else (0, 1)
    dims = primitive.x_type.dims if name == "FullLike" else primitive.dims(dims_index)
    element = primitive.result.dtype if primitive.result else None
    number = primitive.array(number_index, element)
    return primitive.build.broadcast(primitive.build.reshape(number, ()), dims, ())


@lowers("Arange", "Range")
def _range(primitive: Primitive) -> Node:
    """Numbers from one to another by a step."""
    build = primitive.build
    start, end, step = (primitive.static(index) for index in range(3))
    count = max(0, math.ceil((end - start) / step))
    element = primitive.result.dtype if primitive.result else dtype("s64")
    places = build.iota(element, (count,), 0)
    scaled = build.op("multiply", places, build.like(step, places))
    return build.op("add", scaled, build.like(start, scaled))


@lowers("Tril", "TrilExt", "Triu")
def _triangle(primitive: Primitive) -> Node:
    """The elements on and below (above) a diagonal; zero elsewhere."""
    build, x = primitive.build, primitive.x
    diagonal = primitive.static(1, primitive.attribute("diagonal", 0))
    dims = tensor(x).dims
    rows, columns = (build.iota(dtype("s64"), dims, len(dims) - 2 + index) for index in (0, 1))
    limit = build.op("add", rows, build.like(diagonal, rows))
    direction = "LE" if "Tril" in primitive.node.opcode else "GE"
    return build.op("select", build.compare(direction, columns, limit), x, build.like(0, x))


@lowers("Pad", "PadV3", "ConstantPadND")
def _pad(primitive: Primitive) -> Node:
    """Pad has pairs by dimension in its attribute; the others numbers from the last dimension on, and a value."""
    build, x = primitive.build, primitive.x
    dims = tensor(x).dims
    if primitive.node.opcode.endswith(".Pad"):
        pairs, value = primitive.attribute("paddings", ()), build.constant(0, tensor(x).dtype)
    else:
        numbers = primitive.dims(1)
        if primitive.node.opcode.endswith("PadV3") and primitive.attribute("mode", "constant") != "constant":
            raise primitive.error("padding other than by a constant has no lowering")
        given = [(numbers[i], numbers[i + 1]) for i in range(0, len(numbers), 2)]
        if not primitive.attribute("paddings_contiguous", True):
            half = len(numbers) // 2
            given = list(zip(numbers[:half], numbers[half:], strict=True))
        pairs = [(0, 0)] * (len(dims) - len(given)) + given[::-1]
        value = build.constant(0, tensor(x).dtype)
        if len(primitive.operands) > 2 and isinstance(primitive.operands[2], (Node, Number)):
            value = build.reshape(primitive.array(2, tensor(x).dtype), ())
    padding = tuple(PaddingDimension(low, high) for low, high in pairs)
    return build.op("pad", x, value, padding=padding)


@lowers("ReverseV2")
def _reverse(primitive: Primitive) -> Node:
    x = primitive.x
    axes = primitive.axes(1, x) if len(primitive.operands) > 1 else primitive.attribute("axis", ())
    rank = tensor(x).rank
    return primitive.build.op("reverse", x, dimensions=tuple(primitive.axis_of(axis, rank) for axis in axes))


@lowers("Shape")
def _shape(primitive: Primitive) -> LoweredValue:
    """The dimensions as a tuple of numbers, which are known here."""
    return aggregate([Number("I64", str(size)) for size in primitive.x_type.dims])


@lowers("TensorShape")
def _shape_array(primitive: Primitive) -> Node:
    """The dimensions as an array."""
    dims = np.array(primitive.x_type.dims, np.int64)
    literal = Literal.array(TensorType(dtype("s64"), dims.shape), dims)
    return primitive.build.graph.add_constant(literal, literal.type)
