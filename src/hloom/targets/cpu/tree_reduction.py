"""Tree reduction: reductions not handled by the library are computed window by window, then over the windows.

    reduce(x[8,128]), dimensions={1}
      ->
    reduce(reduce-window(x) [8,4], window={size=1x32 stride=1x32}), dimensions={1}

Follows `ReductionRewriterVisitor::HandleReduce` (xla/service/tree_reduction_rewriter.cc), which XLA's CPU compiler runs
until nothing changes.
"""

from __future__ import annotations

from hloom.ir import Apply, Graph, Node, TensorType, Window, WindowDimension
from hloom.ops import OPS
from hloom.targets.cpu.library_fusion import is_library_reduction

WINDOW_SIZE = 32
"""The number of elements of a window along a dimension (`reduce_window_size`)."""


def rewrite_reductions(graph: Graph) -> None:
    """Put windows before the reductions of a graph along more than WINDOW_SIZE elements."""
    for node in list(graph.nodes):
        if isinstance(node, Apply) and node.opcode == "reduce" and len(node.operands) == 2:
            while not is_library_reduction(node) and _add_windows(graph, node):
                pass


def _add_windows(graph: Graph, reduction: Apply) -> bool:
    """Reduce windows first; whether a reduced dimension is longer than one."""
    operand: Node = reduction.operands[0]
    if not isinstance(operand.type, TensorType) or not isinstance(reduction.type, TensorType):
        return False
    reduced = reduction.attributes.get("dimensions") or ()
    if all(operand.type.dims[dim] <= WINDOW_SIZE for dim in reduced):
        return False
    sizes = [min(size, WINDOW_SIZE) if dim in reduced else 1 for dim, size in enumerate(operand.type.dims)]
    counts = tuple(-(-size // max(width, 1)) for size, width in zip(operand.type.dims, sizes, strict=True))
    attributes = {
        "window": Window(tuple(WindowDimension(size=max(width, 1), stride=max(width, 1)) for width in sizes)),
        "to_apply": reduction.attributes["to_apply"],
    }
    windows_type = TensorType(reduction.type.dtype, counts)
    windows = graph.add_apply(OPS["reduce-window"], reduction.operands, windows_type, attributes, before=reduction)
    graph.set_operands(reduction, (windows, reduction.operands[1]))
    return True
