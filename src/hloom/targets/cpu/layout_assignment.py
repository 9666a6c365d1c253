"""Copies that XLA's CPU compiler inserts because dots, convolutions and collectives need other operand layouts.

Follows `CanonicalizeDot` (xla/hlo/transforms/expanders/dot_decomposer.cc), `ConvCanonicalization`
(xla/service/cpu/conv_canonicalization.cc) and `CpuLayoutAssignment::AddBackendConstraints`
(xla/service/cpu/cpu_layout_assignment.cc), which makes the dimension of an all-gather or all-to-all the most major one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence

from hloom.analysis import BROADCASTS, ELEMENTWISE
from hloom.ir import Apply, Graph, Node, TensorType, TupleType, Type
from hloom.ops import OPS

Known = dict[tuple, Node]
"""Transposes and reshapes made so far, by what they are of."""


def clear_layouts(graph: Graph) -> None:
    """Forget the layouts that a program comes with, but for those of custom calls and parameters.

    Source: `LayoutAssignment::ClearComputationLayouts` (xla/service/layout_assignment.cc).
    """
    for node in graph.nodes:
        if not isinstance(node, Apply) or not isinstance(node.type, TensorType) or node.type.layout is None:
            continue
        source = node.operands[0] if node.opcode == "get-tuple-element" else node
        if source.opcode != "custom-call":
            graph.set_type(node, node.type.with_layout(None))


def features_last(convolution: Apply) -> Sequence[str]:
    """The labels of a convolution's operands and result as the CPU takes them, with features in the last dimension."""
    labels = convolution.attributes.get("dim_labels")
    spatial = "" if labels is None else "".join(sorted(label for label in labels.output if label.isdigit()))
    return f"b{spatial}f", f"{spatial}io", f"b{spatial}f"


def assign_layouts(graph: Graph, convolution_layout: Callable[[Apply], Sequence[str]] = features_last) -> None:
    """Add the copies to a graph, as transposes, reshapes and copies.

    `convolution_layout` yields the labels of a convolution's operands and result in the order that the target takes.
    """
    known: Known = {}
    nodes = list(graph.nodes)
    for node, following in zip(nodes, [*nodes[1:], None], strict=True):
        if isinstance(node, Apply) and node.opcode == "custom-call":
            _copy_operands(graph, node, known)
        if not isinstance(node, Apply) or not isinstance(node.type, TensorType):
            continue
        source = node.operands[0] if node.opcode == "get-tuple-element" else node
        if source.opcode == "custom-call" and _is_transposed(node.type):
            _copy_result(graph, node, following)
        if node.opcode == "dot":
            _canonicalize_dot(graph, node, known, following)
        elif node.opcode == "convolution":
            _canonicalize_convolution(graph, node, convolution_layout(node), known, following)
        elif node.opcode in ("all-gather", "all-to-all") and len(node.operands) == 1:
            _copy_around_collective(graph, node, following)


def copy_tuple_elements(graph: Graph) -> list[Apply]:
    """Copy transposed arrays in tuples that a loop takes or yields, or that the program yields.

        tuple(transpose(x))   ->   tuple(copy(get-tuple-element(tuple(transpose(x))), index=0))

    The layout of a transposed array is what makes the transposition free; the tuple demands the default one. Tuples are
    copied whole, so that the copies are not fused: `take_out_of_tuples` lets them read the arrays. Source:
    `LayoutAssignment::CreateCopyWithNewLayout` (xla/service/layout_assignment.cc).
    """
    copies: list[Apply] = []
    holders = [node.operands[0] for node in graph.nodes if node.opcode == "while"]
    is_body = graph is graph.module.entry or any(caller.opcode == "while" for caller in graph.callers)
    holders += [graph.output] if graph.output is not None and is_body else []
    transposed = _transposed_values(graph) if holders else set()
    for holder in holders:
        if not isinstance(holder, Apply) or holder.opcode != "tuple" or transposed.isdisjoint(holder.operands):
            continue
        inputs = list(holder.operands)
        for index, element in enumerate(inputs):
            if element in transposed and element.type is not None:
                wrapped = graph.add_apply(OPS["tuple"], (element,), TupleType((element.type,)), before=holder)
                read = graph.add_apply(OPS["get-tuple-element"], (wrapped,), element.type, {"index": 0}, before=holder)
                copy = inputs[index] = graph.add_apply(OPS["copy"], (read,), element.type, before=holder)
                copies.append(copy)
        graph.set_operands(holder, inputs)
    return copies


