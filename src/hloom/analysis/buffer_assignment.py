"""Buffer assignment: which buffers share the allocation of an output or donated parameter, and which are temporary.

Parameters and outputs have their own memory for the whole run; temporaries may use it before an output is written or
after a donated parameter is last read. The rest is packed into one allocation. The order of choices is XLA's
(xla/service/buffer_assignment.cc, BufferAssigner::AssignBuffersForComputations and MaybeAssignBuffer, jaxlib 0.10.2):
the largest buffers choose first, and pick the smallest allocation that fits.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from itertools import chain

from hloom.analysis.buffers import Buffer, Span
from hloom.analysis.dataflow import ValueTable
from hloom.analysis.schedule import instruction_post_order
from hloom.ir import Node

TRIES_PER_BUFFER = 20
"""The average number of allocations to try per buffer, which bounds the time; the remaining (smaller) buffers become
temporaries.
"""


@dataclass(slots=True)
class BufferAllocation:
    """The memory of an output or a donated parameter: its bytes, and when it is in use and by what."""

    size: int
    spans: list[Span]


@dataclass(slots=True)
class BufferAssignment:
    """The temporaries that need memory after elementwise reuse, and the buffers placed in fixed allocations.

    `allocations` is keyed by the ids of the fixed buffers.
    """

    allocations: dict[int, BufferAllocation] = field(default_factory=dict)
    temporaries: list[Buffer] = field(default_factory=list)


def assign_buffers(
    values: ValueTable,
    fixed: Iterable[Buffer],
    free: Iterable[Buffer],
    temporary: Collection[str] = (),
    reuse: Callable[[ValueTable, list[Buffer]], list[Buffer]] | None = None,
) -> BufferAssignment:
    """Assign the free buffers to the allocations of the fixed ones where they fit.

    Results of the opcodes in `temporary` stay temporary (BufferAssigner's `must_not_live_out`). `reuse` lets results
    overwrite operands that die there: `reuse_operands` unless another is given.
    """
    assignment = BufferAssignment({id(buffer): BufferAllocation(buffer.size, list(buffer.spans)) for buffer in fixed})
    position = _post_order_positions(values)
    allocations = sorted(assignment.allocations.values(), key=lambda one: position(one.spans), reverse=True)
    allocations.sort(key=lambda one: one.size)
    sizes = [allocation.size for allocation in allocations]
    homes = {span.value: allocation for allocation in allocations for span in allocation.spans}
    buffers = sorted(free, key=lambda buffer: (-buffer.size, *position(buffer.spans), buffer.spans[0].start))
    tries = TRIES_PER_BUFFER * len(buffers) + 100_000
    left: list[Buffer] = []
    for buffer in buffers:
        first = bisect_left(sizes, buffer.size)
        operands = [homes[old] for old, _ in values.overwrites.get(buffer.spans[0].value, ()) if old in homes]
        if temporary and any(values.nodes[span.value].opcode in temporary for span in buffer.spans):
            left.append(buffer)
            continue
        home = next((allocation for allocation in operands if _takes(allocation, buffer, values)), None)
        while home is None and first < len(allocations) and tries > 0:
            tries -= 1
            if _takes(allocations[first], buffer, values):
                home = allocations[first]
            first += 1
        if home is None:
            left.append(buffer)
            continue
        for span in buffer.spans:
            insort(home.spans, span)  # usually inserts near the end, since buffers of equal size come in time order
        homes.update({span.value: home for span in buffer.spans})
    assignment.temporaries = (reuse or reuse_operands)(values, left)
    return assignment


def _post_order_positions(values: ValueTable) -> Callable[[list[Span]], tuple[int, int]]:
    """When a buffer chooses among those of its size: by the first instruction that writes into it.

    Callers come before callees and later callees first; of results of one instruction, the one whose buffer is written
    first where callees come first, as their numbers do (HloAliasAnalysis).
    """
    last_steps = {node.graph: time for time, node in enumerate(values.steps)}
    orders = {graph: instruction_post_order(graph) for graph in sorted(last_steps, key=last_steps.__getitem__)}
    numbers = _numbered(orders.values())
    positions = _numbered(reversed(orders.values()))
    last = len(positions)

    def position(spans: list[Span]) -> tuple[int, int]:
        nodes = [values.nodes[span.value] for span in spans]
        return min(positions.get(node, last) for node in nodes), min(numbers.get(node, last) for node in nodes)

    return position


def _numbered(orders: Iterable[Iterable[Node]]) -> dict[Node, int]:
    return {node: number for number, node in enumerate(chain.from_iterable(orders))}


def _takes(allocation: BufferAllocation, buffer: Buffer, values: ValueTable) -> bool:
    """Whether a buffer is in use only while the allocation is not; a dying operand may be overwritten."""
    if buffer.size > allocation.size:
        return False
    spans = allocation.spans
    for span in buffer.spans:
        at = bisect_left(spans, span)
        if at and not _follows(spans[at - 1], span, values):
            return False
        if at < len(spans) and not _follows(span, spans[at], values):
            return False
    return True


def _follows(earlier: Span, later: Span, values: ValueTable) -> bool:
    if earlier.end != later.start:
        return earlier.end < later.start
    return any(old == earlier.value for old, _ in values.overwrites.get(later.value, ()))


def reuse_operands(values: ValueTable, buffers: list[Buffer]) -> list[Buffer]:
    """Let elementwise results reuse the buffers of operands that die there.

        a = sine(x)     b = add(a, y), the last to read a     ->     a and b in one buffer

    Only buffers with a single value take part, as in XLA (xla/service/heap_simulator).
    """
    owners = {buffer.spans[0].value: buffer for buffer in buffers if len(buffer.spans) == 1}
    gone: set[int] = set()
    for buffer in sorted(buffers, key=lambda other: other.spans[0]):
        value = buffer.spans[0].value
        for old, is_direct in values.overwrites.get(value, ()) if value in owners else ():
            owner = owners.get(old)
            if not is_direct or owner is None or owner.spans[-1] != (owner.spans[-1].start, values.starts[value], old):
                continue
            owner.spans.append(buffer.spans[0])
            owner.reusing.add(value)
            owner.size = max(owner.size, buffer.size)
            owners[value] = owner
            del owners[old]
            gone.add(id(buffer))
            break
    return [buffer for buffer in buffers if id(buffer) not in gone]


def reuse_shared_operands(values: ValueTable, buffers: list[Buffer]) -> list[Buffer]:
    """The same for a memory that was assigned before: also in buffers of several values, and through copies' ends.

    (xla/service/memory_space_assignment)
    """
    owners = {buffer.spans[-1].value: buffer for buffer in buffers}
    gone: set[int] = set()
    for buffer in sorted(buffers, key=lambda other: other.spans[0]):
        first, last = buffer.spans[0], buffer.spans[-1].value
        for old, _ in values.overwrites.get(first.value, ()):
            owner = owners.get(old)
            if owner is None or owner is buffer or owner.spans[-1].end != first.start or owner.size != buffer.size:
                continue
            owner.spans += buffer.spans
            owner.reusing.add(first.value)
            owners[last] = owner
            del owners[old]
            gone.add(id(buffer))
            break
    return [buffer for buffer in buffers if id(buffer) not in gone]
