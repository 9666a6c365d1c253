"""Rules for gathers. All of them only place elements: every bit stays, NaN's included.

An index is moved to where the window fits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hloom.ir import Apply, Node, PaddingDimension, SliceDimension, TensorType
from hloom.passes.rules.dimensions import Dimensions, is_empty, places_after_reshape, resized, scalar_of
from hloom.rewrite import Builder, Family, array_value, tensor_type

GATHERING = Family("gathering")
GATHERING_AS_XLA = Family("gathering-as-xla")
"""Forms that XLA prefers though they are not smaller."""

_NONE = PaddingDimension(0, 0)
_VERY_SMALL = 4
_MOST_COUNTED = 1 << 12
"""From so few elements XLA takes by selects."""


@GATHERING.rewrites("gather", benefit=3)
def gather_from_nothing(build: Builder, node: Apply) -> Node | None:
    """gather(x, i) -> broadcast(0), where x has no elements"""
    kind, source = tensor_type(node), tensor_type(node.inputs[0])
    return build.constant(0, kind) if kind and source and is_empty(source) else None


@GATHERING.rewrites("gather", benefit=3)
def gather_from_one(build: Builder, node: Apply) -> Node | None:
    """gather(x, i) -> broadcast(x), where x has one element"""
    kind, source = tensor_type(node), tensor_type(node.inputs[0])
    if kind is None or source is None or source.element_count != 1:
        return None
    return build.broadcast(build.reshape(node.inputs[0], resized(source, ())), kind)


@GATHERING.rewrites("gather", benefit=3)
def gather_from_broadcast(build: Builder, node: Apply) -> Node | None:
    """gather(broadcast(s), i) -> broadcast(s), of a scalar s"""
    kind, scalar, source = tensor_type(node), scalar_of(node.inputs[0]), tensor_type(node.inputs[0])
    if kind is None or scalar is None or source is None or is_empty(source):
        return None
    return build.broadcast(scalar, kind)


@GATHERING.rewrites("gather", benefit=2)
def gather_of_one_window(build: Builder, node: Apply) -> Node | None:
    """gather(x, constant) -> reshape(slice(x)), where one window is taken"""
    kind, source = tensor_type(node), tensor_type(node.inputs[0])
    vectors = _constant_vectors(node)
    if kind is None or source is None or vectors is None or len(vectors) != 1:
        return None
    sizes = node.attributes["slice_sizes"]
    starts = _starts(node, source.dims, vectors[0])
    parts = [SliceDimension(start, start + size) for start, size in zip(starts, sizes, strict=True)]
    return build.reshape(build.op("slice", node.inputs[0], slice=tuple(parts)), kind)


@GATHERING.rewrites("gather")
def gather_of_rows(build: Builder, node: Apply) -> Node | None:
    """gather(x, {3, 5, 7}) -> slice(x), [3:8:2], where whole rows are taken at equal distances

    Where the rows come to stand elsewhere, a transpose of the slice.
    """
    kind, source = tensor_type(node), tensor_type(node.inputs[0])
    vectors = _constant_vectors(node)
    if kind is None or source is None or vectors is None or len(vectors) < 2 or vectors.shape[1] != 1:
        return None
    (along,) = node.attributes["start_index_map"]
    sizes, batch = node.attributes["slice_sizes"], _batch_places(node, kind.rank)
    if node.attributes["collapsed_slice_dims"] != (along,) or sizes[along] != 1 or len(batch) != 1:
        return build.decline("it does not take rows")
    rows = [int(vector[0]) for vector in vectors]
    stride = rows[1] - rows[0]
    even = stride > 0 and rows == list(range(rows[0], rows[-1] + 1, stride))
    if not even or rows[0] < 0 or rows[-1] >= source.dims[along]:
        return build.decline("the rows are not at equal distances")
    parts = [SliceDimension(0, size) for size in sizes]
    parts[along] = SliceDimension(rows[0], rows[-1] + 1, stride)
    taken = build.op("slice", node.inputs[0], slice=tuple(parts))
    others = [place for place in range(source.rank) if place != along]
    others.insert(batch[0], along)
    return build.transpose(taken, others)


@GATHERING_AS_XLA.rewrites("gather", benefit=2)
def gather_of_few(build: Builder, node: Apply) -> Node | None:
    """gather(x, i) -> select(i >= 1, x[1], x[0]), for at most four elements"""
    kind, source, indices = tensor_type(node), tensor_type(node.inputs[0]), tensor_type(node.inputs[1])
    if kind is None or source is None or indices is None or source.rank != 1 or not 0 < source.dims[0] <= _VERY_SMALL:
        return None
    if node.attributes["index_vector_dim"] != indices.rank or len(node.attributes["collapsed_slice_dims"]) != 1:
        return build.decline("the indices are vectors, or the elements come with a dimension")
    result = _element(build, node.inputs[0], source, 0, kind)
    for number in range(1, source.dims[0]):
        bound = build.constant(number, resized(indices, indices.dims))
        reached = build.op("compare", node.inputs[1], bound, direction="GE")
        result = build.op("select", reached, _element(build, node.inputs[0], source, number, kind), result)
    return result


@GATHERING_AS_XLA.rewrites("gather")
def gather_of_pad(build: Builder, node: Apply) -> Node | None:
    """gather(pad(x, value), i) -> pad(gather(x, i), value), where the padded dimensions are taken whole

    Dimensions that x and the indices share may be padded too, if both are padded alike: the indices lose their pad.
    """
    inner, kind = node.inputs[0], tensor_type(node)
    if inner.opcode != "pad" or kind is None or tensor_type(inner) is None:
        return None
    padding, shared = _pads(inner), _batched(node)
    together = {shared[place]: each for place, each in padding.items() if place in shared}
    alone = {place: each for place, each in padding.items() if place not in shared}
    outer = _padded_result(node, inner, alone, kind)
    if outer is None:
        return build.decline("a padded dimension is indexed, or not taken whole")
    indices = node.inputs[1]
    if together:
        if indices.opcode != "pad" or _pads(indices) != together:
            return build.decline("the indices are not padded like what they share dimensions with")
        batches = [place for place in range(len(_pads_all(indices))) if place != node.attributes["index_vector_dim"]]
        for place, each in together.items():
            outer[_batch_places(node, kind.rank)[batches.index(place)]] = each
        indices = indices.inputs[0]
    return _gather_and_pad(build, node, inner.inputs[0], indices, list(alone), inner.inputs[1], outer)


@GATHERING_AS_XLA.rewrites("gather", depth=3)
def gather_of_reshaped_pad(build: Builder, node: Apply) -> Node | None:
    """gather(reshape(pad(x, value)), i) -> pad(gather(reshape(x), i), value)

    The padded dimensions are taken whole, and the reshape leaves them whole too.
    """
    inner, kind = node.inputs[0], tensor_type(node)
    pad = inner.inputs[0] if inner.opcode == "reshape" else None
    made = tensor_type(inner)
    if pad is None or pad.opcode != "pad" or kind is None or made is None:
        return None
    wide, source = tensor_type(pad), tensor_type(pad.inputs[0])
    if wide is None or source is None:
        return None
    padding = _pads(pad)
    places = places_after_reshape(wide.dims, made.dims, list(padding))
    if places is None or len(set(places)) != len(places):
        return build.decline("the reshape splits or joins a padded dimension")
    outer = _padded_result(node, inner, dict(zip(places, padding.values(), strict=True)), kind)
    if outer is None:
        return build.decline("a padded dimension is indexed, or not taken whole")
    dims = list(made.dims)
    for place, before in zip(places, padding, strict=True):
        dims[place] = source.dims[before]
    smaller = build.op("reshape", pad.inputs[0], type=resized(source, dims))
    return _gather_and_pad(build, node, smaller, node.inputs[1], places, pad.inputs[1], outer)


def _gather_and_pad(
    build: Builder,
    node: Apply,
    operand: Node,
    indices: Node,
    places: Sequence[int],
    value: Node,
    padding: Sequence[PaddingDimension],
) -> Node:
    """A pad of what is gathered from an operand without its pad; at these places windows are as large as it is."""
    assert isinstance(operand.type, TensorType)
    sizes = list(node.attributes["slice_sizes"])
    for place in places:
        sizes[place] = operand.type.dims[place]
    smaller = build.like(node, operand, indices, slice_sizes=tuple(sizes), sharding=None)
    return build.op("pad", smaller, value, padding=tuple(padding))


def _padded_result(
    node: Node, operand: Node, padding: dict[int, PaddingDimension], kind: TensorType
) -> list[PaddingDimension] | None:
    """How the result is to be padded in place of the operand; None where a padded dimension is not taken whole."""
    assert isinstance(operand.type, TensorType)
    dims = operand.type.dims
    window = _window_places(node, len(dims))
    found = [_NONE] * kind.rank
    for place, each in padding.items():
        indexed = place in node.attributes["start_index_map"]
        if place not in window or indexed or node.attributes["slice_sizes"][place] != dims[place]:
            return None
        found[window[place]] = each
    return found


def _batched(node: Node) -> dict[int, int]:
    """The dimensions of the operand that it shares with the indices, and which those are."""
    ours = node.attributes.get("operand_batching_dims") or ()
    return dict(zip(ours, node.attributes.get("start_indices_batching_dims") or (), strict=True))


def _pads_all(pad: Node) -> tuple[PaddingDimension, ...]:
    return pad.attributes["padding"]


def _pads(pad: Node) -> dict[int, PaddingDimension]:
    """The dimensions that a pad changes."""
    return {place: each for place, each in enumerate(_pads_all(pad)) if each != _NONE}


def _constant_vectors(node: Node) -> np.ndarray | None:
    """The index vectors, one per row, where they are constants and nothing is batched."""
    indices = _known_indices(node.inputs[1])
    if indices is None or node.attributes.get("operand_batching_dims"):
        return None
    place = node.attributes["index_vector_dim"]
    if place == indices.ndim:
        indices = indices[..., None]
    moved = np.moveaxis(indices, place, -1)
    return moved.reshape(-1, moved.shape[-1]) if moved.size else None


def _known_indices(node: Node) -> np.ndarray | None:
    """The numbers of a constant, or of an iota that counts few."""
    kind = tensor_type(node)
    if node.opcode != "iota" or kind is None or kind.element_count > _MOST_COUNTED:
        return array_value(node)
    if kind.dtype.name not in ("s32", "s64", "u32", "u64"):
        return None
    place = node.attributes["iota_dimension"]
    counted = np.arange(kind.dims[place]).reshape([-1 if each == place else 1 for each in range(kind.rank)])
    return np.broadcast_to(counted, kind.dims)


def _starts(node: Node, dims: Dimensions, vector: np.ndarray) -> Sequence[int]:
    starts = [0] * len(dims)
    for value, place in zip(vector, node.attributes["start_index_map"], strict=True):
        starts[place] = min(max(int(value), 0), dims[place] - node.attributes["slice_sizes"][place])
    return starts


def _batch_places(node: Node, rank: int) -> Sequence[int]:
    """The dimensions of the result that are not the window's."""
    return [place for place in range(rank) if place not in node.attributes["offset_dims"]]


def _window_places(node: Node, rank: int) -> dict[int, int]:
    """Where the dimensions of the operand come to stand in the result, those taken away left out."""
    gone = {*node.attributes["collapsed_slice_dims"], *(node.attributes.get("operand_batching_dims") or ())}
    left = [place for place in range(rank) if place not in gone]
    return dict(zip(left, node.attributes["offset_dims"], strict=True))


def _element(build: Builder, node: Node, source: TensorType, number: int, kind: TensorType) -> Node:
    taken = build.op("slice", node, slice=(SliceDimension(number, number + 1),))
    return build.broadcast(build.op("reshape", taken, type=resized(source, ())), kind)
