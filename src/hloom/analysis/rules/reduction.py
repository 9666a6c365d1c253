"""Cost rules of reductions, windows, sorting, scans, and batch normalisation."""

from __future__ import annotations

import math

from hloom.analysis.cost_properties import Cost
from hloom.analysis.rules.contraction import positions
from hloom.analysis.rules.table import CalleeCosts, Instruction, moves, rules
from hloom.analysis.sizes import elements, first_array
from hloom.ir import TensorType, Window


def _reduce(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    times = elements(instruction.operand(0)) - elements(first_array(instruction.result))
    return _applied(instruction, callee_cost(instruction.attribute("to_apply")), times)


def _exact_reduce(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    times = elements(instruction.operand(0)) - elements(first_array(instruction.result))
    return _applied(instruction, callee_cost(instruction.attribute("to_apply")), max(0, times))


def _applied(instruction: Instruction, function: Cost, times: int) -> Cost:
    return function.arithmetic(times) + Cost(bytes_accessed=instruction.accessed)


def _window(instruction: Instruction) -> Window:
    return instruction.attribute("window") or Window()


def _window_elements(instruction: Instruction) -> int:
    return math.prod(dimension.size for dimension in _window(instruction).dimensions)


def _reduce_window(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    results = elements(first_array(instruction.result))
    times = (_window_elements(instruction) - 1) * results
    span = _whole_span(instruction)
    if span:
        times = results // span + span - 1
    return _applied(instruction, callee_cost(instruction.attribute("to_apply")), times)


def _whole_span(instruction: Instruction) -> int:
    """The size of the one dimension that a window covers from every position, as XLA detects it; else 0."""
    window = _window(instruction).dimensions
    sized = [dim for dim, dimension in enumerate(window) if dimension.size != 1]
    padded = [dimension for dimension in window if dimension.padding_low or dimension.padding_high]
    if len(sized) != 1 or len(padded) != 1 or not isinstance(instruction.result, TensorType):
        return 0
    dimension, size = window[sized[0]], instruction.result.dims[sized[0]]
    low, high = dimension.padding_low, dimension.padding_high
    return size if low and low == high and dimension.size == 2 * low + 1 and low == size - 1 else 0


def _exact_reduce_window(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    taken, results = _met(instruction, first_array(instruction.operand(0)), first_array(instruction.result))
    return _applied(instruction, callee_cost(instruction.attribute("to_apply")), max(0, taken - results))


def _met(instruction: Instruction, base: object, result: object) -> tuple[int, int]:
    """The total number of elements in all windows, without padding, and the number of windows."""
    if not isinstance(base, TensorType) or not isinstance(result, TensorType):
        return 0, 0
    window = _window(instruction).dimensions
    counts = [positions(b, d.size, r, d) for b, r, d in zip(base.dims, result.dims, window, strict=False)]
    return math.prod(counts), elements(result)


def _select_and_scatter(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    source = elements(instruction.operand(1))
    select = callee_cost(instruction.attribute("select")).arithmetic(source * (_window_elements(instruction) - 1))
    return select + _applied(instruction, callee_cost(instruction.attribute("scatter")), source)


def _exact_select_and_scatter(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    taken, source = _met(instruction, instruction.operand(0), instruction.operand(1))
    select = callee_cost(instruction.attribute("select")).arithmetic(max(0, taken - source))
    return select + _applied(instruction, callee_cost(instruction.attribute("scatter")), source)


def _sort(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    count = elements(instruction.operand(0))
    return Cost(count * _log2_ceiling(count), 0, instruction.accessed)


def _exact_sort(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    operand = instruction.operand(0)
    dims = instruction.attribute("dimensions") or ()
    length = operand.dims[dims[0]] if isinstance(operand, TensorType) and len(dims) == 1 and operand.dims else 0
    compared = elements(operand) * _log2_ceiling(length)
    return _applied(instruction, callee_cost(instruction.attribute("to_apply")), compared)


def _log2_ceiling(count: int) -> int:
    return (count - 1).bit_length() if count > 1 else 0


def _exact_topk(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    compared = elements(instruction.operand(0)) * max(1, _log2_ceiling(instruction.attribute("k") or 1))
    return Cost(compared, 0, instruction.accessed)


def _scan(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    return _applied(instruction, callee_cost(instruction.attribute("to_apply")), elements(instruction.operand(1)))


def _exact_scan(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
    operand, dims = instruction.operand(0), instruction.attribute("dimensions") or (0,)
    length = operand.dims[dims[0]] if isinstance(operand, TensorType) and operand.dims else 0
    return _applied(instruction, callee_cost(instruction.attribute("to_apply")), length)


def _batch_norm(per_element: int, per_feature: int):
    def counted(instruction: Instruction, callee_cost: CalleeCosts) -> Cost:
        features = elements(instruction.operand(1))
        flops = per_element * elements(instruction.operand(0)) + per_feature * features
        return Cost(flops, features, instruction.accessed)

    return counted


rules("reduce", _reduce, _exact_reduce, because="XLA's count is negative if the reduced dimension is empty")
rules(
    "reduce-window",
    _reduce_window,
    _exact_reduce_window,
    because="XLA counts the padding too, and a window over a whole dimension as one sum and a broadcast",
)
rules(
    "select-and-scatter",
    _select_and_scatter,
    _exact_select_and_scatter,
    because="XLA counts the padding too",
)
rules(
    "sort",
    _sort,
    _exact_sort,
    because="XLA counts n log n for all elements and one operation per comparison, whichever dimension is sorted",
)
rules("topk", moves, _exact_topk, because="XLA counts no comparisons")
rules("scan", _scan, _exact_scan, because="XLA applies the function once for each element of the second operand")
_NONE = "XLA counts no arithmetic"
rules("batch-norm-inference", moves, _batch_norm(4, 1), because=_NONE)
rules("batch-norm-training", moves, _batch_norm(8, 3), because=_NONE)
rules("batch-norm-grad", moves, _batch_norm(8, 6), because=_NONE)
