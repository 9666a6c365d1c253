"""Rules on dynamic-update-slice. Elements are only moved: every bit is kept, NaN payloads included.

Follows XLA's xla/hlo/transforms/simplifiers/algebraic_simplifier.cc (HandleDynamicUpdateSlice).
Start indices are clamped so that the slice fits: `place` below is the clamped start.
"""

from __future__ import annotations

from hloom.ir import Apply, Node, PaddingDimension, SliceDimension
from hloom.passes.rules.dimensions import is_empty, scalar_of
from hloom.passes.rules.dynamic_slice import constant_starts, merged_starts, same_starts, start_operands
from hloom.rewrite import Builder, Family, operand_is, register_builder, tensor_type

DYNAMIC_UPDATE_SLICE = Family("dynamic-update-slice", formerly="updating")
DYNAMIC_UPDATE_SLICE_AS_XLA = Family("dynamic-update-slice-as-xla", formerly="updating-as-xla")
"""Forms that XLA prefers though they are not smaller."""


DYNAMIC_UPDATE_SLICE.table("""
update-of-everything [4]: dynamic-update-slice(x, y, i...) -> in-place(y, root) if same-array(root, y)
    # nothing of x is left
update-of-nothing [4]: dynamic-update-slice(x, y, i...) -> in-place(x, root) if y is empty  # nothing is written
""")


@DYNAMIC_UPDATE_SLICE.rewrites("dynamic-update-slice", benefit=3, because="computes the padding")
def update_of_scalar(build: Builder, node: Apply) -> Node | None:
    """dynamic-update-slice(broadcast(s), y, 2) -> pad(y, s)"""
    array_type, update, scalar = tensor_type(node), tensor_type(node.operands[1]), scalar_of(node.operands[0])
    offsets = constant_starts(node, array_type, update)
    if (
        array_type is None
        or update is None
        or scalar is None
        or offsets is None
        or update.dtype is not array_type.dtype
    ):
        return None
    if _goes_to_host(node.operands[1]):
        return build.decline("the update goes to the host's memory")
    padding = [
        PaddingDimension(offset, size - offset - part)
        for offset, size, part in zip(offsets, array_type.dims, update.dims, strict=True)
    ]
    return build.op("pad", node.operands[1], scalar, padding=tuple(padding))


DYNAMIC_UPDATE_SLICE.table("""
update-by-what-is-there [2]: dynamic-update-slice(x, s:dynamic-slice(x, i...), j...) -> in-place(x, root)
    if same-starts(root, s)  # each element is written where it was
update-of-update [2]: dynamic-update-slice(u:dynamic-update-slice(x, y, i...), z, j...) -> dynamic-update-slice(x, z, j)
    if same-array(y, z), same-starts(root, u)  # all of y is written over
""")


@DYNAMIC_UPDATE_SLICE_AS_XLA.rewrites("dynamic-update-slice", depth=3, because="computes the starts in the whole")
def update_of_updated_slice(build: Builder, node: Apply) -> Node | None:
    """dynamic-update-slice(x, dynamic-update-slice(dynamic-slice(x, i), y, j), i) -> dynamic-update-slice(x, y, k)

    k is place(i) + place(j).
    """
    inner, starts = node.operands[1], start_operands(node)
    if inner.opcode != "dynamic-update-slice" or inner.operands[0].opcode != "dynamic-slice" or starts is None:
        return None
    taken, further = inner.operands[0], start_operands(inner)
    if taken.operands[0] is not node.operands[0] or further is None or not same_starts(starts, start_operands(taken)):
        return None
    whole, middle, small = (tensor_type(value) for value in (node, inner, inner.operands[1]))
    if whole is None or middle is None or small is None:
        return None
    moved = merged_starts(build, further, starts, small.dims, middle.dims, whole.dims)
    return None if moved is None else build.op("dynamic-update-slice", node.operands[0], inner.operands[1], *moved)


@DYNAMIC_UPDATE_SLICE.rewrites(
    "slice",
    depth=2,
    formerly="slice-beside-update",
    requires=operand_is(0, "dynamic-update-slice"),
    because="computes the slice of the update",
)
def slice_of_update(build: Builder, node: Apply) -> Node | None:
    """slice(dynamic-update-slice(x, y, 4)), slice={[5:6]} -> slice(y), slice={[1:2]}, of the updated part alone

    What takes nothing of the update is for the pass `eliminate-dead-updates`.
    """
    update = node.operands[0]
    if not isinstance(update, Apply) or update.opcode != "dynamic-update-slice":
        return None
    whole, part = tensor_type(update), tensor_type(update.operands[1])
    if whole is None or part is None or is_empty(part):
        return None
    offsets = constant_starts(update, whole, part)
    if offsets is None or _goes_to_host(update.operands[1]):
        return build.decline("where the update goes is not known")
    cut = list(zip(node.attributes["slice"], offsets, part.dims, strict=True))
    if any(taken.start < offset or taken.limit > offset + size for taken, offset, size in cut):
        return build.decline("it takes what is beside the update")
    inside = [SliceDimension(taken.start - offset, taken.limit - offset, taken.stride) for taken, offset, _ in cut]
    return build.like(node, update.operands[1], slice=tuple(inside))


def _goes_to_host(node: Node) -> bool:
    while node.opcode in ("reshape", "bitcast", "copy"):
        node = node.operands[0]
    return node.opcode == "custom-call" and node.attributes.get("custom_call_target") == "MoveToHost"


def _taken(build: Builder, whole: Node, update: Node) -> Node:
    """The part of an array where an update goes; a scalar as it is."""
    _, part, *starts = update.operands
    array_type, part_type = tensor_type(whole), tensor_type(part)
    assert array_type is not None and part_type is not None, "two static arrays"
    return build.op("dynamic-slice", whole, *starts, dynamic_slice_sizes=part_type.dims) if array_type.rank else whole


register_builder("taken", _taken)
