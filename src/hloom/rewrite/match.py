"""A match: the nodes and values bound to a pattern's terms and variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hloom.ir import Node, TupleType, Type
from hloom.rewrite.pattern import OperationTerm

PROJECTION = "get-tuple-element"
"""The op that takes one result out of an operation with several."""


class Match:
    """The bindings of a pattern's terms and variables so far.

    `reason` is why the step that got furthest failed, and `reported` the node at which it did, if any; `culprit` is
    that of the step that failed last.
    """

    __slots__ = ("culprit", "furthest", "made", "reason", "reported", "slots", "variables")

    def __init__(self, size: int) -> None:
        self.slots: list[Any] = [None] * size
        self.variables: dict[str, Any] = {}
        self.made: list[Any] = []
        self.reason = ""
        self.furthest = -1
        self.culprit: Node | None = None
        self.reported: Node | None = None

    def node(self, term: int, result: int = -1) -> Any:
        """The node of a term's value; None if an optional one is missing or a result has no node."""
        node = self.slots[term]
        if result < 0 or node is None:
            return node
        return next(iter(projections(node, result)), None)

    def value_type(self, term: int, result: int = -1) -> Type | None:
        """The type of a term's value."""
        node = self.slots[term]
        if node is None or isinstance(node, tuple):
            return None
        if result >= 0 and isinstance(node.type, TupleType):
            return node.type.elements[result]
        return node.type


def projections(node: Node, result: int) -> list[Node]:
    """The nodes that take one result out of an operation with several."""
    return [user for user in node.users if user.opcode == PROJECTION and user.attributes.get("index") == result]


def matched_nodes(operations: Sequence[tuple[int, OperationTerm]], match: Match) -> dict[Node, None]:
    """The nodes that match a pattern's operations, with those that take out their results, in order."""
    nodes: dict[Node, None] = {}
    for number, term in operations:
        node = match.slots[number]
        if node is None or (term.optional and node in nodes):
            continue
        nodes[node] = None
        if term.results > 1:
            nodes.update(dict.fromkeys(user for user in node.users if user.opcode == PROJECTION))
    return nodes
