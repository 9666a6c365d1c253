"""The order in which kernels run: breadth first, each as soon as its operands are computed.

Follows `BFScheduler::Run` in xla/hlo/transforms/simplifiers/hlo_memory_scheduler.cc, over kernels in the post-order of
`HloComputation::MakeInstructionPostOrder` (xla/hlo/ir/hlo_computation.cc).
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Sequence

from hloom.analysis import post_order
from hloom.ir import Graph, Node


def schedule_breadth_first(graph: Graph, fused: Collection[Node]) -> Sequence[Node]:
    """The live nodes in order of running; a fused node comes right before the first kernel that computes it."""
    kernels = [node for node in post_order(graph) if node not in fused]
    consumers: dict[Node, list[Node]] = defaultdict(list)
    pending_operands: dict[Node, int] = {}
    for kernel in kernels:
        operands = [*kernel_operands(kernel, fused), *(kernel.attributes.get("control-predecessors") or ())]
        pending_operands[kernel] = len(operands)
        for operand in operands:
            consumers[operand].append(kernel)
    ready = deque(kernel for kernel in kernels if not pending_operands[kernel])
    order: list[Node] = []
    scheduled: set[Node] = set()
    while ready:
        kernel = ready.popleft()
        _append_kernel(kernel, fused, scheduled, order)
        for consumer in consumers[kernel]:
            pending_operands[consumer] -= 1
            if not pending_operands[consumer]:
                ready.append(consumer)
    return order


def last_consumers(order: Sequence[Node], fused: Collection[Node]) -> dict[Node, int]:
    """By fused node the position of the last kernel that computes it."""
    last: dict[Node, int] = {}
    for position in range(len(order) - 1, -1, -1):
        node = order[position]
        until = last[node] if node in fused else position
        for operand in node.inputs:
            if operand in fused and last.get(operand, -1) < until:
                last[operand] = until
    return last


def kernel_operands(kernel: Node, fused: Collection[Node]) -> list[Node]:
    """The kernels that a kernel reads, through fused nodes."""
    operands: dict[Node, None] = {}
    seen: set[Node] = set()
    pending = list(reversed(kernel.inputs))
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        if node in fused:
            pending += reversed(node.inputs)
        else:
            operands[node] = None
    return list(operands)


def _append_kernel(kernel: Node, fused: Collection[Node], scheduled: set[Node], order: list[Node]) -> None:
    """Append a kernel to the order, after the nodes that are fused into it."""
    pending: list[tuple[Node, bool]] = [(kernel, False)]
    while pending:
        node, is_ready = pending.pop()
        if node in scheduled:
            continue
        if is_ready:
            scheduled.add(node)
            order.append(node)
            continue
        pending.append((node, True))
        pending += ((operand, False) for operand in node.inputs if operand in fused and operand not in scheduled)
