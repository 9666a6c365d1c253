"""Compares two modules or graphs up to renaming and finds the first difference.

Names of modules, graphs and nodes are ignored. Types with their layouts, ops, attributes, constants (bit for bit),
parameter numbers, metadata, the header, threads and shardings are compared. An omitted attribute equals its default;
constants whose data was elided are equal if their types are.
"""

# pyright: reportPrivateUsage=false
# graphs, nodes and modules keep each other's links and indices: docs/decisions/011-graph-node-module-cycle.md

from __future__ import annotations

from typing import Any, cast

import numpy as np

from hloom.ir.attributes import Referent
from hloom.ir.graph import Graph
from hloom.ir.literal import Literal, literal_of
from hloom.ir.literal_text import format_literal
from hloom.ir.metadata import Metadata, StackTables, parse_metadata
from hloom.ir.module import Module
from hloom.ir.module_like import ModuleLike, as_module
from hloom.ir.nodes import Apply, Constant, Missing, Node, Parameter
from hloom.ir.schema import COMMON, Op
from hloom.ir.types import same_shape
from hloom.text import HloomError

LONGEST_TEXT = 160
"""The maximum number of characters of a node or value to show in the sentence."""


def equal(left: ModuleLike | Graph, right: ModuleLike | Graph, *, metadata: bool = True, carried: bool = True) -> bool:
    """Whether two modules or two graphs are equal up to renaming.

    The order of nodes matters if a module is scheduled; otherwise nodes are compared as a graph, from the output down.
    A graph is compared together with everything it calls. `metadata=False` ignores metadata and stack tables;
    `carried=False` also ignores attributes that the op's row marks as carried (shardings, frontend attributes).
    """
    return difference(left, right, metadata=metadata, carried=carried) is None


def difference(
    left: ModuleLike | Graph, right: ModuleLike | Graph, *, metadata: bool = True, carried: bool = True
) -> str | None:
    """A sentence that describes the first difference, or None if `equal` holds."""
    left = left if isinstance(left, Graph) else as_module(left)
    right = right if isinstance(right, Graph) else as_module(right)
    try:
        comparison = _Comparison(metadata, carried)
        if isinstance(left, Module) and isinstance(right, Module):
            comparison.compare_modules(left, right)
        elif isinstance(left, Graph) and isinstance(right, Graph):
            comparison.compare_graphs(left, right)
        else:
            return f"{left!r} and {right!r} are not of one kind"
    except _Differs as found:
        return str(found)
    return None


class _Differs(Exception):
    """Carries the sentence up to the caller."""


