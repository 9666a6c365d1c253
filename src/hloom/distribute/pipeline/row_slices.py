"""Moves row slices (along the first dimension of stacked arrays) towards the definitions of the arrays.

slice(multiply(concatenate(x, y), scale), rows of x)   ->   multiply(x, slice(scale, rows of x))
"""

from __future__ import annotations

from collections.abc import Sequence

from hloom.analysis import ELEMENTWISE
from hloom.autodiff import Emitter
from hloom.ir import Apply, Constant, Graph, Literal, Node, Parameter, SliceDimension, TensorType, Trait, node_axes
from hloom.ops import OPS, with_trait

Rows = tuple[int, int]
"""A range of rows: the first one, and the one behind the last."""
Key = tuple[Node, Rows]
_MOVES = with_trait(Trait.REINDEXES) - {"bitcast", "reverse", "slice"}


class RowSlices:
    """Slices of rows of one graph's nodes, each made once.

    `of_parameters` has the slices of the graph's parameters that were made.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.of_parameters: dict[Parameter, dict[Rows, Node]] = {}
        self._made: dict[Key, Node] = {}

    def take(self, node: Node, rows: Rows, before: Node | None) -> Node:
        """These rows of an array, computed before a node of the graph."""
        if rows == (0, node.dims[0]):
            return node
        pending = [node]
        while pending:
            current = pending[-1]
            if (current, rows) in self._made:
                pending.pop()
                continue
            operands = row_operands(current)
            missing = [operand for operand in operands or () if (operand, rows) not in self._made]
            if missing:
                pending += missing
                continue
            self._made[current, rows] = self._make(current, operands, rows, before)
            pending.pop()
        return self._made[node, rows]

    def _make(self, node: Node, operands: Sequence[Node] | None, rows: Rows, before: Node | None) -> Node:
        made_type = narrowed(node.type, rows[1] - rows[0])
        piece = aligned_piece(node, rows)
        if piece is not None:
            return piece
        if node.literal is not None and node.literal.is_splat:
            number = node.literal.splat_value()
            return self.graph.add_constant(Literal.splat(made_type, number), made_type, before=before)
        if operands is not None and isinstance(node, Apply):
            inputs = [self._made.get((operand, rows), operand) if operand in operands else operand
                      for operand in node.operands]  # fmt: skip
            return self.graph.add_apply(
                node.function, inputs, made_type, node.attributes, node.name, before=before, metadata=node.raw_metadata
            )
        parts = [SliceDimension(rows[0], rows[1]), *[SliceDimension(0, size) for size in made_type.dims[1:]]]
        made = self.graph.add_apply(OPS["slice"], (node,), made_type, {"slice": tuple(parts)}, before=before)
        if isinstance(node, Parameter):
            self.of_parameters.setdefault(node, {})[rows] = made
        return made


def row_operands(node: Node) -> list[Node] | None:
    """The operands whose rows give the rows of a node; None where it is not computed row by row."""
    if not isinstance(node, Apply) or not isinstance(node.type, TensorType) or not node.type.rank:
        return None
    dims = node.type.dims
    if node.opcode in ELEMENTWISE or node.opcode == "copy":
        stacked = [operand for operand in node.operands if operand.dims]
        return stacked if all(operand.dims == dims for operand in stacked) else None
    is_sum = node.opcode == "reduce" and len(node.operands) == 2
    axes = node_axes(node) if is_sum or node.opcode in _MOVES else None
    source = None if axes is None else axes.source_dims()[0]
    if source is None and node.opcode == "broadcast":
        return []
    return [node.operands[0]] if source == 0 else None


def aligned_piece(node: Node, rows: Rows) -> Node | None:
    """The operand of a concatenation that is exactly these rows of it."""
    if node.opcode != "concatenate" or tuple(node.attributes["dimensions"]) != (0,):
        return None
    start = 0
    for operand in node.operands:
        end = start + operand.dims[0]
        if (start, end) == rows:
            return operand
        start = end
    return None


def is_made_by_rows(node: Node, ranges: Sequence[Rows]) -> bool:
    """Whether ranges of rows of an array need no slices but of parameters, and some of concatenations of them."""
    pending, seen, joins = [node], {node}, False
    while pending:
        current = pending.pop()
        if all(aligned_piece(current, rows) is not None for rows in ranges):
            joins = True
            continue
        if isinstance(current, Parameter) or (isinstance(current, Constant) and current.splat is not None):
            continue
        operands = row_operands(current)
        if operands is None:
            return False
        fresh = [operand for operand in operands if operand not in seen]
        seen.update(fresh)
        pending += fresh
    return joins


def sum_by_rows(node: Node, ranges: Sequence[Rows], slices: RowSlices) -> bool:
    """Write a sum over all rows as the sum of those over ranges of them; whether it was one.

    reduce(concatenate(x, y), 0), dimensions={0,...}   ->   add(reduce(x, 0), reduce(y, 0))
    """
    if node.opcode != "reduce" or len(node.operands) != 2 or 0 not in node.attributes["dimensions"]:
        return False
    graph = node.attributes["to_apply"]
    start = node.operands[1]
    is_sum = graph.root.opcode == "add" and set(graph.root.operands) == set(graph.parameters)
    if not is_sum or start.splat != 0:
        return False
    if not is_made_by_rows(node.operands[0], ranges) or not isinstance(node, Apply):
        return False
    total: Node | None = None
    for rows in ranges:
        taken = slices.take(node.operands[0], rows, node)
        part = slices.graph.add_apply(
            node.function, (taken, start), node.type, node.attributes, before=node, metadata=node.raw_metadata
        )
        total = part if total is None else slices.graph.add_apply(OPS["add"], (total, part), node.type, before=node)
    assert total is not None
    slices.graph.replace_uses(node, total)
    return True


def joined(pieces: Sequence[Node], whole_type: TensorType, emitter: Emitter, before: Node) -> Node:
    """The array of all rows, from its pieces in order."""
    if len(pieces) == 1:
        return pieces[0]
    return emitter.graph.add_apply(OPS["concatenate"], pieces, whole_type, {"dimensions": (0,)}, before=before)


def narrowed(value_type: object, rows: int) -> TensorType:
    """A type with another number of rows."""
    assert isinstance(value_type, TensorType)
    return TensorType(value_type.dtype, (rows, *value_type.dims[1:]), value_type.layout)
