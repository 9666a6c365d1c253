"""Elementwise instructions computed in the shape that is reshaped around them, where fewer bytes are moved so.

XLA lets reshapes sink through one instruction after the other (xla/hlo/transforms/simplifiers/reshape_mover.cc); here
all elementwise instructions that are connected change their shape together.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from hloom.ir import Apply, Graph, Module, Node, TensorType, default_layout
from hloom.ops import OPS
from hloom.passes.rules.broadcast import POINTWISE
from hloom.passes.rules.dimensions import Dimensions, broadcast_dims, dims_after_reshape, is_row_major
from hloom.rewrite import Report, tensor_type

_POINTWISE = frozenset(POINTWISE)
MOST_CANDIDATES = 3
"""How many shapes are tried for a region."""
_NO_MOVES = frozenset(("control-predecessors", "sharding"))


def move_reshapes(module: Module) -> Report:
    """Compute connected elementwise instructions in another shape, where that saves reshapes around them.

        reshape(maximum(reshape(x), broadcast(0))) -> maximum(x, broadcast(0))

    Every bit is kept. The bytes of reshapes, as XLA counts them, become fewer with each change.
    """
    report = Report("reshape-mover")
    touched = report.touched = set[Node]()
    module.index_users()
    for graph in [] if module.has_closures else module.graphs:
        for members in _connected(graph):
            region = _Region.of(members)
            dims = _better_dims(region)
            if dims is not None:
                touched.update(_move(region, dims))
                report.changes += 1
    return report


@dataclass(frozen=True, slots=True)
class _Region:
    """Connected elementwise instructions of one shape, in the graph's order, and what they are given from outside."""

    graph: Graph
    dims: Dimensions
    nodes: dict[Node, None]
    operands: dict[Node, Node]
    """Each with the node that uses it first."""

    @classmethod
    def of(cls, members: list[Node]) -> _Region:
        nodes = dict.fromkeys(members)
        operands: dict[Node, Node] = {}
        for node in nodes:
            for operand in node.inputs:
                if operand not in nodes:
                    operands.setdefault(operand, node)
        return cls(members[0].graph, _dims(members[0]), nodes, operands)

    def is_all_inside(self, operand: Node) -> bool:
        """Whether nothing outside uses an operand."""
        return not operand.is_output and all(user in self.nodes for user in operand.users)

    def users_outside(self, node: Node) -> list[Node]:
        return [user for user in node.users if user not in self.nodes]


def _connected(graph: Graph) -> list[list[Node]]:
    """The movable nodes of a graph, those together that are connected and of one shape."""
    movable = {node: number for number, node in enumerate(graph.nodes) if _is_movable(node)}
    regions: list[list[Node]] = []
    seen: set[Node] = set()
    for start in movable:
        if start in seen:
            continue
        seen.add(start)
        members, pending = [start], [start]
        while pending:
            node = pending.pop()
            for near in (*node.inputs, *node.users):
                if near in movable and near not in seen and _dims(near) == _dims(start):
                    seen.add(near)
                    members.append(near)
                    pending.append(near)
        regions.append(sorted(members, key=movable.__getitem__))
    return regions


def _is_movable(node: Node) -> bool:
    array_type = tensor_type(node)
    if node.opcode not in _POINTWISE or not isinstance(node, Apply) or array_type is None or not array_type.rank:
        return False
    if not array_type.element_count or not is_row_major(array_type) or not _NO_MOVES.isdisjoint(node.attributes):
        return False
    types = [tensor_type(operand) for operand in node.inputs]
    return all(given is not None and given.dims == array_type.dims and is_row_major(given) for given in types)


def _better_dims(region: _Region) -> Dimensions | None:
    """The dimensions in which the region and the reshapes around it move the fewest bytes; None for those it has."""
    given = [_dims(operand.inputs[0]) for operand in region.operands if _is_reshape(operand)]
    asked = [_dims(user) for node in region.nodes for user in region.users_outside(node) if _is_reshape(user)]
    candidates = Counter(dims for dims in (*given, *asked) if dims != region.dims).most_common(MOST_CANDIDATES)
    saved, dims = max(((_bytes_saved(region, dims), dims) for dims, _ in candidates), default=(0, region.dims))
    return dims if saved > 0 else None