def take_out_of_tuples(copies: Sequence[Apply], fused: Collection[Node]) -> None:
    """Let copies of tuples' elements read the elements; a transposition that is not part of a kernel is free."""
    for copy in copies:
        read = copy.operands[0]
        wrapped = read.operands[0]
        element = wrapped.operands[0]
        graph = copy.graph
        graph.set_operands(copy, (element,))
        graph.erase(read)
        graph.erase(wrapped)
        if isinstance(element, Apply) and element.opcode == "transpose" and element.operands[0] not in fused:
            graph.set_function(element, OPS["bitcast"])


def _transposed_values(graph: Graph) -> set[Node]:
    """The results of transpositions, and what is computed of them alone element by element."""
    transposed: set[Node] = set()
    for node in graph.nodes:
        if not isinstance(node, Apply) or not isinstance(node.type, TensorType) or len(node.type.dims) < 2:
            continue
        if node.opcode == "transpose":
            order = [dim for dim in node.attributes["dimensions"] if node.operands[0].dims[dim] != 1]
            if order != sorted(order) and node.operands[0] not in transposed:
                transposed.add(node)
        elif node.opcode in ELEMENTWISE:
            arrays = [operand for operand in node.operands if operand.opcode not in BROADCASTS and operand.rank > 1]
            if arrays and transposed.issuperset(arrays):
                transposed.add(node)
    return transposed


def _canonicalize_dot(graph: Graph, dot: Apply, known: Known, following: Node | None) -> None:
    """Make a batch of matrix products of a dot: its non-contracting and contracting dimensions become one each.

        dot(x[2,8,4], y[2,8,5]), lhs_contracting_dims={0,1}, rhs_contracting_dims={0,1}
          ->
        dot(transpose(x)[4,16], reshape(y)[16,5])

    A dot reads a transposed matrix through the transpose.
    """
    if all(_is_canonical(dot, index) for index in (0, 1)):
        for index in (0, 1):
            _fold_transpose(graph, dot, index)
        return
    batch, _, own = _dot_dims(dot, 0)
    dot_type = dot.type
    assert isinstance(dot_type, TensorType)
    inputs = [_canonical_operand(graph, dot, index, known) for index in (0, 1)]
    rows = dot_type.dims[len(batch) : len(batch) + len(own)]
    columns = dot_type.dims[len(batch) + len(own) :]
    batches = tuple(size for size in dot_type.dims[: len(batch)] if size != 1)
    attributes = {
        "lhs_batch_dims": tuple(range(len(batches))),
        "rhs_batch_dims": tuple(range(len(batches))),
        "lhs_contracting_dims": (len(batches) + 1,),
        "rhs_contracting_dims": (len(batches),),
    }
    reshape = graph.add_apply(OPS["reshape"], (dot,), dot_type, before=following)
    graph.replace_uses(dot, reshape)
    graph.set_operands(reshape, (dot,))
    graph.set_operands(dot, inputs)
    graph.set_type(dot, TensorType(dot_type.dtype, (*batches, math.prod(rows), math.prod(columns))))
    graph.set_attributes(dot, {**dot.attributes, **attributes})
    _transpose_product(graph, dot, reshape)


def _transpose_product(graph: Graph, dot: Apply, reshape: Apply) -> None:
    """Compute the transpose of a batch of products of matrices, where nothing else reads the products.

        transpose(dot(x[2,8,4], y[2,4,5])), dimensions={0,2,1}
          ->
        dot(y, x), lhs_contracting_dims={1}, rhs_contracting_dims={2}

    Source: `AlgebraicSimplifierVisitor::HandleTranspose` (xla/hlo/transforms/simplifiers/algebraic_simplifier.cc).
    """
    transpose = reshape.users[0] if reshape.user_count == 1 and not reshape.is_output else None
    if transpose is None or transpose.opcode != "transpose" or dot.dims != reshape.dims:
        return
    batches = dot.rank - 2
    if tuple(transpose.attributes["dimensions"]) != (*range(batches), batches + 1, batches):
        return
    swapped = {"lhs_contracting_dims": (batches,), "rhs_contracting_dims": (batches + 1,)}
    graph.set_operands(dot, (dot.operands[1], dot.operands[0]))
    graph.set_attributes(dot, {**dot.attributes, **swapped})
    graph.set_type(dot, transpose.type)
    graph.set_type(reshape, transpose.type)
    graph.replace_uses(transpose, reshape)
    graph.erase(transpose)


