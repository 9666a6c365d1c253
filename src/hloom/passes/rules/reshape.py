"""Rules on reshape, bitcast and copy. Elements are only moved: every bit is kept, NaN payloads included.

Follows XLA's xla/hlo/transforms/simplifiers/algebraic_simplifier.cc (HandleReshape, HandleBitcast, HandleCopy).
"""

from __future__ import annotations

import numpy as np

from hloom.ir import Apply, Literal, Node, TensorType, integer_range
from hloom.passes.rules.broadcast import UNARY
from hloom.passes.rules.dimensions import (
    broadcast_dims,
    dims_after_reshape,
    is_empty,
    is_row_major,
    kept_by_reshape,
    resized,
    same_layout,
    without,
)
from hloom.rewrite import (
    Builder,
    Family,
    operand_is,
    register_builder,
    register_condition,
    register_value,
    tensor_type,
    used_once,
)

RESHAPE = Family("reshape", formerly="reshaping")
RESHAPE_AS_XLA = Family("reshape-as-xla", formerly="reshaping-as-xla")
"""Forms that XLA prefers though they are not smaller."""

_EXACT_UP_TO = {"f64": 2**53, "f32": 2**24, "bf16": 2**8, "f16": 2**11, "c64": 2**24, "c128": 2**53}
"""The whole numbers below these are all held by a type."""


RESHAPE.table("""
reshape-to-same-shape [4]: reshape(x) -> in-place(x, root) if same-array(root, x)  # nothing changes
reshape-without-elements [3]: reshape(x) -> without-elements(root) if empty  # there are none to move
reshape-of-reshape [3]: reshape(reshape(x)) -> reshape(x, type=root) if static, x is static
    # the order of the elements stays
""")


@RESHAPE.rewrites("reshape", benefit=2, requires=operand_is(0, "broadcast"), because="computes where dimensions go")
def reshape_of_broadcast(build: Builder, node: Apply) -> Node | None:
    """reshape(broadcast(x)) -> broadcast(x), where the reshape leaves the dimensions of x whole

    Where x has dimensions of size 1 that have no place of their own, x loses them by a reshape first.
    """
    inner, array_type = node.operands[0], tensor_type(node)
    source = tensor_type(inner.operands[0]) if inner.opcode == "broadcast" else None
    if array_type is None or source is None:
        return None
    before, wanted = inner.dims, broadcast_dims(inner)
    dimensions = dims_after_reshape(before, array_type.dims, wanted)
    if dimensions is not None:
        return build.op("broadcast", inner.operands[0], type=array_type, dimensions=dimensions)
    ones = [dim for dim, size in enumerate(source.dims) if size == 1]
    dimensions = dims_after_reshape(before, array_type.dims, without(wanted, ones)) if ones else None
    if dimensions is None:
        return build.decline("the reshape splits or joins dimensions of what is broadcast")
    smaller = build.reshape(inner.operands[0], resized(source, without(source.dims, ones)))
    return build.op("broadcast", smaller, type=array_type, dimensions=dimensions)


RESHAPE.table("""
reshape-of-iota [2]: reshape(i:iota(iota_dimension=k)) -> iota(type=root, iota_dimension=place-after(k, i, root))
    if static, i is static, stays-whole(k, i, root)  # the counted dimension is neither split nor joined
""")


RESHAPE_AS_XLA.table("""
reshape-between-layouts [4]: reshape(x) -> x if same-array(root, x), other-layout(root, x), x and root are untiled,
    root is replaceable  # before layout assignment, layouts inside a module say nothing
""")


@RESHAPE_AS_XLA.rewrites(
    "reshape", "transpose", benefit=3, requires=operand_is(0, "rng"), because="takes the place of an op with effects"
)
def placing_of_random_numbers(build: Builder, node: Apply) -> Node | None:
    """reshape(rng(x, y)) -> rng(x, y), transpose(rng(x, y)) -> rng(x, y): other numbers, as random as they were."""
    inner, array_type = node.operands[0], tensor_type(node)
    if inner.opcode != "rng" or not isinstance(inner, Apply) or not used_once(inner) or array_type is None:
        return None
    if inner.attributes.get("control-predecessors"):
        return None
    build.consumed.append(inner)
    return build.like(inner, *inner.operands, type=array_type.with_layout(None))


