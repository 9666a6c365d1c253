"""Rules that let products and convolutions read what a transpose reads.

Follows XLA's xla/service/transpose_folding.cc (TransposeFolding).
"""

from __future__ import annotations

from collections.abc import Sequence

from hloom.ir import Apply, ConvolutionDimensions, Node
from hloom.ops import DotNumbers
from hloom.passes.computation_order import has_control_dependencies
from hloom.passes.rules.dot import free_dims, make_dot, numbers_of, static_operands
from hloom.rewrite import Builder, Family, some_operand, tensor_type

TRANSPOSE_FOLDING = Family("transpose-folding")


@TRANSPOSE_FOLDING.rewrites(
    "dot", depth=2, requires=some_operand("transpose"), because="computes which dimensions a product pairs"
)
def dot_of_transposed_matrices(build: Builder, node: Apply) -> Node | None:
    """dot(x, transpose(y, {1,0})), rhs_contracting_dims={0} -> dot(x, y), rhs_contracting_dims={1}

    Of products of matrices, one by one or in batches that keep their order, as kernels of products take them.
    """
    if static_operands(node) is None or has_control_dependencies(node):
        return None
    numbers = numbers_of(node)
    sides = (
        (node.operands[0], numbers.lhs_batch, numbers.lhs_contracting),
        (node.operands[1], numbers.rhs_batch, numbers.rhs_contracting),
    )
    if not all(_is_matrix(*side) for side in sides):
        return build.decline("it is not a product of matrices")
    left, right = (_order(operand, batch) for operand, batch, _ in sides)
    if left is None and right is None:
        return build.decline("no rows and columns are exchanged")
    orders = (left, right)
    operands = [
        node.operands[at] if order is None else node.operands[at].operands[0] for at, order in enumerate(orders)
    ]
    lhs_contracting, rhs_contracting = (
        dims if order is None else tuple(order[dim] for dim in dims)
        for (_, _, dims), order in zip(sides, orders, strict=True)
    )
    folded = DotNumbers(numbers.lhs_batch, numbers.rhs_batch, lhs_contracting, rhs_contracting)
    return make_dot(build, node, operands[0], operands[1], folded)


def _is_matrix(operand: Node, batch: Sequence[int], contracting: Sequence[int]) -> bool:
    array_type = tensor_type(operand)
    return array_type is not None and len(contracting) == 1 == len(free_dims(array_type.rank, batch, contracting))


def _order(operand: Node, batch: Sequence[int]) -> tuple[int, ...] | None:
    """Where the dimensions of a transpose come from; None where there is none, or it moves batches or nothing."""
    if operand.opcode != "transpose" or tensor_type(operand.operands[0]) is None:
        return None
    order: tuple[int, ...] = operand.attributes["dimensions"]
    moved = [dim for dim, source in enumerate(order) if dim != source]
    return order if moved and not any(dim in moved for dim in batch) else None


@TRANSPOSE_FOLDING.rewrites(
    "convolution", depth=2, requires=some_operand("transpose"), because="computes the dimension labels"
)
def convolution_of_transpose(build: Builder, node: Apply) -> Node | None:
    """convolution(x, transpose(y, {1,0,2,3})), bf01_oi01->bf01 -> convolution(x, y), bf01_io01->bf01, on either side"""
    labels: ConvolutionDimensions | None = node.attributes.get("dim_labels")
    if labels is None or has_control_dependencies(node):
        return None
    image, lhs = _relabelled(node.operands[0], labels.lhs)
    kernel, rhs = _relabelled(node.operands[1], labels.rhs)
    if image is node.operands[0] and kernel is node.operands[1]:
        return build.decline("nothing is transposed")
    made = ConvolutionDimensions(lhs, rhs, labels.output)
    return build.like(node, image, kernel, *node.operands[2:], type=node.type, dim_labels=made)


def _relabelled(operand: Node, labels: str) -> tuple[Node, str]:
    """What a transpose reads, and the labels of its dimensions; the operand itself where it is none."""
    if operand.opcode != "transpose" or tensor_type(operand.operands[0]) is None:
        return operand, labels
    order = operand.attributes["dimensions"]
    return operand.operands[0], "".join(label for _, label in sorted(zip(order, labels, strict=True)))
