"""The state of one graph while its ops are read: their order, the names in scope, and which results are used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hloom.formats.mlir.syntax import SPELLINGS
from hloom.formats.mlir.types import type_of, written_spellings
from hloom.ir import EMPTY, Apply, Attributes, Graph, Node, Op, Parameter, TupleType, Type, Verbatim
from hloom.ops import OPS

ELEMENT = OPS["get-tuple-element"]
TUPLE = OPS["tuple"]
_INDICES = [Attributes(index=index) for index in range(16)]


@dataclass(slots=True)
class Results:
    """Some results of an op with several, under one name of the text; elements are made where they are used."""

    apply: Apply
    name: str
    first: int
    count: int
    made: dict[int, Apply] = field(default_factory=dict)


class Body:
    """A graph being filled; `parent` is the body whose names it may use too."""

    def __init__(self, graph: Graph, parent: Body | None = None) -> None:
        self.graph = graph
        self.parent = parent
        self.scope: dict[str, Node | Results] = {}
        self._order: list[tuple[Node, list[Results]]] = []
        self._names: dict[str, Node] = {}
        graph.adopt([], self._names)

    def find(self, name: str, number: int) -> Node | None:
        """The value of a name, or of one of its results; None where there is none."""
        body: Body | None = self
        while body is not None:
            value = body.scope.get(name)
            if value is not None:
                return body._value(value, number)
            body = body.parent
        return None

    def is_defined(self, name: str) -> bool:
        """Whether this body or one around it defines a name."""
        body: Body | None = self
        while body is not None:
            if name in body.scope:
                return True
            body = body.parent
        return False

    def add_parameter(self, name: str, spelling: str, written: Mapping[str, Any]) -> Parameter:
        """A further parameter; how its type was spelled is kept where that is not canonical."""
        kept = written_spellings((spelling,))
        attributes = {**written, **({SPELLINGS: Verbatim(kept)} if kept else {})}
        graph = self.graph
        shared = Attributes(attributes) if attributes else EMPTY
        node = Parameter(self._unique(name), type_of(spelling), len(graph.parameters), shared, None, graph)
        graph.parameters.append(node)
        self._enter(node, [])
        self.scope[name] = node
        return node

    def add(
        self, op: Op, inputs: tuple[Node, ...], type_: Type, attributes: Attributes, packs: list[tuple[str, int]]
    ) -> Apply:
        """An op; `packs` are the names of its results in the text and how many each stands for."""
        stem = packs[0][0] if packs and not isinstance(type_, TupleType) else op.name.rpartition(".")[2]
        node = Apply(self._unique(stem), type_, op, inputs, attributes, None, self.graph)
        groups: list[Results] = []
        if not isinstance(type_, TupleType):
            for name, _ in packs:
                self.scope[name] = node
        else:
            first = 0
            for name, count in packs:
                self.scope[name] = group = Results(node, name, first, count)
                groups.append(group)
                first += count
        self._enter(node, groups)
        return node

    def finish(self, output: Node) -> None:
        """Give the nodes to the graph, each used result right behind its op."""
        self.graph.adopt(list(self._nodes()), self._names)
        self.graph.set_output(output)

    def _nodes(self) -> Iterator[Node]:
        for node, groups in self._order:
            yield node
            for group in groups:
                for index in sorted(group.made):
                    yield group.made[index]

    def _value(self, value: Node | Results, number: int) -> Node | None:
        if isinstance(value, Node):
            return value if number == 0 else None
        if number >= value.count:
            return None
        made = value.made.get(number)
        if made is None:
            index = value.first + number
            type_ = value.apply.type
            assert isinstance(type_, TupleType), "only those have groups of results"
            name = self._unique(value.name if value.count == 1 else f"{value.name}.{number}")
            attributes = _INDICES[index] if index < len(_INDICES) else Attributes(index=index)
            made = Apply(name, type_.elements[index], ELEMENT, (value.apply,), attributes, None, self.graph)
            value.made[number] = made
            self._names[name] = made
        return made

    def _enter(self, node: Node, groups: list[Results]) -> None:
        self._names[node.name] = node
        self._order.append((node, groups))

    def _unique(self, stem: str) -> str:
        return stem if stem not in self._names else self.graph.unique_name(stem)
