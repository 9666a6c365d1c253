"""Writes a choice into the program: second computations of values, delayed until the backward part.

    a = dot(x, w); b = dot(tanh(a), v); ...; d = multiply(g, a)
      ->
    a = dot(x, w); b = dot(tanh(a), v); ...; a.1 = dot(select(p(g), x, 0), w); d = multiply(g, a.1)

A copy waits for the latest value that the first kernel that needs it reads: it can be computed no earlier, and what
it is computed for cannot be either.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from hloom.analysis import BROADCASTS, leaf_bytes
from hloom.autodiff import Emitter
from hloom.distribute.remat.live_ranges import LiveRanges
from hloom.distribute.remat.opaque_dependence import OpaqueDependence, can_wait_for
from hloom.distribute.remat.stored_values import StoredValue, StoredValues
from hloom.ir import Apply, Constant, Graph, Node, TensorType, Trait, post_order
from hloom.ops import may_merge, with_trait
from hloom.passes import sort_topologically

VIEWS = BROADCASTS | with_trait(Trait.KEEPS_ORDER) | with_trait(Trait.TUPLE) | {"transpose"}
"""Opcodes that compute nothing: without a recomputed operand they need no copy of their own."""
MOST_WAITS = 8
"""Among how many values one is chosen to wait for, where values are to be aligned."""


def write_recomputation(
    copy: Graph, stored: StoredValues, ranges: LiveRanges, recomputed: Iterable[StoredValue], mechanism: str
) -> int:
    """Let what runs after the peak use second computations of the chosen values; how many there are.

    `copy` is a copy of the graph that the values are of, or that graph, with its nodes in the same order.
    """
    chosen = {value for value in recomputed if value in ranges.needed}
    if not stored.values:
        return 0
    writer = _Writer(copy, stored, ranges, chosen, mechanism)
    writer.write()
    sort_topologically(copy)
    return len(chosen)


class _Writer:
    """The copies made so far, by the nodes whose values they compute again."""

    def __init__(
        self, graph: Graph, stored: StoredValues, ranges: LiveRanges, chosen: set[StoredValue], mechanism: str
    ) -> None:
        self.graph = graph
        self.ranges = ranges
        original = stored.values[0].node.graph.nodes if stored.values else ()
        self.node_of = dict(zip(original, graph.nodes, strict=True))
        self.values = {self.node_of[value.node]: value for value in stored.values}
        self.chosen = {node: value for node, value in self.values.items() if value in chosen}
        self.dependence = OpaqueDependence(Emitter(graph), mechanism)
        self.cheap = {node for node, value in self.chosen.items() if value.is_cheap}
        self.late_readers = {
            node: {reader for read, reader in value.reads if read > ranges.time} for node, value in self.chosen.items()
        }
        self.copies: dict[Node, Node] = {}
        self.variants = 0
        self.waits: dict[int, list[Node]] = {}
        root = graph.root
        values = root.operands if root.opcode == "tuple" else (root,)
        results = {getattr(value.type, "dims", ()) for value in values}
        self.state_dims = results & {getattr(parameter.type, "dims", ()) for parameter in graph.parameters}
        self.kernel_at = {value.made: value for value in stored.values if value.made > ranges.time}

    def write(self) -> None:
        nodes = list(self.graph.nodes)
        for node in nodes:
            if node in self.chosen and node not in self.cheap:
                self._copy_value(node, self.chosen[node])
        for node in nodes:
            value = self.values.get(node)
            if value is not None and value.made > self.ranges.time:
                self._read_copies(node, value)
        output = self.graph.output
        if output is not None and output not in self.values:
            self._read_copies(output, None)

    def _read_copies(self, root: Node, value: StoredValue | None) -> None:
        """Let a kernel of the backward part read copies, what it computes for itself copied as far as that changes."""
        made: dict[Node, Node] = {}
        interior = self._interior(root, value)
        for node in interior:
            if node in self.cheap and value is not None:
                self._delay(node, interior, made, value.made)
            if any(operand in made or self._is_read(operand, value) for operand in node.operands):
                made[node] = self._copied(node, [self._operand(operand, made, value) for operand in node.operands])
        self.graph.set_operands(root, [self._operand(operand, made, value) for operand in root.operands])

    def _is_read(self, operand: Node, reader: StoredValue | None) -> bool:
        """Whether a kernel reads a stored value that there is a copy of: after the peak, or to be computed again.

        A loop with the peak inside has read its operands before.
        """
        if operand not in self.copies or reader is None:
            return operand in self.copies
        if reader.made > self.ranges.time:
            return reader in self.late_readers[operand]
        return self.values[operand] in reader.operands

    def _operand(self, operand: Node, made: dict[Node, Node], reader: StoredValue | None) -> Node:
        if operand in made:
            return made[operand]
        return self.copies[operand] if self._is_read(operand, reader) else operand

    def _is_passed_through(self, node: Node, reader: StoredValue | None) -> bool:
        """Whether a kernel computes a node for itself: not stored, or recomputed and not what the kernel reads."""
        if not isinstance(node, Apply) or not may_merge(node):
            return False
        value = self.values.get(node)
        if value is None or node in self.cheap:
            return True
        return reader is not None and node in self.chosen and value not in reader.operands

    def _copied(self, node: Node, inputs: Sequence[Node]) -> Node:
        assert isinstance(node, Apply)
        return self.graph.add_apply(
            node.function, inputs, node.type, node.attributes, node.name, metadata=node.raw_metadata
        )

    def _copy_value(self, root: Node, value: StoredValue) -> None:
        """A second computation of a value and of all that its kernel computes for itself.

        Each copied instruction has an operand that is another one than the original's, and does not come early.
        """
        time = self.ranges.needed[value]
        interior = self._interior(root, value)
        made: dict[Node, Node] = {}
        for node in (*interior, root):
            is_late = any(operand in made or self._is_late(operand, value, time) for operand in node.operands)
            if not is_late and node is not root and node.opcode in VIEWS and node not in self.cheap:
                continue
            if not is_late or node in self.cheap:
                self._delay(node, interior, made, time)
            made[node] = self._copied(node, [self._operand(operand, made, value) for operand in node.operands])
        self.copies[root] = made[root]

    def _is_late(self, operand: Node, reader: StoredValue, time: int) -> bool:
        """Whether a kernel reads a copy that is not computed before a time."""
        return self._is_read(operand, reader) and self.ranges.needed[self.values[operand]] >= time

    def _delay(self, node: Node, interior: Collection[Node], made: dict[Node, Node], time: int) -> None:
        """Let one operand of a node wait, the smallest; views of it are copied.

        Copies of a cheap value stay apart: one that several kernels read would be stored, and not computed by each.
        Where the mechanism aligns values, that waits which agrees most with a value that it may wait for; none where
        none agrees in the first dimension.
        """
        self.variants += node in self.cheap
        variant = self.variants if node in self.cheap else 0
        paths: list[tuple[tuple[Any, ...], Node, list[Node]]] = []
        for operand in node.operands:
            path = [operand]
            while path[-1] in interior and path[-1].opcode in VIEWS and len(path[-1].operands) == 1:
                path.append(path[-1].operands[0])
            source = path[-1]
            if not isinstance(source.type, TensorType) or source.opcode == "iota":
                continue
            for wait in self._waits(time):
                is_apart, left_out = self.dependence.mismatch(source, wait)
                if not is_apart:
                    key = isinstance(source, Constant), left_out, leaf_bytes(source.type)
                    paths.append((key, wait, path))
        if not paths:
            return
        _, wait, path = min(paths, key=lambda item: item[0])
        source = path.pop()
        waiting = self.dependence.after(made.get(source, source), wait, variant)
        made[source] = waiting
        while path:
            view = path.pop()
            waiting = made[view] = self._copied(view, [waiting])

    def _interior(self, root: Node, reader: StoredValue | None) -> dict[Node, None]:
        """What the kernel of a value computes beside it, operands first."""

        def passed_through(node: Node) -> list[Node]:
            return [operand for operand in reversed(node.operands) if self._is_passed_through(operand, reader)]

        return dict.fromkeys(post_order(passed_through(root), passed_through))

    def _waits(self, time: int) -> list[Node]:
        """What a copy that is first needed at a time may wait for; one value, unless values are to be aligned."""
        if time not in self.waits:
            self.waits[time] = self._waited_for(time)
        return self.waits[time]

    def _waited_for(self, time: int) -> list[Node]:
        """Values of the backward part that are made before a time, the latest first: those that its kernel reads.

        Of those that are to be aligned none of the shape of an argument and a result, as gradients of weights are:
        these are of all examples.
        """
        reader = self.kernel_at.get(time)
        read = () if reader is None else reader.operands
        late = [value for made, value in self.kernel_at.items() if made < time and self._can_wait_for(value)]
        able = [value for value in read if self.ranges.time < value.made < time and self._can_wait_for(value)] or late
        able.sort(key=lambda value: -value.made)
        return [self.node_of[value.node] for value in able[: MOST_WAITS if self.dependence.aligns else 1]]

    def _can_wait_for(self, value: StoredValue) -> bool:
        is_of_all = self.dependence.aligns and getattr(value.node.type, "dims", ()) in self.state_dims
        return not is_of_all and can_wait_for(value.node)
