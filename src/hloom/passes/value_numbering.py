"""Value numbering: equal numbers for attributes, constants and graphs that are equal but for names and metadata.

Hash-based value numbering (Cocke and Schwartz, Programming Languages and Their Compilers, 1970).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Any

from hloom.ir import Apply, Attributes, Constant, Graph, Literal, Module, Node, Parameter, Referent
from hloom.passes.computation_order import callees_first

NOTES = frozenset(("origin", "statistics"))
"""Attributes that say where a value comes from, as metadata do."""
_SMALL = 64
"""Up to how many elements literals are compared by their bytes, which a table keeps; larger ones by value."""


class ValueNumbering:
    """Gives equal things equal numbers.

    Graphs in `class_of_graph` are equal where their numbers are; any other graph equals itself only.
    """

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._attributes: dict[int, int] = {}
        self._kept: list[Attributes] = []
        self.class_of_graph: dict[Graph, int] = {}

    def number(self, key: Hashable) -> int:
        """The number of a key; a key that cannot be hashed gets one of its own."""
        try:
            return self._numbers.setdefault(key, len(self._numbers))
        except TypeError:
            return self._numbers.setdefault(object(), len(self._numbers))

    def attributes(self, attributes: Attributes) -> int:
        """The number of attributes that name no nodes; graphs in them count by their class."""
        known = self._attributes.get(id(attributes))
        if known is None:
            items = frozenset([(name, self._value(value)) for name, value in attributes.items() if name not in NOTES])
            known = self._attributes[id(attributes)] = self.number(items)
            self._kept.append(attributes)  # so that its id stays its own
        return known

    def constant(self, node: Constant) -> Hashable:
        """What tells a constant from others of its type."""
        value = node.value
        if not isinstance(value, Literal) or value.is_tuple or value.is_left_out:
            return value
        array = value.numpy()
        return array.tobytes() if array.size <= _SMALL else value

    def graphs(self, module: Module) -> None:
        """Number the graphs of a module: equal numbers for equal graphs, node for node in order."""
        sizes = Counter(_size(graph) for graph in module.graphs)
        for graph in callees_first(module):
            alone = sizes[_size(graph)] == 1 or graph.parent is not None or graph.output is None
            contents = None if alone else self._graph(graph)
            self.class_of_graph[graph] = self.number(graph if contents is None else contents)

    def _graph(self, graph: Graph) -> Hashable | None:
        """All that a graph is; None where it uses what is outside, or what nothing defines."""
        index_of: dict[Node, int] = {}
        keys: list[Hashable] = [graph.execution_thread]
        for node in graph.nodes:
            key = self._node(node, index_of)
            if key is None:
                return None
            index_of[node] = len(index_of)
            keys.append(key)
        return (*keys, index_of.get(graph.root))

    def _node(self, node: Node, index_of: dict[Node, int]) -> Hashable | None:
        attributes = node.attributes
        if any(not referent.is_graph for referent in attributes.referents()):
            return None
        number = self.attributes(attributes)
        if isinstance(node, Parameter):
            return "parameter", node.number, node.type, number
        if isinstance(node, Constant):
            return "constant", self.constant(node), node.type, number
        if not isinstance(node, Apply) or not node.has_row or any(operand not in index_of for operand in node.inputs):
            return None
        return node.function, node.type, number, *[index_of[operand] for operand in node.inputs]

    def _value(self, value: Any) -> Any:
        if isinstance(value, Referent):
            return ("graph", self.class_of_graph.get(value, value)) if isinstance(value, Graph) else value
        if isinstance(value, tuple) and value and isinstance(value[0], Graph):
            return tuple([("graph", self.class_of_graph.get(graph, graph)) for graph in value])
        return value


def _size(graph: Graph) -> tuple[int, int]:
    return len(graph.nodes), len(graph.parameters)
