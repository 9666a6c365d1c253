"""Matrix products: linear in each operand; ragged ones too, and those with scales said by plain ones.

Source of the transpositions' dimension numbers: jax/_src/lax/lax.py, _dot_general_transpose_lhs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from hloom.autodiff.backward import Backward
from hloom.autodiff.emitter import Emitter, array_type
from hloom.autodiff.linear import Linear, LinearOps
from hloom.autodiff.linearize import place_of
from hloom.autodiff.rules.combiners import expanded
from hloom.autodiff.table import expansion, rules, transposition
from hloom.ir import Apply, Graph, Node, TensorType
from hloom.text import Unsupported


@rules("dot")
def dot(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    x, y = node.operands
    total = None
    if tangents[0] is not None:
        total = t.applied("dot", (tangents[0], y), array_type(node), node.attributes)
    if tangents[1] is not None:
        total = t.add(total, t.applied("dot", (x, tangents[1]), array_type(node), node.attributes))
    return total


def _rest(rank: int, *taken: Sequence[int]) -> list[int]:
    gone = {dim for dims in taken for dim in dims}
    return [dim for dim in range(rank) if dim not in gone]


@transposition("dot")
def transpose_dot(b: Backward, value: Linear, cotangent: Node) -> None:
    """dot(ct, y) over y's free dimensions, brought into the order of x; likewise for y."""
    left, right = value.operands
    names = ("lhs_batch_dims", "lhs_contracting_dims", "rhs_batch_dims", "rhs_contracting_dims")
    is_left = isinstance(left, Linear)
    other = right if is_left else left
    tangent = left if is_left else right
    given, order = _transposed_numbers(
        *[value.attributes.get(name, ()) for name in names], array_type(left).rank, array_type(right).rank, is_left
    )
    further = {name: value.attributes[name] for name in ("operand_precision", "algorithm") if name in value.attributes}
    value_type = array_type(tangent)
    wide = array_type(cotangent).dtype
    converted = other if array_type(other).dtype is wide else b.convert(other, wide)
    made = b.op("dot", cotangent, converted, **given, **further)
    b.give(tangent, b.convert(b.transpose(made, order), value_type.dtype))


@lru_cache(1024)
def _transposed_numbers(
    left_batch: tuple[int, ...],
    left_contracting: tuple[int, ...],
    right_batch: tuple[int, ...],
    right_contracting: tuple[int, ...],
    left_rank: int,
    right_rank: int,
    is_left: bool,
) -> tuple[dict[str, tuple[int, ...]], tuple[int, ...]]:
    """The dimension numbers of the dot with the cotangent, and how its result is turned."""
    own_batch, own_contracting = (left_batch, left_contracting) if is_left else (right_batch, right_contracting)
    its_batch, its_contracting = (right_batch, right_contracting) if is_left else (left_batch, left_contracting)
    own_rank, its_rank = (left_rank, right_rank) if is_left else (right_rank, left_rank)
    its_free = _rest(its_rank, its_batch, its_contracting)
    own_free = _rest(own_rank, own_batch, own_contracting)
    batch = len(own_batch)
    left_free = _rest(left_rank, left_batch, left_contracting)
    result_of_left = range(batch, batch + len(left_free))
    result_of_right = range(batch + len(left_free), left_rank + right_rank - batch - 2 * len(left_contracting))
    given = {
        "lhs_batch_dims": tuple(range(batch)),
        "rhs_batch_dims": tuple(its_batch),
        "lhs_contracting_dims": tuple(result_of_right if is_left else result_of_left),
        "rhs_contracting_dims": tuple(its_free),
    }
    # the result's dimensions: batch, this operand's free ones, then those contracted, in the other operand's order
    its_order = sorted(range(len(its_contracting)), key=lambda number: its_contracting[number])
    order = [*own_batch, *own_free, *[own_contracting[number] for number in its_order]]
    return given, tuple(order.index(dim) for dim in range(own_rank))


_RAGGED = ("lhs_ragged_dims", "rhs_group_dims")


