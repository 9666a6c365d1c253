"""Expansion of select-and-scatter: the indices of the selected elements, and a scatter of the source to them.

    select-and-scatter(x f32[16,8], source f32[4,4], init)
      ->
    selected = reduce-window(x, iota s32[16,8], iota s32[16,8])      (f32[4,4], s32[4,4], s32[4,4])
    scatter(broadcast(init) f32[16,8], concatenate(...) s32[16,2], reshape(source))

Follows `SelectAndScatterExpander::ExpandInstruction` (xla/hlo/transforms/expanders/select_and_scatter_expander.cc).
"""

from __future__ import annotations

import math

from hloom.ir import Apply, Graph, Node, TensorType, TupleType, Window, dtype
from hloom.ops import OPS


def expand_select_and_scatter(graph: Graph) -> None:
    """Expand every select-and-scatter of arrays in a graph."""
    for node in list(graph.nodes):
        if isinstance(node, Apply) and node.opcode == "select-and-scatter" and isinstance(node.type, TensorType):
            _expand(graph, node)


def _expand(graph: Graph, node: Apply) -> None:
    operand, source, initial = node.operands
    assert isinstance(node.type, TensorType)
    if not isinstance(source.type, TensorType):
        return
    rank, index = len(node.type.dims), dtype("s32")
    index_type, selected_type = TensorType(index, node.type.dims), TensorType(index, source.type.dims)

    def add(opcode: str, inputs: tuple[Node, ...], result: TensorType | TupleType, **attributes: object) -> Apply:
        return graph.add_apply(OPS[opcode], inputs, result, attributes, before=node)

    iotas = [add("iota", (), index_type, iota_dimension=dim) for dim in range(rank)]
    windows = add(
        "reduce-window",
        (operand, *iotas, initial, *[initial] * rank),
        TupleType((TensorType(node.type.dtype, source.type.dims), *[selected_type] * rank)),
        window=node.attributes.get("window") or Window(),
        to_apply=node.attributes["select"],
    )
    count = math.prod(source.type.dims)
    selected = [add("get-tuple-element", (windows,), selected_type, index=dim + 1) for dim in range(rank)]
    columns = [add("reshape", (element,), TensorType(index, (count, 1))) for element in selected]
    indices = add("concatenate", tuple(columns), TensorType(index, (count, rank)), dimensions=(1,))
    updates = add("reshape", (source,), TensorType(node.type.dtype, (count, *[1] * rank)))
    filled = add("broadcast", (initial,), TensorType(node.type.dtype, node.type.dims), dimensions=())
    graph.set_function(node, OPS["scatter"])
    graph.set_operands(node, (filled, indices, updates))
    graph.set_attributes(node, {"to_apply": node.attributes["scatter"]})