def _bytes_saved(region: _Region, dims: Dimensions) -> int:
    """How many bytes fewer reshapes move, if a region is computed in other dimensions."""
    saved = 0
    for operand in region.operands:
        if _is_reshape(operand):
            is_gone = _dims(operand.inputs[0]) == dims
            saved += 2 * _byte_count(operand) * (region.is_all_inside(operand) - (not is_gone))
        elif _remade_attributes(operand, dims) is not None:
            saved -= 0 if region.is_all_inside(operand) else _byte_count(operand)
        else:
            saved -= 2 * _byte_count(operand)
    for node in region.nodes:
        users = region.users_outside(node)
        back = [user for user in users if _is_reshape_to(user, dims)]
        others = [user for user in users if user not in back]
        saved += 2 * _byte_count(node) * (len(back) - bool(node.is_output or others))
    return saved


def _move(region: _Region, dims: Dimensions) -> set[Node]:
    """Compute a region in other dimensions; the nodes that are made for it, and those that have one user left."""
    graph = region.graph
    moved = {operand: _moved_operand(operand, dims, user) for operand, user in region.operands.items()}
    for node in region.nodes:
        assert isinstance(node, Apply), "only instructions are movable"
        moved[node] = graph.add_apply(
            node.op,
            [moved[operand] for operand in node.inputs],
            _resized(node, dims),
            node.attributes,
            node.name,
            before=node,
            metadata=node.raw_metadata,
        )
    for node in region.nodes:
        for user in region.users_outside(node):
            if _is_reshape_to(user, dims):
                graph.replace_uses(user, moved[node])
                graph.erase(user)
        if region.users_outside(node) or node.is_output:
            back = graph.add_apply(OPS["reshape"], [moved[node]], node.type, before=node, metadata=node.raw_metadata)
            graph.replace_uses(node, back)
            moved[back] = back
    for node in reversed(region.nodes):
        graph.erase(node)
    released = {used for operand in region.operands for used in (operand, *operand.inputs) if used.user_count == 1}
    return released.union(moved.values())


def _moved_operand(operand: Node, dims: Dimensions, user: Node) -> Node:
    """An operand of the region in other dimensions, made in front of the node that uses it first."""
    source = operand.inputs[0] if _is_reshape(operand) else operand
    if _dims(source) == dims:
        return source
    attributes = _remade_attributes(operand, dims)
    opcode, inputs = ("reshape", (source,)) if attributes is None else (operand.opcode, operand.inputs)
    return user.graph.add_apply(
        OPS[opcode], inputs, _resized(operand, dims), attributes or {}, before=user, metadata=operand.raw_metadata
    )


def _remade_attributes(operand: Node, dims: Dimensions) -> dict[str, Any] | None:
    """The attributes of a broadcast or an iota that is made in other dimensions; None where it cannot be."""
    if not _NO_MOVES.isdisjoint(operand.attributes):
        return None
    if operand.opcode == "broadcast" and tensor_type(operand.inputs[0]) is not None:
        places = dims_after_reshape(_dims(operand), dims, broadcast_dims(operand))
        return None if places is None else {"dimensions": places}
    if operand.opcode == "iota":
        places = dims_after_reshape(_dims(operand), dims, [operand.attributes["iota_dimension"]])
        return None if places is None else {"iota_dimension": places[0]}
    return None


def _is_reshape(node: Node) -> bool:
    """Whether it is a reshape of an array that may be left out."""
    if node.opcode != "reshape" or node.attributes:
        return False
    return tensor_type(node) is not None and tensor_type(node.inputs[0]) is not None


def _is_reshape_to(user: Node, dims: Dimensions) -> bool:
    return _is_reshape(user) and _dims(user) == dims and not user.is_output and is_row_major(_type(user))


def _resized(node: Node, dims: Dimensions) -> TensorType:
    """The type of a node in other dimensions, with a layout where the node has one."""
    array_type = _type(node)
    layout = None if array_type.layout is None else default_layout(len(dims))
    return TensorType(array_type.dtype, dims).with_layout(layout)


def _type(node: Node) -> TensorType:
    assert isinstance(node.type, TensorType), f"{node!r} is no array"
    return node.type


def _dims(node: Node) -> Dimensions:
    return _type(node).dims


def _byte_count(node: Node) -> int:
    return _type(node).byte_count
