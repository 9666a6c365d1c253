"""Elementwise instructions computed in the shape that is reshaped around them, where fewer bytes are moved so.

XLA lets reshapes sink through one instruction after the other (xla/hlo/transforms/simplifiers/reshape_mover.cc); here
all elementwise instructions that are connected change their shape together. `sink_reshapes` is nearer to XLA's pass: it
takes transposes for reshapes too, and lets them sink where no byte is saved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from hloom.analysis import BROADCASTS
from hloom.ir import Apply, Constant, Graph, Module, Node, TensorType, Trait, default_layout
from hloom.ops import OPS, fixed_form, with_trait
from hloom.passes.computation_order import running_graphs
from hloom.passes.dce import erase_dead
from hloom.passes.pipeline import register_pass, until_settled
from hloom.passes.rules.broadcast import POINTWISE
from hloom.passes.rules.dimensions import Dimensions, broadcast_dims, dims_after_reshape, inverse, is_row_major
from hloom.rewrite import Report, tensor_type
from hloom.text import HloomError

_POINTWISE = frozenset(POINTWISE)
MOST_CANDIDATES = 3
"""How many shapes are tried for a region."""
_NO_MOVES = frozenset(("control-predecessors", "sharding"))
_FREE_SOURCES = with_trait(Trait.GENERATES) | {"constant", "rng"}
"""What can as well be made in another shape: reshapes of it are not worth to sink."""

_MADE_ANEW = BROADCASTS | {"constant", "reshape", "transpose"}
"""Of what another is made in the form of a region."""


def move_reshapes(module: Module) -> Report:
    """Compute connected elementwise instructions in another shape, where that saves reshapes around them.

        reshape(maximum(reshape(x), broadcast(0))) -> maximum(x, broadcast(0))

    Every bit is kept. The bytes of reshapes, as XLA counts them, become fewer with each change.
    """
    report = Report("reshape-mover")
    touched = report.touched = set[Node]()
    module.index_users()
    for graph in [] if module.has_closures else module.graphs:
        if fixed_form(graph):
            continue
        for members in _connected(graph):
            region = _Region.of(members)
            form = _better_form(region)
            if form is not None:
                touched.update(_move(region, form))
                report.changes += 1
    return report


@until_settled
def sink_reshapes(module: Module, rows: int = 0) -> Report:
    """Let reshapes and transposes sink below elementwise instructions, where no more bytes are moved so.

        add(reshape(x), reshape(y))       -> reshape(add(x, y))
        multiply(transpose(x), constant)  -> transpose(multiply(x, transpose(constant)))

    Reshapes of constants count for nothing: they are folded; so do those of broadcast rows, where `rows` is 1. Every
    bit is kept. Raises HloomError where it is neither 0 nor 1.
    """
    if rows not in (0, 1):
        raise HloomError(f"sink-reshapes: rows is 0 or 1, not '{rows}'")
    report = Report("sink-reshapes")
    module.index_users()
    for graph in [] if module.has_closures else running_graphs(module):
        for members in _connected(graph, through_operands=True):
            region = _Region.of([node for node in members if node.is_used] or members)
            form = _sunk_form(region, bool(rows))
            if form is not None:
                operands = [operand for operand in region.operands if operand.opcode in _MADE_ANEW]
                _move(region, form)
                erase_dead(node for node in operands if node.name in graph and graph[node.name] is node)
                report.changes += 1
    return report


@dataclass(frozen=True, slots=True)
class _Form:
    """What a region is computed as instead: arrays of which what it computes now is a reshape or a transpose.

    `permutation` is that of the transpose, None for a reshape.
    """

    dims: Dimensions
    permutation: Dimensions | None = None

    @classmethod
    def above(cls, operand: Node) -> _Form | None:
        """The form in which an operand of a region is given, before it is reshaped or transposed."""
        if _is_reshape(operand):
            return cls(operand.operands[0].dims)
        return cls(operand.operands[0].dims, operand.attributes["dimensions"]) if _is_transpose(operand) else None

    @classmethod
    def below(cls, user: Node) -> _Form | None:
        """The form in which a user takes what a region computes."""
        is_reshape = _is_reshape(user)
        if user.is_output or not (is_reshape or _is_transpose(user)) or not is_row_major(user.array_type):
            return None
        return cls(user.dims, None if is_reshape else inverse(user.attributes["dimensions"]))


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
            for operand in node.operands:
                if operand not in nodes:
                    operands.setdefault(operand, node)
        return cls(members[0].graph, members[0].dims, nodes, operands)

    def is_all_inside(self, operand: Node) -> bool:
        """Whether nothing outside uses an operand."""
        return not operand.is_output and all(user in self.nodes for user in operand.users)

    def users_outside(self, node: Node) -> list[Node]:
        return [user for user in node.users if user not in self.nodes]


def _connected(graph: Graph, *, through_operands: bool = False) -> list[list[Node]]:
    """The movable nodes of a graph, those together that are connected and of one shape.

    With `through_operands`, those that are given the same reshape or transpose are connected too.
    """
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
            near: Iterable[Node] = (*node.operands, *node.users)
            if through_operands:
                moved = [operand for operand in node.operands if operand not in seen and _Form.above(operand)]
                seen.update(moved)
                near = (*near, *(user for operand in moved for user in operand.users))
            for other in near:
                if other in movable and other not in seen and other.dims == start.dims:
                    seen.add(other)
                    members.append(other)
                    pending.append(other)
        regions.append(sorted(members, key=movable.__getitem__))
    return regions


def _is_movable(node: Node) -> bool:
    array_type = tensor_type(node)
    if node.opcode not in _POINTWISE or not isinstance(node, Apply) or array_type is None or not array_type.rank:
        return False
    if not array_type.element_count or not is_row_major(array_type) or not _NO_MOVES.isdisjoint(node.attributes):
        return False
    types = [tensor_type(operand) for operand in node.operands]
    return all(given is not None and given.dims == array_type.dims and is_row_major(given) for given in types)


def _better_form(region: _Region) -> _Form | None:
    """The form in which the region and the reshapes around it move the fewest bytes; None for the one it has."""
    given = [operand.operands[0].dims for operand in region.operands if _is_reshape(operand)]
    asked = [user.dims for node in region.nodes for user in region.users_outside(node) if _is_reshape(user)]
    candidates = Counter(dims for dims in (*given, *asked) if dims != region.dims).most_common(MOST_CANDIDATES)
    saved, dims = max(((_bytes_saved(region, _Form(dims)), dims) for dims, _ in candidates), default=(0, region.dims))
    return _Form(dims) if saved > 0 else None


def _sunk_form(region: _Region, rows: bool) -> _Form | None:
    """The form that saves the most bytes, or in which operands are given that need no others reshaped; else None."""
    given = [_Form.above(operand) for operand in region.operands if not _is_free_source(operand)]
    asked = [_Form.below(user) for node in region.nodes for user in region.users_outside(node)]
    counts = Counter(form for form in (*given, *asked) if form is not None and form != _Form(region.dims))
    best: tuple[int, _Form] | None = None
    for form, _ in counts.most_common(MOST_CANDIDATES):
        free = {operand for operand in region.operands if _is_made_anew(operand, form, rows)}
        saved = _bytes_saved(region, form, free)
        is_sinking = form in given and all(
            _Form.above(operand) == form or operand in free for operand in region.operands
        )
        if (saved > 0 or (saved == 0 and is_sinking)) and (best is None or saved > best[0]):
            best = saved, form
    return None if best is None else best[1]


def _is_free_source(operand: Node) -> bool:
    """Whether what is reshaped or transposed there can be made in any shape."""
    source = operand.operands[0] if operand.operands else operand
    return source.opcode in _FREE_SOURCES or (source.opcode == "broadcast" and not broadcast_dims(source))


def _is_made_anew(operand: Node, form: _Form, rows: bool) -> bool:
    """Whether an operand can be had in another form without moving a byte: constants are folded, and maybe rows."""
    source = operand.operands[0] if _Form.above(operand) else operand
    if rows and operand.opcode == "broadcast" and len(broadcast_dims(operand)) == 1:
        return True
    return isinstance(source, Constant) or _remade_attributes(operand, form) is not None


def _bytes_saved(region: _Region, form: _Form, free: Collection[Node] = ()) -> int:
    """How many bytes fewer reshapes move, if a region is computed in another form.

    Those of its operands that are `free` cost nothing in another form.
    """
    saved = 0
    for operand in region.operands:
        byte_count = _byte_count(operand)
        if operand in free:
            saved -= 0 if region.is_all_inside(operand) else byte_count
        elif _Form.above(operand) == form:
            saved += 2 * byte_count * region.is_all_inside(operand)
        elif _is_reshape(operand) and form.permutation is None:
            saved += 2 * byte_count * (region.is_all_inside(operand) - 1)
        elif _remade_attributes(operand, form) is not None:
            saved -= 0 if region.is_all_inside(operand) else byte_count
        else:
            saved -= 2 * byte_count
    for node in region.nodes:
        users = region.users_outside(node)
        back = [user for user in users if _Form.below(user) == form]
        others = [user for user in users if user not in back]
        saved += 2 * _byte_count(node) * (len(back) - bool(node.is_output or others))
    return saved


def _move(region: _Region, form: _Form) -> set[Node]:
    """Compute a region in another form; the nodes that are made for it, and those that have one user left."""
    graph = region.graph
    moved = {operand: _moved_operand(operand, form, user) for operand, user in region.operands.items()}
    for node in region.nodes:
        assert isinstance(node, Apply), "only instructions are movable"
        moved[node] = graph.add_apply(
            node.op,
            [moved[operand] for operand in node.operands],
            _resized(node, form.dims),
            node.attributes,
            node.name,
            before=node,
            metadata=node.raw_metadata,
        )
    for node in region.nodes:
        for user in region.users_outside(node):
            if _Form.below(user) == form:
                graph.replace_uses(user, moved[node])
                graph.erase(user)
        if region.users_outside(node) or node.is_output:
            opcode, attributes = _back(form)
            back = graph.add_apply(
                OPS[opcode], [moved[node]], node.type, attributes, before=node, metadata=node.raw_metadata
            )
            graph.replace_uses(node, back)
            moved[back] = back
    for node in reversed(region.nodes):
        graph.erase(node)
    released = {used for operand in region.operands for used in (operand, *operand.operands) if used.user_count == 1}
    return released.union(moved.values())


def _back(form: _Form) -> tuple[str, dict[str, Any]]:
    """What makes of an array in a form what the region was."""
    return ("reshape", {}) if form.permutation is None else ("transpose", {"dimensions": form.permutation})


def _moved_operand(operand: Node, form: _Form, user: Node) -> Node:
    """An operand of the region in another form, made in front of the node that uses it first."""
    if _Form.above(operand) == form:
        return operand.operands[0]
    attributes = _remade_attributes(operand, form)
    if attributes is not None:
        opcode, inputs = operand.opcode, operand.operands
    elif form.permutation is None:
        source = operand.operands[0] if _is_reshape(operand) else operand
        if source.dims == form.dims:
            return source
        opcode, inputs, attributes = "reshape", (source,), {}
    else:
        opcode, inputs, attributes = "transpose", (operand,), {"dimensions": inverse(form.permutation)}
    return user.graph.add_apply(
        OPS[opcode], inputs, _resized(operand, form.dims), attributes, before=user, metadata=operand.raw_metadata
    )


def _remade_attributes(operand: Node, form: _Form) -> dict[str, Any] | None:
    """The attributes of a broadcast or an iota that is made in another form; None where it cannot be."""
    if not _NO_MOVES.isdisjoint(operand.attributes):
        return None
    if operand.opcode == "broadcast" and tensor_type(operand.operands[0]) is not None:
        dimensions = _dims_in(operand, form, broadcast_dims(operand))
        return None if dimensions is None else {"dimensions": dimensions}
    if operand.opcode == "iota":
        dimensions = _dims_in(operand, form, (operand.attributes["iota_dimension"],))
        return None if dimensions is None else {"iota_dimension": dimensions[0]}
    return None


def _dims_in(operand: Node, form: _Form, wanted: Dimensions) -> Dimensions | None:
    """Where some dimensions of an operand are in another form; None where they are not whole there, or out of order."""
    if form.permutation is None:
        return dims_after_reshape(operand.dims, form.dims, wanted)
    dimensions = tuple(form.permutation[dim] for dim in wanted)
    return dimensions if list(dimensions) == sorted(dimensions) or len(wanted) == 1 else None


def _is_reshape(node: Node) -> bool:
    """Whether it is a reshape of an array that may be left out."""
    if node.opcode != "reshape" or node.attributes:
        return False
    return tensor_type(node) is not None and tensor_type(node.operands[0]) is not None


def _is_transpose(node: Node) -> bool:
    """Whether it is a transpose of an array that may be left out."""
    if node.opcode != "transpose" or len(node.attributes) != 1 or tensor_type(node) is None:
        return False
    source = tensor_type(node.operands[0])
    return source is not None and is_row_major(source)


def _resized(node: Node, dims: Dimensions) -> TensorType:
    """The type of a node in other dimensions, with a layout where the node has one."""
    array_type = node.array_type
    layout = None if array_type.layout is None else default_layout(len(dims))
    return TensorType(array_type.dtype, dims).with_layout(layout)


def _byte_count(node: Node) -> int:
    return node.array_type.byte_count


register_pass("sink-reshapes", "reshapes and transposes sink below elementwise instructions", sink_reshapes, ("rows",))
