"""Slices of what is computed become computations of slices.

Follows XLA's xla/hlo/transforms/simplifiers/slice_hoister.cc (SliceHoister).
"""

from __future__ import annotations

from hloom.ir import Apply, Node
from hloom.passes.computation_order import has_control_dependencies
from hloom.passes.rules.broadcast import POINTWISE
from hloom.passes.rules.dimensions import is_row_major, resized
from hloom.rewrite import Builder, Family, operand_is, register_condition, tensor_type, used_once

SLICE_HOISTING = Family("slice-hoisting")
UNARY_SLICE_HOISTING = Family("unary-slice-hoisting")


@SLICE_HOISTING.rewrites(
    "slice",
    depth=2,
    requires=operand_is(0, *POINTWISE),
    because="matches any elementwise op, with any number of operands",
)
def slice_of_elementwise(build: Builder, node: Apply) -> Node | None:
    """slice(add(x, y)) -> add(slice(x), slice(y)), of every op of several operands, where only this reads it"""
    return _sliced(build, node) if len(node.operands[0].operands) > 1 else None


@UNARY_SLICE_HOISTING.rewrites(
    "slice", depth=2, requires=operand_is(0, *POINTWISE), because="matches any elementwise op of one operand"
)
def slice_of_unary(build: Builder, node: Apply) -> Node | None:
    """slice(negate(x)) -> negate(slice(x)), where nothing else uses the result"""
    return _sliced(build, node) if len(node.operands[0].operands) == 1 else None


def _sliced(build: Builder, node: Apply) -> Node | None:
    inner, array_type, made = node.operands[0], tensor_type(node.operands[0]), tensor_type(node)
    if not isinstance(inner, Apply) or array_type is None or made is None or not used_once(inner):
        return build.decline("something else uses what is sliced")
    types = [tensor_type(operand) for operand in inner.operands]
    if any(operand is None or (operand.rank and operand.dims != array_type.dims) for operand in types):
        return build.decline("an operand is not an array of these dimensions")
    if has_control_dependencies(inner) or "sharding" in inner.attributes or not is_row_major(array_type):
        return build.decline("control dependencies, a sharding or a layout bind it")
    parts: list[Node] = []
    for operand, operand_type in zip(inner.operands, types, strict=True):
        assert operand_type is not None
        is_scalar = not operand_type.rank
        parts.append(operand if is_scalar else build.op("slice", operand, slice=node.attributes["slice"]))
    return build.like(inner, *parts, type=resized(array_type, made.dims))


SLICE_HOISTING.table("""
slice-of-transpose: slice(t:transpose(x, dimensions=a), slice=s) ->
    transpose(slice(x, slice=composed(s, inverse(a))), dimensions=a) where t is used once, t is unpinned
    # each dimension is cut as before
""")


def _is_unpinned(node: Node) -> bool:
    """Whether a node has no sharding and waits for nothing."""
    return not has_control_dependencies(node) and "sharding" not in node.attributes


register_condition("unpinned", _is_unpinned)