@rules("ragged-dot")
def ragged_dot(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    x, y, sizes = node.operands
    attributes, value_type = dict(node.attributes), array_type(node)
    (ragged,) = attributes["lhs_ragged_dims"]
    opcode, further = "ragged-dot", (sizes,)
    if ragged in attributes.get("lhs_batch_dims", ()):
        opcode, further = "dot", ()
        attributes = {name: item for name, item in attributes.items() if name not in _RAGGED}
    elif array_type(sizes).rank > 1 + len(attributes.get("lhs_batch_dims", ())):
        raise Unsupported(f"{place_of(node)}: a ragged-dot whose group sizes differ along more than batch dimensions")
    total = None
    if tangents[0] is not None:
        total = t.op(opcode, tangents[0], y, *further, type=value_type, **attributes)
    if tangents[1] is not None:
        total = t.add(total, t.op(opcode, x, tangents[1], *further, type=value_type, **attributes))
    return total


@transposition("ragged-dot")
def transpose_ragged_dot(b: Backward, value: Linear, cotangent: Node) -> None:
    """A ragged product again. Of groups of rows, each right operand is a sum over a group, and the other way round.

    Source: jax/_src/lax/lax.py, _ragged_dot_general_transpose_rule, and the modes in hloom.ops.dot_rules.
    """
    left, right, sizes = value.operands
    names = ("lhs_batch_dims", "lhs_contracting_dims", "rhs_batch_dims", "rhs_contracting_dims", "rhs_group_dims")
    left_batch, left_sum, right_batch, right_sum, group = (list(value.attributes.get(name) or ()) for name in names)
    (ragged,) = value.attributes["lhs_ragged_dims"]
    left_free = _rest(array_type(left).rank, left_batch, left_sum)
    right_free = _rest(array_type(right).rank, right_batch, right_sum, group)
    is_sum_grouped = not group
    batch = len(left_batch)
    start = batch + is_sum_grouped
    of_batch = list(range(is_sum_grouped, start))
    of_left = list(range(start, start + len(left_free)))
    of_right = list(range(start + len(left_free), array_type(cotangent).rank))
    in_left_order = sorted(range(len(left_sum)), key=lambda number: left_sum[number])
    in_right_order = sorted(range(len(right_sum)), key=lambda number: right_sum[number])
    is_left = isinstance(left, Linear)
    if is_left and not is_sum_grouped:
        made = _ragged(b, value, cotangent, right, sizes, (of_batch, right_batch), (of_right, right_free),
                       of_left[left_free.index(ragged)], group)  # fmt: skip
        order = [*left_batch, *left_free, *[left_sum[number] for number in in_right_order]]
    elif is_left:
        row = right_sum[left_sum.index(ragged)]
        made = _ragged(b, value, right, cotangent, sizes, (right_batch, of_batch), (right_free, of_right), row, [0])
        order = [*left_batch, *[left_sum[number] for number in in_right_order], *left_free]
    elif not is_sum_grouped:
        made = _ragged(b, value, left, cotangent, sizes, (left_batch, of_batch), (left_free, of_left), ragged, [])
        order = [*group, *right_batch, *[right_sum[number] for number in in_left_order], *right_free]
    else:
        made = _ragged(b, value, left, cotangent, sizes, (left_batch, of_batch), (left_free, of_left), ragged, [0])
        order = [*right_batch, *[right_sum[number] for number in in_left_order], *right_free]
    tangent = left if is_left else right
    turned = b.transpose(made, [order.index(dim) for dim in range(len(order))])
    b.give(tangent, b.convert(turned, array_type(tangent).dtype))


def _ragged(
    b: Backward,
    value: Linear,
    left: Node,
    right: Node,
    sizes: Node,
    batch: tuple[Sequence[int], Sequence[int]],
    contracting: tuple[Sequence[int], Sequence[int]],
    ragged: int,
    group: Sequence[int],
) -> Node:
    """A ragged product of values that are converted to the wider type of the two."""
    element = array_type(value).dtype
    further = {name: value.attributes[name] for name in ("operand_precision",) if name in value.attributes}
    return b.op(
        "ragged-dot",
        b.convert(left, element),
        b.convert(right, element),
        sizes,
        lhs_batch_dims=tuple(batch[0]),
        rhs_batch_dims=tuple(batch[1]),
        lhs_contracting_dims=tuple(contracting[0]),
        rhs_contracting_dims=tuple(contracting[1]),
        lhs_ragged_dims=(ragged,),
        rhs_group_dims=tuple(group),
        **further,
    )


@expansion("scaled-dot")
def scaled_dot(session: Any, node: Apply) -> Graph:
    """The plain product of operands that are multiplied by their scales."""
    element = array_type(node).dtype
    names = ("lhs_batch_dims", "rhs_batch_dims", "lhs_contracting_dims", "rhs_contracting_dims")
    numbers = {name: node.attributes[name] for name in names if name in node.attributes}

    def scaled(emitter: Emitter, operand: Node, scale: Node) -> Node:
        wide, factor = emitter.convert(operand, element), emitter.convert(scale, element)
        dims = array_type(operand).dims
        counts = array_type(scale).dims or (1,) * len(dims)
        if len(counts) != len(dims):
            scales = f"a scaled-dot whose scales have {len(counts)} dimensions, not {len(dims)}"
            raise Unsupported(f"{place_of(node)}: {scales}")
        blocks = [(count, size // count) for count, size in zip(counts, dims, strict=True)]
        split = [size for block in blocks for size in block]
        factor = emitter.reshape(factor, [count for count, _ in blocks])
        spread = emitter.broadcast(factor, split, [2 * number for number in range(len(dims))])
        return emitter.mul(wide, emitter.reshape(spread, dims))

    def make(emitter: Emitter, given: list[Node]) -> Node:
        left, right = scaled(emitter, given[0], given[2]), scaled(emitter, given[1], given[3])
        return emitter.op("dot", left, right, type=TensorType(element, array_type(node).dims), **numbers)

    return expanded(session, node, make)
