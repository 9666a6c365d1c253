"""Reductions of whole dimensions, and running ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from hloom.evaluate.combiners import Replace, ufunc_of, wide_ufunc_of
from hloom.evaluate.table import Runner, Value, Values, arrays_of, evaluator, type_of
from hloom.ir import Apply, Graph, TensorType, TupleType, Type
from hloom.text import Unsupported

Arrays: TypeAlias = tuple[np.ndarray, ...]
SEQUENTIAL_STEPS = 64
"""Reductions of more elements than these combine neighbours, as a tree: XLA leaves the order open."""


@evaluator("reduce")
def _reduce(node: Apply, operands: Values, run: Runner) -> Value:
    arrays = arrays_of(operands)
    count = len(arrays) // 2
    inputs, initial = arrays[:count], arrays[count:]
    axes, graph = node.attribute("dimensions"), node.attribute("to_apply")
    known = wide_ufunc_of(graph, inputs[0].dtype) if count == 1 else None
    if known is not None:
        function, wide = known
        numbers, first = inputs[0].astype(wide, copy=False), initial[0].astype(wide)
        total = function.reduce(numbers, axis=tuple(axes), initial=first)
        if wide.kind == "f" and function in (np.maximum, np.minimum):
            total = _with_signed_zeros(function, total, numbers, first, tuple(axes))
        results = (total.astype(initial[0].dtype),)
    else:
        results = reduced(run, graph, [rows_of(array, axes) for array in inputs], initial)
    return results if isinstance(type_of(node), TupleType) else results[0]


def _with_signed_zeros(
    function: np.ufunc, total: np.ndarray, numbers: np.ndarray, initial: np.ndarray, axes: tuple[int, ...]
) -> np.ndarray:
    """The greatest or least numbers, 0 being greater than -0."""
    is_zero = total == 0
    if not is_zero.any():
        return total
    wins = np.signbit if function is np.minimum else lambda x: ~np.signbit(x)
    is_won = ((numbers == 0) & wins(numbers)).any(axis=axes) | ((initial == 0) & wins(initial))
    won = -0.0 if function is np.minimum else 0.0
    return np.where(is_zero, np.where(is_won, won, -won), total).astype(total.dtype)


def rows_of(array: np.ndarray, axes: Sequence[int]) -> np.ndarray:
    """The dimensions that are reduced joined into one, the first; the others follow."""
    kept = [axis for axis in range(array.ndim) if axis not in axes]
    sizes = [array.shape[axis] for axis in kept]
    return array.transpose((*axes, *kept)).reshape((math.prod(array.shape[axis] for axis in axes), *sizes))


def reduced(run: Runner, graph: Graph, rows: Sequence[np.ndarray], initial: Sequence[np.ndarray]) -> Arrays:
    """Reduce the first dimension of arrays by a graph, on all of what follows at once."""
    total: Arrays = tuple(np.broadcast_to(start, rows[0].shape[1:]) for start in initial)
    has_same_types = all(start.dtype == row.dtype for start, row in zip(initial, rows, strict=True))
    if len(rows[0]) > SEQUENTIAL_STEPS and has_same_types:
        rows = _halved(run, graph, rows)
    for number in range(len(rows[0])):
        total = as_tuple(run.map(graph, [*total, *(row[number] for row in rows)]))
    return total


def _halved(run: Runner, graph: Graph, rows: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    """Combine neighbours until one row is left."""
    while len(rows[0]) > 1:
        even = len(rows[0]) // 2 * 2
        joined = as_tuple(run.map(graph, [*(row[0:even:2] for row in rows), *(row[1:even:2] for row in rows)]))
        rows = [np.concatenate([half, row[even:]]) for half, row in zip(joined, rows, strict=True)]
    return rows


def as_tuple(value: Value) -> Arrays:
    """The arrays that a graph yields, one or several."""
    return tuple(np.asarray(array) for array in (value if isinstance(value, tuple) else (value,)))


def combiner(run: Runner, graph: Graph, dtypes: Sequence[np.dtype]) -> Callable[[Arrays, Arrays], Arrays]:
    """What combines two lists of arrays as a graph does."""
    known = ufunc_of(graph, dtypes[0]) if len(dtypes) == 1 else None
    if isinstance(known, np.ufunc):
        return lambda one, other: (known(one[0], other[0]),)
    if isinstance(known, Replace):
        return lambda one, other: (one, other)[known.value]
    return lambda one, other: as_tuple(run.map(graph, [*one, *other]))


@evaluator("scan")
def _scan(node: Apply, operands: Values, run: Runner) -> Value:
    """Run a graph along one dimension: (slices..., carries...) -> (slices..., carries...)."""
    arrays = arrays_of(operands)
    carries = node.attribute("num_carries")
    inputs, state = arrays[: len(arrays) - carries], tuple(arrays[len(arrays) - carries :])
    (axis,) = node.attribute("dimensions")
    outputs = _empty_outputs(type_of(node), carries)
    places = range(inputs[0].shape[axis])
    for index in reversed(places) if node.attribute("is_reverse") else places:
        values = as_tuple(
            run.call(node.attribute("to_apply"), [*(operand.take(index, axis) for operand in inputs), *state])
        )
        for output, value in zip(outputs, values, strict=False):
            np.moveaxis(output, axis, 0)[index] = value
        state = values[len(outputs) :]
    return (*outputs, *state)


def _empty_outputs(type_: Type, carries: int) -> list[np.ndarray]:
    """Arrays for what a scan puts together, without values yet."""
    if not isinstance(type_, TupleType):
        raise Unsupported(f"it should yield a tuple, not {type_}")
    elements = type_.elements[: len(type_.elements) - carries]
    return [np.empty(element.dims, element.dtype.numpy) for element in elements if isinstance(element, TensorType)]
