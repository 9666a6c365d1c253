"""Which values of a loop's body are equal on all devices of each group of a collective, in every iteration.

After XLA's xla/service/hlo_replication_analysis.cc (HloReplicationAnalysis), of what follows from constants and from
the devices' numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloom.ir import Apply, Constant, Graph, Node, Trait
from hloom.ops import may_merge, with_trait
from hloom.passes.loop_states import initial_element
from hloom.passes.rules.participants import values_on_devices
from hloom.passes.rules.tuple_elements import elements_of

MOST_ROUNDS = 8
"""The maximum number of passes over the elements of a state, each without those found to differ."""
_GET = "get-tuple-element"
_OWN = with_trait(Trait.DEVICE_ID) | with_trait(Trait.TUPLE) | {"custom-call"}
"""What may yield something else on each device, or is not an array."""


class Replication:
    """Values equal on the devices of each group; `counts` are the numbers of replicas and partitions."""

    def __init__(self, loop: Apply, groups: Sequence[Sequence[int]], counts: tuple[int, int]) -> None:
        self._groups = groups
        self._counts = counts
        self._known: dict[Node, bool] = {}
        self._state: Node | None = None
        self._elements = self._same_elements(loop)

    def holds(self, node: Node) -> bool:
        """Whether a value of the body is the same on all devices of each group."""
        pending = [node]
        while pending:
            current = pending[-1]
            if current in self._known:
                pending.pop()
                continue
            needed = current.operands if _is_plain(current) else ()
            waiting = [operand for operand in needed if operand not in self._known]
            pending += waiting
            if not waiting:
                self._known[current] = self._follows(current) or self._is_computed(current)
        return self._known[node]

    def _follows(self, node: Node) -> bool:
        """Whether it is equal because all its operands are."""
        if node.opcode == _GET and node.operands[0] is self._state:
            assert isinstance(node, Apply)
            return node.attributes["index"] in self._elements
        return isinstance(node, Constant) or (
            _is_plain(node) and all(self._known[operand] for operand in node.operands)
        )

    def _is_computed(self, node: Node) -> bool:
        """Whether it is equal because all devices compute the same from their ids."""
        values = values_on_devices(node, *self._counts)
        if values is None:
            return False
        return all((values[group] == values[group[0]]).all() for group in map(list, self._groups))

    def _same_elements(self, loop: Apply) -> set[int]:
        """The elements of the state that are equal initially and stay equal in each iteration."""
        body = loop.attributes["body"]
        root = body.output
        self._elements = set[int]()
        if not isinstance(body, Graph) or root is None or root.opcode != "tuple" or len(body.parameters) != 1:
            return set()
        count = len(elements_of(loop.type) or ())
        started = loop.operands[0].opcode == "tuple"
        same = {index for index in range(count) if started and self.holds(initial_element(loop, index))}
        self._state = body.parameters[0]
        for _ in range(MOST_ROUNDS):
            self._elements = same
            self._known.clear()
            left = {index for index in same if self.holds(root.operands[index])}
            if left == same:
                return same
            same = left
        self._known.clear()
        return set()


def _is_plain(node: Node) -> bool:
    """Whether a value is computed of its operands alone, by an op that calls nothing."""
    if not isinstance(node, Apply) or node.opcode in _OWN or node.called_graphs:
        return False
    return may_merge(node)