@RESHAPE_AS_XLA.rewrites("reshape", requires=operand_is(0, "iota"), because="makes a term for each part of a dimension")
def reshape_of_iota_by_digits(build: Builder, node: Apply) -> Node | None:
    """reshape(iota) -> iota + iota * c + ..., where the reshape splits the counted dimension

        s32[2,3] reshape(s32[6] iota(), dimension 0)
          ->
        s32[2,3] iota(), dimension 1 + s32[2,3] iota(), dimension 0 * 3

    Integers wrap around in the same way; floats only as far as every whole number is held exactly.
    """
    inner, array_type = node.operands[0], tensor_type(node)
    if inner.opcode != "iota" or array_type is None or tensor_type(inner) is None or is_empty(array_type):
        return None
    counted, before = inner.attributes["iota_dimension"], inner.dims
    if not _counts_exactly(array_type, before[counted]):
        return build.decline(f"{array_type.dtype} does not hold every number up to {before[counted]}")
    digits = _split_into(before, counted, array_type.dims)
    if len(digits) < 2:
        return build.decline("the reshape does not just split the counted dimension")
    total: Node | None = None
    factor = 1
    for dim in reversed(digits):
        part: Node = build.op("iota", type=array_type, iota_dimension=dim)
        if total is None:
            total = part
        else:
            total = build.op("add", total, build.op("multiply", part, build.constant(factor, array_type)))
        factor *= array_type.dims[dim]
    return total


@RESHAPE_AS_XLA.rewrites(
    "reshape", requires=operand_is(0, "dynamic-update-slice"), because="picks the starts of the dimensions kept"
)
def reshape_of_dynamic_update_slice(build: Builder, node: Apply) -> Node | None:
    """reshape(dynamic-update-slice(x, y, i)) -> dynamic-update-slice(reshape(x), reshape(y), i')

    The reshape only adds or removes dimensions of size 1; an index of an added one is 0, as any index there means 0.
    """
    inner, array_type = node.operands[0], tensor_type(node)
    if inner.opcode != "dynamic-update-slice" or array_type is None or not used_once(inner):
        return None
    update = tensor_type(inner.operands[1])
    if update is None or tensor_type(inner) is None or len(inner.operands) != update.rank + 2 or is_empty(update):
        return None
    kept = kept_by_reshape(inner.dims, array_type.dims)
    if kept is None or not kept:
        return None
    back = {after: before for before, after in kept.items()}
    index = inner.operands[2].type
    assert isinstance(index, TensorType)
    zero = build.constant(0, index.dtype)
    starts = [inner.operands[2 + back[dim]] if dim in back else zero for dim in range(array_type.rank)]
    sizes = [update.dims[back[dim]] if dim in back else 1 for dim in range(array_type.rank)]
    larger = build.op("reshape", inner.operands[0], type=resized(array_type, array_type.dims))
    smaller = build.op("reshape", inner.operands[1], type=resized(update, sizes))
    return build.op("dynamic-update-slice", larger, smaller, *starts)


RESHAPE.table("""
copy-that-changes-nothing [2]: copy(x) -> in-place(x, root)  # both have the same layout
copy-of-copy: copy(c:copy(x)) -> copy(x) if same-memory(c, root); copy(c:copy(x)) -> copy(x) if same-memory(c, x)
    where same-array(root, x)  # in another memory space than both a copy is one for a reason
""")


@RESHAPE_AS_XLA.rewrites(
    "copy",
    "reshape",
    depth=4,
    requires=operand_is(0, "copy", "reshape"),
    because="looks through a chain of copies and reshapes",
)
def copied_there_and_back(build: Builder, node: Apply) -> Node | None:
    """copy(reshape(copy(x))) -> bitcast(x), where x and the result are row-major and what is between them is not"""
    array_type, source, between = tensor_type(node), node.operands[0], False
    if array_type is None or not is_row_major(array_type):
        return None
    while source.opcode in ("copy", "reshape") and used_once(source):
        source_type = tensor_type(source)
        if source_type is None or _is_tiled(source_type) or source.attributes.get("control-predecessors"):
            return None
        between |= source.opcode == "copy" and not is_row_major(source_type)
        source = source.operands[0]
    origin = tensor_type(source)
    if not between or origin is None or not is_row_major(origin):
        return None
    return build.op("bitcast", source, type=array_type)


