"""The names that MLIR's printer gives to values: hints of ops made unique, numbers for the rest.

Source: MLIR's AsmPrinter (SSANameState). A nested region goes on counting where the region around it ends.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from hloom.ir import Apply, Graph, Node, TupleType
from hloom.mlir.region_builder import ELEMENT, TUPLE
from hloom.mlir.unregistered_ops import REGIONS

Hints = Mapping[str, Sequence[str | None]]
"""By op, what its results are called; a result without a name stands under the name of the one before it."""


@dataclass(frozen=True, slots=True)
class Group:
    """Some results of an op that stand under one name."""

    name: str
    first: int
    count: int


@dataclass(slots=True)
class _Counters:
    """What the next unnamed value, argument and conflict get, and the names taken by the regions around."""

    value: int
    argument: int
    conflict: int
    taken: set[str]


class Names:
    """The names of all values of a module.

    `loose` are the graphs of ops outside functions, whose values count on into the functions. In the generic form
    (`is_generic`) no number is given twice in the whole module, and later regions are numbered before earlier ones.
    """

    def __init__(self, graphs: Sequence[Graph], loose: Collection[Graph], hints: Hints, *, is_generic: bool) -> None:
        self._hints = hints
        self.values: dict[Node, str] = {}
        self.groups: dict[Node, tuple[Group, ...]] = {}
        counters = _Counters(0, 0, 0, set())
        pending: list[tuple[Graph, _Counters]] = []
        for graph in graphs:
            regions = self._number(graph, counters) if graph in loose else [graph]
            pending += [(region, counters) for region in regions]
        last = counters
        while pending:
            graph, around = pending.pop()
            start = last if is_generic else around
            last = _Counters(start.value, start.argument, start.conflict, set(around.taken))
            pending += [(region, last) for region in self._number(graph, last)]

    def _number(self, graph: Graph, counters: _Counters) -> list[Graph]:
        """Name the values of one graph; the regions of its ops."""
        for parameter in graph.parameters:
            self.values[parameter] = _unique(f"arg{counters.argument}", counters)
            counters.argument += 1
        nested: list[Graph] = []
        for node in graph.nodes:
            if not isinstance(node, Apply) or node.function is TUPLE:
                continue
            if node.function is ELEMENT:
                self.values[node] = self._element(node)
                continue
            count = len(node.type.elements) if isinstance(node.type, TupleType) else 1
            if count:
                self.groups[node] = self._grouped(node.opcode, count, counters)
                if not isinstance(node.type, TupleType):
                    self.values[node] = self.groups[node][0].name
            nested.extend(node.attributes.get(REGIONS) or ())
        return nested

    def _grouped(self, opcode: str, count: int, counters: _Counters) -> tuple[Group, ...]:
        hints = self._hints.get(opcode, ())
        starts = [0, *(index for index in range(1, count) if index < len(hints) and hints[index])]
        ends = [*starts[1:], count]
        groups: list[Group] = []
        for start, end in zip(starts, ends, strict=True):
            hint = hints[start] if start < len(hints) else None
            if hint is None:
                name = str(counters.value)
                counters.value += 1
            else:
                name = _unique(hint, counters)
            groups.append(Group(name, start, end - start))
        return tuple(groups)

    def _element(self, node: Apply) -> str:
        index = node.attributes["index"]
        for group in self.groups[node.inputs[0]]:
            if group.first <= index < group.first + group.count:
                return group.name if group.count == 1 else f"{group.name}#{index - group.first}"
        raise AssertionError(f"{node!r} takes a result that is not there")


def _unique(name: str, counters: _Counters) -> str:
    unique = name
    while unique in counters.taken:
        unique = f"{name}_{counters.conflict}"
        counters.conflict += 1
    counters.taken.add(unique)
    return unique
