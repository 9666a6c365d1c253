"""Rules on gather. Elements are only moved: every bit is kept, NaN payloads included.

Follows XLA's xla/hlo/transforms/simplifiers/algebraic_simplifier.cc (HandleGather).
Start indices are clamped so that the window fits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hloom.ir import Apply, Node, PaddingDimension, SliceDimension, TensorType
from hloom.passes.rules.dimensions import Dimensions, dims_after_reshape, resized
from hloom.rewrite import Builder, Family, array_value, register_builder, tensor_type

GATHER = Family("gather", formerly="gathering")
GATHER_AS_XLA = Family("gather-as-xla", formerly="gathering-as-xla")
"""Forms that XLA prefers though they are not smaller."""

_NONE = PaddingDimension(0, 0)
_MAX_SELECTED_ELEMENTS = 4
"""From so few elements XLA takes by selects."""
_MAX_IOTA_ELEMENTS = 1 << 12
"""How many elements an iota of indices may have to be written out as numbers for a look at them."""


GATHER.table("""
gather-from-nothing [3]: gather(x, i) -> 0 if static, x is empty  # there is nothing to take
gather-from-one [3]: gather(x, i) -> spread(only-element(x), root) if static, x is single  # all that there is to take
gather-from-broadcast [3]: gather(b:broadcast(s), i) -> spread(s, root)
    if static, b is static, s is scalar, b is not empty  # each element is s