class _Comparison:
    """The correspondence between nodes and graphs of the two sides, and the pairs still to compare."""

    __slots__ = ("backward", "carried", "forward", "graphs", "metadata", "pending")

    def __init__(self, metadata: bool, carried: bool) -> None:
        self.metadata = metadata
        self.carried = carried
        self.forward: dict[Any, Any] = {}
        self.backward: dict[Any, Any] = {}
        self.graphs: list[tuple[Graph, Graph]] = []
        self.pending: list[tuple[Node, Node]] = []

    def compare_modules(self, left: Module, right: Module) -> None:
        if left is right:
            return
        self._compare_headers(left, right)
        _demand_same(left, right, "graph count", len(left.graphs), len(right.graphs))
        names = [sorted(graph.name for graph in module.declared) for module in (left, right)]
        _demand_same(left, right, "declared graphs", *names)
        if left._entry is not None and right._entry is not None:
            self.compare_graphs(left.entry, right.entry)
        self._compare_unreached(left, right)
        if (left._entry is None) != (right._entry is None) or self.forward.get(left._entry) is not right._entry:
            raise _Differs(f"{left!r} and {right!r} have different entry graphs")

    def compare_graphs(self, left: Graph, right: Graph) -> None:
        """Compare two graphs and everything they reach."""
        begun = finished = len(self.graphs)
        self._pair(left, right)
        while finished < len(self.graphs):
            while begun < len(self.graphs):
                self._begin(*self.graphs[begun])
                self._drain()
                begun += 1
            self._finish(*self.graphs[finished])
            finished += 1

    def _compare_headers(self, left: Module, right: Module) -> None:
        ours, others = left.attributes, right.attributes
        for name in {**ours, **others}:
            if self.carried or name not in COMMON or not COMMON[name].carried:
                _demand_same(left, right, f"header attribute {name}", ours.get(name), others.get(name))
        if self.metadata and (left.stack_tables or StackTables()) != (right.stack_tables or StackTables()):
            raise _Differs(f"{left!r} and {right!r} have different stack tables")

    def _compare_unreached(self, left: Module, right: Module) -> None:
        """Pair the graphs that the entry does not reach, last first, because callers come after their callees."""
        remaining = [graph for graph in right.graphs if graph not in self.backward]
        for graph in reversed(left.graphs):
            if graph in self.forward:
                continue
            while remaining and remaining[-1] in self.backward:
                remaining.pop()
            if not remaining:
                raise _Differs(f"{graph!r} has no counterpart in {right!r}")
            self.compare_graphs(graph, remaining.pop())

    def _pair(self, left: Any, right: Any) -> None:
        """Record that two nodes or graphs correspond, and queue them for comparison."""
        if left.is_graph != right.is_graph:
            raise _Differs(f"{_name(left)} and {_name(right)} are not of one kind")
        known, back = self.forward.get(left), self.backward.get(right)
        if known is right:
            return
        if known is not None:
            raise _Differs(f"{_name(left)} cannot stand for {_name(right)}: it stands for {_name(known)}")
        if back is not None:
            raise _Differs(f"{_name(left)} cannot stand for {_name(right)}: {_name(back)} stands for it")
        self.forward[left] = right
        self.backward[right] = left
        if left is not right:
            (self.graphs if left.is_graph else self.pending).append((left, right))

    def _begin(self, left: Graph, right: Graph) -> None:
        """Compare the properties of two graphs and pair the nodes that are known to correspond."""
        _demand_same(left, right, "declared", left.is_declared, right.is_declared)
        if left.is_declared:
            _demand_same(left, right, "declared name", left.name, right.name)
        _demand_same(left, right, "execution thread", left.execution_thread, right.execution_thread)
        self._pair_optional(left, right, "enclosing graph", left.parent, right.parent)
        numbers = [[parameter.number for parameter in graph.parameters] for graph in (left, right)]
        _demand_same(left, right, "parameter numbers", *numbers)
        self._pair_optional(left, right, "output", left.output, right.output)
        for one, other in zip(left.parameters, right.parameters, strict=True):
            self._pair(one, other)
        if left.module.is_scheduled and right.module.is_scheduled:
            for one, other in zip(reversed(left.nodes), reversed(right.nodes), strict=False):
                self._pair(one, other)

    def _pair_optional(self, left: Graph, right: Graph, what: str, one: Any, other: Any) -> None:
        if one is not None and other is not None:
            self._pair(one, other)
        elif one is not other:
            raise _Differs(_sentence(left, right, what, one, other))

    def _finish(self, left: Graph, right: Graph) -> None:
        """Pair the nodes that the output does not reach, last first, because users come after their operands."""
        ours = [node for node in left.nodes if node not in self.forward]
        others = [node for node in right.nodes if node not in self.backward]
        if len(ours) != len(others):
            longer = (ours if len(ours) > len(others) else others)[-1]
            counts = f"{_name(left)} has {len(left.nodes)} nodes, {_name(right)} {len(right.nodes)}"
            raise _Differs(f"{counts}: {_name(longer)} has no counterpart")
        while ours:
            node = ours.pop()
            if node in self.forward:
                continue
            while others[-1] in self.backward:
                others.pop()
            self._pair(node, others.pop())
            self._drain()

    def _drain(self) -> None:
        while self.pending:
            self._compare(*self.pending.pop())

    def _compare(self, left: Node, right: Node) -> None:
        """Compare two nodes and pair everything they refer to."""
        if left.graph is right.graph:
            raise _Differs(f"{_name(left)} and {_name(right)} are two nodes of one graph")
        if type(left) is not type(right) or left.opcode != right.opcode:
            raise _Differs(_sentence(left, right, "opcode", left.opcode, right.opcode))
        if left.type is not right.type:
            raise _Differs(_sentence(left, right, "type", left.type, right.type))
        self._pair(left.graph, right.graph)
        if len(left.operands) != len(right.operands):
            raise _Differs(_sentence(left, right, "operand count", len(left.operands), len(right.operands)))
        for one, other in zip(reversed(left.operands), reversed(right.operands), strict=True):
            self._pair(one, other)
        self._compare_own(left, right)
        self._compare_attributes(left, right)
        if self.metadata and left.raw_metadata != right.raw_metadata:
            _demand_same(left, right, "metadata", _metadata(left.raw_metadata), _metadata(right.raw_metadata))

    def _compare_own(self, left: Node, right: Node) -> None:
        """Compare the properties that only one kind of node has."""
        if isinstance(left, Apply) and isinstance(right, Apply):
            if isinstance(left.function, Node):
                self._pair(left.function, right.function)
        elif isinstance(left, Constant) and isinstance(right, Constant):
            self._compare_values(left, right, "value", left.value, right.value)
        elif isinstance(left, Parameter) and isinstance(right, Parameter):
            _demand_same(left, right, "parameter number", left.number, right.number)
        elif isinstance(left, Missing):
            _demand_same(left, right, "missing name", left.name, right.name)

    def _compare_attributes(self, left: Node, right: Node) -> None:
        ours, others = left.attributes, right.attributes
        if not ours.refers and not others.refers and ours == others:
            return
        row = left.op.attributes if isinstance(left, Apply) and not isinstance(left.function, Node) else COMMON
        for name in {**ours, **others}:
            attribute = row.get(name)
            if attribute is not None and attribute.carried and not self.carried:
                continue
            default = attribute.default if attribute else None
            self._compare_values(left, right, f"attribute {name}", ours.get(name, default), others.get(name, default))

    def _compare_values(self, left: Node, right: Node, what: str, one: Any, other: Any) -> None:
        """Compare two values; graphs and nodes in them are paired."""
        ours, others = _referents(one), _referents(other)
        if ours and len(ours) == len(others) and type(one) is type(other):
            for mine, theirs in zip(ours, others, strict=True):
                self._pair(mine, theirs)
        elif isinstance(one, Op) and isinstance(other, Op):
            _demand_same(left, right, what, one.name, other.name)
        elif isinstance(one, Literal) and isinstance(other, Literal):
            _demand_same_literals(left, right, what, one, other)
        else:
            _demand_same(left, right, what, one, other)


