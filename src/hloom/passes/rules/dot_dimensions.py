"""Dimension numbers of dots: batch, contracting and non-contracting dimensions, and dots built from them.

Names as in XLA's DotDimensionNumbers (xla/xla_data.proto).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hloom.ir import Apply, Node, TensorType
from hloom.ops import DotNumbers, check_dot
from hloom.rewrite import Builder, tensor_type

Operand = tuple[Node, TensorType]
PRECISION_ATTRIBUTES = ("operand_precision", "algorithm")


def numbers_of(dot: Apply) -> DotNumbers:
    """Which dimensions of both operands a product pairs."""
    return DotNumbers(
        dot.attribute("lhs_batch_dims"),
        dot.attribute("rhs_batch_dims"),
        dot.attribute("lhs_contracting_dims"),
        dot.attribute("rhs_contracting_dims"),
    )


def swapped(numbers: DotNumbers) -> DotNumbers:
    """The pairs when the operands change places."""
    return DotNumbers(numbers.rhs_batch, numbers.lhs_batch, numbers.rhs_contracting, numbers.lhs_contracting)


def free_dims(rank: int, batch: Sequence[int], contracting: Sequence[int]) -> list[int]:
    """The dimensions of an operand that are not paired with the other's."""
    return [dim for dim in range(rank) if dim not in batch and dim not in contracting]


def static_operands(dot: Apply) -> tuple[TensorType, TensorType, TensorType] | None:
    """The types of both operands and of the result, where all are static arrays and the product may be another one."""
    if has_unreduced_user(dot):
        return None
    lhs, rhs, result = tensor_type(dot.inputs[0]), tensor_type(dot.inputs[1]), tensor_type(dot)
    if lhs is None or rhs is None or result is None:
        return None
    check_dot(lhs, rhs, numbers_of(dot))
    return lhs, rhs, result


def make_dot(build: Builder, like: Apply, lhs: Node, rhs: Node, numbers: DotNumbers, *, swap: bool = False) -> Node:
    """A product of the element type, precision and algorithm of another; with `swap` its precisions change places."""
    left, right, result = lhs.type, rhs.type, like.type
    assert isinstance(left, TensorType) and isinstance(right, TensorType) and isinstance(result, TensorType)
    dims = [left.dims[dim] for dim in numbers.lhs_batch]
    dims += [left.dims[dim] for dim in free_dims(left.rank, numbers.lhs_batch, numbers.lhs_contracting)]
    dims += [right.dims[dim] for dim in free_dims(right.rank, numbers.rhs_batch, numbers.rhs_contracting)]
    attributes: dict[str, Any] = {
        name: like.attributes[name] for name in PRECISION_ATTRIBUTES if name in like.attributes
    }
    if swap and "operand_precision" in attributes:
        attributes["operand_precision"] = tuple(reversed(attributes["operand_precision"]))
    attributes |= {
        "lhs_batch_dims": numbers.lhs_batch,
        "lhs_contracting_dims": numbers.lhs_contracting,
        "rhs_batch_dims": numbers.rhs_batch,
        "rhs_contracting_dims": numbers.rhs_contracting,
    }
    return build.op("dot", lhs, rhs, type=TensorType(result.dtype, dims), attributes=attributes)


def to_batch_major(build: Builder, operand: Node, batch: Sequence[int], contracting: Sequence[int]) -> Node:
    """An operand with its batch dimensions first and its contracting ones last."""
    node_type = operand.type
    assert isinstance(node_type, TensorType), f"{operand!r} is no array"
    return build.transpose(operand, [*batch, *free_dims(node_type.rank, batch, contracting), *contracting])


def has_unreduced_user(dot: Apply) -> bool:
    """Whether the partial sums of a product are asked for: its one user says that the result is sharded unreduced."""
    users = dot.users
    if len(users) != 1 or users[0].opcode != "custom-call":
        return False
    user = users[0]
    if user.attributes.get("custom_call_target") != "Sharding":
        return False
    said = user.attributes.get("sharding"), user.attributes.get("frontend_attributes")
    return any("unreduced" in str(annotation) for annotation in said)
