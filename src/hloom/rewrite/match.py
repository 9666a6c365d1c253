"""A match: the nodes and values that a pattern's terms and variables are bound to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hloom.ir import Node, TupleType, Type
from hloom.rewrite.pattern import OperationTerm

PROJECTION = "get-tuple-element"
"""The op that takes one result out of an operation of several."""


class Match:
    """What a pattern's terms and variables are bound to so far.

    `reason` is why the step that got furthest failed, and `reported` the node at which it did, where it was one;
    `culprit` is that of the step that failed last.
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
        """The node that yields a term's value; None where an optional one is missing or a result has no node."""
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
    """The nodes that take one result out of an operation of several."""
    return [user for user in node.users if user.opcode == PROJECTION and user.attributes.get("index") == result]


def matched_nodes(operations: Sequence[tuple[int, OperationTerm]], match: Match) -> dict[Node, None]:
    """What a match covers of a pattern's operations, with the nodes that take out their results, in order."""
    nodes: dict[Node, None] = {}
    for number, term in operations:
        node = match.slots[number]
        if node is None or (term.optional and node in nodes):
            continue
        nodes[node] = None
        if term.results > 1:
            nodes.update(dict.fromkeys(user for user in node.users if user.opcode == PROJECTION))
    return nodes