def _fold_transpose(graph: Graph, dot: Apply, operand_index: int) -> None:
    """Let a dot read a batch of transposed matrices through the transpose.

        dot(transpose(x[2,8,4]), y), dimensions={0,2,1}, lhs_contracting_dims={2}
          ->
        dot(x, y), lhs_contracting_dims={1}

    Source: `TransposeFolding::IsRowColumnTransposeDotOperand` (xla/hlo/transforms/simplifiers/transpose_folding.cc).
    """
    operand = dot.operands[operand_index]
    batch, (contracting,), _ = _dot_dims(dot, operand_index)
    if operand.opcode != "transpose" or operand.rank != len(batch) + 2:
        return
    order = operand.attributes["dimensions"]
    if any(order[dim] != dim for dim in batch):
        return
    graph.set_operands(
        dot, [operand.operands[0] if index == operand_index else dot.operands[index] for index in (0, 1)]
    )
    side = ("lhs", "rhs")[operand_index]
    graph.set_attributes(dot, {**dot.attributes, f"{side}_contracting_dims": (order[contracting],)})


def _behind_transpose(operand: Node) -> Node:
    return operand.operands[0] if operand.opcode == "transpose" and operand.rank == 2 else operand


def _canonical_operand(graph: Graph, dot: Apply, operand_index: int, known: Known) -> Node:
    """An operand as a batch of matrices, read through transposes; the same node for the same matrices."""
    batch, contracting, own = _dot_dims(dot, operand_index)
    base = dot.operands[operand_index]
    order = (*batch, *own, *contracting) if operand_index == 0 else (*batch, *contracting, *own)
    if len(order) == 2:
        return _behind_transpose(base)
    assert isinstance(base.type, TensorType)
    sizes = base.type.dims
    while base.opcode == "transpose":
        order = tuple(base.attributes["dimensions"][dim] for dim in order)
        base = base.operands[0]
    assert isinstance(base.type, TensorType)
    own_size, contracting_size = (math.prod(sizes[dim] for dim in dims) for dims in (own, contracting))
    matrix = (own_size, contracting_size) if operand_index == 0 else (contracting_size, own_size)
    key = (base, order, matrix)
    if key not in known:
        permuted = [dim for dim in order if base.type.dims[dim] != 1]
        opcode = "reshape" if permuted == sorted(permuted) else "transpose"
        canonical = TensorType(base.type.dtype, (*(sizes[dim] for dim in batch if sizes[dim] != 1), *matrix))
        if opcode == "reshape" and canonical.dims == base.type.dims:
            return base
        attributes = {"dimensions": order} if opcode == "transpose" else {}
        known[key] = graph.add_apply(OPS[opcode], (base,), canonical, attributes, before=dot)
    return known[key]


def _dot_dims(dot: Apply, operand_index: int) -> tuple[Sequence[int], Sequence[int], list[int]]:
    """The batch, contracting and non-contracting dimensions of an operand."""
    side = ("lhs", "rhs")[operand_index]
    batch = dot.attributes.get(f"{side}_batch_dims") or ()
    contracting = dot.attributes.get(f"{side}_contracting_dims") or ()
    own = [dim for dim in range(dot.operands[operand_index].rank) if dim not in batch and dim not in contracting]
    return batch, contracting, own


def _is_canonical(dot: Apply, operand_index: int) -> bool:
    batch, contracting, own = _dot_dims(dot, operand_index)
    operand_type = dot.operands[operand_index].type
    if not isinstance(operand_type, TensorType) or any(operand_type.dims[dim] == 1 for dim in batch):
        return False
    return len(contracting) == 1 and len(own) <= 1 and list(batch) == list(range(len(batch)))


