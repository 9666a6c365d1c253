"""Reductions over windows, and select-and-scatter."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hloom.evaluator.contraction import base_padding, output_size, slices
from hloom.evaluator.data_movement import padded
from hloom.evaluator.reduction import Arrays, as_tuple, combiner
from hloom.evaluator.scatter import combine_at
from hloom.evaluator.table import Runner, Value, Values, arrays_of, evaluator, type_of
from hloom.ir import Apply, TupleType, Window, WindowDimension


@dataclass(frozen=True, slots=True)
class Sliding:
    """A window over arrays of one shape: the padding, how many places it takes, and which elements are real."""

    window: Window
    sizes: list[int]
    is_real: np.ndarray

    def over(self, array: np.ndarray) -> np.ndarray:
        """An array with the window's padding and dilation, made of zeros."""
        padding = [base_padding(dimension) for dimension in self.window.dimensions]
        return padded(array, np.zeros((), array.dtype), padding)

    def places(self) -> Iterator[tuple[slice, ...]]:
        """For each place inside the window, the elements that stand there as it slides."""
        for offset in np.ndindex(*(dimension.size for dimension in self.window.dimensions)):
            yield tuple(slices(offset, self.sizes, self.window))


def sliding(window: Window | None, dims: Sequence[int]) -> Sliding:
    """A window over an array of these dimensions; one without sizes is of one element."""
    window = window or Window(tuple(WindowDimension() for _ in dims))
    is_real = padded(np.ones(dims, np.bool_), np.zeros((), np.bool_), [base_padding(d) for d in window.dimensions])
    sizes = [output_size(size, dimension) for size, dimension in zip(is_real.shape, window.dimensions, strict=True)]
    return Sliding(window, sizes, is_real)


@evaluator("reduce-window")
def _reduce_window(node: Apply, operands: Values, run: Runner) -> Value:
    """Combine what a window shows at each of its places, from the initial values on; padding is passed over."""
    arrays = arrays_of(operands)
    count = len(arrays) // 2
    initial, graph = arrays[count:], node.attribute("to_apply")
    view = sliding(node.attribute("window"), arrays[0].shape)
    inputs = [view.over(start) for start in arrays[:count]]
    combine = combiner(run, graph, [start.dtype for start in initial])
    total: Arrays = tuple(np.broadcast_to(start, view.sizes) for start in initial)
    for offset in view.places():
        is_real = view.is_real[offset]
        if not is_real.any():
            continue
        combined = combine(total, tuple(start[offset] for start in inputs))
        total = combined if is_real.all() else _chosen(is_real, combined, total)
    return total if isinstance(type_of(node), TupleType) else total[0]


def _chosen(where: np.ndarray, one: Arrays, other: Arrays) -> Arrays:
    return tuple(np.where(where, a, b) for a, b in zip(one, other, strict=True))


@evaluator("select-and-scatter")
def _select_and_scatter(node: Apply, operands: Values, run: Runner) -> Value:
    """Combine each element of the source into the place that its window selects, in an array of initial values."""
    operand, source, initial = arrays_of(operands)
    selected, is_found = selected_places(node, operand, run)
    result = np.full(operand.size, initial, initial.dtype)
    combine_at(run, node.attribute("scatter"), [result], selected[is_found], [source[is_found]])
    return result.reshape(operand.shape)


def selected_places(node: Apply, operand: np.ndarray, run: Runner) -> tuple[np.ndarray, np.ndarray]:
    """Which element of the flattened operand each window selects, and which windows show any element.

    The first element stands until `select(it, another)` is false.
    """
    view = sliding(node.attribute("window"), operand.shape)
    values = view.over(operand)
    numbers = view.over(np.arange(math.prod(operand.shape)).reshape(operand.shape))
    best, best_number = np.zeros(view.sizes, operand.dtype), np.zeros(view.sizes, np.int64)
    is_found = np.zeros(view.sizes, np.bool_)
    for offset in view.places():
        is_real, candidate = view.is_real[offset], values[offset]
        (stays,) = as_tuple(run.map(node.attribute("select"), [best, candidate]))
        moves = is_real & ~(is_found & stays)
        best, best_number = np.where(moves, candidate, best), np.where(moves, numbers[offset], best_number)
        is_found = is_found | is_real
    return best_number, is_found
