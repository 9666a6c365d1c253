"""Delays kernels until others have freed more memory than they take.

    p = f32[512,512] divide(e, s)         p and e stored
    d = f32[512,512] multiply(e, ...)     d is computed while p is still kept for the product below
    v = f32[512,32] dot(p, g)
      ->
    d = f32[512,512] multiply(e, ...), one operand of which waits for v: p is gone when d is computed

XLA's CPU compiler runs kernels in the order in which they become ready (xla/service/cpu/cpu_compiler.cc,
`BFScheduler`), whatever they free. All that a kernel reads which is run earlier must be there already, so that an order
exists in which every kernel that waits comes after the one that it waits for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hloom.analysis import leaf_bytes
from hloom.autodiff import Emitter
from hloom.distribute.remat.opaque_dependence import OpaqueDependence, can_wait_for
from hloom.distribute.remat.recomputation import VIEWS, sort_topologically
from hloom.distribute.remat.stored_values import StoredValue, StoredValues
from hloom.ir import Apply, Graph, Node, TensorType
from hloom.ops import may_merge

LEAST_GAIN = 0.005
"""Kernels do not wait for less than this share of the program's peak."""
MOST_WAITING = 0.25
"""An operand is made to wait only if it is smaller than this share of what that frees."""
MOST_LATER = 200
"""The number of kernels after one to consider waiting for."""


class Wait(NamedTuple):
    """The names of a stored value of the entry, and of another one that its kernel waits for."""

    kernel: str
    waits_for: str


def find_waits(stored: StoredValues, limit: int) -> list[Wait]:
    """For kernels that run while more than `limit` bytes are in use, the kernel that frees most if it runs before."""
    waits: list[Wait] = []
    taken: set[StoredValue] = set()
    in_order = sorted(stored.values, key=lambda value: value.made)
    for position, kernel in enumerate(in_order):
        time = kernel.made
        if kernel in taken:
            continue
        if stored.fixed + stored.usage[time] <= limit or not isinstance(kernel.node.type, TensorType):
            continue
        gains = {
            later: _gain(kernel, later)
            for later in in_order[position + 1 : position + 1 + MOST_LATER]
            if later not in taken and later.made > time and can_wait_for(later.node)
        }
        best = max(gains, key=gains.__getitem__, default=None)
        if best is None or gains[best] < LEAST_GAIN * stored.peak:
            continue
        edge = _smallest_operand(kernel.node, stored)
        if edge is not None and edge.size <= MOST_WAITING * gains[best]:
            waits.append(Wait(kernel.node.name, best.node.name))
            taken.add(best)
    return waits


def write_waits(graph: Graph, stored: StoredValues, waits: Sequence[Wait], mechanism: str) -> None:
    """Let one small operand of each kernel wait; `stored` are the values of a graph with the same names."""
    dependence = OpaqueDependence(Emitter(graph), mechanism)
    names = {value.node.name for value in stored.values}
    for wait in waits:
        edge = _smallest_operand_of(graph[wait.kernel], names)
        if edge is None or _depends_on(graph[wait.waits_for], edge.reader):
            continue
        waiting = dependence.after(edge.path[-1], graph[wait.waits_for])
        for view in reversed(edge.path[:-1]):
            assert isinstance(view, Apply)
            waiting = graph.add_apply(view.function, [waiting], view.type, view.attributes, view.name)
        inputs = list(edge.reader.operands)
        inputs[edge.operand_index] = waiting
        graph.set_operands(edge.reader, inputs)
    sort_topologically(graph)


def _gain(kernel: StoredValue, later: StoredValue) -> int:
    """The bytes that are free when a kernel runs if a later one has run before; none where that cannot be."""
    if any(operand.made >= kernel.made for operand in later.operands):
        return 0
    freed = 0
    for operand in later.operands:
        late = [(time, reader) for time, reader in operand.reads if time >= kernel.made]
        if operand not in kernel.operands and all(reader is later for _, reader in late):
            freed += operand.size
    return freed - later.size


def _depends_on(node: Node, other: Node) -> bool:
    """Whether a node is computed from another one, or is that."""
    seen, pending = {node}, [node]
    while pending:
        reached = pending.pop()
        if reached is other:
            return True
        before = [*reached.operands, *(reached.attributes.get("control-predecessors") or ())]
        fresh = [operand for operand in before if operand not in seen]
        seen.update(fresh)
        pending += fresh
    return False


class _Edge(NamedTuple):
    """An operand of an instruction, through views of it: the last of the path is what is viewed."""

    size: int
    reader: Node
    operand_index: int
    path: list[Node]


def _smallest_operand(root: Node, stored: StoredValues) -> _Edge | None:
    return _smallest_operand_of(root, {value.node.name for value in stored.values})


def _smallest_operand_of(root: Node, stored: set[str]) -> _Edge | None:
    """The smallest array that the kernel of a stored value reads and that may be made to wait for it alone."""
    edges: list[_Edge] = []
    pending = [root]
    while pending:
        reader = pending.pop()
        for index, operand in enumerate(reader.operands):
            is_inside = operand.name not in stored and isinstance(operand, Apply) and may_merge(operand)
            if is_inside and operand.opcode not in VIEWS and operand.user_count == 1:
                pending.append(operand)
                continue
            path = [operand]
            while path[-1].name not in stored and path[-1].opcode in VIEWS and len(path[-1].operands) == 1:
                path.append(path[-1].operands[0])
            if isinstance(path[-1].type, TensorType) and path[-1].opcode != "iota":
                edges.append(_Edge(leaf_bytes(path[-1].type), reader, index, path))
    return min(edges, key=lambda edge: edge.size, default=None)
