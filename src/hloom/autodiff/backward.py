"""Reverse mode's second half: a tape transposed, last entry first, into instructions on cotangents.

The cotangent of a tangent is the sum of what its users give it, made when its turn comes: a user may give a value, or
an update of the sum so far, as a dynamic-slice does, which adds to a part of it in place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hloom.autodiff.emitter import Emitter
from hloom.autodiff.linear import Linear, LinearCall, Tape
from hloom.autodiff.table import TRANSPOSITIONS
from hloom.ir import Apply, Constant, Graph, Node
from hloom.text import Unsupported

Update = Callable[[Node | None], Node]
"""From the sum so far, or None where nothing was given yet, to the sum with a further part."""

REBUILT = frozenset({"broadcast", "iota", "reshape"})
"""Ops that cost no arithmetic and whose operand is never larger: made again rather than kept."""


class Backward(Emitter):
    """The instructions of a backward pass, in the graph of the forward pass or in one of its own.

    In a graph of its own, a value of the forward graph becomes a parameter when it is first used: a residual.
    `residuals` lists the forward values in the order of those parameters.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.residuals: list[Node] = []
        self._imported: dict[Node, Node] = {}
        self._values: dict[Linear, list[Node]] = {}
        self._updates: dict[Linear, list[Update]] = {}

    def use(self, node: Node) -> Node:
        """A forward value as this graph has it."""
        chain: list[Apply] = []
        current = node
        while current not in self._imported and isinstance(current, Apply) and current.opcode in REBUILT:
            chain.append(current)
            if not current.inputs:
                break
            current = current.inputs[0]
        made = self._imported.get(current) or self._import(current, chain)
        for each in reversed(chain):
            if each.inputs:
                made = self.graph.add_apply(each.op, (made,), each.type, each.attributes, metadata=self.metadata)
            self._imported[each] = made
        return made

    def _import(self, node: Node, chain: list[Apply]) -> Node:
        if isinstance(node, Constant) or (chain and chain[-1] is node):
            mapping: dict[Any, Any] = {}
            self.graph.copy_nodes([node], mapping)
            made = mapping[node]
        else:
            made = self.graph.add_parameter(node.type, "residual")
            self.residuals.append(node)
        self._imported[node] = made
        return made

    def give(self, tangent: Any, cotangent: Node | None) -> None:
        """Add to the cotangent of a tangent; nothing where the operand is no tangent."""
        if cotangent is not None and isinstance(tangent, Linear):
            self._values.setdefault(tangent, []).append(cotangent)

    def give_update(self, tangent: Any, update: Update) -> None:
        """Let the cotangent of a tangent be updated in place."""
        if isinstance(tangent, Linear):
            self._updates.setdefault(tangent, []).append(update)

    def take(self, tangent: Linear) -> Node | None:
        """The cotangent of a tangent, complete; None where it is zero."""
        values = self._values.pop(tangent, ())
        updates = self._updates.pop(tangent, ())
        total: Node | None = None
        for value in values:
            total = value if total is None else self.add(total, value)
        for update in updates:
            total = update(total)
        return total

    def run(self, tape: Tape) -> None:
        """Transpose a whole tape; cotangents of results have been given, those of inputs are there to take."""
        for entry in reversed(tape.entries):
            self.metadata = entry.metadata
            if isinstance(entry, LinearCall):
                cotangents = [self.take(output) for output in entry.outputs]
                if any(each is not None for each in cotangents):
                    entry.transpose(self, cotangents)
                continue
            cotangent = self.take(entry)
            if cotangent is not None:
                rule = TRANSPOSITIONS.get(entry.opcode)
                if rule is None:
                    raise Unsupported(f"the linear op {entry.opcode} has no transposition")
                rule(self, entry, cotangent)
