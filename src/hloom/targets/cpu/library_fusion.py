"""Library fusion: the kernels of dots, reductions and elementwise ops that XLA's CPU compiler hands to YNNPACK.

A fusion that starts at a reduction grows over operands that only it reads and over the only user of its result, other
dots and reductions included. Follows `LibraryRewriter::ProcessComputation`, `FuseNeighbors` and `AddFusionCandidates`
(xla/backends/cpu/transforms/library_rewriter.cc), `YnnMatcher` (xla/backends/cpu/transforms/ynn_matcher.h) and
`IsDotSupportedByYnn`, `IsReduceLikeOpSupportedByYnn`, `IsElementwiseOpSupportedByYnn` and `IsInstructionPreferredByYnn`
(xla/backends/cpu/ynn_support.cc).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from hloom.analysis import BROADCASTS, VIEWS, elements
from hloom.ir import Apply, Graph, Node, TensorType, Window
from hloom.ops import EXTREMES

ELEMENTWISE_OPS = frozenset(
    {
        "abs",
        "add",
        "ceil",
        "convert",
        "divide",
        "erf",
        "exponential",
        "exponential-minus-one",
        "floor",
        "log",
        "log-plus-one",
        "logistic",
        "maximum",
        "minimum",
        "multiply",
        "negate",
        "power",
        "round-nearest-even",
        "rsqrt",
        "sign",
        "sqrt",
        "subtract",
        "tanh",
    }
)
"""Elementwise opcodes that the library has (xla/backends/cpu/ynn_support.cc, GetYnnUnaryOpMap, GetYnnBinaryOpMap)."""
MOVEMENT_OPS = VIEWS | {"broadcast", "pad"}
"""Other opcodes that the library fuses; a transpose is a copy to another layout, which it refuses."""
ELEMENTWISE_TYPES = frozenset({"f64", "f32", "bf16", "s8", "u8"})
ACCUMULATED_TYPES = frozenset({"f64", "f32"})
"""The types of dots and sums that the library takes."""
SELECTED_TYPES = frozenset({"f64", "f32", "f16", "bf16", "s8", "u8"})
"""The types of maxima and minima that the library takes."""
MIN_DOT_SIZE = 8
"""Dots whose matrices all have fewer rows and columns than this are left to loops (`IsDotSupportedByYnn`)."""
MAX_SMALL_FEATURES = 16
"""The maximum number of features of convolutions left to Eigen (`IsConvolutionOpSupportedByYnn`)."""
MIN_ELEMENTS = 4096
"""The minimum number of elements of an instruction or operand for the library: below that its overhead would exceed the
work (`kMinElements` in `IsInstructionPreferredByYnn`).
"""


def library_kernels(graph: Graph) -> dict[Node, Node]:
    """For each node that the library computes, the root of its kernel, whose result alone is stored."""
    rewriter = _LibraryRewriter()
    for node in reversed(graph.nodes):
        if isinstance(node, Apply) and node not in rewriter.kernels and _starts_fusion(node):
            rewriter.start_fusion(node)
    return {node: kernel.root for node, kernel in rewriter.kernels.items()}


@dataclass(slots=True, eq=False)
class _Kernel:
    members: set[Node]
    root: Node


class _LibraryRewriter:
    """The kernels of a graph, by their nodes."""

    def __init__(self) -> None:
        self.kernels: dict[Node, _Kernel] = {}

    def start_fusion(self, start: Apply) -> None:
        """Make a kernel of a node; a kernel of a reduction grows until nothing more is fused."""
        kernel = _Kernel({start}, start)
        self.kernels[start] = kernel
        while start.opcode != "dot" and self._fuse_neighbors(kernel):
            pass

    def _fuse_neighbors(self, kernel: _Kernel) -> bool:
        """Fuse operands and users as far as that leads; whether anything was fused."""
        before, seen = len(kernel.members), set(kernel.members)
        pending = deque([*self._fusible_operands(kernel.members, kernel, seen), *self._only_user(kernel, seen)])
        while pending:
            node, is_user = pending.popleft()
            other = self.kernels.get(node)
            if other is None and (not _is_supported(node) or _is_transposed(node)):
                continue
            members = other.members if other is not None else {node}
            kernel.members |= members
            self.kernels.update(dict.fromkeys(members, kernel))
            if is_user:
                kernel.root = other.root if other is not None else node
                pending += self._only_user(kernel, seen)
            elif other is None:
                pending += self._fusible_operands({node}, kernel, seen)
        return len(kernel.members) > before

    def _fusible_operands(self, nodes: set[Node], kernel: _Kernel, seen: set[Node]) -> list[tuple[Node, bool]]:
        """The operands that only the kernel reads."""
        candidates: list[tuple[Node, bool]] = []
        for operand in (operand for node in nodes for operand in node.operands):
            if operand not in seen and not operand.is_output and all(user in kernel.members for user in operand.users):
                seen.add(operand)
                candidates.append((operand, False))
        return candidates

    def _only_user(self, kernel: _Kernel, seen: set[Node]) -> list[tuple[Node, bool]]:
        """The only user of a kernel's result."""
        if kernel.root.user_count != 1 or kernel.root.is_output or kernel.root.users[0] in seen:
            return []
        seen.add(kernel.root.users[0])
        return [(kernel.root.users[0], True)]


