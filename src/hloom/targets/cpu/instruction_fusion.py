"""Instruction fusion: which instructions run as one kernel, of which only the root is stored.

Dots and reductions, and ops around them, go to a library first (`library_fusion.py`). What is left is fused into its
users as a loop, and computed by several users where that is cheap. Follows `CpuInstructionFusion::ShouldFuse` and
`IsExpensive` (xla/service/cpu/cpu_instruction_fusion.cc), `InstructionFusion::ComputeGloballyUnfusible`,
`CanFuseOnAllPaths` and `EffectivelyAtMostUnary` (xla/service/instruction_fusion.cc); how much code that makes,
`fusion_indexing.py` says.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloom.analysis import (
    BROADCASTS,
    DATA_MOVEMENT,
    ELEMENTWISE,
    EXPENSIVE,
    SLICES,
    VIEWS,
    FusionPolicy,
    elements,
    leaf_bytes,
)
from hloom.ir import Apply, Constant, Graph, Node, TensorType
from hloom.ops import OPS
from hloom.targets.cpu.fusion_indexing import FusionIndexing
from hloom.targets.cpu.library_fusion import library_kernels
from hloom.targets.cpu.reachability import Reachability

_LOOPS = ELEMENTWISE | VIEWS | DATA_MOVEMENT | SLICES | {"dynamic-update-slice", "reduce"}
_EXPENSIVE = EXPENSIVE | {"gather", "reduce", "sinh"}
POLICY = FusionPolicy(producers=_LOOPS, consumers=_LOOPS, duplicated=_LOOPS - _EXPENSIVE)
"""Opcodes that can be part of a loop (`CanBeLoopFused`), and those cheap enough to be recomputed in several loops."""
MAX_CONCATENATE_OPERANDS = 8
"""The maximum number of operands of a concatenate in a loop: it would search the operand for every element
(`kMaxConcatenateArguments`).
"""
MIN_LONG_ROW = 128
"""The minimum row length of a concatenate that is a kernel of its own, which copies rows (`is_minor_dim_concatenate`).
"""


def fuse_instructions(graph: Graph) -> set[Node]:
    """The nodes whose results are never stored.

    What is stored, and yet cheap enough to be computed again by other users, gets a copy for those; reshapes of what is
    stored become bitcasts.
    """
    return _Fusion(graph).fused


class _Fusion:
    """The fusion of one graph, users first; `kernels_of` are the roots of the kernels that compute a node."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        nodes = [node for node in graph.nodes if isinstance(node, Apply)]
        self.library = library_kernels(graph)
        self.fused: set[Node] = {node for node, root in self.library.items() if node is not root}
        self.kernels_of: dict[Node, set[Node]] = {node: {root} for node, root in self.library.items()}
        self.kernel_sizes: dict[Node, int] = {}
        self.reused: set[Node] = set()
        self.reachability = Reachability(graph)
        self.positions = {node: position for position, node in enumerate(graph.nodes)}
        self.indexing = FusionIndexing()
        for node in reversed(nodes):
            self._enter(node)
        for node in nodes:
            if node.opcode in VIEWS and node not in self.fused and self.kernel_sizes.get(node) == 1:
                graph.set_function(node, OPS["bitcast"])

    def _enter(self, node: Apply) -> None:
        """Decide on a node after its users."""
        if node in self.library:
            return
        refusing = self._refusing_kernels(node)
        users = [user for user in node.users if refusing.isdisjoint(self.kernels_of[user])]
        loops = set().union(*(self.kernels_of[user] for user in users)) if users else set()
        is_stored = node is self.graph.output or not node.is_used or len(users) < node.user_count
        if loops and (is_stored or len(loops) > 1) and not self._may_duplicate(node):
            is_stored, loops, users = True, set(), []
        if is_stored or not loops:
            self._store(node, loops, users)
        else:
            self.fused.add(node)
            self._join(node, loops)

    def _refusing_kernels(self, node: Apply) -> set[Node]:
        """The kernels that read a node and do not compute it: those of a user that cannot, or of too much code."""
        readers: dict[Node, list[Node]] = {}
        refusing: set[Node] = set()
        for user in node.users:
            kernels = self.kernels_of.setdefault(user, {user})
            for kernel in kernels:
                readers.setdefault(kernel, []).append(user)
            if not self._should_fuse(user, node):
                refusing |= kernels
        user_count = sum(map(len, readers.values()))
        for kernel in sorted(readers.keys() - refusing, key=self.positions.__getitem__, reverse=True):
            if self.indexing.is_too_much_code(kernel, node, readers[kernel], user_count):
                refusing.add(kernel)
            else:
                user_count -= len(readers[kernel])
        return refusing

    def _should_fuse(self, consumer: Node, producer: Apply) -> bool:
        """Whether the loop of a consumer could compute the producer."""
        if not self._is_fusible(consumer, producer):
            return False
        is_reused = consumer in self.reused or _is_reusing(consumer, producer)
        if is_reused:
            self.reused.add(producer)
        return not (is_reused and _is_expensive(producer))

    def _is_fusible(self, consumer: Node, producer: Node) -> bool:
        if consumer in self.library or producer in self.library or not POLICY.fuses(producer, consumer):
            return False
        return _is_fusible_concatenate(consumer) and _is_fusible_concatenate(producer)

    def _may_duplicate(self, node: Apply) -> bool:
        """Whether a node is computed by several loops, or by a loop though it is stored.

        One that reads more than it yields is only where all its users can compute it, and all that is between it and
        them.
        """
        if _is_expensive(node):
            return False
        read_bytes = sum(leaf_bytes(operand.type) for operand in set(node.operands))
        if _effectively_at_most_unary(node) or read_bytes <= leaf_bytes(node.type):
            return True
        return node is not self.graph.output and all(self._fuses_on_all_paths(node, user) for user in node.users)

    def _fuses_on_all_paths(self, producer: Apply, consumer: Node) -> bool:
        """Whether a consumer can compute a producer, and every operand that is computed from it."""
        pending, seen = [consumer], {consumer}
        while pending:
            reader = pending.pop()
            for operand in reader.operands:
                if operand is not producer and not self.reachability.reaches(producer, operand):
                    continue
                if not self._is_fusible(reader, operand) or (_is_reusing(reader, operand) and _is_expensive(operand)):
                    return False
                if operand is not producer and operand not in seen:
                    seen.add(operand)
                    pending.append(operand)
        return True

    def _store(self, node: Apply, loops: set[Node], users: Sequence[Node]) -> None:
        """Make a node a kernel, and let loops compute a copy of it for these users."""
        self.kernels_of[node] = {node}
        self.kernel_sizes[node] = 1
        if not loops:
            return
        duplicate = self.graph.add_apply(
            node.function, node.operands, node.type, node.attributes, node.name, before=node
        )
        for user in users:
            inputs = tuple(duplicate if operand is node else operand for operand in user.operands)
            self.graph.set_operands(user, inputs)
        self.fused.add(duplicate)
        self._join(duplicate, loops)

    def _join(self, node: Node, loops: set[Node]) -> None:
        self.kernels_of[node] = set(loops)
        for loop in loops:
            self.kernel_sizes[loop] = self.kernel_sizes.get(loop, 0) + 1
            self.indexing.add(loop, node, [user for user in node.users if loop in self.kernels_of[user]])


