"""Rules for updates: of a slice whose place is computed, and scatters. Every bit stays, NaN's included.

A start is moved to where the slice fits: `place` below is the start after that.
"""

from __future__ import annotations

from hloom.ir import Apply, Node, PaddingDimension
from hloom.passes.rules.dimensions import is_empty, same_array, scalar_of, stand_in
from hloom.passes.rules.starts import constant_places, merged_starts, same_starts, starts_of
from hloom.rewrite import Builder, Family, tensor_type

UPDATING = Family("updating")
UPDATING_AS_XLA = Family("updating-as-xla")
"""Forms that XLA prefers though they are not smaller."""


@UPDATING.rewrites("dynamic-update-slice", benefit=4)
def update_of_everything(build: Builder, node: Apply) -> Node | None:
    """dynamic-update-slice(x, y, i) -> y, where y is as large as x"""
    return stand_in(build, node, node.inputs[1]) if same_array(node.type, node.inputs[1].type) else None


@UPDATING.rewrites("dynamic-update-slice", benefit=4)
def update_of_nothing(build: Builder, node: Apply) -> Node | None:
    """dynamic-update-slice(x, y, i) -> x, where y has no elements"""
    update = tensor_type(node.inputs[1])
    return stand_in(build, node, node.inputs[0]) if update is not None and is_empty(update) else None


@UPDATING.rewrites("dynamic-update-slice", benefit=3)
def update_of_scalar(build: Builder, node: Apply) -> Node | None:
    """dynamic-update-slice(broadcast(s), y, 2) -> pad(y, s)"""
    kind, update, scalar = tensor_type(node), tensor_type(node.inputs[1]), scalar_of(node.inputs[0])
    places = constant_places(node, kind, update)
    if kind is None or update is None or scalar is None or places is None or update.dtype is not kind.dtype:
        return None
    if _goes_to_host(node.inputs[1]):
        return build.decline("the update goes to the host's memory")
    padding = [
        PaddingDimension(place, size - place - part)
        for place, size, part in zip(places, kind.dims, update.dims, strict=True)
    ]
    return build.op("pad", node.inputs[1], scalar, padding=tuple(padding))


@UPDATING.rewrites("dynamic-update-slice", benefit=2)
def update_by_what_is_there(build: Builder, node: Apply) -> Node | None:
    """dynamic-update-slice(x, dynamic-slice(x, i), i) -> x"""
    inner, starts = node.inputs[1], starts_of(node)
    if inner.opcode != "dynamic-slice" or starts is None or inner.inputs[0] is not node.inputs[0]:
        return None
    return stand_in(build, node, node.inputs[0]) if same_starts(starts, starts_of(inner)) else None


@UPDATING.rewrites("dynamic-update-slice", benefit=2)
def update_of_update(build: Builder, node: Apply) -> Node | None:
    """dynamic-update-slice(dynamic-update-slice(x, y, i), z, i) -> dynamic-update-slice(x, z, i), y as large as z"""
    inner, starts = node.inputs[0], starts_of(node)
    if inner.opcode != "dynamic-update-slice" or starts is None:
        return None
    if not same_array(inner.inputs[1].type, node.inputs[1].type) or not same_starts(starts, starts_of(inner)):
        return None
    return build.like(node, inner.inputs[0], *node.inputs[1:])


@UPDATING_AS_XLA.rewrites("dynamic-update-slice", depth=3)
def update_of_updated_slice(build: Builder, node: Apply) -> Node | None:
    """dynamic-update-slice(x, dynamic-update-slice(dynamic-slice(x, i), y, j), i) -> dynamic-update-slice(x, y, k)

    k is place(i) + place(j).
    """
    inner, starts = node.inputs[1], starts_of(node)
    if inner.opcode != "dynamic-update-slice" or inner.inputs[0].opcode != "dynamic-slice" or starts is None:
        return None
    taken, further = inner.inputs[0], starts_of(inner)
    if taken.inputs[0] is not node.inputs[0] or further is None or not same_starts(starts, starts_of(taken)):
        return None
    whole, middle, small = (tensor_type(each) for each in (node, inner, inner.inputs[1]))
    if whole is None or middle is None or small is None:
        return None
    moved = merged_starts(build, further, starts, small.dims, middle.dims, whole.dims)
    return None if moved is None else build.op("dynamic-update-slice", node.inputs[0], inner.inputs[1], *moved)


@UPDATING.rewrites("scatter", benefit=2)
def scatter_of_nothing(build: Builder, node: Apply) -> Node | None:
    """scatter(x, i, y) -> x, where y has no elements; a tuple of all operands where there are several"""
    operands, updates = _scattered(node)
    kinds = [tensor_type(update) for update in updates]
    if not kinds or not all(kind is not None and is_empty(kind) for kind in kinds):
        return None
    if len(operands) == 1:
        return stand_in(build, node, operands[0])
    return build.op("tuple", *operands)


@UPDATING.rewrites("scatter")
def scatter_over_everything(build: Builder, node: Apply) -> Node | None:
    """scatter(x, i, y) -> map(x, y), where no index says anything and y is as large as x"""
    indices = tensor_type(node.inputs[1]) if len(node.inputs) == 3 else None
    kind = tensor_type(node)
    if indices is None or kind is None or not is_empty(indices):
        return None
    if not all(same_array(node.type, each.type) for each in (node.inputs[0], node.inputs[2])):
        return build.decline("the update does not cover everything")
    if node.attributes["update_window_dims"] != tuple(range(kind.rank)):
        return build.decline("the update is more than one window")
    where = tuple(range(kind.rank))
    return build.op("map", node.inputs[0], node.inputs[2], dimensions=where, to_apply=node.attributes["to_apply"])


def _scattered(node: Node) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    """What is scattered into, and what is scattered."""
    count = len(node.inputs) // 2
    return node.inputs[:count], node.inputs[count + 1 :]


def _goes_to_host(node: Node) -> bool:
    while node.opcode in ("reshape", "bitcast", "copy"):
        node = node.inputs[0]
    return node.opcode == "custom-call" and node.attributes.get("custom_call_target") == "MoveToHost"
