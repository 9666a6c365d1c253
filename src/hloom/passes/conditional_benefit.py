"""Estimates whether instructions at the boundary of a conditional should be inside or outside it.

A value and its reader should be on the same side, so that they become one kernel and the value is not stored. A read
weighs less the more readers the value has, and the more values the reader reads. Follows ReusesCarriedBy and
BenefitForMovingBoundaries of XLA's xla/service/conditional_code_motion.cc.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloom.ir import Apply, Graph, Node
from hloom.ops import PRODUCTS
from hloom.passes.rules.conditional import branches_of
from hloom.passes.rules.conditional_motion import Ends
from hloom.passes.rules.tuple_elements import elements_of

REUSE = 10.0
"""The weight of a value's only read by an instruction that reads nothing else."""
_NO_REUSE = frozenset(("constant", "get-tuple-element", "parameter"))
"""Opcodes whose values need not be kept for another read (xla/service/conditional_code_motion.cc, ReusesCarriedBy)."""
WIDE = 16
"""The number of operands from which an instruction is assumed to read each operand once and all distinct."""
_GET = "get-tuple-element"


def ends_benefit(node: Apply, ends: Ends) -> float | None:
    """The gain in weight of reads within one side if the ends of branches move out; None if nothing reads them.

    The mean over the branches.
    """
    gained = lost = 0.0
    for number, graph in enumerate(ends.branches):
        border = _Border(node, graph)
        moved = {row[number] for row in ends.rows}
        for value in moved:
            lost += sum(border.weight(operand, value) for operand in value.operands if operand not in moved)
            gained += sum(border.weight(value, reader) for reader in border.outer_readers(value))
    if not gained and not lost:
        return None
    return (gained - lost) / len(ends.branches)


def users_benefit(node: Apply, results: Sequence[Node], moved: Sequence[Node]) -> float:
    """The gain in weight of reads within one side if users of a conditional's results move into its branches.

    A copy that undoes one at the end of a branch goes with it.
    """
    inside, known = set(moved), set(results)
    lost = sum(
        _weight(value, reader, len(value.users))
        for value in moved
        for reader in _readers(value)
        if reader not in inside
    )
    gained = folded = 0.0
    branches = branches_of(node)
    for graph in branches:
        border = _Border(node, graph)
        for user in moved:
            for operand in user.operands:
                if operand in known:
                    value = border.value_of(operand)
                    gained += border.weight(value, user)
                    is_undone = user.opcode == "copy" == value.opcode and value.operands[0].type is user.type
                    folded += REUSE * len(branches) if is_undone else 0.0
    return (gained + folded) / len(branches) - lost


class _Border:
    """A branch of a conditional, and the readers of its results outside."""

    def __init__(self, node: Apply, graph: Graph) -> None:
        self.node = node
        self.root = graph.root
        self.is_array = elements_of(node.type) is None
        self.elements: dict[int, list[Node]] = {}
        for user in node.users:
            if user.opcode == _GET:
                self.elements.setdefault(user.attributes["index"], []).append(user)
        self.indices: dict[Node, list[int]] = {}
        for index, value in enumerate(self.root.operands if self.root.opcode == "tuple" else ()):
            self.indices.setdefault(value, []).append(index)
        self.counts: dict[Node, int] = {}

    def value_of(self, result: Node) -> Node:
        """What the branch yields for a result of the conditional."""
        if self.is_array or self.root.opcode != "tuple":
            return self.root
        return self.root.operands[result.attributes["index"]]

    def outer_readers(self, value: Node) -> list[Node]:
        """What reads a value outside, once for each read."""
        if self.is_array:
            return _readers(self.node) if value is self.root else []
        elements = [element for index in self.indices.get(value, ()) for element in self.elements.get(index, ())]
        return [reader for element in elements for reader in _readers(element)]

    def weight(self, value: Node, reader: Node) -> float:
        """What a read of a value of the branch weighs, inside or outside."""
        if value not in self.counts:
            readers = {user for user in value.users if user is not self.root or self.root.opcode != "tuple"}
            self.counts[value] = len(readers.union(self.outer_readers(value)))
        return _weight(value, reader, self.counts[value])


def _weight(value: Node, reader: Node, readers: int) -> float:
    if value.opcode in _NO_REUSE or reader.opcode == _GET:
        return 0.0
    if reader.opcode == "convert" and value.opcode in PRODUCTS:  # another kernel's, whatever converts it
        return 0.0
    return REUSE / max(1, readers) / max(1, _operand_count(reader))


def _readers(value: Node) -> list[Node]:
    """What reads a value, once for each read."""
    return [
        user
        for user in value.users
        for operand in (user.operands if len(user.operands) <= WIDE else (value,))
        if operand is value
    ]


def _operand_count(reader: Node) -> int:
    """How many values an instruction reads, constants aside; elements of one index of a tuple are one."""
    if len(reader.operands) > WIDE:
        return len(reader.operands)
    return len(
        {
            (operand.operands[0], operand.attributes["index"]) if operand.opcode == _GET else operand
            for operand in reader.operands
            if operand.opcode != "constant"
        }
    )
