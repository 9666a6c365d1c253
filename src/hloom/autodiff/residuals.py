"""What a loop's backward pass needs of each iteration: kept once, made again for nothing, or stacked.

A value that depends on the loop's invariants alone is computed once, before the loop. One that depends on counters and
invariants, and costs no arithmetic, is made again. All others are stacked, one row for each iteration.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hloom.autodiff.emitter import Emitter
from hloom.autodiff.loop_state import LoopState
from hloom.ir import Apply, Constant, Node, Parameter, TensorType
from hloom.ops import may_drop

FREE = frozenset({"dynamic-slice", "slice", "broadcast", "reshape", "transpose", "iota", "get-tuple-element"})
"""Ops without arithmetic."""

INVARIANT, COUNTED, VARYING = range(3)
MOST_REMADE = 200
"""How many instructions are made again for one value."""


class Residuals:
    """The residuals of a loop's body, sorted; `forward` is the body's copy, linearized."""

    def __init__(self, state: LoopState, residuals: Sequence[Node]) -> None:
        self.state = state
        self._ranks: dict[Node, int] = {}
        for node in state.body.nodes:
            self._ranks[node] = self._rank(node)
        self.listed = list(residuals)
        self.once = [node for node in residuals if self._is_once(node)]
        once = set(self.once)
        self.remade = [node for node in residuals if node not in once and self._is_remade(node)]
        remade = set(self.remade)
        self.stacked = [node for node in residuals if node not in once and node not in remade]

    def _rank(self, node: Node) -> int:
        if isinstance(node, Constant):
            return INVARIANT
        leaf = self.state.leaf_of(node)
        if leaf is not None:
            if leaf in self.state.invariant:
                return INVARIANT
            return COUNTED if leaf in self.state.counters else VARYING
        if isinstance(node, Parameter):
            return VARYING
        if not may_drop(node) or any(True for _ in node.called_graphs if node.opcode != "reduce"):
            return VARYING
        return max((self._ranks[operand] for operand in node.inputs), default=INVARIANT)

    def _is_once(self, node: Node) -> bool:
        return self._ranks[node] == INVARIANT and not isinstance(node, Constant) and self._cone(node) is not None

    def _is_remade(self, node: Node) -> bool:
        if isinstance(node, Constant):
            return True
        if self._ranks[node] != COUNTED:
            return False
        cone = self._cone(node)
        return cone is not None and all(self._is_free(value) for value in cone)

    def _is_free(self, node: Node) -> bool:
        if self._ranks[node] == INVARIANT or node.opcode in FREE or self.state.leaf_of(node) is not None:
            return True
        return isinstance(node.type, TensorType) and not node.type.rank and not node.type.dtype.is_float

    def _cone(self, node: Node) -> list[Node] | None:
        """The instructions between the state and a value; None where they are too many."""
        result: dict[Node, None] = {}
        pending = [node]
        while pending:
            current = pending.pop()
            if current in result or self.state.leaf_of(current) is not None:
                continue
            result[current] = None
            if len(result) > MOST_REMADE:
                return None
            pending += current.inputs
        return list(result)

    def remake(self, emitter: Emitter, nodes: Sequence[Node], leaves: dict[int, Node], known: dict[Any, Any]) -> None:
        """Append what makes some values from leaves of the state; `known` gains what became what."""
        for node in nodes:
            self._remake(emitter, node, leaves, known)

    def _remake(self, emitter: Emitter, node: Node, leaves: dict[int, Node], known: dict[Any, Any]) -> None:
        pending = [node]
        while pending:
            current = pending[-1]
            leaf = self.state.leaf_of(current)
            if current in known:
                pending.pop()
            elif leaf is not None:
                known[current] = leaves[leaf]
                pending.pop()
            else:
                missing = [operand for operand in current.inputs if operand not in known]
                if missing:
                    pending += missing
                else:
                    emitter.graph.copy_nodes((current,), known)
                    pending.pop()

    def sources(self, nodes: Sequence[Node]) -> set[int]:
        """The leaves of the state that some values are made from."""
        reached: set[int] = set()
        seen: set[Node] = set()
        pending = list(nodes)
        while pending:
            current = pending.pop()
            if current in seen:
                continue
            seen.add(current)
            leaf = self.state.leaf_of(current)
            if leaf is not None:
                reached.add(leaf)
            elif isinstance(current, Apply):
                pending += current.inputs
        return reached

    def invariant_part(self, nodes: Sequence[Node]) -> list[Node]:
        """Of what some values are made from, the largest values that depend on invariants alone."""
        result: dict[Node, None] = {}
        seen: set[Node] = set()
        pending = list(nodes)
        while pending:
            current = pending.pop()
            if current in seen:
                continue
            seen.add(current)
            if self._ranks.get(current) == INVARIANT and not isinstance(current, Constant):
                result[current] = None
            elif self.state.leaf_of(current) is None:
                pending += current.inputs
        return list(result)
