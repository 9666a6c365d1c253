"""An e-graph over a graph's own nodes: classes of nodes with equal values.

A node stands for an op on classes: two nodes are identical if op, attributes, type and the classes of their operands
are equal. Nodes are only added, each after its operands, so every node is also an ordinary program: native rules, which
inspect nodes, match without change. Congruence is restored in rounds, as in egg (Willsey et al. 2021, `rebuild`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from hloom.ir import Apply, Graph, Node, Trait
from hloom.ops import CALLERS, SideEffects, with_trait
from hloom.passes import ValueNumbering, merge_key

OPAQUE = CALLERS | with_trait(Trait.TUPLE) | {"custom-call", "fusion"}
"""Opcodes at which no rule is tried: the computations that they run are saturated by themselves."""


class EGraph:
    """The nodes of a graph in classes of equal values.

    `class_of` gives a node's class, `distinct` the non-identical nodes of a class in order of addition. `size` counts
    all nodes. Graphs of a module that are turned into e-graphs one after the other, callees first, may share what is
    known about callees: the numbers of equal ones, and effects.
    """

    def __init__(
        self, graph: Graph, numbering: ValueNumbering | None = None, effects: SideEffects | None = None
    ) -> None:
        self.graph = graph
        self.class_of: dict[Node, int] = {}
        self.distinct: dict[int, list[Node]] = {}
        self._members: dict[int, list[Node]] = {}
        self._by_key: dict[Hashable, Node] = {}
        known = ValueNumbering() if numbering is None else numbering
        known.callees(graph)
        self._numbering = ValueNumbering(known.class_of_graph)
        self.effects = effects or SideEffects()
        for node in graph.nodes:
            self.add(node)

    @property
    def size(self) -> int:
        """The number of nodes, including those identical to others."""
        return len(self.class_of)

    def add(self, node: Node) -> bool:
        """Take in a node, whose operands are known; whether it is another one than all that are known."""
        if node in self.class_of:
            return False
        key = self._key(node)
        known = self._by_key.get(key) if key is not None else None
        if known is not None:
            number = self.class_of[known]
            self.class_of[node] = number
            self._members[number].append(node)
            return False
        if key is not None:
            self._by_key[key] = node
        number = len(self.class_of)
        self.class_of[node] = number
        self._members[number] = [node]
        self.distinct[number] = [node]
        return True

    def union(self, one: Node, other: Node) -> bool:
        """Say that two nodes have the same value; whether that was not known."""
        kept, gone = self.class_of[one], self.class_of[other]
        if kept == gone:
            return False
        if len(self._members[kept]) < len(self._members[gone]):
            kept, gone = gone, kept
        members = self._members.pop(gone)
        for node in members:
            self.class_of[node] = kept
        self._members[kept] += members
        self.distinct[kept] += self.distinct.pop(gone)
        return True

    def rebuild(self) -> None:
        """Merge nodes that became equal: those of one op whose operands are now in the same classes."""
        while True:
            self._by_key = {}
            equal: list[tuple[Node, Node]] = []
            for nodes in self.distinct.values():
                kept: list[Node] = []
                for node in nodes:
                    key = self._key(node)
                    known = node if key is None else self._by_key.setdefault(key, node)
                    if known is node:
                        kept.append(node)
                    elif self.class_of[known] != self.class_of[node]:
                        equal.append((known, node))
                        kept.append(node)
                nodes[:] = kept
            if not sum(self.union(one, other) for one, other in equal):
                return

    def operands(self, node: Node) -> tuple[int, ...]:
        """The classes of a node's operands."""
        return tuple([self.class_of[operand] for operand in node.operands])

    def reachable(self, roots: Iterable[Node]) -> dict[int, None]:
        """The classes that these nodes' values may depend on, their own first."""
        pending = [self.class_of[node] for node in roots]
        seen = dict.fromkeys(pending)
        while pending:
            for node in self.distinct[pending.pop()]:
                for number in self.operands(node):
                    if number not in seen:
                        seen[number] = None
                        pending.append(number)
        return seen

    def _key(self, node: Node) -> Hashable | None:
        return merge_key(node, self.class_of, self._numbering, self.effects)

    def is_open(self, node: Node) -> bool:
        """Whether rules may be tried at a node: it is an op without effects that no sharding is written on."""
        return (
            isinstance(node, Apply)
            and node.opcode not in OPAQUE
            and "sharding" not in node.attributes
            and self.effects.may_merge(node)
        )
