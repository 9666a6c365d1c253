"""Values that depend on no input, computed anew for every use: what one use loses is no matter to the others.

    zero = broadcast(0)   a = maximum(h, zero)   b = maximum(g, zero)
      ->
    zero = broadcast(0)   a = maximum(h, zero)   zero.1 = broadcast(0)   b = maximum(g, zero.1)

Without this, layers that share the zeros of a relu would have to lose the same channels. `cse` merges what stays equal.
"""

from __future__ import annotations

from hloom.compress.pruning.dimension_dependency import is_pointwise
from hloom.compress.quantization import redirect
from hloom.distribute.propagation import DataflowGraph
from hloom.ir import Apply, Constant, Module, Node, Trait
from hloom.ops import with_trait

MOST_GROWTH = 4
"""How many times as many nodes there may be after it: beyond that, values stay shared."""
_COPIED = with_trait(Trait.MOVES_DATA) - {"concatenate", "dynamic-reshape", "dynamic-update-slice"}
"""Opcodes that are cheap to apply once more: joining and updating write what other uses share."""


def separate_uses(module: Module) -> None:
    """Give every use of a value with dimensions that depend on no input, and that is cheap to make, one of its own."""
    dataflow = DataflowGraph(module)
    left = (MOST_GROWTH - 1) * sum(len(graph.nodes) for graph in dataflow.graphs)
    for graph in dataflow.graphs:
        for node in reversed(list(graph.nodes)):
            if not _is_free(node, dataflow):
                continue
            users = [user for user in node.users if user.graph is graph]
            if len(users) > left:
                return
            for user in users[0 if node.is_output else 1 :]:
                mapping = {operand: operand for operand in node.operands}
                copy = graph.copy_node(node, mapping, before=user)
                redirect(node, [user], copy)
                left -= 1


def _is_free(node: Node, dataflow: DataflowGraph) -> bool:
    """Whether a value has dimensions that depend on no input, and is made without a product or a computation."""
    if isinstance(node, Apply):
        if (node.opcode not in _COPIED and not is_pointwise(node)) or node.opcode in ("reduce", "reduce-window"):
            return False
    elif not isinstance(node, Constant):
        return False
    leaves = dataflow.values.get(node, ())
    return len(leaves) == 1 and any(
        dataflow.is_free(leaves[0], dim) for dim in range(len(dataflow.leaves[leaves[0]].dims))
    )
