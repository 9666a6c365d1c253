"""Algebraic simplification before fusion, as far as it changes what is stored.

    reduce(x[8,1]), dimensions={1}            ->   reshape(x)
    broadcast(x[8]), dimensions={0}  [8,1]    ->   reshape(x)
    transpose(x[8,1]), dimensions={1,0}       ->   reshape(x)
    copy(x)                                   ->   x
    transpose(dot(x, y))                      ->   dot(y, x)
    dot(x, y), which contracts nothing        ->   multiply(broadcast(x), broadcast(y))
    broadcast(reshape(x[8])[8,1])  [8,4]      ->   broadcast(x), dimensions={0}
    divide(x, broadcast(y))                   ->   multiply(x, broadcast(divide(1, y)))
    convert(broadcast(x[]))                   ->   broadcast(convert(x))

Follows `AlgebraicSimplifierVisitor::HandleReduce`, `HandleBroadcast`, `HandleTranspose`, `HandleDot`, `HandleCopy`,
`HandleReshape` and, in the last rule, `TrySinkBroadcastAfterOpWithUniqueNonScalarOperand`
(xla/hlo/transforms/simplifiers/algebraic_simplifier.cc), `HloCSE` (xla/service/hlo_cse.cc) and `HloDCE`
(xla/hlo/transforms/simplifiers/hlo_dce.cc).
The rule on division is taken from executables of jaxlib 0.10.2, where only its result is seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from hloom.analysis import ELEMENTWISE, is_control_flow
from hloom.ir import Apply, Graph, Module, Node, TensorType
from hloom.ops import OPS
from hloom.passes import cse, dce
from hloom.targets.cpu.float_normalization import is_computed_as_it_is, normalize_floats


def simplify(module: Module, is_supported: Callable[[Apply], bool] = is_computed_as_it_is) -> None:
    """Normalize floats, simplify, and remove repeated and dead instructions.

    `is_supported` says which instructions the target computes in the types that they have.
    """
    dce(module)
    embedded = {graph for graph in module.graphs if any(not is_control_flow(caller) for caller in graph.callers)}
    for graph in module.graphs:
        if graph not in embedded:
            normalize_floats(graph, is_supported)
        for node in graph.nodes:
            if node.opcode == "get-tuple-element" and node.operands[0].opcode == "tuple":
                graph.replace_uses(node, node.operands[0].operands[node.attributes["index"]])
            elif node.opcode == "copy" and node.type == node.operands[0].type:
                graph.replace_uses(node, node.operands[0])
            elif isinstance(node, Apply) and isinstance(node.type, TensorType):
                _simplify(graph, node)
    cse(module)
    dce(module)
    for graph in module.graphs:
        for node in graph.nodes:
            if node.opcode == "divide" and isinstance(node, Apply):
                _multiply_by_inverse(graph, node)


def _simplify(graph: Graph, node: Apply) -> None:
    if _keeps_order(node):
        _make_reshape(graph, node)
    if node.opcode == "dot":
        _multiply_outer_product(graph, node)
    elif node.opcode == "transpose":
        _swap_dot_operands(graph, node)
    elif node.opcode == "broadcast":
        _read_behind_reshape(graph, node)
    elif node.opcode in ELEMENTWISE and node.dims:
        _sink_broadcast(graph, node)
    elif node.opcode == "reshape":
        base = _behind_reshapes(node.operands[0])
        if base is not node.operands[0]:
            graph.set_operands(node, (base,))


def _sink_broadcast(graph: Graph, node: Apply) -> None:
    """Compute on scalars what reads nothing but their broadcasts."""
    are_scalars = [operand.opcode == "broadcast" and not operand.operands[0].dims for operand in node.operands]
    if not are_scalars or not all(are_scalars):
        return
    assert isinstance(node.type, TensorType)
    scalars = tuple(operand.operands[0] for operand in node.operands)
    scalar = graph.add_apply(node.function, scalars, TensorType(node.type.dtype, ()), node.attributes, before=node)
    graph.set_operands(node, (scalar,))
    graph.set_function(node, OPS["broadcast"])
    graph.set_attributes(node, {"dimensions": ()})


def _multiply_outer_product(graph: Graph, dot: Apply) -> None:
    """Multiply the operands of a dot without contracting dimensions, each broadcast along the other's dimensions."""
    if dot.attributes.get("lhs_contracting_dims") or not isinstance(dot.type, TensorType):
        return
    batches = [tuple(dot.attributes.get(f"{side}_batch_dims") or ()) for side in ("lhs", "rhs")]
    batch_count, rank = len(batches[0]), len(dot.type.dims)
    left_rank = len(dot.operands[0].dims)
    shown = (tuple(range(left_rank)), (*range(batch_count), *range(left_rank, rank)))
    factors: list[Node] = []
    for operand, batch, dims in zip(dot.operands, batches, shown, strict=True):
        assert isinstance(operand.type, TensorType)
        order = (*batch, *(dim for dim in range(len(operand.dims)) if dim not in batch))
        factor = operand
        if order != tuple(sorted(order)):
            transposed = TensorType(operand.type.dtype, tuple(operand.type.dims[dim] for dim in order))
            factor = graph.add_apply(OPS["transpose"], (factor,), transposed, {"dimensions": order}, before=dot)
        if factor.type != dot.type:
            broadcast = TensorType(operand.type.dtype, dot.type.dims)
            factor = graph.add_apply(OPS["broadcast"], (factor,), broadcast, {"dimensions": dims}, before=dot)
        factors.append(factor)
    graph.set_operands(dot, factors)
    graph.set_function(dot, OPS["multiply"])
    graph.set_attributes(dot, {})


