"""The order in which kernels run: of three orders, the one that keeps least in memory.

Follows `DefaultMemoryScheduler`, `ListMemoryScheduler`, `DFSMemoryScheduler` and `PostOrderScheduler` (xla/hlo/
transforms/simplifiers/hlo_memory_scheduler.cc), which `ScheduleGpuModuleWithMemoryScheduler` runs (xla/service/gpu/
gpu_hlo_schedule.cc). The latency-hiding scheduler after it moves only what waits for collectives.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hloom.analysis import instruction_post_order, leaf_bytes, list_schedule
from hloom.ir import Graph, Node, Trait, post_order
from hloom.ops import SAME_BYTES, with_trait
from hloom.targets.cpu import append_kernel, kernel_operands

WITHOUT_MEMORY = SAME_BYTES | with_trait(Trait.KEEPS_ORDER) | with_trait(Trait.TUPLE) | {"constant", "parameter"}
"""Opcodes whose results are in the memory of others."""


def order_kernels(graph: Graph, fused: Collection[Node]) -> Sequence[Node]:
    """The live nodes in order of running; a fused node comes right before the first kernel that computes it."""
    stored = [node for node in instruction_post_order(graph) if node not in fused]
    read = {
        kernel: [*kernel_operands(kernel, fused), *(kernel.attributes.get("control-predecessors") or ())]
        for kernel in stored
    }
    kernels = list(post_order(stored, read.__getitem__))
    orders = [list_schedule(graph, kernels, read.__getitem__), _depth_first(kernels, read), kernels]
    order: list[Node] = []
    scheduled: set[Node] = set()
    for kernel in min(orders, key=lambda kernels: _peak(kernels, read)):
        append_kernel(kernel, fused, scheduled, order)
    return order


def _depth_first(kernels: Sequence[Node], read: dict[Node, list[Node]]) -> Sequence[Node]:
    """Operands first: of those that are used most and then of the largest, with all that they are computed from."""
    users = dict.fromkeys(kernels, 0)
    for kernel in kernels:
        for operand in read[kernel]:
            users[operand] += 1
    extra: dict[Node, int] = {}
    total: dict[Node, int] = {}
    for kernel in kernels:
        operands = dict.fromkeys(read[kernel])
        extra[kernel] = min(max(users[kernel] - 1, 0) + sum(extra[one] for one in operands), len(kernels))
        total[kernel] = _size(kernel) + sum(total[one] for one in operands)
    most = sum(map(_size, kernels))
    ranks = {kernel: (-extra[kernel], -min(total[kernel], most)) for kernel in kernels}
    return list(post_order(kernels[::-1], lambda kernel: sorted(read[kernel], key=ranks.__getitem__)))


def _peak(order: Sequence[Node], read: dict[Node, list[Node]]) -> int:
    """The most bytes that are live at one time, without what other computations take."""
    left = dict.fromkeys(order, 0)
    for kernel in order:
        for operand in dict.fromkeys(read[kernel]):
            left[operand] += 1
    live = peak = 0
    for kernel in order:
        live += _size(kernel)
        peak = max(peak, live)
        for operand in dict.fromkeys(read[kernel]):
            left[operand] -= 1
            live -= 0 if left[operand] else _size(operand)
    return peak


def _size(kernel: Node) -> int:
    return 0 if kernel.opcode in WITHOUT_MEMORY else leaf_bytes(kernel.type)
