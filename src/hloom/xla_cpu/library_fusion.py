"""Which instructions the CPU compiler hands to its library: products, reductions, and elementwise work around these.

A reduction takes in what only it reads and what alone reads it, other products and reductions included, as long as
nothing that lies between has a reader outside. Sources: xla/backends/cpu/transforms/library_rewriter.cc,
xla/backends/cpu/ynn_support.cc.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from hloom.analysis.fusion import VIEWS
from hloom.analysis.sizes import elements
from hloom.ir import Apply, Graph, Node, TensorType

LIBRARY = frozenset(
    {
        "abs",
        "add",
        "ceil",
        "convert",
        "divide",
        "erf",
        "exponential",
        "exponential-minus-one",
        "floor",
        "log",
        "log-plus-one",
        "logistic",
        "maximum",
        "minimum",
        "multiply",
        "negate",
        "power",
        "round-nearest-even",
        "rsqrt",
        "sign",
        "sqrt",
        "subtract",
        "tanh",
    }
)
"""Opcodes that are taken in around a reduction."""
LIBRARY_MOVES = VIEWS | {"broadcast", "pad"}
"""A transpose is a copy to another layout, which the library has not."""
LIBRARY_TYPES = frozenset({"f64", "f32", "bf16", "s8", "u8"})
LIBRARY_SUMS = frozenset({"f64", "f32"})
FEWEST = 4096
"""What has fewer elements, operands included, is not worth the library's trouble."""


def library_kernels(graph: Graph) -> dict[Node, Node]:
    """By each node that the library computes the last one of its kernel, whose result alone is stored."""
    growing = _Growing(graph)
    for node in reversed(graph.nodes):
        if isinstance(node, Apply) and node not in growing.kernels and _starts(node):
            growing.grow(node)
    return {node: kernel.last for node, kernel in growing.kernels.items()}


@dataclass(slots=True, eq=False)
class _Kernel:
    members: set[Node]
    last: Node


class _Growing:
    """The kernels of a graph, by their nodes."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.kernels: dict[Node, _Kernel] = {}

    def grow(self, start: Apply) -> None:
        """Make a kernel of a node; around a reduction it takes in what it can, again and again."""
        kernel = _Kernel({start}, start)
        self.kernels[start] = kernel
        while start.opcode != "dot" and self._takes_in(kernel):
            pass

    def _takes_in(self, kernel: _Kernel) -> bool:
        """Take in what is above and below as far as that leads; whether there was anything."""
        before, seen = len(kernel.members), set(kernel.members)
        pending = deque([*self._above(kernel.members, kernel, seen), *self._below(kernel, seen)])
        while pending:
            node, is_down = pending.popleft()
            other = self.kernels.get(node)
            if other is None and not _suits(node):
                continue
            found = other.members if other is not None else {node}
            kernel.members |= found
            self.kernels.update(dict.fromkeys(found, kernel))
            if is_down:
                kernel.last = other.last if other is not None else node
                pending += self._below(kernel, seen)
            elif other is None:
                pending += self._above({node}, kernel, seen)
        return len(kernel.members) > before

    def _above(self, nodes: set[Node], kernel: _Kernel, seen: set[Node]) -> list[tuple[Node, bool]]:
        """The operands that only the kernel reads."""
        found: list[tuple[Node, bool]] = []
        for operand in (each for node in nodes for each in node.inputs):
            if operand not in seen and not operand.is_output and all(user in kernel.members for user in operand.users):
                seen.add(operand)
                found.append((operand, False))
        return found

    def _below(self, kernel: _Kernel, seen: set[Node]) -> list[tuple[Node, bool]]:
        """The one reader of a kernel's result."""
        if kernel.last.user_count != 1 or kernel.last.is_output or kernel.last.users[0] in seen:
            return []
        seen.add(kernel.last.users[0])
        return [(kernel.last.users[0], True)]


def _starts(node: Apply) -> bool:
    """Whether the library has a product or a reduction: plain on the left, of floats, and not too small."""
    if not all(isinstance(each.type, TensorType) for each in (node, *node.inputs)):
        return False
    if node.opcode == "dot":
        contracted = tuple(node.attributes.get("lhs_contracting_dims") or ())
        plain = contracted == (_rank(node.inputs[0]) - 1,) and min(_dims(node)[-2:], default=1) > 1
        return plain and {_dtype(each) for each in (node, *node.inputs)} <= LIBRARY_SUMS
    if node.opcode != "reduce" or len(node.inputs) != 2 or not _is_worth_it(node):
        return False
    return _dtype(node) in LIBRARY_SUMS and _reducer(node) in ("add", "maximum", "minimum")


def _suits(node: Node) -> bool:
    """Whether the library takes a node in."""
    if not isinstance(node, Apply) or not all(isinstance(each.type, TensorType) for each in (node, *node.inputs)):
        return False
    if node.opcode in ("dot", "reduce"):
        return _starts(node)
    if any(_dtype(each) not in LIBRARY_TYPES for each in (node, *node.inputs)):
        return False
    return node.opcode in LIBRARY_MOVES or (node.opcode in LIBRARY and _is_worth_it(node) and not _is_mask(node))


def _is_worth_it(node: Node) -> bool:
    return max(map(_count, (node, *node.inputs))) >= FEWEST


def _reducer(node: Node) -> str:
    """The opcode that a reduction combines elements with."""
    graph = node.attributes.get("to_apply")
    return graph.output.opcode if isinstance(graph, Graph) and graph.output is not None else ""


def _dtype(node: Node) -> str:
    return node.type.dtype.name if isinstance(node.type, TensorType) else ""


def _dims(node: Node) -> tuple[int, ...]:
    return tuple(node.type.dims) if isinstance(node.type, TensorType) else ()


def _is_mask(node: Node) -> bool:
    """Whether a product is really a choice between a value and nought."""
    return node.opcode == "multiply" and any(
        each.opcode == "convert" and isinstance(kind := each.inputs[0].type, TensorType) and kind.dtype.name == "pred"
        for each in node.inputs
    )


def _suits_types(node: Node) -> bool:
    kinds = (node.type, *(each.type for each in node.inputs))
    return all(isinstance(kind, TensorType) and kind.dtype.name in LIBRARY_TYPES for kind in kinds)


def _rank(node: Node) -> int:
    return len(_dims(node))


def _count(node: Node) -> int:
    return elements(node.type)
