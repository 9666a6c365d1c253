"""Copies that XLA's CPU compiler makes because products, gathers and exchanges want operands laid out otherwise.

Sources: xla/hlo/transforms/expanders/dot_decomposer.cc, xla/service/cpu/conv_canonicalization.cc.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from hloom.ir import Apply, Graph, Node, TensorType
from hloom.ops import OPS


def lay_out(graph: Graph) -> None:
    """Write out the copies of a graph."""
    known: dict[tuple, Node] = {}
    nodes = list(graph.nodes)
    for node, following in zip(nodes, [*nodes[1:], None], strict=True):
        if not isinstance(node, Apply) or not isinstance(node.type, TensorType):
            continue
        if node.opcode == "dot":
            _dot(graph, node, known, following)
        elif node.opcode == "convolution":
            _convolution(graph, node, known, following)
        elif node.opcode in ("all-gather", "all-to-all") and len(node.inputs) == 1:
            _exchange(graph, node, following)


def _dot(graph: Graph, dot: Apply, known: dict[tuple, Node], following: Node | None) -> None:
    """Make a dot of matrices, in batches: free and contracted dimensions become one each.

        dot(x[2,8,4], y[2,8,5]), lhs_contracting_dims={0,1}, rhs_contracting_dims={0,1}
          ->
        dot(transpose(x)[4,16], reshape(y)[16,5])

    A dot reads a transposed matrix through the transpose.
    """
    if all(_is_plain(dot, place) for place in (0, 1)):
        inputs = [_untransposed(operand) for operand in dot.inputs]
        if inputs != list(dot.inputs):
            graph.set_inputs(dot, inputs)
        return
    batch, _, free = _parts(dot, 0)
    kind = dot.type
    assert isinstance(kind, TensorType)
    inputs = [_arranged(graph, dot, place, known) for place in (0, 1)]
    sizes = kind.dims[: len(batch)], kind.dims[len(batch) : len(batch) + len(free)], kind.dims[len(batch) + len(free) :]
    batches = tuple(size for size in sizes[0] if size != 1)
    attributes = {
        "lhs_batch_dims": tuple(range(len(batches))),
        "rhs_batch_dims": tuple(range(len(batches))),
        "lhs_contracting_dims": (len(batches) + 1,),
        "rhs_contracting_dims": (len(batches),),
    }
    shown = graph.add_apply(OPS["reshape"], (dot,), kind, before=following)
    graph.replace_uses(dot, shown)
    graph.set_inputs(shown, (dot,))
    graph.set_inputs(dot, inputs)
    graph.set_type(dot, TensorType(kind.dtype, (*batches, math.prod(sizes[1]), math.prod(sizes[2]))))
    graph.set_attributes(dot, {**dot.attributes, **attributes})


def _untransposed(operand: Node) -> Node:
    return operand.inputs[0] if operand.opcode == "transpose" and _rank(operand) == 2 else operand


def _arranged(graph: Graph, dot: Apply, place: int, known: dict[tuple, Node]) -> Node:
    """An operand as batches of matrices, through transposes that it comes from; the same one once."""
    batch, contracted, free = _parts(dot, place)
    base, order = dot.inputs[place], (*batch, *free, *contracted) if place == 0 else (*batch, *contracted, *free)
    if len(order) == 2:
        return _untransposed(base)
    assert isinstance(base.type, TensorType)
    sizes = base.type.dims
    while base.opcode == "transpose":
        order = tuple(base.attributes["dimensions"][each] for each in order)
        base = base.inputs[0]
    assert isinstance(base.type, TensorType)
    rows, columns = (math.prod(sizes[each] for each in part) for part in (free, contracted))
    matrix = (rows, columns) if place == 0 else (columns, rows)
    key = (base, order, matrix)
    if key not in known:
        moved = [each for each in order if base.type.dims[each] != 1]
        opcode = "reshape" if moved == sorted(moved) else "transpose"
        kind = TensorType(base.type.dtype, (*(sizes[each] for each in batch if sizes[each] != 1), *matrix))
        if opcode == "reshape" and kind.dims == base.type.dims:
            return base
        attributes = {"dimensions": order} if opcode == "transpose" else {}
        known[key] = graph.add_apply(OPS[opcode], (base,), kind, attributes, before=dot)
    return known[key]


def _parts(dot: Apply, place: int) -> tuple[Sequence[int], Sequence[int], list[int]]:
    """The batch, contracted and free dimensions of an operand."""
    side = ("lhs", "rhs")[place]
    batch = dot.attributes.get(f"{side}_batch_dims") or ()
    contracted = dot.attributes.get(f"{side}_contracting_dims") or ()
    free = [each for each in range(_rank(dot.inputs[place])) if each not in batch and each not in contracted]
    return batch, contracted, free


def _is_plain(dot: Apply, place: int) -> bool:
    batch, contracted, free = _parts(dot, place)
    kind = dot.inputs[place].type
    is_batched = isinstance(kind, TensorType) and all(kind.dims[each] != 1 for each in batch)
    return len(contracted) == 1 and len(free) <= 1 and list(batch) == list(range(len(batch))) and is_batched


def _convolution(graph: Graph, node: Apply, known: dict[tuple, Node], following: Node | None) -> None:
    """Give a convolution its features in the last dimension.

    convolution(x, k), dim_labels=f01b_i01o->01bf
      ->
    transpose(convolution(transpose(x), transpose(k)), dim_labels=b01f_01io->b01f)
    """
    labels, kind = node.attributes.get("dim_labels"), node.type
    if labels is None or not isinstance(kind, TensorType):
        return
    spatial = "".join(sorted(each for each in labels.output if each.isdigit()))
    sides = zip(node.inputs, (labels.lhs, labels.rhs), (f"b{spatial}f", f"{spatial}io"), strict=True)
    inputs = [
        _ordered(graph, operand, [have.index(each) for each in want], node, known) for operand, have, want in sides
    ]
    graph.set_inputs(node, inputs)
    order = [labels.output.index(each) for each in f"b{spatial}f"]
    if order == sorted(order):
        return
    shown = graph.add_apply(OPS["transpose"], (node,), kind, {"dimensions": _inverse(order)}, before=following)
    graph.replace_uses(node, shown)
    graph.set_inputs(shown, (node,))
    graph.set_type(node, TensorType(kind.dtype, tuple(kind.dims[each] for each in order)))


def _ordered(graph: Graph, base: Node, order: list[int], before: Node, known: dict[tuple, Node]) -> Node:
    """A value with its dimensions in this order; the same one once."""
    if order == sorted(order) or not isinstance(base.type, TensorType):
        return base
    key = (base, tuple(order))
    if key not in known:
        kind = TensorType(base.type.dtype, tuple(base.type.dims[each] for each in order))
        known[key] = graph.add_apply(OPS["transpose"], (base,), kind, {"dimensions": tuple(order)}, before=before)
    return known[key]


def _inverse(order: Sequence[int]) -> tuple[int, ...]:
    return tuple(order.index(each) for each in range(len(order)))


def _exchange(graph: Graph, node: Apply, following: Node | None) -> None:
    """Put copies around what exchanges pieces along a dimension that is not the outermost.

    all-gather(x), dimensions={1}   ->   copy(all-gather(copy(x)))
    """
    operand = node.inputs[0]
    assert isinstance(operand.type, TensorType) and isinstance(node.type, TensorType)
    (place,) = node.attributes.get("dimensions") or (0,)
    if node.opcode == "all-gather" and math.prod(operand.type.dims[:place]) == 1:
        return
    after = graph.add_apply(OPS["copy"], (operand,), node.type, before=following)
    graph.replace_uses(node, after)
    graph.set_inputs(after, (node,))
    graph.set_inputs(node, (graph.add_apply(OPS["copy"], (operand,), operand.type, before=node),))


def _rank(node: Node) -> int:
    return len(node.type.dims) if isinstance(node.type, TensorType) else 0
