"""Sorts with the positions of the elements: for a sort to be stable, and for the positions of the largest elements.

    sort(x), is_stable=true   ->   get-tuple-element(sort(x, iota()), index=0)
    topk(x), k=64             ->   tuple(slice(sorted), slice(positions)) of sort(x, iota())

Follows `StableSortExpander::ExpandInstruction` (xla/service/stable_sort_expander.cc), `TopkDecomposer` (xla/service/
topk_rewriter.cc) and `SmallBufferOptimization` (xla/backends/gpu/transforms/topk_specializer.cc).
"""

from __future__ import annotations

from hloom.ir import Apply, Graph, Node, SliceDimension, TensorType, TupleType, dtype
from hloom.ops import OPS

MOST_SELECTED = 16
"""The maximum number of elements that a kernel selects without sorting (`max_k`)."""
LEAST_SEARCHED = 1024
"""The minimum number of elements among which it does (`min_n`)."""


def expand_sorts(graph: Graph) -> None:
    """Give stable sorts an iota as another operand, unless they have one, and sort for the largest elements."""
    for node in list(graph.nodes):
        if not isinstance(node, Apply):
            continue
        if node.opcode == "topk":
            _sort_all(graph, node)
        elif node.opcode == "sort" and node.attributes.get("is_stable"):
            _expand(graph, node)


def _expand(graph: Graph, sort: Apply) -> None:
    dimension = (sort.attributes.get("dimensions") or (0,))[0]
    if any(operand.opcode == "iota" for operand in sort.operands):
        return
    results = _sorted(graph, sort, sort.operands, dimension)[:-1]
    whole = results[0] if len(results) == 1 and not isinstance(sort.type, TupleType) else None
    graph.replace_uses(sort, whole or graph.add_apply(OPS["tuple"], results, sort.type, before=sort))
    graph.erase(sort)


def _sort_all(graph: Graph, topk: Apply) -> None:
    (operand,) = topk.operands
    count, dims = topk.attributes["k"], operand.dims
    if count <= MOST_SELECTED and dims[-1] >= LEAST_SEARCHED and len(dims) <= 2:
        return
    kept = tuple(SliceDimension(0, size, 1) for size in (*dims[:-1], count))
    assert isinstance(topk.type, TupleType)
    results = [
        graph.add_apply(OPS["slice"], (result,), element, {"slice": kept}, before=topk)
        for result, element in zip(_sorted(graph, topk, (operand,), len(dims) - 1), topk.type.elements, strict=True)
    ]
    graph.replace_uses(topk, graph.add_apply(OPS["tuple"], results, topk.type, before=topk))
    graph.erase(topk)


def _sorted(graph: Graph, before: Apply, operands: tuple[Node, ...], dimension: int) -> list[Node]:
    """The operands sorted, and last the positions that the elements had."""
    types = [operand.type for operand in operands if isinstance(operand.type, TensorType)]
    types.append(TensorType(dtype("s32"), types[0].dims))
    iota = graph.add_apply(OPS["iota"], (), types[-1], {"iota_dimension": dimension}, before=before)
    attributes = {"dimensions": (dimension,)}
    made = graph.add_apply(OPS["sort"], (*operands, iota), TupleType(tuple(types)), attributes, before=before)
    return [
        graph.add_apply(OPS["get-tuple-element"], (made,), element, {"index": index}, before=before)
        for index, element in enumerate(types)
    ]
