"""Rules on scatter. Every bit is kept, NaN payloads included.

Follows XLA's xla/hlo/transforms/simplifiers/algebraic_simplifier.cc (HandleScatter).
"""

from __future__ import annotations

from hloom.ir import Apply, Node
from hloom.passes.rules.dimensions import is_empty, replace_if_compatible
from hloom.rewrite import Builder, Family, register_condition, tensor_type

SCATTER = Family("scatter", formerly="updating")


@SCATTER.rewrites("scatter", benefit=2, because="takes any number of arrays")
def scatter_of_nothing(build: Builder, node: Apply) -> Node | None:
    """scatter(x, i, y) -> x, where y has no elements; a tuple of all operands where there are several"""
    operands, updates = _scattered(node)
    types = [tensor_type(update) for update in updates]
    if not types or not all(array_type is not None and is_empty(array_type) for array_type in types):
        return None
    if len(operands) == 1:
        return replace_if_compatible(build, node, operands[0])
    return build.op("tuple", *operands)


SCATTER.table("""
scatter-over-everything: scatter(x, i, y, update_window_dims=w, to_apply=f) -> map(x, y, dimensions=w, to_apply=f)
    if i is empty, same-array(root, x), same-array(root, y), all-in-order(w, root)  # y is one window as large as x
""")


def _scattered(node: Node) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    """What is scattered into, and what is scattered."""
    count = len(node.operands) // 2
    return node.operands[:count], node.operands[count + 1 :]


def _are_all_in_order(dims: tuple[int, ...], node: Node) -> bool:
    array_type = tensor_type(node)
    return array_type is not None and dims == tuple(range(array_type.rank))


register_condition("all-in-order", _are_all_in_order)
