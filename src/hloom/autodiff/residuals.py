"""Decides what a loop's backward pass needs of each iteration: saved once, recomputed, or stacked.

A value that depends on the loop's invariants alone is computed once, before the loop. One that depends on counters and
invariants, and costs no arithmetic, is made again. One that is computed from an opt-barrier alone is computed again
from the barrier's operands, where these are smaller: JAX puts a barrier before what `jax.checkpoint` computes again.
What the backward loop alone reads is computed there, where what it is computed from is smaller or kept anyway. All
others are stacked, one row for each iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from hloom.analysis import BROADCASTS, DisjointSets
from hloom.autodiff.emitter import Emitter, array_type
from hloom.autodiff.loop_state import LoopState
from hloom.ir import Apply, Constant, Node, Parameter, TensorType, Trait, TupleType, operands_of, reachable
from hloom.ops import may_drop, may_merge, with_trait

FREE = BROADCASTS | with_trait(Trait.KEEPS_ORDER) | {"dynamic-slice", "get-tuple-element", "slice", "transpose"}
"""Ops without arithmetic."""


INVARIANT, COUNTED, VARYING = range(3)
MOST_REMADE = 200
"""The maximum number of instructions to recompute for one value."""


class Residuals:
    """The residuals of a loop's body, sorted; `forward` is the body's copy, linearized."""

    def __init__(self, state: LoopState, residuals: Sequence[Node]) -> None:
        self.state = state
        self._ranks: dict[Node, int] = {}
        for node in state.body.nodes:
            self._ranks[node] = self._rank(node)
        self._are_given: dict[Node, bool] = {}
        self.once = dict.fromkeys(node for node in residuals if self._is_once(node))
        self.remade = dict.fromkeys(node for node in residuals if node not in self.once and self._is_remade(node))
        self.stacked = dict.fromkeys(node for node in residuals if node not in self.once and node not in self.remade)
        self.recomputed: list[Node] = []
        self._recompute_behind_barriers()
        self._compute_where_read()

    def _recompute_behind_barriers(self) -> None:
        """Keep the operands of barriers in place of stacked values that are computed from the barriers alone."""
        behind = self._behind_barriers()
        recomputed = [node for node in self.stacked if node in behind]
        if recomputed:
            self._recompute(recomputed, self._sources_behind(recomputed, behind))

    def _compute_where_read(self) -> None:
        """Compute in the backward loop what it alone reads, of values that are smaller or kept anyway."""
        forward = set(reachable([self.state.body.root], operands_of))
        candidates = [node for node in self.stacked if not self._is_source(node, forward)]
        if not candidates:
            return
        users: dict[Node, list[Node]] = {}
        for node in reachable([*self.once, *self.remade, *self.stacked], operands_of):
            for operand in node.operands:
                users.setdefault(operand, []).append(node)
        ends = forward.union(self.stacked)
        computed: set[Node] = set()
        groups = [*self._connected(candidates, forward), *[[node] for node in reversed(candidates)]]
        for group in groups:
            if group[0] in computed:
                continue
            ends.difference_update(group)
            inside, sources = self._computed_from(group, ends)
            readers = (user for node in inside.difference(group) for user in users.get(node, ()))
            is_read_here = all(user in inside or user in computed for user in readers)
            if is_read_here and self._recompute(group, sources):
                computed |= inside
                ends.update(sources)
            else:
                ends.update(group)

    def _connected(self, nodes: Sequence[Node], ends: set[Node]) -> list[list[Node]]:
        """Values in groups of which each is computed from what others of it are computed from; those alone left out."""
        connected = DisjointSets[Node]()
        for node in nodes:
            inside, sources = self._computed_from([node], ends)
            for value in (*inside, *[source for source in sources if not self._is_given(source)]):
                connected.join(node, value)
        groups: dict[Node, list[Node]] = {}
        for node in nodes:
            groups.setdefault(connected.root(node), []).append(node)
        return [group for group in groups.values() if len(group) > 1]

    def _computed_from(self, nodes: Sequence[Node], ends: set[Node]) -> tuple[set[Node], list[Node]]:
        """The instructions that some values are computed by, and what these read: given values, ends and others."""
        inside: set[Node] = set()
        sources: dict[Node, None] = {}
        most, given = len(nodes) + MOST_REMADE, set(nodes)
        pending = list(nodes)
        while pending:
            current = pending.pop()
            if current in inside or current in sources:
                continue
            is_many = len(inside) > most and isinstance(current.type, TensorType)
            if current not in given and (is_many or self._is_source(current, ends)):
                sources[current] = None
            else:
                inside.add(current)
                pending += current.operands
        return inside, list(sources)

    def _is_source(self, node: Node, ends: set[Node]) -> bool:
        """Whether a value is not computed again for what is computed from it."""
        if node in ends or not _is_repeatable(node) or self.state.leaf_of(node) is not None or self._is_given(node):
            return True
        tuples = [operand for operand in node.operands if isinstance(operand.type, TupleType)]
        return any(operand in ends or not _is_repeatable(operand) for operand in tuples)

    def _recompute(self, nodes: Sequence[Node], sources: Sequence[Node]) -> bool:
        """Keep sources in place of stacked values that are computed from them; False where they are not smaller."""
        gone = set(nodes)
        added = [node for node in sources if node in gone or not self._is_listed(node)]
        stacked = [node for node in added if not self._is_given(node)]
        if sum(map(_byte_count, stacked)) >= sum(map(_byte_count, nodes)):
            return False
        for node in nodes:
            del self.stacked[node]
        for node in added:
            if not isinstance(node, Constant):
                group = self.once if self._is_once(node) else self.remade if self._is_given(node) else self.stacked
                group[node] = None
        self.recomputed += nodes
        return True

    def _is_listed(self, node: Node) -> bool:
        return node in self.once or node in self.remade or node in self.stacked

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
        if not any(operand in behind for operand in node.operands):
            return False
        return all(operand in behind or self._is_given(operand) for operand in node.operands)

    def _is_given(self, node: Node) -> bool:
        """Whether a value is a constant, kept once, or made again for nothing."""
        if node not in self._are_given:
            self._are_given[node] = isinstance(node, Constant) or self._is_once(node) or self._is_remade(node)
        return self._are_given[node]

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
        return max((self._ranks[operand] for operand in node.operands), default=INVARIANT)

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
            pending += current.operands
        return list(result)

    def remake(self, emitter: Emitter, nodes: Iterable[Node], leaves: dict[int, Node], known: dict[Any, Any]) -> None:
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
                missing = [operand for operand in current.operands if operand not in known]
                if missing:
                    pending += missing
                else:
                    emitter.graph.copy_nodes((current,), known)
                    pending.pop()

    def sources(self, nodes: Iterable[Node]) -> set[int]:
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
        return node.operands[0]
    if node.opcode != "get-tuple-element" or node.operands[0].opcode != "opt-barrier":
        return None
    whole = node.operands[0].operands[0]
    if whole.opcode != "tuple" or not isinstance(node.type, TensorType) or not isinstance(node, Apply):
        return None
    return whole.operands[node.attributes["index"]]


def _is_repeatable(node: Node) -> bool:
    """Whether an instruction may be computed elsewhere: one that always yields the same, on one device.

    Barriers and collectives have effects; what a library does may cost anything.
    """
    if not isinstance(node, Apply) or node.opcode == "custom-call" or not may_merge(node):
        return False
    return node.opcode == "reduce" or not any(True for _ in node.called_graphs)


def _byte_count(node: Node) -> int:
    return array_type(node).byte_count


def _nearest(nodes: Iterable[Node], is_end: Callable[[Node], bool]) -> list[Node]:
    """Of what some values are made from, the nearest that a test accepts; nothing behind these is looked at."""
    return list(filter(is_end, reachable(nodes, lambda node: () if is_end(node) else node.operands)))