""")


@GATHER.rewrites("gather", benefit=2, because="computes the slice from an index vector")
def gather_of_one_window(build: Builder, node: Apply) -> Node | None:
    """gather(x, constant) -> reshape(slice(x)), where one window is taken"""
    array_type, source = tensor_type(node), tensor_type(node.operands[0])
    vectors = _constant_vectors(node)
    if array_type is None or source is None or vectors is None or len(vectors) != 1:
        return None
    sizes = node.attributes["slice_sizes"]
    starts = _starts(node, source.dims, vectors[0])
    parts = [SliceDimension(start, start + size) for start, size in zip(starts, sizes, strict=True)]
    return build.reshape(build.op("slice", node.operands[0], slice=tuple(parts)), array_type)


@GATHER.rewrites("gather", because="looks for rows at equal distances with numpy")
def gather_of_rows(build: Builder, node: Apply) -> Node | None:
    """gather(x, {3, 5, 7}) -> slice(x), [3:8:2], where whole rows are taken at equal distances

    Where the rows come to stand elsewhere, a transpose of the slice.
    """
    array_type, source = tensor_type(node), tensor_type(node.operands[0])
    vectors = _constant_vectors(node)
    if array_type is None or source is None or vectors is None or len(vectors) < 2 or vectors.shape[1] != 1:
        return None
    (along,) = node.attributes["start_index_map"]
    sizes, batch = node.attributes["slice_sizes"], _batch_dims(node, array_type.rank)
    if node.attributes["collapsed_slice_dims"] != (along,) or sizes[along] != 1 or len(batch) != 1:
        return build.decline("it does not take rows")
    rows = [int(vector[0]) for vector in vectors]
    stride = rows[1] - rows[0]
    even = stride > 0 and rows == list(range(rows[0], rows[-1] + 1, stride))
    if not even or rows[0] < 0 or rows[-1] >= source.dims[along]:
        return build.decline("the rows are not at equal distances")
    parts = [SliceDimension(0, size) for size in sizes]
    parts[along] = SliceDimension(rows[0], rows[-1] + 1, stride)
    taken = build.op("slice", node.operands[0], slice=tuple(parts))
    others = [dim for dim in range(source.rank) if dim != along]
    others.insert(batch[0], along)
    return build.transpose(taken, others)


@GATHER_AS_XLA.rewrites("gather", benefit=2, because="makes a select for each element")
def gather_of_few(build: Builder, node: Apply) -> Node | None:
    """gather(x, i) -> select(i >= 1, x[1], x[0]), for at most four elements"""
    array_type, source, indices = tensor_type(node), tensor_type(node.operands[0]), tensor_type(node.operands[1])
    if (
        array_type is None
        or source is None
        or indices is None
        or source.rank != 1
        or not 0 < source.dims[0] <= _MAX_SELECTED_ELEMENTS
    ):
        return None
    if node.attributes["index_vector_dim"] != indices.rank or len(node.attributes["collapsed_slice_dims"]) != 1:
        return build.decline("the indices are vectors, or the elements come with a dimension")
    result = _element(build, node.operands[0], source, 0, array_type)
    for number in range(1, source.dims[0]):
        bound = build.constant(number, resized(indices, indices.dims))
        reached = build.op("compare", node.operands[1], bound, direction="GE")
        result = build.op("select", reached, _element(build, node.operands[0], source, number, array_type), result)
    return result


@GATHER_AS_XLA.rewrites("gather", because="computes the padding of the result")
def gather_of_pad(build: Builder, node: Apply) -> Node | None:
    """gather(pad(x, value), i) -> pad(gather(x, i), value), where the padded dimensions are taken whole

    Dimensions that x and the indices share may be padded too, if both
    are padded by the same amounts: the indices lose their pad.
    """
    inner, array_type = node.operands[0], tensor_type(node)
    if inner.opcode != "pad" or array_type is None or tensor_type(inner) is None:
        return None
    padding, shared = _pads(inner), _batched(node)
    together = {shared[dim]: amount for dim, amount in padding.items() if dim in shared}
    alone = {dim: amount for dim, amount in padding.items() if dim not in shared}
    outer = _padded_result(node, inner, alone, array_type)
    if outer is None:
        return build.decline("a padded dimension is indexed, or not taken whole")
    indices = node.operands[1]
    if together:
        if indices.opcode != "pad" or _pads(indices) != together:
            return build.decline("the indices are not padded like what they share dimensions with")
        batches = [dim for dim in range(len(_padding(indices))) if dim != node.attributes["index_vector_dim"]]
        for dim, amount in together.items():
            outer[_batch_dims(node, array_type.rank)[batches.index(dim)]] = amount
        indices = indices.operands[0]
    return _gather_and_pad(build, node, inner.operands[0], indices, list(alone), inner.operands[1], outer)


@GATHER_AS_XLA.rewrites("gather", depth=3, because="computes the padding of the result")
def gather_of_reshaped_pad(build: Builder, node: Apply) -> Node | None:
    """gather(reshape(pad(x, value)), i) -> pad(gather(reshape(x), i), value)

    The padded dimensions are taken whole, and the reshape leaves them whole too.
    """
    inner, array_type = node.operands[0], tensor_type(node)
    pad = inner.operands[0] if inner.opcode == "reshape" else None
    made = tensor_type(inner)
    if pad is None or pad.opcode != "pad" or array_type is None or made is None:
        return None
    wide, source = tensor_type(pad), tensor_type(pad.operands[0])
    if wide is None or source is None:
        return None
    padding = _pads(pad)
    reshaped_dims = dims_after_reshape(wide.dims, made.dims, list(padding))
    if reshaped_dims is None or len(set(reshaped_dims)) != len(reshaped_dims):
        return build.decline("the reshape splits or joins a padded dimension")
    outer = _padded_result(node, inner, dict(zip(reshaped_dims, padding.values(), strict=True)), array_type)
    if outer is None:
        return build.decline("a padded dimension is indexed, or not taken whole")
    dims = list(made.dims)
    for dim, before in zip(reshaped_dims, padding, strict=True):
        dims[dim] = source.dims[before]
    smaller = build.op("reshape", pad.operands[0], type=resized(source, dims))
    return _gather_and_pad(build, node, smaller, node.operands[1], reshaped_dims, pad.operands[1], outer)


def _gather_and_pad(
    build: Builder,
    node: Apply,
    operand: Node,
    indices: Node,
    dims: Sequence[int],
    value: Node,
    padding: Sequence[PaddingDimension],
) -> Node:
    """A pad of what is gathered from an operand without its pad; at these places windows are as large as it is."""
    assert isinstance(operand.type, TensorType)
    sizes = list(node.attributes["slice_sizes"])
    for dim in dims:
        sizes[dim] = operand.type.dims[dim]
    smaller = build.like(node, operand, indices, slice_sizes=tuple(sizes), sharding=None)
    return build.op("pad", smaller, value, padding=tuple(padding))


def _padded_result(
    node: Node, operand: Node, padding: dict[int, PaddingDimension], array_type: TensorType
) -> list[PaddingDimension] | None:
    """How the result is to be padded in place of the operand; None where a padded dimension is not taken whole."""
    assert isinstance(operand.type, TensorType)
    dims = operand.type.dims
    window = _window_dims(node, len(dims))
    result_padding = [_NONE] * array_type.rank
    for dim, amount in padding.items():
        indexed = dim in node.attributes["start_index_map"]
        if dim not in window or indexed or node.attributes["slice_sizes"][dim] != dims[dim]:
            return None
        result_padding[window[dim]] = amount
    return result_padding


def _batched(node: Node) -> dict[int, int]:
    """The dimensions of the operand that it shares with the indices, and which those are."""
    ours = node.attributes.get("operand_batching_dims") or ()
    return dict(zip(ours, node.attributes.get("start_indices_batching_dims") or (), strict=True))


def _padding(pad: Node) -> tuple[PaddingDimension, ...]:
    return pad.attributes["padding"]


def _pads(pad: Node) -> dict[int, PaddingDimension]:
    """The dimensions that a pad changes."""
    return {dim: amount for dim, amount in enumerate(_padding(pad)) if amount != _NONE}


def _constant_vectors(node: Node) -> np.ndarray | None:
    """The index vectors, one per row, where they are constants and nothing is batched."""
    indices = _known_indices(node.operands[1])
    if indices is None or node.attributes.get("operand_batching_dims"):
        return None
    vector_dim = node.attributes["index_vector_dim"]
    if vector_dim == indices.ndim:
        indices = indices[..., None]
    moved = np.moveaxis(indices, vector_dim, -1)
    return moved.reshape(-1, moved.shape[-1]) if moved.size else None


def _known_indices(node: Node) -> np.ndarray | None:
    """The numbers of a constant, or of an iota that counts few."""
    array_type = tensor_type(node)
    if node.opcode != "iota" or array_type is None or array_type.element_count > _MAX_IOTA_ELEMENTS:
        return array_value(node)
    if array_type.dtype.name not in ("s32", "s64", "u32", "u64"):
        return None
    iota_dim = node.attributes["iota_dimension"]
    counted = np.arange(array_type.dims[iota_dim]).reshape(
        [-1 if dim == iota_dim else 1 for dim in range(array_type.rank)]
    )
    return np.broadcast_to(counted, array_type.dims)


def _starts(node: Node, dims: Dimensions, vector: np.ndarray) -> Sequence[int]:
    starts = [0] * len(dims)
    for value, dim in zip(vector, node.attributes["start_index_map"], strict=True):
        starts[dim] = min(max(int(value), 0), dims[dim] - node.attributes["slice_sizes"][dim])
    return starts


def _batch_dims(node: Node, rank: int) -> Sequence[int]:
    """The dimensions of the result that are not the window's."""
    return [dim for dim in range(rank) if dim not in node.attributes["offset_dims"]]


def _window_dims(node: Node, rank: int) -> dict[int, int]:
    """Where the dimensions of the operand come to stand in the result, those taken away left out."""
    gone = {*node.attributes["collapsed_slice_dims"], *(node.attributes.get("operand_batching_dims") or ())}
    left = [dim for dim in range(rank) if dim not in gone]
    return dict(zip(left, node.attributes["offset_dims"], strict=True))


def _element(build: Builder, node: Node, source: TensorType, number: int, array_type: TensorType) -> Node:
    taken = build.op("slice", node, slice=(SliceDimension(number, number + 1),))
    return build.broadcast(build.op("reshape", taken, type=resized(source, ())), array_type)


def _only_element(build: Builder, node: Node) -> Node:
    """The one element of an array, as a scalar."""
    array_type = tensor_type(node)
    assert array_type is not None, f"{node!r} is not a static array"
    return build.reshape(node, resized(array_type, ()))


register_builder("only-element", _only_element)
