"""The order in which kernels run: breadth first, each as soon as its operands are computed.

Follows `BFScheduler::Run` in xla/hlo/transforms/simplifiers/hlo_memory_scheduler.cc, over kernels in the post-order of
`HloComputation::MakeInstructionPostOrder` (xla/hlo/ir/hlo_computation.cc).
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Mapping, Sequence

from hloom.analysis import ELEMENTWISE, instruction_post_order
from hloom.ir import Graph, Node, Parameter, Trait, TupleType, reachable
from hloom.ops import with_trait

RESHAPES = with_trait(Trait.KEEPS_ORDER)


def schedule_breadth_first(
    graph: Graph, fused: Collection[Node], state_sizes: Mapping[Graph, int] | None = None
) -> Sequence[Node]:
    """The live nodes in order of running; a fused node comes right before the first kernel that computes it.

    `state_sizes` says by loop's body how many elements its state had in the program as it was written.
    """
    kernels = [node for node in instruction_post_order(graph) if node not in fused]
    consumers: dict[Node, list[Node]] = defaultdict(list)
    pending_operands: dict[Node, int] = {}
    for kernel in kernels:
        operands = [*kernel_operands(kernel, fused), *(kernel.attributes.get("control-predecessors") or ())]
        pending_operands[kernel] = len(operands)
        for operand in operands:
            consumers[operand].append(kernel)
    for kernel in kernels:
        if kernel.opcode == "while" or _is_loop_state(kernel):
            _sort_elements(kernel, consumers[kernel], state_sizes or {})
        elif kernel.opcode in RESHAPES and _is_moved(kernel):
            consumers[kernel].insert(0, consumers[kernel].pop())
    ready = deque(sorted((kernel for kernel in kernels if not pending_operands[kernel]), key=_first_rank))
    order: list[Node] = []
    scheduled: set[Node] = set()
    while ready:
        kernel = ready.popleft()
        append_kernel(kernel, fused, scheduled, order)
        for consumer in consumers[kernel]:
            pending_operands[consumer] -= 1
            if not pending_operands[consumer]:
                ready.append(consumer)
    return order


def _is_moved(reshape: Node) -> bool:
    """Whether XLA computes all users of a reshape before it, in the shape of its operand.

    They become users of the operand, behind the reshape, whose place in the list of users the last of them takes when
    the reshape is removed (`ReshapeMover::SinkRearrangeOperands`, xla/hlo/transforms/simplifiers/reshape_mover.cc;
    `HloInstruction::Users::RemoveUser`, xla/hlo/ir/hlo_instruction.cc).
    """
    source = reshape.operands[0].dims
    if reshape.user_count < 2 or reshape.is_output or source == reshape.dims:
        return False
    return all(
        user.opcode in ELEMENTWISE
        and all(
            (operand.opcode in RESHAPES and operand.operands[0].dims == source) or _is_filled(operand)
            for operand in user.operands
        )
        for user in reshape.users
    )


def _is_filled(value: Node) -> bool:
    """Whether all elements are one number."""
    return value.opcode == "broadcast" and not value.operands[0].dims


def _first_rank(kernel: Node) -> tuple[int, int]:
    """Parameters come first, by number, then constants."""
    if isinstance(kernel, Parameter):
        return 0, kernel.number
    return (1 if kernel.opcode == "constant" else 2), 0


def _is_loop_state(node: Node) -> bool:
    """Whether a node is what the body of a loop takes."""
    return isinstance(node, Parameter) and any(
        caller.opcode == "while" and caller.attributes.get("body") is node.graph for caller in node.graph.callers
    )


def _sort_elements(state: Node, readers: list[Node], state_sizes: Mapping[Graph, int]) -> None:
    """Put the elements that are read of a loop's state into the order of XLA's list of its users.

    The body's parameter has new users, last first, since copies were inserted behind it. Of a loop's result, elements
    that nothing reads have left the list, the last of the list taking the place of each
    (`HloInstruction::Users::RemoveUser`, xla/hlo/ir/hlo_instruction.cc).
    """
    elements = {reader.attributes["index"]: reader for reader in readers if reader.opcode == "get-tuple-element"}
    if len(elements) < len(readers):
        return
    if state.opcode != "while":
        readers.sort(key=lambda reader: -reader.attributes["index"])
        return
    size = len(state.type.elements) if isinstance(state.type, TupleType) else 0
    users = list(range(min(size, state_sizes.get(state.attributes["body"], size))))
    for index in [index for index in users if index not in elements]:
        position = users.index(index)
        users[position] = users[-1]
        users.pop()
    if len(users) == len(readers):
        readers[:] = [elements[index] for index in users]


def last_consumers(order: Sequence[Node], fused: Collection[Node]) -> dict[Node, int]:
    """For each fused node, the position of the last kernel that computes it."""
    last: dict[Node, int] = {}
    for position in range(len(order) - 1, -1, -1):
        node = order[position]
        until = last[node] if node in fused else position
        for operand in node.operands:
            if operand in fused and last.get(operand, -1) < until:
                last[operand] = until
    return last


def kernel_operands(kernel: Node, fused: Collection[Node]) -> list[Node]:
    """The kernels that a kernel reads, through fused nodes."""
    reached = reachable(reversed(kernel.operands), lambda node: node.operands[::-1] if node in fused else ())
    return [node for node in reached if node not in fused]


def append_kernel(kernel: Node, fused: Collection[Node], scheduled: set[Node], order: list[Node]) -> None:
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
        pending += ((operand, False) for operand in node.operands if operand in fused and operand not in scheduled)
