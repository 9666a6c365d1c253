"""Broadcasts that keep the order of the dimensions that they spread.

Follows XLA's xla/hlo/transforms/simplifiers/broadcast_canonicalizer.cc (BroadcastCanonicalizer).
"""

from __future__ import annotations

from hloom.ir import Apply, Node
from hloom.passes.computation_order import has_control_dependencies
from hloom.rewrite import Builder, Family, tensor_type

CANONICAL_BROADCAST = Family("canonical-broadcast")


@CANONICAL_BROADCAST.rewrites("broadcast", depth=1)
def broadcast_in_order(build: Builder, node: Apply) -> Node | None:
    """broadcast(x), dimensions={1,0} -> broadcast(transpose(x, {1,0})), dimensions={0,1}"""
    dims, made = tuple(node.attributes.get("dimensions") or ()), tensor_type(node)
    if list(dims) == sorted(dims) or made is None or has_control_dependencies(node):
        return build.decline("the dimensions are in order")
    order = sorted(range(len(dims)), key=dims.__getitem__)
    moved = build.transpose(node.operands[0], order)
    return build.op("broadcast", moved, type=made.with_layout(None), dimensions=tuple(sorted(dims)))
