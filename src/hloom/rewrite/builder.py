"""Builds the nodes that replace a matched node, inferring types and keeping metadata and layouts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from hloom.ir import (
    EMPTY,
    Apply,
    Attribute,
    Attributes,
    DType,
    Graph,
    Literal,
    Module,
    Node,
    Op,
    TensorType,
    Type,
    TypeProblem,
    default_layout,
    dtype,
    infer_type,
    literal_of,
    map_leaves,
    same_shape,
)
from hloom.ops import OPS
from hloom.rewrite.type_text import type_from


class Builder:
    """Makes nodes right before `root`, the node that a rule is applied to, and tracks them.

    `reason` and `culprit` say why the rule did not fire, and at which node. Rules as text give theirs only where it
    `explains`: attempts are many, and few are asked about.

    New nodes take the root's metadata, and a default layout if the root's type has one. Nodes that a rule makes but
    does not use are erased again.
    """

    __slots__ = (
        "carries_itself",
        "consumed",
        "culprit",
        "explains",
        "insertion_point",
        "made",
        "made_graphs",
        "moves",
        "reason",
        "root",
        "rows",
    )

    def __init__(self, root: Node, rows: Mapping[str, Op] = OPS, *, explains: bool = False) -> None:
        self.root = root
        self.explains = explains
        self.insertion_point = root
        self.rows = rows
        self.made: list[Node] = []
        self.made_graphs: list[Graph] = []
        self.reason = ""
        self.culprit: Node | None = None
        self.carries_itself = False
        self.consumed: list[Node] = []
        self.moves: list[Node] = []

    @property
    def graph(self) -> Graph:
        """The graph that the nodes are made in."""
        return self.root.graph

    def decline(self, reason: str) -> None:
        """Record why the rule does not fire here; `return build.decline("...")` ends a rule."""
        self.reason = reason

    def op(
        self,
        opcode: str,
        *operands: Node,
        type: Type | None = None,
        attributes: Mapping[str, Any] | None = None,
        **named: Any,
    ) -> Apply:
        """Apply an op and infer its type; pass attributes by name, those with a dash in the mapping.

        `type` is for ops whose operands and attributes do not determine the result (reshape, broadcast, iota, convert).
        Raises TypeProblem if they are inconsistent, or if the inferred type differs from the given one.
        """
        row = self.row(opcode)
        values = {name: value for name, value in {**(attributes or {}), **named}.items() if value is not None}
        self._check(row, operands, values)
        result_type = self._infer(row, operands, values, type)
        return self.apply(row, operands, result_type, Attributes(_without_defaults(row, values)))

    def apply(self, row: Op, operands: Sequence[Node], type: Type, attributes: Attributes = EMPTY) -> Apply:
        """Apply an op whose operands, type and attributes are known to be consistent."""
        if self.has_layouts:
            type = self._laid_out(type)
        metadata = self.root.raw_metadata
        node = self.graph.add_apply(row, operands, type, attributes, before=self.insertion_point, metadata=metadata)
        self.made.append(node)
        return node

    def row(self, opcode: str) -> Op:
        """The row of an opcode; raises TypeProblem if no table has it."""
        row = self.rows.get(opcode) or OPS.get(opcode)
        if row is None:
            raise TypeProblem(f"no op is called '{opcode}'")
        return row

    def like(self, node: Apply, *operands: Node, type: Type | None = None, **changed: Any) -> Apply:
        """Apply the same op with the same attributes to other operands; some attributes may be changed, or removed by
        None.
        """
        attributes = {**node.attributes, **changed}
        return self.op(node.opcode, *operands, type=type, attributes=attributes)

    def constant(self, value: Any, type: Type | DType | str | None = None) -> Node:
        """A constant from a Literal, from numbers and an element type, or from one number for every element of an array
        type.

        For an array type of rank above 0, this makes a broadcast of a scalar, as XLA's own passes do.
        """
        if isinstance(value, Literal):
            return self._constant(value)
        if isinstance(type, str) and "[" in type:
            type = type_from(type)
        if isinstance(type, TensorType) and np.ndim(value) == 0:
            scalar = self._constant(literal_of(np.asarray(value).reshape(()), type.dtype))
            return self.broadcast(scalar, type) if type.rank else scalar
        if isinstance(type, TensorType):
            type = type.dtype
        element = dtype(type) if isinstance(type, str) else type
        return self._constant(literal_of(value, element if isinstance(element, DType) else None))

    def broadcast(self, scalar: Node, type: TensorType) -> Apply:
        """A scalar in every element of an array type."""
        return self.op("broadcast", scalar, type=type, dimensions=())

    def reshape(self, node: Node, type: TensorType) -> Node:
        """The node itself if it has this shape, else a reshape of it."""
        return node if same_shape(node.type, type) else self.op("reshape", node, type=type)

    def transpose(self, node: Node, dimensions: Iterable[int]) -> Node:
        """The node itself if the permutation is the identity, else a transpose of it."""
        order = tuple(dimensions)
        return node if order == tuple(range(len(order))) else self.op("transpose", node, dimensions=order)

    def convert(self, node: Node, element: DType) -> Node:
        """The node itself if it has this element type, else a conversion of it."""
        assert isinstance(node.type, TensorType), f"{node!r} is not an array"
        return node if node.type.dtype is element else self.op("convert", node, type=node.type.with_dtype(element))

    def get(self, node: Node, index: int) -> Node:
        """An element of a tuple; for a tuple instruction, its operand."""
        if node.opcode == "tuple":
            return node.operands[index]
        return self.op("get-tuple-element", node, index=index)

    def reducer(self, opcode: str, element: DType) -> Graph:
        """A new computation that combines two scalars with an op."""
        graph = self.new_graph(f"{opcode}_{element}")
        scalar = TensorType(element)
        left, right = graph.add_parameter(scalar, "lhs"), graph.add_parameter(scalar, "rhs")
        graph.set_output(graph.add_apply(OPS[opcode], (left, right), infer_type(OPS[opcode], (scalar, scalar), {})))
        return graph

    def new_graph(self, name: str) -> Graph:
        """A new empty graph, placed before the current one: computations precede their callers."""
        graph = self.graph.module.add_graph(name)
        self._place(graph)
        return graph

    def copy(self, graph: Graph, inputs: Sequence[Node]) -> Node:
        """Copy a graph's nodes right before the root, with these inputs; returns the copy of its output.

        Nodes keep their own metadata. Raises TypeProblem for graphs that cannot be copied.
        """
        if graph.output is None or graph.missing or graph.module.has_closures or len(graph.parameters) != len(inputs):
            raise TypeProblem(f"graph {graph.name} cannot be copied to where it is called")
        mapping: dict[Any, Any] = dict(zip(graph.parameters, inputs, strict=True))
        self.copy_nodes(graph.nodes, mapping, self.graph, self.insertion_point)
        return mapping[graph.output]

    def copy_module(self, module: Module, name: str) -> Graph:
        """Copy another module's computations before the current graph; returns the copy of its entry.

        The entry gets the given name, made unique, which also prefixes the names of the others.
        """
        copies = self.graph.module.copy_graphs(
            module, lambda graph: name if module.is_entry(graph) else f"{name}.{graph.name}"
        )
        for copy in copies.values():
            self._place(copy)
        return copies[module.entry]

    def copy_nodes(
        self, nodes: Iterable[Node], mapping: dict[Any, Any], into: Graph, before: Node | None = None
    ) -> None:
        """Copy nodes into a graph, as `Graph.copy_nodes` does; the copies count as made here."""
        listed = [node for node in nodes if node not in mapping]
        into.copy_nodes(listed, mapping, before=before)
        self.made += [mapping[node] for node in listed]

    @property
    def is_changed(self) -> bool:
        """Whether anything has been made or recorded since it was reset."""
        return bool(self.made or self.reason or self.made_graphs or self.consumed or self.moves)

    def discard(self) -> None:
        """Erase all unused nodes made so far, and reset."""
        for node in reversed(self.made):
            if not node.is_used:
                node.graph.erase(node)
        for graph in reversed(self.made_graphs):
            if not graph.callers:
                graph.module.erase_graph(graph)
        for record in (self.made, self.made_graphs, self.consumed, self.moves):
            record.clear()
        self.insertion_point, self.reason, self.carries_itself = self.root, "", False
        self.culprit = None

    def _place(self, graph: Graph) -> None:
        """Record a graph just made, and move it before the current one."""
        graphs = graph.module.graphs
        graphs.remove(graph)
        graphs.insert(graphs.index(self.graph), graph)
        self.made_graphs.append(graph)

    def _constant(self, literal: Literal) -> Node:
        literal_type = self._laid_out(literal.type)
        node = self.graph.add_constant(
            literal, literal_type, before=self.insertion_point, metadata=self.root.raw_metadata
        )
        self.made.append(node)
        return node

    def _check(self, row: Op, operands: tuple[Node, ...], values: Mapping[str, Any]) -> None:
        if not row.accepts(len(operands)):
            raise TypeProblem(f"{row} does not take {len(operands)} operands")
        unknown = [name for name in values if name not in row.attributes] if row.is_known else []
        if unknown:
            raise TypeProblem(f"{row} has no attribute '{unknown[0]}'")

    def _infer(self, row: Op, operands: tuple[Node, ...], values: Mapping[str, Any], given: Type | None) -> Type:
        types = [operand.type for operand in operands]
        if row.infer is None or None in types:
            if given is None:
                raise TypeProblem(f"{row}: its type cannot be inferred here, so it must be given")
            return given
        inferred = infer_type(row, types, values, given)  # pyright: ignore[reportArgumentType]
        if given is None:
            return inferred
        if not same_shape(inferred, given):
            raise TypeProblem(f"{row} yields {inferred}, not {given}")
        return given

    def _laid_out(self, value_type: Type) -> Type:
        return map_leaves(value_type, _with_layout) if self.has_layouts else value_type

    @property
    def has_layouts(self) -> bool:
        """Whether the root, and therefore new nodes, have layouts."""
        root = self.root.type
        return isinstance(root, TensorType) and root.layout is not None


def _with_layout(value_type: Type) -> Type:
    """The type with the default layout; a scalar has none, as in texts."""
    if isinstance(value_type, TensorType) and value_type.layout is None and value_type.rank:
        return value_type.with_layout(default_layout(value_type.rank))
    return value_type


def _without_defaults(row: Op, values: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes in the row's order, without those that equal their defaults unless the row writes them anyway."""
    known = {name: values[name] for name in row.attributes if name in values}
    known |= {name: value for name, value in values.items() if name not in known}
    return {name: value for name, value in known.items() if not _is_left_out(row.attributes.get(name), value)}


def _is_left_out(attribute: Attribute | None, value: Any) -> bool:
    return not (attribute is None or attribute.required or attribute.written) and value == attribute.default
