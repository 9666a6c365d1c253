"""Numbers for what is the same but for names and metadata: attributes, constants, whole graphs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Any

from hloom.ir import Apply, Attributes, Constant, Graph, Literal, Module, Node, Parameter, Referent
from hloom.passes.rules.calling import callees_first

NOTES = frozenset(("origin", "statistics"))
"""Attributes that say where a value comes from, as metadata do."""
_SMALL = 64


class Likeness:
    """Gives equal things equal numbers.

    Graphs that `class_of_graph` knows are alike where their numbers are; all others are alike to themselves only.
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
        """Find which graphs of a module are alike, node for node in their order."""
        sizes = Counter(_size(graph) for graph in module.graphs)
        for graph in callees_first(module):
            alone = sizes[_size(graph)] == 1 or graph.parent is not None or graph.output is None
            found = None if alone else self._graph(graph)
            self.class_of_graph[graph] = self.number(graph if found is None else found)

    def _graph(self, graph: Graph) -> Hashable | None:
        """All that a graph is; None where it uses what is outside, or what nothing defines."""
        places: dict[Node, int] = {}
        keys: list[Hashable] = [graph.execution_thread]
        for node in graph.nodes:
            key = self._node(node, places)
            if key is None:
                return None
            places[node] = len(places)
            keys.append(key)
        return (*keys, places.get(graph.root))

    def _node(self, node: Node, places: dict[Node, int]) -> Hashable | None:
        attributes = node.attributes
        if any(not each.is_graph for each in attributes.referents()):
            return None
        number = self.attributes(attributes)
        if isinstance(node, Parameter):
            return "parameter", node.number, node.type, number
        if isinstance(node, Constant):
            return "constant", self.constant(node), node.type, number
        if not isinstance(node, Apply) or not node.has_row or any(each not in places for each in node.inputs):
            return None
        return node.function, node.type, number, *[places[each] for each in node.inputs]

    def _value(self, value: Any) -> Any:
        if isinstance(value, Referent):
            return ("graph", self.class_of_graph.get(value, value)) if isinstance(value, Graph) else value
        if isinstance(value, tuple) and value and isinstance(value[0], Graph):
            return tuple([("graph", self.class_of_graph.get(each, each)) for each in value])
        return value


def _size(graph: Graph) -> tuple[int, int]:
    return len(graph.nodes), len(graph.parameters)
