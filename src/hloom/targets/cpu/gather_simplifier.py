"""Gathers and scatters in simple form: one dimension of indices, and slices of the operand's rank.

    gather(x[9,4], i[8,1]), slice_sizes={1,4} [8,4]   ->   reshape(gather(x, i) [8,1,4])
    scatter(x[9,4], i[8,1], u[8,4])                   ->   scatter(x, i, reshape(u) [8,1,4])

So a kernel that computes updates from gathered rows yields another shape than it reads, and writes nothing over them.
Follows `GatherSimplifier::ExpandInstruction` (xla/hlo/transforms/simplifiers/gather_simplifier.cc) and
`ScatterSimplifier::ExpandInstruction` (xla/service/scatter_simplifier.cc), without those whose slices are not the last
dimensions of the result, or that have batches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from hloom.ir import Apply, Graph, Node, TensorType
from hloom.ops import OPS


def simplify_gathers(graph: Graph) -> None:
    """Give gathers and scatters of a graph simple form, with reshapes around them."""
    nodes = list(graph.nodes)
    following: dict[Node, Node] = dict(pairwise(nodes))
    for node in nodes:
        if not isinstance(node, Apply) or not isinstance(node.type, TensorType):
            continue
        if node.opcode == "gather":
            _simplify_gather(graph, node, following.get(node))
        elif node.opcode == "scatter" and len(node.operands) == 3:
            _simplify_scatter(graph, node)


def _simplify_gather(graph: Graph, gather: Apply, following: Node | None) -> None:
    attributes, result = gather.attributes, gather.type
    slices = tuple(attributes.get("slice_sizes") or ())
    if attributes.get("operand_batching_dims") or not isinstance(result, TensorType):
        return
    dims = _with_slices(result.dims, attributes.get("offset_dims") or (), slices)
    if dims is None or dims == result.dims:
        return
    reshape = graph.add_apply(OPS["reshape"], (gather,), result, before=following)
    graph.replace_uses(gather, reshape)
    graph.set_operands(reshape, (gather,))
    graph.set_type(gather, TensorType(result.dtype, dims))


def _simplify_scatter(graph: Graph, scatter: Apply) -> None:
    operand, indices, updates = scatter.operands
    attributes = scatter.attributes
    if attributes.get("input_batching_dims") or not isinstance(updates.type, TensorType):
        return
    window = list(attributes.get("update_window_dims") or ())
    sizes = iter([updates.type.dims[dim] for dim in window])
    inserted = set(attributes.get("inserted_window_dims") or ())
    rank = len(window) + len(inserted)
    slices = tuple(1 if dim in inserted else next(sizes) for dim in range(rank))
    dims = _with_slices(updates.type.dims, window, slices)
    if dims is None or dims == updates.type.dims:
        return
    reshape = graph.add_apply(OPS["reshape"], (updates,), TensorType(updates.type.dtype, dims), before=scatter)
    graph.set_operands(scatter, (operand, indices, reshape))


def _with_slices(dims: Sequence[int], offsets: Sequence[int], slices: tuple[int, ...]) -> tuple[int, ...] | None:
    """One dimension for those before `offsets`, and those of a slice; None where the offsets are not the last ones."""
    first = len(dims) - len(offsets)
    if list(offsets) != list(range(first, len(dims))):
        return None
    return math.prod(dims[:first]), *slices
