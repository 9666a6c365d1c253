"""Dot fusion: the kernel of a dot computes cheap operands as it reads them, and elementwise work on its result.

    subtract(w, multiply(dot(tanh(x), convert(y)), broadcast(0.1)))     one kernel, which reads w, x and y

What is computed from no more bytes than it has is fused into operands, and computed again for other readers. Follows
`GemmFusionVisitor` (xla/backends/gpu/transforms/gemm_fusion.cc), `IsInputWorthFusing`, `IsOutputWorthFusing` and
`GetPropagatedDimOrdersAndRequirementsIfProfitablyFusible` (xla/service/gpu/triton_tiling_propagation.cc).
"""

from __future__ import annotations

from collections.abc import Iterable

from hloom.analysis import BROADCASTS, ELEMENTWISE, VIEWS, leaf_bytes
from hloom.ir import Apply, Constant, Graph, Node, Parameter, TensorType, post_order

DotKernels = dict[Node, Node]
"""For each node that the kernel of a dot computes, the root of the kernel."""
TOLERANCE = 1024
"""Bytes by which the operands of what is fused may exceed its result (`kIoToleranceBytes`)."""
MOST_PARAMETERS = 4
"""The maximum number of arrays read for one operand of a dot (`kMaxParameterPerDotOperand`)."""
FUSED = ELEMENTWISE | VIEWS | {"broadcast", "concatenate", "copy", "slice", "transpose"}
"""Opcodes that the kernel of a dot can compute."""


def fuse_dots(graph: Graph) -> DotKernels:
    """Make the kernels of a graph's dots; what is fused into operands is copied for each kernel."""
    kernels: DotKernels = {}
    for dot in [node for node in graph.nodes if isinstance(node, Apply) and node.opcode == "dot"]:
        inside = [copy for operand in dot.operands for copy in _fuse_operand(graph, dot, operand, kernels)]
        inside += _fused_users(dot)
        kernels |= dict.fromkeys(inside, inside[-1])
    return kernels


def _fuse_operand(graph: Graph, dot: Apply, operand: Node, kernels: DotKernels) -> Iterable[Node]:
    """Let a dot read copies of what is fused into an operand; yields the copies."""
    read: dict[Node, None] = {operand: None}
    pending, chosen = [operand], set[Node]()
    while pending:
        node = pending.pop(0)
        if node in kernels or not _is_worth_fusing(node):
            continue
        added = [source for source in dict.fromkeys(node.operands) if source not in read and not _is_scalar(source)]
        if len(read) - 1 + len(added) > MOST_PARAMETERS:
            continue
        chosen.add(node)
        del read[node]
        read.update(dict.fromkeys(added))
        pending += added
    copies: dict[Node, Node] = {}
    for node in post_order([operand] if chosen else [], lambda node: node.operands if node in chosen else ()):
        if node in chosen and isinstance(node, Apply):
            sources = [copies.get(source, source) for source in node.operands]
            copies[node] = graph.add_apply(node.function, sources, node.type, node.attributes, before=dot)
    graph.set_operands(dot, [copies.get(one, one) for one in dot.operands])
    return copies.values()


def _is_worth_fusing(node: Node) -> bool:
    if not isinstance(node, Apply) or node.opcode not in FUSED or not isinstance(node.type, TensorType):
        return False
    if node.opcode in ELEMENTWISE and len(node.operands) == 2 and any(map(_is_spread_input, node.operands)):
        return True
    if sum(leaf_bytes(operand.type) for operand in node.operands) - leaf_bytes(node.type) <= TOLERANCE:
        return True
    if node.user_count > 1:
        return False
    inputs = all(isinstance(operand, Parameter | Constant) for operand in node.operands)
    return inputs and (node.opcode == "slice" or all(operand.user_count == 1 for operand in node.operands))


def _is_spread_input(node: Node) -> bool:
    return node.opcode == "broadcast" and isinstance(node.operands[0], Parameter | Constant)


def _fused_users(dot: Apply) -> list[Node]:
    """The dot and the elementwise instructions that use it alone, with what is spread for them, in order."""
    inside: list[Node] = [dot]
    while not inside[-1].is_output and inside[-1].user_count == 1:
        user = inside[-1].users[0]
        others = [operand for operand in user.operands if operand is not inside[-1]]
        if user.opcode not in ELEMENTWISE or not all(map(_is_input, others)):
            break
        gained = leaf_bytes(user.type) - sum(leaf_bytes(operand.type) for operand in user.operands)
        if gained > TOLERANCE and not _is_result(user):
            break
        inside += [other for other in others if other.opcode == "broadcast" and other.user_count == 1]
        inside.append(user)
    return inside


def _is_input(node: Node) -> bool:
    """Whether an operand is a parameter, or a broadcast of one or of a scalar."""
    if node.opcode == "broadcast":
        return not node.operands[0].dims or _is_parameter(node.operands[0])
    return _is_parameter(node)


def _is_parameter(node: Node) -> bool:
    while node.opcode in VIEWS or node.opcode == "get-tuple-element":
        node = node.operands[0]
    return isinstance(node, Parameter)


def _is_result(node: Node) -> bool:
    users = node.users
    return node.is_output or (len(users) == 1 and users[0].opcode == "tuple" and users[0].is_output)


def _is_scalar(node: Node) -> bool:
    return isinstance(node.type, TensorType) and not node.type.dims and node.opcode in (*BROADCASTS, "constant")
