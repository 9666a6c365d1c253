"""Arrays that are one on a diagonal and zero elsewhere, as `jnp.eye` computes them: of two iotas that are compared."""

from __future__ import annotations

from dataclasses import dataclass

from hloom.ir import Apply, Node
from hloom.rewrite import is_splat, splat_of, tensor_type

_LARGEST = 1 << 30
"""Sizes and offsets below this do not wrap in the 32 bits that they are counted in at least."""


@dataclass(frozen=True, slots=True)
class Diagonal:
    """An array whose elements are one where the index in dimension `row` is that in `column` plus `offset`."""

    row: int
    column: int
    offset: int


def diagonal_of(node: Node) -> Diagonal | None:
    """On which diagonal an array is one, where it is zero elsewhere.

        convert(compare(iota dim 0, iota dim 1 + k, EQ)) and select(compare, 1, 0)
          ->
        Diagonal(0, 1, k)

    Dimensions of size 1 may have gone.
    """
    if node.opcode == "reshape":
        return _without_ones(node)
    if node.opcode == "convert" or (node.opcode == "select" and _is_one_or_zero(node)):
        node = node.operands[0]
    array_type = tensor_type(node)
    if not isinstance(node, Apply) or node.opcode != "compare" or node.attributes["direction"] != "EQ":
        return None
    counted = tensor_type(node.operands[0])
    if array_type is None or counted is None or not counted.dtype.is_integer or counted.dtype.bits < 32:
        return None
    if max(array_type.dims, default=0) >= _LARGEST:
        return None
    left, right = (_shifted_iota(operand) for operand in node.operands)
    if left is None or right is None or left[0] == right[0]:
        return None
    row, column, offset = left[0], right[0], right[1] - left[1]
    if not -array_type.dims[column] < offset < array_type.dims[row]:
        return None
    return Diagonal(row, column, offset)


def _without_ones(view: Node) -> Diagonal | None:
    """The diagonal of an array from which a reshape takes dimensions of size 1, or to which it adds some."""
    source, result = tensor_type(view.operands[0]), tensor_type(view)
    diagonal = None if view.operands[0].opcode == "reshape" else diagonal_of(view.operands[0])
    if source is None or result is None or diagonal is None:
        return None
    before, after = ([dim for dim, size in enumerate(array_type.dims) if size != 1] for array_type in (source, result))
    if [source.dims[dim] for dim in before] != [result.dims[dim] for dim in after]:
        return None
    if diagonal.row not in before or diagonal.column not in before:
        return None
    where = dict(zip(before, after, strict=True))
    return Diagonal(where[diagonal.row], where[diagonal.column], diagonal.offset)


def _is_one_or_zero(choice: Node) -> bool:
    return is_splat(choice.operands[1], 1) and is_splat(choice.operands[2], 0)


def _shifted_iota(node: Node) -> tuple[int, int] | None:
    """Along which dimension an array counts, and from what: an iota, or one to which a number is added."""
    if node.opcode == "iota" and isinstance(node, Apply):
        return node.attributes["iota_dimension"], 0
    if node.opcode != "add":
        return None
    for iota, number in (node.operands, reversed(node.operands)):
        start = splat_of(number)
        if iota.opcode == "iota" and isinstance(iota, Apply) and start is not None and abs(int(start)) < _LARGEST:
            return iota.attributes["iota_dimension"], int(start)
    return None
