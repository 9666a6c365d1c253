"""Dimension maps of broadcasts, transposes and reshapes.

`dims_unmodified_by_reshape` and `kept_by_reshape` are XLA's ShapeUtil::DimensionsUnmodifiedByReshape and
ShapeUtil::InsertedOrDeleted1SizedDimensions (xla/shape_util.cc).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from hloom.ir import Layout, Node, TensorType, Type, default_layout, map_leaves, same_shape
from hloom.rewrite import Builder, emptiness, register_builder, register_condition, register_value, tensor_type

Dimensions = tuple[int, ...]


def replace_if_compatible(build: Builder, node: Node, other: Node) -> Node | None:
    """Another node for this one, if nothing but the value tells them apart: layout, sharding, order."""
    if node.attributes.get("control-predecessors"):
        return build.decline("it waits for other instructions")
    lost = lost_in_replacement(node, other)
    return build.decline(lost) if lost else other


def lost_in_replacement(node: Node, other: Node) -> str:
    """What would be lost if another node stood for this one: layout or sharding; empty where nothing is."""
    if node.type is None or other.type is None or not same_shape(node.type, other.type):
        return "the types are not known to be the same"
    if not same_layout(node.type, other.type):
        return "the layout would change"
    sharding = node.attributes.get("sharding")
    if sharding is not None and (node.is_output or other.attributes.get("sharding") not in (None, sharding)):
        return "the sharding would be lost"
    return ""


def same_array(a: Type | None, b: Type | None) -> bool:
    """Whether both types are known, and are the same array of static dimensions, layouts aside."""
    known = isinstance(a, TensorType) and isinstance(b, TensorType) and a.is_static and b.is_static
    return known and same_shape(a, b)


def same_layout(a: Type | None, b: Type | None) -> bool:
    """Whether two types are the same and have the same layout; none means row-major."""
    if a is None or b is None:
        return a is b
    return map_leaves(a, _with_default_layout) is map_leaves(b, _with_default_layout)


def is_row_major(array_type: TensorType) -> bool:
    """Whether the type's layout is absent or the default."""
    return array_type.layout is None or array_type.layout == default_layout(array_type.rank)


def scalar_of(node: Node) -> Node | None:
    """The scalar that a node broadcasts to every place; None for all else."""
    if node.opcode != "broadcast" or tensor_type(node) is None:
        return None
    operand = node.operands[0]
    array_type = tensor_type(operand)
    return operand if array_type is not None and array_type.rank == 0 else None


def broadcast_dims(broadcast: Node) -> Dimensions:
    """Where a broadcast puts the dimensions of its operand."""
    return tuple(broadcast.attributes.get("dimensions") or ())


def is_empty(array_type: TensorType) -> bool:
    """Whether an array has no elements."""
    return 0 in array_type.dims


def resized(array_type: TensorType, dims: Iterable[int]) -> TensorType:
    """An array of the same elements and other dimensions, without a layout."""
    return TensorType(array_type.dtype, tuple(dims))


def without(dims: Sequence[int], removed: Iterable[int]) -> Dimensions:
    """The sizes that stand in none of these places."""
    gone = set(removed)
    return tuple(size for dim, size in enumerate(dims) if dim not in gone)


def dims_after_reshape(before: Sequence[int], after: Sequence[int], wanted: Sequence[int]) -> Dimensions | None:
    """Where dimensions stand after a reshape that leaves them whole; None where it splits or joins one of them.

    A dimension is whole where one of the same size has as many elements in front of it.

    >>> dims_after_reshape((3, 2, 4), (6, 1, 4), (2,))
    (2,)
    """
    if 0 in before or math.prod(before) != math.prod(after):
        return None
    dims_by_block: dict[tuple[int, int], list[int]] = {}
    for dim, (front, size) in enumerate(zip(_prefix_products(after), after, strict=True)):
        dims_by_block.setdefault((front, size), []).append(dim)
    fronts = _prefix_products(before)
    dims: list[int] = []
    for dim in wanted:
        candidates = dims_by_block.get((fronts[dim], before[dim]))
        if not candidates:
            return None
        dims.append(candidates.pop(0))
    return tuple(dims)