def _swap_dot_operands(graph: Graph, transpose: Apply) -> None:
    """Compute the transpose of a product of matrices, where nothing else reads the product.

    Other products are made products of matrices first (`layout_assignment.py`).
    """
    dot = transpose.operands[0]
    if dot.opcode != "dot" or not isinstance(dot, Apply) or dot.user_count != 1 or dot.is_output:
        return
    if any(len(value.dims) != 2 for value in (dot, *dot.operands)) or dot.attributes.get("lhs_batch_dims"):
        return
    swapped = {
        "lhs_contracting_dims": dot.attributes.get("rhs_contracting_dims") or (),
        "rhs_contracting_dims": dot.attributes.get("lhs_contracting_dims") or (),
    }
    graph.set_operands(transpose, (dot.operands[1], dot.operands[0]))
    graph.set_function(transpose, OPS["dot"])
    graph.set_attributes(transpose, {**dot.attributes, **swapped})


def _multiply_by_inverse(graph: Graph, node: Apply) -> None:
    """Divide before a broadcast that nothing else reads, where there are fewer elements.

    The numerator is the divisor itself, in place of ones: only the shape and the opcode matter for what is stored.
    """
    broadcast = node.operands[1]
    if broadcast.opcode != "broadcast" or broadcast.user_count != 1 or not isinstance(broadcast.operands[0], Apply):
        return
    divisor = broadcast.operands[0]
    inverse = graph.add_apply(OPS["divide"], (divisor, divisor), divisor.type, before=broadcast)
    graph.set_operands(broadcast, (inverse,))
    graph.set_function(node, OPS["multiply"])


def _keeps_order(node: Apply) -> bool:
    """Whether the elements of the operand stay as they are, in their order."""
    operand_type = node.operands[0].type if node.operands else None
    if not isinstance(operand_type, TensorType) or not isinstance(node.type, TensorType):
        return False
    if node.opcode == "copy":
        return True
    if node.opcode == "reduce" and len(node.operands) == 2:
        return all(operand_type.dims[dim] == 1 for dim in node.attributes.get("dimensions") or ())
    if node.opcode == "broadcast":
        return math.prod(operand_type.dims) == math.prod(node.type.dims)
    if node.opcode == "transpose":
        permuted = [dim for dim in node.attributes["dimensions"] if operand_type.dims[dim] != 1]
        return permuted == sorted(permuted)
    return False


def _make_reshape(graph: Graph, node: Apply) -> None:
    graph.set_operands(node, node.operands[:1])
    graph.set_function(node, OPS["reshape"])
    graph.set_attributes(node, {})


def _read_behind_reshape(graph: Graph, node: Apply) -> None:
    """Let a broadcast read what is behind a reshape that only adds or drops dimensions of size one."""
    operand, base = node.operands[0], _behind_reshapes(node.operands[0])
    if base is operand or not isinstance(base.type, TensorType) or not isinstance(operand.type, TensorType):
        return
    kept = [dim for dim, size in zip(node.attributes["dimensions"], operand.type.dims, strict=True) if size != 1]
    sizes = _without_ones(base.type.dims)
    if sizes != _without_ones(operand.type.dims) or len(sizes) != len(base.type.dims):
        return
    graph.set_operands(node, (base,))
    graph.set_attributes(node, {**node.attributes, "dimensions": tuple(kept)})


def _behind_reshapes(node: Node) -> Node:
    while node.opcode in ("reshape", "bitcast") and node.operands:
        node = node.operands[0]
    return node


def _without_ones(dims: Sequence[int]) -> list[int]:
    return [size for size in dims if size != 1]
