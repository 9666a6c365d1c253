"""Layouts for nodes that a change added to a module whose layouts XLA has fixed already."""

from __future__ import annotations

from hloom.ir import Layout, Module, Node, TensorType, Type, default_layout, map_leaves


def fill_layouts(module: Module) -> None:
    """Give every array whose type has no layout one.

    A node takes the layout of an operand of the same dimensions, or else of such a user (elementwise operations must
    agree with both), or else the row-major one. Arrays in a tuple become row-major.
    """
    for graph in module.graphs:
        for node in graph.nodes:
            if node.type is not None and _lacks_layout(node.type):
                graph.set_type(node, _filled(node, node.type))


def _lacks_layout(kind: Type) -> bool:
    return any(isinstance(leaf, TensorType) and leaf.layout is None for leaf in kind.leaves())


def _filled(node: Node, kind: Type) -> Type:
    if isinstance(kind, TensorType):
        return kind.with_layout(_neighbour_layout(node, kind) or default_layout(kind.rank))
    return map_leaves(kind, _row_major)


def _row_major(kind: Type) -> Type:
    if isinstance(kind, TensorType) and kind.layout is None:
        return kind.with_layout(default_layout(kind.rank))
    return kind


def _neighbour_layout(node: Node, kind: TensorType) -> Layout | None:
    for neighbour in (*node.inputs, *node.users):
        other = neighbour.type
        if isinstance(other, TensorType) and other.layout is not None and other.dims == kind.dims:
            return other.layout
    return None
