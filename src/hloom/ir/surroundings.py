"""What stands around a node: users, and who was first to call a graph or to write a buffer."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from hloom.ir.graph import Graph
from hloom.ir.module import Module
from hloom.ir.nodes import Node


class Surroundings:
    """What rules of ops ask about the rest of a module; each graph is read once, when something is first asked of it.

    It holds while the module is not changed, and does without the module's own index of users.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self._users: dict[Graph, dict[Node, list[Node]]] = {}
        self._claims: dict[Hashable, Any] = {}
        self._roles: dict[Graph, set[str]] | None = None

    def users(self, node: Node) -> Sequence[Node]:
        """The nodes that have this one as an input, each once, in order."""
        users = self._users.get(node.graph)
        if users is None:
            users = self._users[node.graph] = {}
            for user in node.graph.nodes:
                for used in dict.fromkeys(user.operands):
                    users.setdefault(used, []).append(user)
        return users.get(node, ())

    def claim(self, key: Hashable, value: Any) -> Any:
        """What was first claimed under a key: this value, where nothing was."""
        return self._claims.setdefault(key, value)

    def callers(self, graph: Graph) -> set[str]:
        """The opcodes that call a graph."""
        if self._roles is None:
            self._roles = {}
            for caller in self.module.graphs:
                for node in caller.nodes:
                    for called in node.called_graphs if node.attributes.refers else ():
                        self._roles.setdefault(called, set()).add(node.opcode)
        return self._roles.get(graph, set())

    def count(self, name: str) -> int:
        """How many replicas or partitions the header says there are; 1 where it does not say."""
        count = self.module.attributes.get(name)
        return count if isinstance(count, int) and count > 0 else 1
