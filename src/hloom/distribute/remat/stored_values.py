"""The values of a program that take memory, by the compiler model, and the cost of computing each.

What a kernel computes for itself is never stored and costs nothing to keep; so what is kept and what is recomputed is
chosen among the values that kernels store. The model's module has other instructions than the program (copies into
other layouts, duplicates): each belongs to the instruction of the program that it is a form of.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from hloom.analysis import LOOPED, Liveness, cost, leaf_bytes
from hloom.ir import Apply, Module, Node, TensorType, TupleType, reachable
from hloom.ops import SideEffects
from hloom.targets.cpu import simulate_buffers

CHEAP_FLOPS_PER_BYTE = 0.5
"""What computing a value may take at most, so that it is computed for each reader: broadcasts, counters, masks."""
FLOPS_PER_BYTE = 0.05
"""What moving a byte counts as, beside FLOPs: of values that take no arithmetic the smaller are recomputed."""

OF_PROGRAM = ".program"
"""Ends the names of the program's instructions in the model's module, whose further ones have numbers at the end."""


@dataclass(slots=True, eq=False)
class StoredValue:
    """An instruction of the program whose result is stored.

    `spans` are (bytes, from, to) of the temporary buffers that hold it or a form of it, `size` the bytes of one form.
    `made` is when it is first complete; `reads` are the times at which kernels read it, with the value that each
    makes (None where that is not a value of the program). `flops` is what computing it again costs.
    """

    node: Node
    index: int
    made: int
    size: int = 0
    spans: list[tuple[int, int, int]] = field(default_factory=list)
    reads: list[tuple[int, StoredValue | None]] = field(default_factory=list)
    operands: dict[StoredValue, None] = field(default_factory=dict)
    flops: float = 0.0
    may_recompute: bool = False

    @property
    def is_cheap(self) -> bool:
        """Whether each reader can have a computation of its own: it takes no operands that are stored."""
        return self.may_recompute and not self.operands and self.flops <= CHEAP_FLOPS_PER_BYTE * self.size

    @property
    def last_read(self) -> int:
        """When it is read for the last time as the program is."""
        return max((time for time, _ in self.reads), default=self.made)

    def __repr__(self) -> str:
        return f"<stored value {self.node.name}: {self.size:,} B from {self.made}>"


@dataclass(slots=True)
class StoredValues:
    """The values of a program in the order in which they are made.

    `usage` are the bytes of temporaries at each time, `arguments` those of parameters that
    are not given away, `fixed` those of arguments and outputs at all times; `peak` is
    what the program takes, gaps between buffers included. `live` is the run of the model's module.
    """

    values: list[StoredValue]
    by_node: dict[Node, StoredValue]
    usage: np.ndarray
    arguments: int
    fixed: int
    peak: int
    live: Liveness
    names: dict[str, Node]

    def form_of(self, node: Node) -> Node | None:
        """The instruction of the program that a node of the model's module computes; None for what is none."""
        stem, _, number = node.name.rpartition(".")
        return self.names.get(node.name) or (self.names.get(stem) if number.isdecimal() else None)


def find_stored_values(module: Module) -> StoredValues:
    """The stored values of a module in canonical form, by the model of XLA's CPU compiler."""
    model = module.clone()
    for node in model.entry.nodes:
        model.entry.rename(node, node.name + OF_PROGRAM)
    return _StoredValuesBuilder(module, model, simulate_buffers(model)).build()