RESHAPE.table("""
bitcast-of-bitcast [2]: bitcast(bitcast(x)) -> bitcast(x, type=root) if static, x is static  # the same bytes
bitcast-to-same-type [3]: bitcast(x) -> in-place(x, root) if same-array(root, x)  # x has that type and layout
bitcast-of-reshape: bitcast(r:reshape(x)) -> bitcast(x, type=root) if x and r are row-major  # its elements do not move
bitcast-of-broadcast: bitcast(b:broadcast(s)) -> spread(s, root)
    if s is scalar, same-element(b, root), b and root are untiled  # each element is s
""")


@RESHAPE.rewrites(
    "bitcast", depth=3, requires=operand_is(0, *UNARY), because="matches any elementwise op of one operand"
)
def bitcast_of_unary_of_bitcast(build: Builder, node: Apply) -> Node | None:
    """bitcast(f(bitcast(x))) -> bitcast(f(x)), where f works in each place alone

    No bitcast may change the element type, nor f the layout.
    """
    inner, array_type = node.operands[0], tensor_type(node)
    if inner.opcode not in UNARY or not used_once(inner) or inner.operands[0].opcode != "bitcast" or array_type is None:
        return None
    assert isinstance(inner, Apply)
    before = inner.operands[0]
    source, middle, made = (tensor_type(operand) for operand in (before.operands[0], before, inner))
    if source is None or middle is None or made is None:
        return None
    if source.dtype is not middle.dtype or made.dtype is not array_type.dtype or _is_tiled(source):
        return build.decline("a bitcast changes the element type, or how elements are packed")
    if not same_layout(made, middle.with_dtype(made.dtype)):
        return build.decline("the op yields another layout than its operand's")
    changed = build.like(inner, before.operands[0], type=source.with_dtype(made.dtype), sharding=None)
    return build.op("bitcast", changed, type=array_type)


def _empty(array_type: TensorType) -> Literal:
    return Literal.array(
        TensorType(array_type.dtype, array_type.dims), np.empty(array_type.dims, array_type.dtype.numpy)
    )


def _memory_space(node: Node) -> int:
    assert isinstance(node.type, TensorType)
    return node.type.layout.memory_space if node.type.layout else 0


def _is_tiled(array_type: TensorType) -> bool:
    return array_type.layout is not None and not array_type.layout.is_plain


def _counts_exactly(array_type: TensorType, size: int) -> bool:
    if array_type.dtype.is_integer:
        return size - 1 <= integer_range(array_type.dtype)[1]
    return size <= _EXACT_UP_TO.get(array_type.dtype.name, 0)


def _split_into(before: tuple[int, ...], dim: int, after: tuple[int, ...]) -> list[int]:
    """The dimensions, larger than 1, that a dimension is split into; empty where it is not just split."""
    front = 1
    for size in before[:dim]:
        front *= size
    back, passed, split_dims = front * before[dim], 1, []
    for number, size in enumerate(after):
        if front <= passed < back and size > 1:
            if passed * size > back or (not split_dims and passed != front):
                return []
            split_dims.append(number)
        passed *= size
        if passed > front and not split_dims:
            return []
    return split_dims


def _place_after(dim: int, before: Node, after: Node) -> int | None:
    """Where a dimension stands after a reshape; None where that splits or joins it."""
    source, made = tensor_type(before), tensor_type(after)
    places = None if source is None or made is None else dims_after_reshape(source.dims, made.dims, [dim])
    return None if places is None else places[0]


def _is_untiled(node: Node) -> bool:
    array_type = tensor_type(node)
    return array_type is not None and not _is_tiled(array_type)


def _is_replaceable(node: Node) -> bool:
    """Whether neither the layout of an output nor a sharding is lost with a node."""
    return not node.is_output and node.attributes.get("sharding") is None


def _without_elements(build: Builder, node: Node) -> Node:
    """A constant like an array that has no elements."""
    array_type = tensor_type(node)
    assert array_type is not None, f"{node!r} is not a static array"
    return build.constant(_empty(array_type))


register_condition("stays-whole", lambda dim, before, after: _place_after(dim, before, after) is not None)
register_condition("same-memory", lambda one, other: _memory_space(one) == _memory_space(other))
register_condition("other-layout", lambda one, other: not same_layout(one.type, other.type))
register_condition("untiled", _is_untiled)
register_condition("replaceable", _is_replaceable)
register_value("place-after", _place_after)
register_builder("without-elements", _without_elements)
