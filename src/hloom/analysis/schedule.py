"""Instruction orders: as scheduled, as written, or chosen to keep memory low.

The list schedule picks, among the ready instructions, the one with the best balance of freed and allocated
bytes; ties go to the one written first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from hloom.analysis.fusion import fused_nodes
from hloom.analysis.sizes import leaf_bytes
from hloom.ir import Graph, Module, Node, Trait, operands_of, post_order
from hloom.ops import SAME_BYTES, with_trait

SCHEDULES = ("list", "text")
PASSING = SAME_BYTES | with_trait(Trait.KEEPS_ORDER) | with_trait(Trait.TUPLE)
"""Opcodes that yield what they are given, without memory of their own."""


@dataclass(frozen=True, slots=True)
class ComputationSchedule:
    """A computation's instructions in execution order, and the last reads of fused ones.

    `overwritable` says which operands, through fused instructions, each instruction may overwrite with its result; by
    default this follows from the opcodes.
    """

    order: Sequence[Node]
    fused: Mapping[Node, int] = field(default_factory=dict)
    overwritable: Mapping[Node, Collection[Node]] | None = None


@dataclass(slots=True)
class Scheduler:
    """Makes and caches a schedule per computation; `is_final` says that order, fusions and copies are final."""

    is_final: bool
    order: Callable[[Graph], Sequence[Node]]
    _schedules: dict[Graph, ComputationSchedule] = field(default_factory=dict)

    def schedule(self, graph: Graph) -> ComputationSchedule:
        """The schedule of a computation."""
        if graph not in self._schedules:
            order = self.order(graph)
            fused = {} if self.is_final else fused_nodes(graph, order)
            self._schedules[graph] = ComputationSchedule(order, fused)
        return self._schedules[graph]


def order_of(module: Module, schedule: str | None = None) -> Callable[[Graph], Sequence[Node]]:
    """The function that orders a module's graphs: the module's schedule if it has one, else hloom's; or the requested
    one.

    Raises ValueError for a name that is not one of SCHEDULES.
    """
    if schedule is not None and schedule not in SCHEDULES:
        raise ValueError(f"no schedule is called '{schedule}': they are {', '.join(SCHEDULES)}")
    if schedule == "text" or (schedule is None and module.is_scheduled):
        return as_written
    return list_schedule


def as_written(graph: Graph) -> Sequence[Node]:
    """The order of the text."""
    return graph.nodes


def instruction_post_order(graph: Graph) -> list[Node]:
    """The live nodes, operands before users, the first operand first (`HloComputation::MakeInstructionPostOrder`)."""
    roots = [node for node in graph.nodes if node.opcode == "parameter" or _has_effect(node)]
    first = [] if graph.output is None else [graph.output]
    return list(post_order([*first, *reversed(roots)], operands_of))


def _has_effect(node: Node) -> bool:
    return node.opcode in ("outfeed", "send", "custom-call") and node.type is not None


def list_schedule(
    graph: Graph, nodes: Sequence[Node] | None = None, read: Callable[[Node], Sequence[Node]] = operands_of
) -> Sequence[Node]:
    """An order that keeps memory use low; operands and control predecessors come first.

    Of some of a graph's nodes, if only those are given, with what each reads.
    """
    return _ListSchedule(graph.nodes if nodes is None else nodes, read).order()


class _ListSchedule:
    """State by position in the text; when one reader is left, `sums` holds that reader's position."""

    def __init__(self, nodes: Sequence[Node], read: Callable[[Node], Sequence[Node]]) -> None:
        self.nodes = nodes
        positions = {node: position for position, node in enumerate(self.nodes)}
        count = len(self.nodes)
        self.waiting = [0] * count
        self.readers: list[list[int]] = [[] for _ in range(count)]
        self.left = [0] * count
        self.sums = [0] * count
        self.sizes = [0 if node.opcode in PASSING else leaf_bytes(node.type) for node in self.nodes]
        self.operands: list[list[int]] = []
        for position, node in enumerate(self.nodes):
            before = node.attributes.get("control-predecessors") or ()
            operands = [
                positions[operand] for operand in dict.fromkeys((*read(node), *before)) if operand in positions
            ]
            self.operands.append(operands)
            self.waiting[position] = len(operands)
            for operand in operands:
                self.readers[operand].append(position)
                self.left[operand] += 1
                self.sums[operand] += position
        self._free_parameters()

    def _free_parameters(self) -> None:
        """Parameters and constants are available from the start."""
        for position, node in enumerate(self.nodes):
            if node.opcode in ("parameter", "constant"):
                self.sizes[position] = 0

    def order(self) -> list[Node]:
        """The nodes in order; nodes on a cycle come at the end, as written."""
        nodes, left = self.nodes, self.left
        gains = [-size for size in self.sizes]
        for operand, count in enumerate(left):
            if count == 1:
                gains[self.sums[operand]] += self.sizes[operand]
        ready = [(-gains[position], position) for position in range(len(nodes)) if not self.waiting[position]]
        heapify(ready)
        done = [False] * len(nodes)
        order: list[Node] = []
        while ready:
            gain, position = heappop(ready)
            if done[position] or -gain != gains[position]:
                continue
            done[position] = True
            order.append(nodes[position])
            for operand in self.operands[position]:
                left[operand] -= 1
                self.sums[operand] -= position
                if left[operand] == 1:
                    last = self.sums[operand]
                    gains[last] += self.sizes[operand]
                    if not self.waiting[last]:
                        heappush(ready, (-gains[last], last))
            for reader in self.readers[position]:
                self.waiting[reader] -= 1
                if not self.waiting[reader]:
                    heappush(ready, (-gains[reader], reader))
        if len(order) < len(nodes):
            order += [node for position, node in enumerate(nodes) if not done[position]]
        return order
