"""What a loop's backward pass needs of each iteration: kept once, made again for nothing, or stacked.

A value that depends on the loop's invariants alone is computed once, before the loop. One that depends on counters and
invariants, and costs no arithmetic, is made again. One that is computed from an opt-barrier alone is computed again
from the barrier's operands, where these are smaller: JAX puts a barrier before what `jax.checkpoint` computes again.
All others are stacked, one row for each iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hloom.autodiff.emitter import Emitter, array_type
from hloom.autodiff.loop_state import LoopState
from hloom.ir import Apply, Constant, Node, Parameter, TensorType
from hloom.ops import may_drop, may_merge

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
        self.recomputed: list[Node] = []
        self._recompute_behind_barriers()

    def _recompute_behind_barriers(self) -> None:
        """Keep the operands of barriers in place of stacked values that are computed from the barriers alone."""
        behind = self._behind_barriers()
        recomputed = [node for node in self.stacked if node in behind]
        if not recomputed:
            return
        sources = self._sources_behind(recomputed, behind)
        listed = {*self.once, *self.remade, *self.stacked} - set(recomputed)
        added = [node for node in sources if node not in listed and not isinstance(node, Constant)]
        stacked = [node for node in added if not self._is_once(node) and not self._is_remade(node)]
        if sum(map(_byte_count, stacked)) >= sum(map(_byte_count, recomputed)):
            return
        gone = set(recomputed)
        self.once += [node for node in added if self._is_once(node)]
        self.remade += [node for node in added if self._is_remade(node)]
        self.stacked = [node for node in self.stacked if node not in gone] + stacked
        self.recomputed = recomputed

    def _behind_barriers(self) -> set[Node]:
        """The values that are computed from results of barriers, constants, and what is kept once or made again."""
        behind: set[Node] = set()
        if not any(node.opcode == "opt-barrier" for node in self.state.body.nodes):
            return behind
        for node in self.state.body.nodes:
            if barrier_operand(node) is not None or (may_merge(node) and self._follows(node, behind)):
                behind.add(node)
        return behind

    def _follows(self, node: Node, behind: set[Node]) -> bool:
        """Whether a node is computed from values behind barriers, and beside them from what is given anyway."""
        if not any(operand in behind for operand in node.inputs):
            return False
        return all(operand in behind or self._is_given(operand) for operand in node.inputs)

    def _is_given(self, node: Node) -> bool:
        return isinstance(node, Constant) or self._is_once(node) or self._is_remade(node)

    def _sources_behind(self, nodes: Sequence[Node], behind: set[Node]) -> list[Node]:
        """What values behind barriers are computed from: operands of barriers, and what is given beside them."""
        ends = _nearest(nodes, lambda node: barrier_operand(node) is not None or node not in behind)
        return list(dict.fromkeys(barrier_operand(node) or node for node in ends))

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
            behind = barrier_operand(current)
            if current in known:
                pending.pop()
            elif leaf is not None:
                known[current] = leaves[leaf]
                pending.pop()
            elif behind in known:
                known[current] = known[behind]
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
        leaves = map(self.state.leaf_of, _nearest(nodes, lambda node: self.state.leaf_of(node) is not None))
        return {leaf for leaf in leaves if leaf is not None}

    def invariant_part(self, nodes: Sequence[Node]) -> list[Node]:
        """Of what some values are made from, the largest values that depend on invariants alone."""

        def is_invariant(node: Node) -> bool:
            return self._ranks.get(node) == INVARIANT and not isinstance(node, Constant)

        ends = _nearest(nodes, lambda node: is_invariant(node) or self.state.leaf_of(node) is not None)
        return list(filter(is_invariant, ends))


def barrier_operand(node: Node) -> Node | None:
    """The array that went through an opt-barrier to become a node; None for other nodes."""
    if node.opcode == "opt-barrier" and isinstance(node.type, TensorType):
        return node.inputs[0]
    if node.opcode != "get-tuple-element" or node.inputs[0].opcode != "opt-barrier":
        return None
    whole = node.inputs[0].inputs[0]
    if whole.opcode != "tuple" or not isinstance(node.type, TensorType) or not isinstance(node, Apply):
        return None
    return whole.inputs[node.attributes["index"]]


def _byte_count(node: Node) -> int:
    return array_type(node).byte_count


def _nearest(nodes: Sequence[Node], is_end: Callable[[Node], bool]) -> list[Node]:
    """Of what some values are made from, the nearest that a test accepts; nothing behind these is looked at."""
    ends: list[Node] = []
    seen: set[Node] = set()
    pending = list(nodes)
    while pending:
        current = pending.pop()
        if current in seen:
            continue
        seen.add(current)
        if is_end(current):
            ends.append(current)
        else:
            pending += current.inputs
    return ends