def _canonicalize_convolution(
    graph: Graph, node: Apply, wanted: Sequence[str], known: Known, following: Node | None
) -> None:
    """Give a convolution its dimensions in the wanted order.

    convolution(x, k), dim_labels=f01b_i01o->01bf
      ->
    transpose(convolution(transpose(x), transpose(k)), dim_labels=b01f_01io->b01f)
    """
    labels, node_type = node.attributes.get("dim_labels"), node.type
    if labels is None or not isinstance(node_type, TensorType):
        return
    sides = zip(node.operands, (labels.lhs, labels.rhs), wanted[:2], strict=True)
    inputs = [
        _transposed(graph, operand, [have.index(label) for label in want], node, known) for operand, have, want in sides
    ]
    graph.set_operands(node, inputs)
    order = [labels.output.index(label) for label in wanted[2]]
    if order == sorted(order):
        return
    transpose = graph.add_apply(OPS["transpose"], (node,), node_type, {"dimensions": _inverse(order)}, before=following)
    graph.replace_uses(node, transpose)
    graph.set_operands(transpose, (node,))
    graph.set_type(node, TensorType(node_type.dtype, tuple(node_type.dims[dim] for dim in order)))


def _transposed(graph: Graph, base: Node, order: list[int], before: Node, known: Known) -> Node:
    """A value with its dimensions in this order; the same node for the same order."""
    if order == sorted(order) or not isinstance(base.type, TensorType):
        return base
    key = (base, tuple(order))
    if key not in known:
        permuted = TensorType(base.type.dtype, tuple(base.type.dims[dim] for dim in order))
        known[key] = graph.add_apply(OPS["transpose"], (base,), permuted, {"dimensions": tuple(order)}, before=before)
    return known[key]


def _inverse(order: Sequence[int]) -> tuple[int, ...]:
    return tuple(order.index(dim) for dim in range(len(order)))


def _copy_around_collective(graph: Graph, node: Apply, following: Node | None) -> None:
    """Put copies around a collective along a dimension that is not the most major one.

    all-gather(x), dimensions={1}   ->   copy(all-gather(copy(x)))
    """
    operand = node.operands[0]
    assert isinstance(operand.type, TensorType) and isinstance(node.type, TensorType)
    (dim,) = node.attributes.get("dimensions") or (0,)
    if node.opcode == "all-gather" and math.prod(operand.type.dims[:dim]) == 1:
        return
    after = graph.add_apply(OPS["copy"], (operand,), node.type, before=following)
    graph.replace_uses(node, after)
    graph.set_operands(after, (node,))
    graph.set_operands(node, (graph.add_apply(OPS["copy"], (operand,), operand.type, before=node),))


def _copy_operands(graph: Graph, call: Apply, known: Known) -> None:
    """Copy the operands that a custom call takes in another layout than that of the most minor dimension last.

    Another call's result in the layout that is wanted is read as it is, but copied where something else reads it. Calls
    that only read an operand share the copy; what a call writes over is its own.
    """
    overwritten = {alias.operand for alias in call.attributes.get("output_to_operand_aliasing") or ()}
    demanded = call.attributes.get("operand_layout_constraints") or ()
    inputs = list(call.operands)
    for position, (operand, wanted) in enumerate(zip(call.operands, demanded, strict=False)):
        if not _is_transposed(wanted):
            continue
        is_copied_back = operand.opcode == "copy" and operand.operands and _is_transposed(operand.operands[0].type)
        source = operand.operands[0] if is_copied_back else operand
        if not is_copied_back or source.user_count + operand.user_count > 2:
            copy = known.get((operand, "copy")) if position not in overwritten else None
            source = copy or graph.add_apply(OPS["copy"], (source,), source.type, before=call)
            known[operand, "copy"] = source
        inputs[position] = source
    if inputs != list(call.operands):
        graph.set_operands(call, inputs)


def _copy_result(graph: Graph, result: Apply, following: Node | None) -> None:
    assert isinstance(result.type, TensorType)
    copy = graph.add_apply(OPS["copy"], (result,), result.type.with_layout(None), before=following)
    graph.replace_uses(result, copy)
    graph.set_operands(copy, (result,))


def _is_transposed(value_type: Type | None) -> bool:
    """Whether a layout has the dimensions, those of one element aside, in another order than they are written."""
    if not isinstance(value_type, TensorType) or value_type.layout is None:
        return False
    order = [dim for dim in value_type.layout.minor_to_major if value_type.dims[dim] != 1]
    return order != sorted(order, reverse=True)
