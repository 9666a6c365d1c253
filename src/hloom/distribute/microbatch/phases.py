"""When each instruction of the entry runs: before the loop over slices, in it, or after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from hloom.analysis import called_computations
from hloom.distribute.microbatch.batch_propagation import BatchPropagation, is_made_by_slices
from hloom.distribute.microbatch.batch_state import WHOLE, Final, PartialResult, Sliced, State
from hloom.distribute.propagation import Equation
from hloom.ir import Apply, Constant, Node, Parameter, TensorType, Trait
from hloom.ops import may_merge, with_trait


class Phase(Enum):
    """When an instruction of the entry runs."""

    BEFORE = "before the loop"
    LOOP = "in each iteration"
    AFTER = "after the loop"


@dataclass(slots=True)
class Phases:
    """For each node of the entry its phase; for nodes that are made slice by slice though they could be whole, how."""

    of: dict[Node, Phase] = field(default_factory=dict)
    demanded: dict[Node, Sliced] = field(default_factory=dict)

    def is_in_loop(self, node: Node) -> bool:
        """Whether a node runs in each iteration."""
        return self.of.get(node) is Phase.LOOP


_DRAWN = with_trait(Trait.RANDOM)
"""Opcodes whose numbers are those of the whole batch, of which each iteration takes its slice."""


_PRODUCTS = with_trait(Trait.CONTRACTS)
"""Opcodes whose work is not done for each slice where once is enough."""


def phases_of(propagation: BatchPropagation) -> Phases:
    """The phases of all nodes of the entry.

    A sum over slices is combined as soon as it is made, but where that would carry more bytes around the loop: two
    partial results that are added are added first. Products of them are taken once, of the combined sums.
    """
    return _Ordering(propagation).phases


class _Ordering:
    def __init__(self, propagation: BatchPropagation) -> None:
        self.propagation = propagation
        self.nodes = list(propagation.entry.nodes)
        self.phases = Phases()
        kept = self._kept_partials()
        for node in self.nodes:
            self.phases.of[node] = self._phase(node, kept)
        self._place_tuples()
        self._sink()

    def _phase(self, node: Node, kept: set[Node]) -> Phase:
        states = self.propagation.states_of(node)
        given = [self.phases.of[operand] for operand in node.operands]
        if any(isinstance(state, Final) for state in states) or Phase.AFTER in given:
            return Phase.AFTER
        if isinstance(node, Parameter) or node in self.propagation.whole:
            return Phase.BEFORE
        if self._is_partial(node) and not self._makes_partial(node):
            return Phase.LOOP if node in kept else Phase.AFTER
        if Phase.LOOP in given or any(isinstance(state, (Sliced, PartialResult)) for state in states):
            return Phase.LOOP
        if any(isinstance(state, Sliced) for operand in node.operands for state in self.propagation.states_of(operand)):
            return Phase.LOOP
        return Phase.BEFORE

    def _place_tuples(self) -> None:
        """A tuple is of the loop where nothing else reads it."""
        for node in reversed(self.nodes):
            if node.opcode != "tuple" or not self.phases.is_in_loop(node):
                continue
            if node is self.propagation.entry.output or not all(map(self.phases.is_in_loop, node.users)):
                self.phases.of[node] = Phase.AFTER

    def _makes_partial(self, node: Node) -> bool:
        """Whether a node's partial results come from slices, and not from partial operands alone."""
        if called_computations(node) or node.has_trait(Trait.TUPLE):
            return True
        return any(
            isinstance(state, Sliced) for operand in node.operands for state in self.propagation.states_of(operand)
        )

    def _kept_partials(self) -> set[Node]:
        """The nodes that work on partial results in the loop: those that make less of them, and what feeds these.

        Products are of the combined sums, which takes them once and not for each slice, unless what a loop or a branch
        computes for slices reads them.
        """
        forced: set[Node] = set()
        kept: set[Node] = set()
        partials = [node for node in self.nodes if self._is_partial(node) and not self._makes_partial(node)]
        for node in reversed(partials):
            readers = _readers(node)
            if any(user in forced or (called_computations(user) and not self._is_final(user)) for user in readers):
                forced.add(node)
            elif self._shrinks(node) or not kept.isdisjoint(readers):
                kept.add(node)
        for node in partials:
            late = any(
                self._is_partial(operand)
                and not self._makes_partial(operand)
                and operand not in kept
                and operand not in forced
                for operand in node.operands
            )
            if late or node.opcode in _PRODUCTS:
                kept.discard(node)
        feeding = set(forced)
        for node in reversed(partials):
            if node in kept and (self._shrinks(node) or not feeding.isdisjoint(_readers(node))):
                feeding.add(node)
        return feeding

    def _is_partial(self, node: Node) -> bool:
        return any(isinstance(state, PartialResult) for state in self.propagation.states_of(node))

    def _shrinks(self, node: Node) -> bool:
        """Whether a node makes less of the partial results that it reads."""
        return _bytes([node]) < _bytes(
            [operand for operand in dict.fromkeys(node.operands) if self._is_partial(operand)]
        )

    def _is_final(self, node: Node) -> bool:
        return any(isinstance(state, Final) for state in self.propagation.states_of(node))

    def _sink(self) -> None:
        """Make slice by slice what is read in slices alone: that is the same work, in less memory."""
        wanted: dict[Node, set[State]] = {}
        for node in reversed(self.nodes):
            demands = wanted.get(node, set())
            equation = self.propagation.equation_of(node)
            if self.phases.is_in_loop(node):
                for operand, state in self.propagation.reads(node):
                    wanted.setdefault(operand, set()).add(state)
                continue
            only = next(iter(demands)) if len(demands) == 1 else WHOLE
            before = self.phases.of[node] is Phase.BEFORE
            if isinstance(only, Sliced) and before and self._can_sink(node, equation, only):
                self.phases.of[node] = Phase.LOOP
                self.phases.demanded[node] = only
                for operand, state in self.propagation.reads(node, only):
                    wanted.setdefault(operand, set()).add(state)
                continue
            for operand in node.operands:
                wanted.setdefault(operand, set()).add(WHOLE)
            if node is self.propagation.entry.output:
                wanted.setdefault(node, set()).add(WHOLE)

    def _can_sink(self, node: Node, equation: Equation | None, state: Sliced) -> bool:
        if node is self.propagation.entry.output or not may_merge(node) or not isinstance(node.type, TensorType):
            return False
        if isinstance(node, Constant):
            return node.splat is not None and bool(node.type.rank)
        if not isinstance(node, Apply) or equation is None or node.opcode in _DRAWN:
            return False
        if node.opcode == "iota" and state.front > 1 and state.dimension == node.attributes["iota_dimension"]:
            return False
        rule = equation.rule
        at = rule.factor_at(rule.results, state.dimension, state.front)
        return at is not None and is_made_by_slices(rule, rule.results, state.dimension, at, self.propagation.count)


def _readers(node: Node) -> list[Node]:
    """The users of a node, and for tuples theirs."""
    readers: list[Node] = []
    pending = list(node.users)
    seen = set(pending)
    while pending:
        user = pending.pop()
        if user.opcode != "tuple":
            readers.append(user)
            continue
        further = [reader for reader in user.users if reader not in seen]
        seen.update(further)
        pending += further
    return readers


def _bytes(nodes: Sequence[Node]) -> int:
    return sum(node.type.byte_count for node in nodes if isinstance(node.type, TensorType))