def _is_expensive(node: Node) -> bool:
    """Whether a node is not computed twice.

    A division by a constant is a multiplication; rounding to bf16 takes several checks for NaN.
    """
    if node.opcode == "convert":
        return _dtype(node) == "bf16" and _dtype(node.operands[0]) == "f32"
    if node.opcode == "divide":
        divisor = node.operands[1]
        return not isinstance(divisor.operands[0] if divisor.opcode == "broadcast" else divisor, Constant)
    return not POLICY.may_duplicate(node)


def _is_reusing(consumer: Node, producer: Node) -> bool:
    """Whether a consumer reads elements of a producer several times."""
    return consumer.opcode == "broadcast" and elements(consumer.type) > elements(producer.type)


def _effectively_at_most_unary(node: Node) -> bool:
    """Whether at most one operand has the rank of the result, broadcasts and iotas aside."""
    rank = node.rank
    return sum(operand.rank >= rank for operand in node.operands if operand.opcode not in BROADCASTS) <= 1


def _is_fusible_concatenate(node: Node) -> bool:
    """Whether a node is not a concatenate of many operands, and none of long rows."""
    if node.opcode != "concatenate":
        return True
    rank = node.rank
    is_of_rows = rank > 1 and node.attributes["dimensions"][0] == rank - 1
    is_long = isinstance(node.type, TensorType) and is_of_rows and node.type.dims[-1] >= MIN_LONG_ROW
    return len(node.operands) <= MAX_CONCATENATE_OPERANDS and not is_long


def _dtype(node: Node) -> str:
    return node.type.dtype.name if isinstance(node.type, TensorType) else ""
