"""Rules on scatter. Every bit is kept, NaN payloads included.

Follows XLA's xla/hlo/transforms/simplifiers/algebraic_simplifier.cc (HandleScatter).
"""

from __future__ import annotations

from hloom.ir import Apply, Node
from hloom.passes.rules.dimensions import is_empty, replace_if_compatible, same_array
from hloom.rewrite import Builder, Family, tensor_type

SCATTER = Family("scatter", formerly="updating")


@SCATTER.rewrites("scatter", benefit=2)
def scatter_of_nothing(build: Builder, node: Apply) -> Node | None:
    """scatter(x, i, y) -> x, where y has no elements; a tuple of all operands where there are several"""
    operands, updates = _scattered(node)
    types = [tensor_type(update) for update in updates]
    if not types or not all(array_type is not None and is_empty(array_type) for array_type in types):
        return None
    if len(operands) == 1:
        return replace_if_compatible(build, node, operands[0])
    return build.op("tuple", *operands)


@SCATTER.rewrites("scatter")
def scatter_over_everything(build: Builder, node: Apply) -> Node | None:
    """scatter(x, i, y) -> map(x, y), where no index says anything and y is as large as x"""
    indices = tensor_type(node.operands[1]) if len(node.operands) == 3 else None
    array_type = tensor_type(node)
    if indices is None or array_type is None or not is_empty(indices):
        return None
    if not all(same_array(node.type, operand.type) for operand in (node.operands[0], node.operands[2])):
        return build.decline("the update does not cover everything")
    if node.attributes["update_window_dims"] != tuple(range(array_type.rank)):
        return build.decline("the update is more than one window")
    where = tuple(range(array_type.rank))
    return build.op("map", node.operands[0], node.operands[2], dimensions=where, to_apply=node.attributes["to_apply"])


def _scattered(node: Node) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    """What is scattered into, and what is scattered."""
    count = len(node.operands) // 2
    return node.operands[:count], node.operands[count + 1 :]
