"""Matrix products: linear in each operand.

Source of the transpositions' dimension numbers: jax/_src/lax/lax.py, _dot_general_transpose_lhs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hloom.autodiff.backward import Backward
from hloom.autodiff.emitter import array_type
from hloom.autodiff.linear import Linear, LinearOps
from hloom.autodiff.table import none, rules, transposition
from hloom.ir import Apply, Node

none("ragged-dot", because="its group sizes are known only when the program runs; write it as dots of masked operands")
none("scaled-dot", because="its operands are of eight bits or fewer, with scales, for inference")


@rules("dot")
def dot(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    x, y = node.inputs
    attributes = dict(node.attributes)
    total = None
    if tangents[0] is not None:
        total = t.op("dot", tangents[0], y, type=array_type(node), **attributes)
    if tangents[1] is not None:
        total = t.add(total, t.op("dot", x, tangents[1], type=array_type(node), **attributes))
    return total


def _rest(rank: int, *taken: Sequence[int]) -> list[int]:
    gone = {dim for dims in taken for dim in dims}
    return [dim for dim in range(rank) if dim not in gone]


@transposition("dot")
def transpose_dot(b: Backward, value: Linear, cotangent: Node) -> None:
    """dot(ct, y) over y's free dimensions, brought into the order of x; likewise for y."""
    left, right = value.operands
    names = ("lhs_batch_dims", "lhs_contracting_dims", "rhs_batch_dims", "rhs_contracting_dims")
    left_batch, left_contracting, right_batch, right_contracting = (value.attributes.get(name, ()) for name in names)
    is_left = isinstance(left, Linear)
    other = right if is_left else left
    tangent = left if is_left else right
    own_batch, own_contracting = (left_batch, left_contracting) if is_left else (right_batch, right_contracting)
    its_batch, its_contracting = (right_batch, right_contracting) if is_left else (left_batch, left_contracting)
    own_rank, its_rank = array_type(tangent).rank, array_type(other).rank
    its_free = _rest(its_rank, its_batch, its_contracting)
    own_free = _rest(own_rank, own_batch, own_contracting)
    batch = len(own_batch)
    left_free = _rest(array_type(left).rank, left_batch, left_contracting)
    result_of_left = range(batch, batch + len(left_free))
    result_of_right = range(batch + len(left_free), array_type(cotangent).rank)
    given = {
        "lhs_batch_dims": tuple(range(batch)),
        "rhs_batch_dims": tuple(its_batch),
        "lhs_contracting_dims": tuple(result_of_right if is_left else result_of_left),
        "rhs_contracting_dims": tuple(its_free),
    }
    further = {name: value.attributes[name] for name in ("operand_precision", "algorithm") if name in value.attributes}
    value_type = array_type(tangent)
    wide = array_type(cotangent).dtype
    converted = other if array_type(other).dtype is wide else b.convert(other, wide)
    made = b.op("dot", cotangent, converted, **given, **further)
    # the result's dimensions: batch, this operand's free ones, then those contracted, in the other operand's order
    its_order = sorted(range(len(its_contracting)), key=lambda number: its_contracting[number])
    order = [*own_batch, *own_free, *[own_contracting[number] for number in its_order]]
    turned = b.transpose(made, [order.index(dim) for dim in range(own_rank)])
    b.give(tangent, b.convert(turned, value_type.dtype))
