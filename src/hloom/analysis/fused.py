"""In which order a graph's instructions run, and which of them a compiler would fuse, so that they take no memory.

A module that XLA has scheduled says both itself. Of any other, elementwise work is taken to be fused into what reads
it, as XLA's CPU and GPU compilers do: such a value is never stored, and what it reads is needed until its last reader
runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from hloom.analysis.sharing import ELEMENTWISE
from hloom.ir import Apply, Graph, Node

MOVES = frozenset(
    ("broadcast", "dynamic-slice", "iota", "pad", "reshape", "reverse", "slice", "transpose", "concatenate", "gather")
)
"""Opcodes that rearrange elements: fused as elementwise ones are."""
PRODUCERS = (ELEMENTWISE | MOVES) - {"copy"}
READERS = PRODUCERS | {"reduce", "dynamic-update-slice", "map", "reduce-window", "select-and-scatter"}
"""Opcodes into which what they read is fused."""
FOLDING = frozenset(("dot", "convolution"))
"""Opcodes that read transposed and reshaped operands as they are."""
FOLDED = frozenset(("transpose", "reshape", "broadcast"))
DEAR = frozenset(
    (
        "atan2",
        "cbrt",
        "cosine",
        "cosh",
        "divide",
        "erf",
        "exponential",
        "exponential-minus-one",
        "log",
        "log-plus-one",
        "logistic",
        "power",
        "remainder",
        "rsqrt",
        "sine",
        "sinh",
        "sqrt",
        "tan",
        "tanh",
    )
)
"""Opcodes that are not computed twice to save memory: with several readers, they are stored."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A graph's instructions in the order of running; of those fused, at which place their last reader runs."""

    order: Sequence[Node]
    fused: Mapping[Node, int] = field(default_factory=dict)


@dataclass(slots=True)
class Planner:
    """Makes a plan for each graph, once; `is_final` says that the module's own order and fusions stand."""

    is_final: bool
    order: Callable[[Graph], Sequence[Node]]
    _plans: dict[Graph, Plan] = field(default_factory=dict)

    def plan(self, graph: Graph) -> Plan:
        """The plan of a graph."""
        if graph not in self._plans:
            order = self.order(graph)
            self._plans[graph] = Plan(order) if self.is_final else Plan(order, fused(graph, order))
        return self._plans[graph]


def fused(graph: Graph, order: Sequence[Node]) -> dict[Node, int]:
    """The nodes that all their readers take in, with the place of the last instruction that then reads for them.

    ```
    a = exponential(x); b = add(a, y); dot(b, z)     a is fused into b, and x is needed until b is made
    ```
    """
    users: dict[Node, list[int]] = {}
    for position, node in enumerate(order):
        for used in node.inputs:
            users.setdefault(used, []).append(position)
    last: dict[Node, int] = {}
    for position in range(len(order) - 1, -1, -1):
        node = order[position]
        readers = users.get(node)
        if not readers or node is graph.output or type(node) is not Apply or node.opcode not in PRODUCERS:
            continue
        if _is_fused(node, [order[each] for each in readers]):
            last[node] = max([last.get(order[each], each) for each in readers])
    return last


def _is_fused(node: Node, readers: list[Node]) -> bool:
    if node.opcode in DEAR and len(readers) > 1:
        return False
    is_folded = node.opcode in FOLDED
    return all(each.opcode in READERS or (is_folded and each.opcode in FOLDING) for each in readers)
