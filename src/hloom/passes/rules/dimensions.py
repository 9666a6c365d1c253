"""What the shaping rules ask of dimensions: where a reshape leaves them, and whether one node may stand for another."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from hloom.ir import Layout, Node, TensorType, Type, default_layout, map_leaves, same_shape
from hloom.rewrite import Builder, tensor_type

Dimensions = tuple[int, ...]


def stand_in(build: Builder, node: Node, other: Node) -> Node | None:
    """Another node for this one, if nothing but the value tells them apart: layout, sharding, order."""
    if node.type is None or other.type is None or not same_shape(node.type, other.type):
        return build.decline("the types are not known to be the same")
    if not same_layout(node.type, other.type):
        return build.decline("the layout would change")
    if node.attributes.get("control-predecessors"):
        return build.decline("it waits for other instructions")
    sharding = node.attributes.get("sharding")
    if sharding is not None and (node.is_output or other.attributes.get("sharding") not in (None, sharding)):
        return build.decline("the sharding would be lost")
    return other


def same_array(a: Type | None, b: Type | None) -> bool:
    """Whether both types are known, and are the same array of static dimensions, layouts aside."""
    known = isinstance(a, TensorType) and isinstance(b, TensorType) and a.is_static and b.is_static
    return known and same_shape(a, b)


def same_layout(a: Type | None, b: Type | None) -> bool:
    """Whether two types are the same and lie in memory in the same way; no layout means row-major."""
    if a is None or b is None:
        return a is b
    return map_leaves(a, _with_default_layout) is map_leaves(b, _with_default_layout)


def is_row_major(kind: TensorType) -> bool:
    """Whether the type's layout is absent or the default."""
    return kind.layout is None or kind.layout == default_layout(kind.rank)


def scalar_of(node: Node) -> Node | None:
    """The scalar that a node broadcasts to every place; None for all else."""
    if node.opcode != "broadcast" or tensor_type(node) is None:
        return None
    operand = node.inputs[0]
    kind = tensor_type(operand)
    return operand if kind is not None and kind.rank == 0 else None


def places_of(broadcast: Node) -> Dimensions:
    """Where a broadcast puts the dimensions of its operand."""
    return tuple(broadcast.attributes.get("dimensions") or ())


def is_empty(kind: TensorType) -> bool:
    """Whether an array has no elements."""
    return 0 in kind.dims


def resized(kind: TensorType, dims: Iterable[int]) -> TensorType:
    """An array of the same elements and other dimensions, without a layout."""
    return TensorType(kind.dtype, tuple(dims))


def without(dims: Sequence[int], places: Iterable[int]) -> Dimensions:
    """The sizes that stand in none of these places."""
    gone = set(places)
    return tuple(size for place, size in enumerate(dims) if place not in gone)


def places_after_reshape(before: Sequence[int], after: Sequence[int], wanted: Sequence[int]) -> Dimensions | None:
    """Where dimensions stand after a reshape that leaves them whole; None where it splits or joins one of them.

    A dimension is whole where one of the same size has as many elements in front of it.

    >>> places_after_reshape((3, 2, 4), (6, 1, 4), (2,))
    (2,)
    """
    if 0 in before or math.prod(before) != math.prod(after):
        return None
    places: dict[tuple[int, int], list[int]] = {}
    for place, (front, size) in enumerate(zip(_fronts(after), after, strict=True)):
        places.setdefault((front, size), []).append(place)
    fronts = _fronts(before)
    found: list[int] = []
    for place in wanted:
        candidates = places.get((fronts[place], before[place]))
        if not candidates:
            return None
        found.append(candidates.pop(0))
    return tuple(found)


def kept_by_reshape(before: Sequence[int], after: Sequence[int]) -> dict[int, int] | None:
    """For a reshape that only adds and removes dimensions of size 1, where the others go; None for all else."""
    first = [place for place, size in enumerate(before) if size != 1]
    second = [place for place, size in enumerate(after) if size != 1]
    if [before[place] for place in first] != [after[place] for place in second]:
        return None
    return dict(zip(first, second, strict=True))


def inverse(order: Sequence[int]) -> Dimensions:
    """The permutation that undoes another."""
    back = [0] * len(order)
    for place, each in enumerate(order):
        back[each] = place
    return tuple(back)


def _fronts(dims: Sequence[int]) -> list[int]:
    """How many elements stand in front of each dimension."""
    return [math.prod(dims[:place]) for place in range(len(dims))]


def _with_default_layout(kind: Type) -> Type:
    if isinstance(kind, TensorType) and kind.layout in (None, Layout()):
        return kind.with_layout(default_layout(kind.rank))
    return kind
