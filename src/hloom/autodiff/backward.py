"""Reverse mode's second half: a tape transposed, last entry first, into instructions on cotangents.

The cotangent of a tangent is the sum of what its users give it, made when its turn comes: a user may give a value, or
an update of the sum so far, as a dynamic-slice does, which adds to a part of it in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hloom.autodiff.emitter import Emitter, array_type
from hloom.autodiff.linear import Linear, LinearCall, Tape
from hloom.autodiff.table import TRANSPOSITIONS
from hloom.ir import Apply, Constant, Graph, Node
from hloom.text import Unsupported

Update = Callable[[Node | None], Node]
"""From the sum so far, or None where nothing was given yet, to the sum with a further part."""

_ELEMENTWISE = "add subtract negate multiply divide select convert reduce-precision real imag complex"
MASKABLE = frozenset([*_ELEMENTWISE.split(), "reshape", "transpose", "reverse"])
"""Linear ops that a masked cotangent passes with its mask: each element of theirs is made of one of each operand."""

REBUILT = frozenset({"broadcast", "iota", "reshape"})
"""Ops that cost no arithmetic and whose operand is never larger: made again rather than kept."""


@dataclass(frozen=True, slots=True)
class Masked:
    """A cotangent that is `value` where the predicate is `holds`, and zero elsewhere.

    The zeros are put in as late as possible: `value` may be infinite or NaN where the mask says zero, and a zero that
    was multiplied by an infinite derivative of the branch not taken would be NaN.
    """

    predicate: Node
    holds: bool
    value: Node


class Backward(Emitter):
    """The instructions of a backward pass, in the graph of the forward pass or in one of its own.

    In a graph of its own, a value of the forward graph becomes a parameter when it is first used: a residual.
    `residuals` lists the forward values in the order of those parameters.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.residuals: list[Node] = []
        self._imported: dict[Node, Node] = {}
        self._values: dict[Linear, list[Node | Masked]] = {}
        self._mask: tuple[Node, bool] | None = None
        self._updates: dict[Linear, list[Update]] = {}
        self._cleared: dict[Masked, Node] = {}

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
        for value in reversed(chain):
            if value.inputs:
                made = self.graph.add_apply(value.op, (made,), value.type, value.attributes, metadata=self.metadata)
            self._imported[value] = made
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
            value = cotangent if self._mask is None else Masked(*self._mask, cotangent)
            self._values.setdefault(tangent, []).append(value)

    def give_masked(self, tangent: Any, predicate: Node, holds: bool, cotangent: Node) -> None:
        """Add to the cotangent of a tangent, but only where the predicate is `holds`."""
        if not isinstance(tangent, Linear):
            return
        if self._mask is not None and self._mask != (predicate, holds):
            dims = array_type(cotangent).dims
            both = [self.broadcast(self._true(*mask), dims) if not array_type(mask[0]).rank else self._true(*mask)
                    for mask in (self._mask, (predicate, holds))]  # fmt: skip
            predicate, holds = self.op("and", *both), True
        self._values.setdefault(tangent, []).append(Masked(predicate, holds, cotangent))

    def _true(self, predicate: Node, holds: bool) -> Node:
        return predicate if holds else self.op("not", predicate)

    def give_update(self, tangent: Any, update: Update) -> None:
        """Let the cotangent of a tangent be updated in place."""
        if isinstance(tangent, Linear):
            self._updates.setdefault(tangent, []).append(update)

    def take(self, tangent: Linear) -> Node | None:
        """The cotangent of a tangent, complete; None where it is zero."""
        values = self._values.pop(tangent, ())
        updates = self._updates.pop(tangent, ())
        total: Node | None = None
        for value in self._unmasked(values):
            total = value if total is None else self.add(total, value)
        for update in updates:
            total = update(total)
        return total

    def _unmasked(self, values: Sequence[Node | Masked]) -> Iterator[Node]:
        """Cotangents with their zeros put in; those that one predicate keeps apart become one select."""
        totals: dict[tuple[Node, bool], Node] = {}
        for value in values:
            if isinstance(value, Masked):
                mask = value.predicate, value.holds
                totals[mask] = self.add(totals[mask], value.value) if mask in totals else value.value
            else:
                yield value
        while totals:
            (predicate, holds), value = next(iter(totals.items()))
            del totals[predicate, holds]
            masked = Masked(predicate, holds, value)
            other = totals.pop((predicate, not holds), None)
            if other is not None:
                yield self._select(masked, other)
            else:
                if masked not in self._cleared:
                    self._cleared[masked] = self._select(masked, self.like(0, value))
                yield self._cleared[masked]

    def _select(self, masked: Masked, rest: Node) -> Node:
        branches = (masked.value, rest) if masked.holds else (rest, masked.value)
        return self.select(masked.predicate, *branches)

    def _take_masked(self, entry: Linear) -> Masked | None:
        """The cotangent of a tangent, if all that was given has one mask, and the mask can pass the entry."""
        values = self._values.get(entry, ())
        if entry.opcode not in MASKABLE or not values or entry in self._updates:
            return None
        first = values[0]
        if not isinstance(first, Masked):
            return None
        total = first.value
        for value in values[1:]:
            if not isinstance(value, Masked) or (value.predicate, value.holds) != (first.predicate, first.holds):
                return None
        for value in values[1:]:
            assert isinstance(value, Masked), "all are"
            total = self.add(total, value.value)
        del self._values[entry]
        return Masked(first.predicate, first.holds, total)

    def _operand_mask(self, entry: Linear, masked: Masked) -> tuple[Node, bool]:
        """The mask as it stands in the operand of an entry."""
        predicate, attributes = masked.predicate, entry.attributes
        if not array_type(predicate).rank:
            return predicate, masked.holds
        if entry.opcode == "reshape":
            predicate = self.reshape(predicate, array_type(entry.operands[0]).dims)
        elif entry.opcode == "transpose":
            order = attributes["dimensions"]
            predicate = self.transpose(predicate, [order.index(dim) for dim in range(len(order))])
        elif entry.opcode == "reverse":
            predicate = self.op("reverse", predicate, dimensions=attributes["dimensions"])
        return predicate, masked.holds

    def run(self, tape: Tape) -> None:
        """Transpose a whole tape; cotangents of results have been given, those of inputs are there to take."""
        for entry in reversed(tape.entries):
            self.metadata = entry.metadata
            if isinstance(entry, LinearCall):
                cotangents = [self.take(output) for output in entry.outputs]
                if any(value is not None for value in cotangents):
                    entry.transpose(self, cotangents)
                continue
            masked = self._take_masked(entry)
            if masked is not None:
                self._mask = self._operand_mask(entry, masked)
                _transposition(entry)(self, entry, masked.value)
                self._mask = None
                continue
            cotangent = self.take(entry)
            if cotangent is not None:
                _transposition(entry)(self, entry, cotangent)


def _transposition(entry: Linear) -> Callable[[Backward, Linear, Node], None]:
    rule = TRANSPOSITIONS.get(entry.opcode)
    if rule is None:
        raise Unsupported(f"the linear op {entry.opcode} has no transposition")
    return rule
