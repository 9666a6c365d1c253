"""How often a kernel's code computes a fused node: once per distinct index.

    slice(x), [0:2]; slice(x), [2:4]      x is emitted twice, so one that is expensive to index is not fused

Follows `FusionNodeIndexingEvaluation` (xla/service/fusion_node_indexing_evaluation.cc) and
`ElementalIrEmitter::OpInvalidatesCache` (xla/service/elemental_ir_emitter.cc).
"""

from __future__ import annotations

from collections.abc import Sequence

from hloom.analysis import BRANCHING
from hloom.ir import Node

MAX_CODE_DUPLICATION = 15
"""The maximum number of times a node may be emitted (`kAllowedCodeDuplication`)."""
MAX_REDUCTIONS = 5
"""A kernel of more reductions fuses no further one (`kMaxReductionsInFusion`)."""


class FusionIndexing:
    """By kernel and fused node, the fused nodes whose index it is read at, and how often it is emitted."""

    def __init__(self) -> None:
        self._users: dict[Node, dict[Node, frozenset[Node]]] = {}
        self._emitted: dict[Node, dict[Node, int]] = {}
        self._reductions: dict[Node, int] = {}

    def is_too_much_code(self, kernel: Node, node: Node, readers: Sequence[Node], user_count: int) -> bool:
        """Whether a kernel that has fused something already is better off reading a node than computing it.

        `readers` are its nodes that read it; `user_count` is how many nodes of all kernels do.
        """
        if kernel not in self._emitted:
            return False
        if node.opcode == "reduce" and self._reductions.get(kernel, 0) > MAX_REDUCTIONS:
            return True
        if node.opcode == "broadcast":
            return False
        emitted = self._count(kernel, self._indexing_users(kernel, node, readers))
        return emitted > MAX_CODE_DUPLICATION or (node.opcode in BRANCHING and (emitted > 1 or user_count > 1))

    def add(self, kernel: Node, node: Node, readers: Sequence[Node]) -> None:
        """Fuse a node into a kernel."""
        if kernel not in self._emitted:
            self._emitted[kernel] = {kernel: 1}
            self._users[kernel] = {kernel: frozenset({kernel})}
        users = self._indexing_users(kernel, node, readers)
        self._users[kernel][node] = users
        self._emitted[kernel][node] = self._count(kernel, users)
        if node.opcode == "reduce":
            self._reductions[kernel] = self._reductions.get(kernel, int(kernel.opcode == "reduce")) + 1

    def _indexing_users(self, kernel: Node, node: Node, readers: Sequence[Node]) -> frozenset[Node]:
        """A reader of the same shape, or a transposition, passes on its own index; any other computes one."""
        known = self._users[kernel]
        users: set[Node] = set()
        for reader in readers:
            if reader.opcode == "transpose" or reader.dims == node.dims:
                users |= known.get(reader, frozenset({kernel}))
            else:
                users.add(reader)
        return frozenset(users)

    def _count(self, kernel: Node, users: frozenset[Node]) -> int:
        emitted = self._emitted[kernel]
        return sum(emitted.get(user, 1) for user in users)