def _starts_fusion(node: Node) -> bool:
    """Whether the library has a dot or reduction: of supported types and large enough.

    Dots are of two matrices, canonical on the left; one with a vector is of a matrix of one row or column.
    """
    if not all(isinstance(value.type, TensorType) for value in (node, *node.operands)):
        return False
    if node.opcode == "dot":
        contracting = tuple(node.attributes.get("lhs_contracting_dims") or ())
        matrix = node.dims[len(node.attributes.get("lhs_batch_dims") or ()) :]
        is_canonical = contracting == (len(node.operands[0].dims) - 1,) and len(matrix) == 2 and min(matrix) > 1
        is_canonical &= max(*matrix, *node.operands[0].dims[-1:], 0) >= MIN_DOT_SIZE
        return is_canonical and {_dtype(value) for value in (node, *node.operands)} <= ACCUMULATED_TYPES
    return is_library_reduction(node)


def is_library_reduction(node: Node) -> bool:
    """Whether the library has a reduction: a large sum that is accumulated in f32 or f64, or a maximum or minimum."""
    reducer = node.attributes.get("to_apply")
    if node.opcode not in ("reduce", "reduce-window") or len(node.operands) != 2 or not _is_preferred(node):
        return False
    if node.opcode == "reduce-window":
        if not _has_separate_windows(node):
            return False
    elif not node.attributes.get("dimensions"):
        return False
    combine = reducer.output if isinstance(reducer, Graph) else None
    if combine is None or _dtype(node.operands[1]) != _dtype(node):
        return False
    if combine.opcode in EXTREMES:
        return _dtype(node) in SELECTED_TYPES
    return combine.opcode == "add" and {_dtype(combine), _dtype(node)} <= ACCUMULATED_TYPES


def _has_separate_windows(node: Node) -> bool:
    """Whether windows neither overlap nor skip elements, along one dimension at least."""
    dims = [dim for dim in (node.attributes.get("window") or Window()).dimensions if dim.size > 1 or dim.stride > 1]
    are_plain = all(dim.base_dilation == dim.window_dilation == 1 and not dim.reversal for dim in dims)
    return bool(dims) and are_plain and all(dim.stride == dim.size or dim.size == 1 for dim in dims)


def _is_library_convolution(node: Node) -> bool:
    """Whether the library has a convolution: of two spatial dimensions, features last, no larger than its input."""
    labels, window = node.attributes.get("dim_labels"), node.attributes.get("window")
    if labels is None or window is None or node.attributes.get("batch_group_count", 1) != 1:
        return False
    if (labels.lhs, labels.rhs, labels.output) != ("b01f", "01io", "b01f") or _dtype(node) not in ACCUMULATED_TYPES:
        return False
    image, kernel, result = node.operands[0].dims, node.operands[1].dims, node.dims
    if max(image[3], result[3]) <= MAX_SMALL_FEATURES:
        return False
    if any(max(result[dim], kernel[dim - 1]) > image[dim] for dim in (1, 2)):
        return False
    return all(dim.base_dilation == 1 and not dim.reversal for dim in window.dimensions)


def _is_supported(node: Node) -> bool:
    """Whether the library can fuse a node."""
    if not isinstance(node, Apply) or not all(isinstance(value.type, TensorType) for value in (node, *node.operands)):
        return False
    if node.opcode == "convolution":
        return _is_library_convolution(node)
    if node.opcode in ("dot", "reduce", "reduce-window"):
        return _starts_fusion(node)
    if any(_dtype(value) not in ELEMENTWISE_TYPES for value in (node, *node.operands)):
        return False
    if node.opcode in MOVEMENT_OPS:
        return True
    return node.opcode in ELEMENTWISE_OPS and _is_preferred(node) and not _is_select(node)


def _is_transposed(node: Node) -> bool:
    """Whether an elementwise op has the layout of transposed operands, which it is computed in and copied from."""
    arrays = [operand for operand in node.operands if operand.opcode not in BROADCASTS and len(operand.dims) > 1]
    return node.opcode in ELEMENTWISE_OPS and bool(arrays) and all(array.opcode == "transpose" for array in arrays)


def _is_preferred(node: Node) -> bool:
    return max(elements(value.type) for value in (node, *node.operands)) >= MIN_ELEMENTS


def _is_select(node: Node) -> bool:
    """Whether a product with a converted predicate is what XLA makes a select of a value and zero."""
    return node.opcode == "multiply" and any(
        operand.opcode == "convert" and _dtype(operand.operands[0]) == "pred" for operand in node.operands
    )


def _dtype(node: Node) -> str:
    return node.type.dtype.name if isinstance(node.type, TensorType) else ""