def _referents(value: Any) -> tuple[Referent, ...]:
    """The graphs and nodes that a value is or contains."""
    parts = cast("tuple[Any, ...]", value) if isinstance(value, tuple) else (value,)
    return parts if all(isinstance(part, Referent) for part in parts) else ()


def _demand_same_literals(left: object, right: object, what: str, one: Literal, other: Literal) -> None:
    """Compare two literals bit for bit, including which parts are elided; the error names the first element that
    differs.
    """
    if not same_shape(one.type, other.type):
        raise _Differs(_sentence(left, right, f"type of {what}", one.type, other.type))
    pairs = list(zip(one.leaves(), other.leaves(), strict=True))
    for number, (ours, others) in enumerate(pairs):
        if ours == others or (ours.is_elided and others.is_elided):
            continue
        path = f" in leaf {number}" if len(pairs) > 1 else ""
        index = _first_differing(ours, others)
        path += f" at {{{','.join(map(str, index))}}}" if index else ""
        elements = _element_text(ours, index), _element_text(others, index)
        raise _Differs(_sentence(left, right, f"{what}{path}", *elements))


def _first_differing(one: Literal, other: Literal) -> tuple[int, ...] | None:
    """The index of the first element whose bits differ; None for scalars and if one side is elided."""
    if one.is_elided or other.is_elided:
        return None
    left, right = (np.ascontiguousarray(leaf.numpy()).reshape(-1) for leaf in (one, other))
    width = left.dtype.itemsize
    differing = (left.view(np.uint8).reshape(-1, width) != right.view(np.uint8).reshape(-1, width)).any(axis=1)
    return tuple(int(position) for position in np.unravel_index(int(differing.argmax()), one.numpy().shape))


def _element_text(leaf: Literal, index: tuple[int, ...] | None) -> str:
    """One element as HLO writes it, or the whole literal's text if it is elided."""
    if index is None:
        return format_literal(leaf, limit=LONGEST_TEXT)
    element = leaf.numpy()[index]
    return format_literal(literal_of(np.asarray(element, leaf.numpy().dtype)))


def _metadata(raw: str | None) -> Metadata | str:
    """The parsed metadata; malformed metadata stays text."""
    if raw is None:
        return Metadata()
    try:
        return parse_metadata(raw)
    except HloomError:
        return raw


def _demand_same(left: object, right: object, what: str, one: object, other: object) -> None:
    if one is not other and one != other:
        raise _Differs(_sentence(left, right, what, one, other))


def _sentence(left: object, right: object, what: str, one: object, other: object) -> str:
    return f"{_name(left)} and {_name(right)} differ: {what} {_cut(str(one))} and {_cut(str(other))}"


def _name(thing: object) -> str:
    where = f" in {thing.graph.name}" if isinstance(thing, Node) else ""
    return _cut(repr(thing)) + where


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 3] + "..."
