"""Which instructions run as one kernel, so that only the last one's result is stored.

Reductions and products, and work around them, go to a library (`library`). What is left is fused into its readers as a
loop, and computed in each of several readers where that is cheap (xla/service/cpu/cpu_instruction_fusion.cc,
xla/service/instruction_fusion.cc).
"""

from __future__ import annotations

from hloom.analysis.alias_info import ELEMENTWISE
from hloom.analysis.fusion import BROADCASTS, DATA_MOVEMENT, EXPENSIVE, SLICES, VIEWS, FusionPolicy
from hloom.analysis.sizes import elements, leaf_bytes
from hloom.ir import Apply, Constant, Graph, Node, TensorType
from hloom.ops import OPS
from hloom.xla_cpu.library_fusion import library_kernels
from hloom.xla_cpu.reachability import Reaching

_LOOPS = ELEMENTWISE | VIEWS | DATA_MOVEMENT | SLICES | {"dynamic-update-slice", "reduce"}
POLICY = FusionPolicy(producers=_LOOPS, consumers=_LOOPS, duplicated=_LOOPS - EXPENSIVE - {"gather", "reduce"})
"""What can be part of a loop, and what of it is too expensive to be computed in several loops."""
MOST_CONCATENATED = 8
"""What joins more pieces is a kernel of its own."""


def fuse(graph: Graph) -> set[Node]:
    """The nodes whose results are never stored.

    What is stored and yet cheap enough to be computed again in other readers gets a copy for those; reshapes of what is
    stored become bitcasts.
    """
    return _Fusing(graph).fused


class _Fusing:
    """The passes over one graph; `homes` are the kernels that compute a node."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes = [node for node in graph.nodes if isinstance(node, Apply)]
        self.fused: set[Node] = set()
        self.library = library_kernels(graph)
        self.homes: dict[Node, set[Node]] = {node: {last} for node, last in self.library.items()}
        self.sizes: dict[Node, int] = {}
        self.is_reused: set[Node] = set()
        self.reaching = Reaching(graph)
        self.fused |= {node for node, last in self.library.items() if node is not last}
        for node in reversed(self.nodes):
            self._enter(node)
        for node in self.nodes:
            if node.opcode in VIEWS and node not in self.fused and self.sizes.get(node) == 1:
                graph.set_function(node, OPS["bitcast"])

    def _enter(self, node: Apply) -> None:
        """Decide for a node whose readers are decided."""
        if node in self.library:
            return
        loops: set[Node] = set()
        is_stored = node is self.graph.output or not node.is_used
        for user in node.users:
            if self._takes(user, node):
                loops |= self.homes[user]
            else:
                is_stored = True
        if loops and (is_stored or len(loops) > 1) and not self._is_repeated(node, loops, is_stored):
            is_stored, loops = True, set()
        if is_stored or not loops:
            self._store(node, loops)
        else:
            self.fused.add(node)
            self._join(node, loops)

    def _takes(self, user: Node, node: Apply) -> bool:
        """Whether a loop that the reader is part of could compute the node."""
        if user in self.library or not POLICY.fuses(node, user):
            return False
        if "concatenate" in (user.opcode, node.opcode) and not (_is_short(user) and _is_short(node)):
            return False
        is_reusing = user in self.is_reused or (user.opcode == "broadcast" and _count(user) > _count(node))
        if is_reusing:
            self.is_reused.add(node)
        return not (is_reusing and _is_expensive(node))

    def _is_repeated(self, node: Apply, loops: set[Node], is_stored: bool) -> bool:
        """Whether a node is computed in each of several loops, or in a loop though it is stored.

        What reads more than it gives is so only where all its readers are loops, and none reads what another one made.
        """
        if _is_expensive(node):
            return False
        if _reads_one(node) or sum(leaf_bytes(each.type) for each in set(node.inputs)) <= leaf_bytes(node.type):
            return True
        return not is_stored and not any(self.reaching.leads_to_any(each, loops - {each}) for each in loops)

    def _store(self, node: Apply, loops: set[Node]) -> None:
        """Make a node a kernel, and let other loops compute it themselves."""
        self.homes[node] = {node}
        self.sizes[node] = 1
        if not loops:
            return
        again = self.graph.add_apply(node.function, node.inputs, node.type, node.attributes, before=node)
        for user in node.users:
            if self._takes(user, node):
                self.graph.set_inputs(user, tuple(again if each is node else each for each in user.inputs))
        self.fused.add(again)
        self._join(again, loops)

    def _join(self, node: Node, loops: set[Node]) -> None:
        self.homes[node] = set(loops)
        for each in loops:
            self.sizes[each] = self.sizes.get(each, 0) + 1


def _is_expensive(node: Node) -> bool:
    if node.opcode == "divide":
        divisor = node.inputs[1]
        return not isinstance(divisor.inputs[0] if divisor.opcode == "broadcast" else divisor, Constant)
    return not POLICY.may_duplicate(node)


def _reads_one(node: Node) -> bool:
    """Whether at most one operand is as large as the result, broadcasts and iotas aside."""
    rank = _rank(node)
    return sum(_rank(each) >= rank for each in node.inputs if each.opcode not in BROADCASTS) <= 1


def _is_short(node: Node) -> bool:
    return node.opcode != "concatenate" or len(node.inputs) <= MOST_CONCATENATED


def _rank(node: Node) -> int:
    return len(node.type.dims) if isinstance(node.type, TensorType) else 0


def _count(node: Node) -> int:
    return elements(node.type)