def kept_by_reshape(before: Sequence[int], after: Sequence[int]) -> dict[int, int] | None:
    """For a reshape that only adds and removes dimensions of size 1, where the others go; None for all else."""
    first = [dim for dim, size in enumerate(before) if size != 1]
    second = [dim for dim, size in enumerate(after) if size != 1]
    if [before[dim] for dim in first] != [after[dim] for dim in second]:
        return None
    return dict(zip(first, second, strict=True))


def dims_unmodified_by_reshape(before: Sequence[int], after: Sequence[int]) -> list[tuple[int, int]]:
    """The dimensions that a reshape leaves as they are: pairs of places of equal sizes with equal products before them.

    Dimensions of size 1 are paired where they meet. The arrays must have elements.

    >>> dims_unmodified_by_reshape((2, 3, 4), (6, 4)), dims_unmodified_by_reshape((2, 3, 1), (2, 1, 3))
    ([(2, 1)], [(0, 0), (1, 2)])
    """
    pairs: list[tuple[int, int]] = []
    for start, end in _blocks(before, after):
        if end[0] - start[0] == 1 and end[1] - start[1] == 1:
            pairs.append(start)
    return pairs


def inverse(order: Sequence[int]) -> Dimensions:
    """The permutation that undoes another."""
    back = [0] * len(order)
    for dim, source in enumerate(order):
        back[source] = dim
    return tuple(back)


def _prefix_products(dims: Sequence[int]) -> list[int]:
    """How many elements stand in front of each dimension."""
    return [math.prod(dims[:dim]) for dim in range(len(dims))]


def _with_default_layout(value_type: Type) -> Type:
    if isinstance(value_type, TensorType) and value_type.layout in (None, Layout()):
        return value_type.with_layout(default_layout(value_type.rank))
    return value_type


def _blocks(before: Sequence[int], after: Sequence[int]) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """The shortest runs of dimensions of both sides that hold equally many elements."""
    left = right = 0
    blocks: list[tuple[tuple[int, int], tuple[int, int]]] = []
    while left < len(before) or right < len(after):
        start = left, right
        ours = before[left] if left < len(before) else 1
        theirs = after[right] if right < len(after) else 1
        if ours != theirs and 1 in (ours, theirs):
            left, right = left + (ours == 1 and left < len(before)), right + (theirs == 1 and right < len(after))
            blocks.append((start, (left, right)))
            continue
        left, right = min(left + 1, len(before)), min(right + 1, len(after))
        while ours != theirs:
            if ours < theirs:
                ours *= before[left]
                left += 1
            else:
                theirs *= after[right]
                right += 1
        blocks.append((start, (left, right)))
    return blocks


def in_place(build: Builder, other: Node, node: Node) -> Node | None:
    """Another node for the root, if nothing but the value tells them apart."""
    return replace_if_compatible(build, node, other)


def composed(first: Sequence[int] | None, order: Sequence[int] | None) -> Dimensions:
    """The dimensions that one list names of those that another does."""
    return tuple((first or ())[dim] for dim in order or ())


def _is_row_major(node: Node) -> bool:
    array_type = tensor_type(node)
    return array_type is not None and is_row_major(array_type)


def _is_empty(node: Node) -> bool:
    array_type = tensor_type(node)
    return array_type is not None and is_empty(array_type)


def _element_counts(node: Node) -> tuple[int, int]:
    """How many dimensions and how many elements a static array has; -1 of all else."""
    array_type = tensor_type(node)
    return (-1, -1) if array_type is None else (array_type.rank, array_type.element_count)


register_condition("row-major", _is_row_major)
register_condition("empty", _is_empty, of_root=emptiness(), of_operand=lambda at: emptiness())
register_condition("same-array", lambda one, other: same_array(one.type, other.type))
register_condition("scalar", lambda node: _element_counts(node) == (0, 1))
register_condition("single", lambda node: _element_counts(node)[1] == 1)
register_condition("several", lambda node: _element_counts(node)[1] > 1)
register_condition("rising", lambda dimensions: list(dimensions or ()) == sorted(dimensions or ()))
register_builder("in-place", in_place)
register_builder("spread", lambda build, scalar, node: build.broadcast(scalar, node.type))
register_value("composed", composed)
register_value("inverse", inverse)
register_value("item", lambda dimensions, at: dimensions[at])
register_value("place", lambda number, dimensions: tuple(dimensions).index(number))
