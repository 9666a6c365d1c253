"""Sorting by any comparator, and the greatest elements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from hloom.evaluator.reduction import as_tuple
from hloom.evaluator.table import Runner, Value, Values, arrays_of, evaluator, type_of
from hloom.ir import Apply, DTypeKind, Graph, Parameter, TupleType, dtype_of
from hloom.text import Unsupported

_DESCENDS = {"LT": False, "GT": True}


@evaluator("sort")
def _sort(node: Apply, operands: Values, run: Runner) -> Value:
    """Sort all operands along one dimension as the comparator orders them; always stable."""
    arrays = arrays_of(operands)
    (axis,) = node.attribute("dimensions")
    graph = node.attribute("to_apply")
    keys = plain_keys(graph, arrays)
    order = stable_order(run, graph, arrays, axis) if keys is None else np.argsort(keys, axis=axis, kind="stable")
    results = tuple(np.take_along_axis(array, order, axis) for array in arrays)
    return results if isinstance(type_of(node), TupleType) else results[0]


def plain_keys(graph: Graph, arrays: Sequence[np.ndarray]) -> np.ndarray | None:
    """The key numpy may sort by if the comparator is a plain less-than or greater-than of one operand.

    None where it says more, or where the operand has NaNs that it does not order.
    """
    root = graph.output
    if root is None or root.opcode != "compare" or not all(isinstance(operand, Parameter) for operand in root.operands):
        return None
    left, right = (operand.number for operand in root.operands if isinstance(operand, Parameter))
    direction = root.attributes.get("direction")
    if left // 2 != right // 2 or left == right or direction not in _DESCENDS:
        return None
    keys = ordered_keys(arrays[left // 2], is_total=root.attributes.get("type") == "TOTALORDER")
    descends = _DESCENDS[direction] != (left > right)
    return ~keys if descends and keys is not None else keys


def ordered_keys(array: np.ndarray, *, is_total: bool) -> np.ndarray | None:
    """Integers that are ordered as the elements are; None for complex numbers, and for NaNs without a total order.

    In the total order -NaN < -inf < -0 < 0 < inf < NaN.
    """
    element_type = dtype_of(array.dtype)
    if element_type.kind is DTypeKind.COMPLEX:
        return None
    if not element_type.is_float:
        return (
            array.view(np.uint8)
            if element_type.kind is DTypeKind.BOOLEAN
            else array.astype(array.dtype if element_type.bits >= 8 else np.int8)
        )
    if not is_total:
        if np.isnan(array).any():
            return None
        array = np.where(array == 0, np.zeros((), array.dtype), array)
    return total_order_keys(array)


def total_order_keys(array: np.ndarray) -> np.ndarray:
    """Integers ordered as floats are in the total order; the one NaN of types that have no -0 comes first."""
    element_type = dtype_of(array.dtype)
    bits = np.ascontiguousarray(array).view(f"i{array.dtype.itemsize}").reshape(array.shape)
    if element_type.bits < 8:
        bits = bits << 4 >> 4
    if element_type.name == "f8e8m0fnu":
        return bits.view(np.uint8)
    keys = np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)
    return np.where(np.isnan(array), np.int16(-999), keys) if element_type.name.endswith("fnuz") else keys


def stable_order(run: Runner, graph: Graph, arrays: Sequence[np.ndarray], axis: int) -> np.ndarray:
    """Where each sorted element comes from, along one dimension.

    A sorting network compares many pairs in one run of the comparator; what the comparator leaves open, the
    elements' places decide, which makes the order stable.
    """
    rows = [np.moveaxis(array, axis, 0).copy() for array in arrays]
    between = [-1, *[1] * (rows[0].ndim - 1)]
    rows.append(np.broadcast_to(np.arange(len(rows[0])).reshape(between), rows[0].shape).copy())
    for low, high in network(len(rows[0])):
        first, second = [row[low] for row in rows], [row[high] for row in rows]
        swaps = _is_less(run, graph, second, first)
        undecided = ~swaps & (second[-1] < first[-1])
        if undecided.any():
            swaps |= undecided & ~_is_less(run, graph, first, second)
        for row, one, other in zip(rows, first, second, strict=True):
            row[low], row[high] = np.where(swaps, other, one), np.where(swaps, one, other)
    return np.moveaxis(rows[-1], 0, axis)


def _is_less(run: Runner, graph: Graph, first: Sequence[np.ndarray], second: Sequence[np.ndarray]) -> np.ndarray:
    pairs = [row for pair in zip(first[:-1], second[:-1], strict=True) for row in pair]
    (less,) = as_tuple(run.map(graph, pairs))
    return less


def network(count: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The rounds of Batcher's merge exchange: disjoint pairs of places to compare and put in order.

    Source: Knuth, The Art of Computer Programming, volume 3, 5.2.2, algorithm M.
    """
    top = 1 << max((count - 1).bit_length() - 1, 0)
    step = top if count > 1 else 0
    while step:
        reach, rest, distance = top, 0, step
        while True:
            low = np.arange(count - distance)
            low = low[(low & step) == rest]
            yield low, low + distance
            if reach == step:
                break
            distance, reach, rest = reach - step, reach // 2, step
        step //= 2


@evaluator("topk")
def _topk(node: Apply, operands: Values, run: Runner) -> Value:
    """The k greatest (or least) elements of the last dimension in order, and their indices; equal ones by index."""
    (operand,) = arrays_of(operands)
    keys = ordered_keys(operand, is_total=True)
    if keys is None:
        raise Unsupported("complex numbers have no order")
    order = np.argsort(~keys if node.attribute("largest") else keys, axis=-1, kind="stable")
    chosen = order[..., : node.attribute("k")]
    return np.take_along_axis(operand, chosen, -1), chosen.astype(np.int32)
