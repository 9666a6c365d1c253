"""A human-readable listing of a module, modelled on MindSpore's `.ir` files; works for a module of any level.

Node numbers restart in each graph, so a change in one graph does not affect the listing of another. `?` marks undefined
names; a node of another graph is written `$(graph:%number)`.
"""

# pyright: reportPrivateUsage=false
# graphs, nodes and modules keep each other's links and indices: docs/decisions/011-graph-node-module-cycle.md

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, cast

from hloom.ir.attributes import Attributes, Referent
from hloom.ir.graph import Graph
from hloom.ir.literal import Literal
from hloom.ir.literal_text import format_literal
from hloom.ir.metadata import Metadata
from hloom.ir.module import Module
from hloom.ir.nodes import Apply, Constant, Missing, Node, Parameter
from hloom.ir.schema import Op
from hloom.ir.types import Type
from hloom.text import HloomError

LONGEST_LITERAL = 10
"""The maximum number of elements of a constant to list; larger constants are written `{...}`."""


def dump(module: Module) -> str:
    """The listing: the entry graph first, then the graphs it calls, in order of first call."""
    return "\n".join(_Listing(module).lines()) + "\n"


class _Listing:
    """The names that nodes have in the listing."""

    __slots__ = ("module", "names")

    def __init__(self, module: Module) -> None:
        self.module = module
        self.names: dict[Node, str] = {}
        for graph in module.graphs:
            numbers = iter(range(len(graph.nodes)))
            for node in graph.nodes:
                name = f"para{node.number + 1}_{node.name}" if isinstance(node, Parameter) else str(next(numbers))
                self.names[node] = f"%{name}"

    def lines(self) -> Iterator[str]:
        module = self.module
        reached = _reached(module)
        unreached = [graph for graph in module.graphs if graph not in reached]
        yield from self._header(len(unreached))
        for graph in (*reached, *unreached):
            yield ""
            if graph in unreached[:1]:
                yield "# not reached from the entry:"
            yield from self._graph(graph)

    def _header(self, unreached: int) -> Iterator[str]:
        module = self.module
        rest = f", {unreached} not reached" if unreached else ""
        yield f"# module: {module.name}"
        yield f"# entry : {_graph_name(module._entry) if module._entry else '?'}"
        yield f"# graphs: {len(module.graphs)}{rest}"
        yield f"# nodes : {module.node_count}"
        for name, value in module.attributes.items():
            yield f"# header: {name}={_line(self._value(value, None))}"
        for entry in module.unresolved:
            yield f"# unresolved: {entry}"

    def _graph(self, graph: Graph) -> Iterator[str]:
        parameters = ", ".join(self.names[parameter] for parameter in graph.parameters)
        inside = f" inside {_graph_name(graph.parent)}" if graph.parent else ""
        thread = f" on thread {json.dumps(graph.execution_thread)}" if graph.execution_thread is not None else ""
        yield f"subgraph {_graph_name(graph)}({parameters}){inside}{thread} {{"
        for captured in graph.free_variables():
            yield f"  # captures {self._reference(captured, graph)} : {_type(captured.type)}"
        for parameter in graph.parameters:
            yield f"  {self.names[parameter]} : {_type(parameter.type)}{self._attributes(parameter.attributes, graph)}"
            yield from self._origin(parameter)
        for node in graph.nodes:
            if not isinstance(node, Parameter):
                yield from self._node(node, graph)
        yield f"  return {self._reference(graph.output, graph) if graph.output else '?'}"
        yield "}"

    def _node(self, node: Node, graph: Graph) -> Iterator[str]:
        inputs = ", ".join(self._reference(operand, graph) for operand in node.operands)
        taken = ", ".join(_type(operand.type) for operand in node.operands)
        signature = f"({taken}) -> ({_type(node.type)})"
        if isinstance(node, Constant):
            inputs, signature = self._value(node.value, graph), _type(node.type)
        attributes = self._attributes(node.attributes, graph)
        yield f"  {self.names[node]}({node.name}) = {self._function(node, graph)}({inputs}){attributes}"
        yield f"      : {signature}"
        yield from self._origin(node)

    def _function(self, node: Node, graph: Graph) -> str:
        if not isinstance(node, Apply):
            return node.opcode
        if isinstance(node.function, Op):
            return node.function.name if node.function.is_known else f"?{node.function.name}"
        return self._reference(node.function, graph)

    def _attributes(self, attributes: Attributes, graph: Graph) -> str:
        if not attributes:
            return ""
        listed = ", ".join(f"{name}: {_line(self._value(value, graph))}" for name, value in attributes.items())
        return f" {{{listed}}}"

    def _value(self, value: Any, graph: Graph | None) -> str:
        """One value: a table row per kind, `str` for the rest."""
        if isinstance(value, Referent):
            return _graph_name(value) if isinstance(value, Graph) else self._reference(value, graph)
        if isinstance(value, tuple):
            items = cast("tuple[Any, ...]", value)
            return f"({', '.join(self._value(item, graph) for item in items)})"
        text = _TEXTS.get(value.__class__)
        if text is not None:
            return text(value)
        return _type(value) if isinstance(value, Type) else str(value)

    def _reference(self, node: Any, graph: Graph | None) -> str:
        name = f"%?{node.name}" if isinstance(node, Missing) or node not in self.names else self.names[node]
        return name if node.graph is graph else f"$({node.graph.name}:{name})"

    def _origin(self, node: Node) -> Iterator[str]:
        """Comments that say where a node came from."""
        if node.raw_metadata is None:
            return
        try:
            metadata = node.metadata or Metadata()
        except HloomError:
            yield f"      # Malformed metadata: {_line(node.raw_metadata)}"
            return
        if metadata.op_name or metadata.op_type:
            scope_type = f" {metadata.op_type}" if metadata.op_type else ""
            yield f"      # Scope:{scope_type} ({_line(metadata.op_name)})"
        if metadata.source_file:
            yield f"      # In file {_line(metadata.source_file)}:{metadata.source_line}"
        if metadata.stack_frame_id and self.module.stack_tables:
            for frame in self.module.stack_tables.trace(metadata.stack_frame_id):
                yield f"      # In file {_line(str(frame))}"


_TEXTS: dict[type, Callable[[Any], str]] = {
    bool: lambda value: str(value).lower(),
    str: json.dumps,
    Op: lambda value: value.name if value.is_known else f"?{value.name}",
    Literal: lambda value: format_literal(value, limit=LONGEST_LITERAL),
}


def _reached(module: Module) -> dict[Graph, None]:
    """The graphs reachable from the entry through calls or references, the entry included, in order of first call."""
    reached: dict[Graph, None] = {} if module._entry is None else {module._entry: None}
    pending = list(reached)
    for graph in pending:
        for node in graph.nodes:
            for called in node.called_graphs:
                if not called.is_declared and called not in reached:
                    reached[called] = None
                    pending.append(called)
    return reached


def _graph_name(graph: Graph) -> str:
    return f"@?{graph.name}" if graph.is_declared else f"@{graph.name}"


def _type(type_: Type | None) -> str:
    return "<?>" if type_ is None else f"<{type_}>"


def _line(text: str) -> str:
    """The text with line breaks removed, so that it stays on one line."""
    return " ".join(text.splitlines())
