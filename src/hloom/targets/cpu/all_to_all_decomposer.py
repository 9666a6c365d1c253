"""Decomposes all-to-alls of arrays into all-to-alls of their parts: the CPU runtime's collective works on tuples.

    all-to-all(x[64,512]), dimensions={0}, over 8 devices
      ->
    concatenate(get-tuple-element(all-to-all(slice(x) [8,512], …, slice(x) [8,512]), index=0), …), dimensions={0}

So the array is there four times: whole, as parts sent, as parts received, and put together. Follows
`AllToAllDecomposer::ExpandInstruction` (xla/service/all_to_all_decomposer.cc).
"""

from __future__ import annotations

from hloom.analysis import group_size
from hloom.ir import Apply, Graph, Node, SliceDimension, TensorType, TupleType
from hloom.ops import OPS

MAX_PARTS = 1024
"""All-to-alls among more devices are left as they are."""


def decompose_all_to_alls(graph: Graph) -> None:
    """Decompose the all-to-alls of a graph that split and join dimensions of one array."""
    for node in list(graph.nodes):
        if isinstance(node, Apply) and node.opcode == "all-to-all" and isinstance(node.type, TensorType):
            _decompose(graph, node)


def _decompose(graph: Graph, node: Apply) -> None:
    array = node.operands[0]
    dimensions = node.attributes.get("dimensions") or ()
    count = group_size(node, graph.module)
    if len(node.operands) != 1 or len(dimensions) != 1 or array.type != node.type or not 1 < count <= MAX_PARTS:
        return
    assert isinstance(array.type, TensorType)
    dims, dim = array.type.dims, dimensions[0]
    if dims[dim] % count:
        return
    width = dims[dim] // count
    part_type = TensorType(array.type.dtype, (*dims[:dim], width, *dims[dim + 1 :]))
    parts: list[Node] = []
    for number in range(count):
        ranges = [SliceDimension(0, size) for size in dims]
        ranges[dim] = SliceDimension(number * width, (number + 1) * width)
        parts.append(graph.add_apply(OPS["slice"], (array,), part_type, {"slice": tuple(ranges)}, before=node))
    attributes = {name: value for name, value in node.attributes.items() if name != "dimensions"}
    sent = graph.add_apply(OPS["all-to-all"], parts, TupleType((part_type,) * count), attributes, before=node)
    received = [
        graph.add_apply(OPS["get-tuple-element"], (sent,), part_type, {"index": number}, before=node)
        for number in range(count)
    ]
    graph.set_operands(node, received)
    graph.set_function(node, OPS["concatenate"])
    graph.set_attributes(node, {"dimensions": (dim,)})