class _StoredValuesBuilder:
    """Relates the buffers of the model's module to the instructions of the program, by their names."""

    def __init__(self, module: Module, model: Module, live: Liveness) -> None:
        self.nodes = {node.name + OF_PROGRAM: node for node in module.entry.nodes}
        self.model = model
        self.live = live
        self.effects = SideEffects()
        self.cost = cost(module).analysis(LOOPED)
        table = live.values
        self.times: dict[Node, int] = {node: time for time, node in enumerate(table.steps) if node.graph is model.entry}
        pointers = set(table.tables.values())
        self.stored = {
            node
            for number, (node, size) in enumerate(zip(table.nodes, table.sizes, strict=True))
            if size and number not in pointers and node.graph is model.entry and isinstance(node, Apply)
        }
        self.values: dict[Node, StoredValue] = {}

    def build(self) -> StoredValues:
        starts = self._starts()
        for node in self.times:
            if node in self.stored and (of := self._instruction(node)) is not None:
                value = self.values.get(of)
                if value is None:
                    value = self.values[of] = StoredValue(of, 0, self.times[node])
                    value.may_recompute = self._may_recompute(of)
        self._order_as_written()
        for node in self.times:
            if node in self.stored or not node.users or node.is_output:
                self._read(node, starts[node] if not node.is_output else len(self.live.values.steps))
        self._add_spans()
        ordered = sorted(self.values.values(), key=lambda value: value.made)
        for index, value in enumerate(ordered):
            value.index = index
        live = self.live
        fixed = live.arguments + live.outputs - live.aliases
        return StoredValues(
            ordered,
            self.values,
            live.timeline() - fixed,
            live.arguments - live.aliases,
            fixed,
            live.peak,
            live,
            self.nodes,
        )

    def _order_as_written(self) -> None:
        """Let values be made no later than what depends on them in the program.

        A kernel may compute for itself what another one stores later; the program has one instruction for both.
        """
        earliest: dict[Node, int] = {}
        for node in reversed(list(self.nodes.values())):
            times = [earliest[user] for user in node.users if user in earliest]
            value = self.values.get(node)
            if value is not None:
                value.made = min([value.made, *times])
                times = [value.made]
            if times:
                earliest[node] = min(times)

    def _starts(self) -> dict[Node, int]:
        """When each instruction begins to read: loops and branches, before what they call."""
        starts, previous = {}, -1
        for node, time in self.times.items():
            starts[node] = previous + 1
            previous = time
        return starts

    def _instruction(self, node: Node) -> Node | None:
        """The instruction of the program that a node of the model's module is a form of."""
        while node.name not in self.nodes:
            if not node.operands:
                return None
            node = node.operands[0]
        instruction = self.nodes[node.name]
        return instruction if isinstance(instruction, Apply) else None

    def _may_recompute(self, node: Node) -> bool:
        """Whether computing an instruction twice is the same as once: no effects, no communication, an array."""
        is_array = isinstance(node.type, TensorType) or (
            isinstance(node.type, TupleType) and all(isinstance(leaf, TensorType) for leaf in node.type.leaves())
        )
        return is_array and self.effects.may_merge(node)

    def _read(self, node: Node, time: int) -> None:
        """Enter what a kernel reads, and count what it computes."""
        reader_node = self._instruction(node) if node in self.stored else None
        reader = self.values.get(reader_node) if reader_node is not None else None
        flops = self._flops(node)
        for operand in self._walk(node):
            if operand not in self.stored:
                flops += self._flops(operand)
                continue
            instruction = self._instruction(operand)
            value = self.values.get(instruction) if instruction is not None else None
            if value is not None and value is not reader:
                value.reads.append((time, reader))
                if reader is not None and reader.made < time:  # another form of it: the program has one instruction
                    value.reads.append((reader.made, reader))
                if reader is not None:
                    reader.operands[value] = None
        if reader is not None:
            reader.flops += flops + FLOPS_PER_BYTE * sum(leaf_bytes(leaf) for leaf in _arrays(node))

    def _walk(self, node: Node) -> Iterable[Node]:
        """What a kernel reads, and the nodes that it computes for itself."""
        return reachable(node.operands, lambda read: () if read in self.stored else read.operands)

    def _flops(self, node: Node) -> float:
        """The arithmetic of the instruction of the program with this name."""
        instruction = self.nodes.get(node.name)
        if not isinstance(instruction, Apply):
            return 0.0
        counted = self.cost.inclusive(instruction)
        return float(max(counted.flops, 0) + max(counted.transcendentals, 0))

    def _add_spans(self) -> None:
        table = self.live.values
        for buffer in self.live.allocation.temporaries:
            for start, end, number in buffer.spans:
                node = table.nodes[number]
                of = self._instruction(node) if node.graph is self.model.entry else None
                value = self.values.get(of) if of is not None else None
                if value is not None:
                    value.spans.append((buffer.size, start, end))
        for node, size in zip(table.nodes, table.sizes, strict=True):
            of = self._instruction(node) if size and node.graph is self.model.entry else None
            if of is not None and of in self.values:
                self.values[of].size = max(self.values[of].size, size)


def _arrays(node: Node) -> list[TensorType]:
    leaves = node.type.leaves() if node.type is not None else ()
    return [leaf for leaf in leaves if isinstance(leaf, TensorType)]
