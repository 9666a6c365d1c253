"""Reductions of whole dimensions, running ones, and batch normalisation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import Enum
from typing import TypeAlias

import numpy as np

from hloom.evaluator.table import Runner, Value, Values, arrays_of, evaluator, type_of
from hloom.ir import Apply, Graph, Parameter, TensorType, Trait, TupleType, Type, dtype_of, round_doubles
from hloom.ops import EXTREMES, with_trait
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


class Replace(Enum):
    """Graphs that give back one of their two parameters."""

    FIRST = 0
    SECOND = 1


_UFUNCS = {
    "add": np.add,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
_BITWISE = with_trait(Trait.ASSOCIATIVE) - with_trait(Trait.PROPAGATES_NAN)
"""Opcodes of integers and predicates alone."""


def opcode_of(graph: Graph) -> str | Replace | None:
    """The commutative opcode of two parameters that a graph is, or the parameter that it gives back; None otherwise."""
    root = graph.output
    if root is None:
        return None
    if isinstance(root, Parameter):
        return Replace(root.number) if len(graph.parameters) == 2 else None
    if root.opcode not in _UFUNCS or len(graph.parameters) != 2 or set(root.operands) != set(graph.parameters):
        return None
    return root.opcode if all(parameter.type is root.type for parameter in graph.parameters) else None


def ufunc_of(graph: Graph, dtype: np.dtype) -> np.ufunc | Replace | None:
    """Numpy's function for a graph on elements of a type; None where numpy's would not do the same.

    That is so for numbers smaller than f32 (which are rounded at each step), for pred and complex numbers but for
    their bits and sums, and for the greatest and least of floats: of 0 and -0, numpy's gives the one or the other.
    """
    opcode = opcode_of(graph)
    if opcode is None or isinstance(opcode, Replace):
        return opcode
    if opcode in EXTREMES and dtype.kind == "f":
        return None
    is_plain = dtype.kind in "iu" or dtype in (np.float32, np.float64)
    allowed = is_plain or (dtype == np.bool_ and opcode in _BITWISE) or (dtype.kind == "c" and opcode == "add")
    return _UFUNCS[opcode] if allowed else None


def wide_ufunc_of(graph: Graph, dtype: np.dtype) -> tuple[np.ufunc, np.dtype] | None:
    """Numpy's function for reducing many elements of a type by a graph, and the type to do it in.

    As XLA's CPU does, floats smaller than f32 are summed up in f32 and rounded once. Of 0 and -0, the greatest and
    the least may come out as either.
    """
    known = opcode_of(graph)
    if known is None or isinstance(known, Replace):
        return None
    if dtype_of(dtype).is_float and dtype.itemsize < 4:
        return _UFUNCS[known], np.dtype(np.float32)
    if known in EXTREMES and dtype in (np.float32, np.float64):
        return _UFUNCS[known], dtype
    ufunc = ufunc_of(graph, dtype)
    return (ufunc, dtype) if isinstance(ufunc, np.ufunc) else None


@evaluator("batch-norm-training")
def _training(node: Apply, operands: Values, run: Runner) -> Value:
    """(scale (x - mean) / sqrt(variance + epsilon) + offset, mean, variance), over all but the feature dimension."""
    x, scale, offset = _doubles(operands)
    axes, between = _axes(node, x)
    mean, variance = x.mean(axes), x.var(axes)
    result = _normalised(node, x, mean.reshape(between), variance.reshape(between))
    return _rounded(operands, result * scale.reshape(between) + offset.reshape(between), mean, variance)


@evaluator("batch-norm-inference")
def _inference(node: Apply, operands: Values, run: Runner) -> Value:
    x, scale, offset, mean, variance = _doubles(operands)
    between = _axes(node, x)[1]
    result = _normalised(node, x, mean.reshape(between), variance.reshape(between))
    return _rounded(operands, result * scale.reshape(between) + offset.reshape(between))[0]


@evaluator("batch-norm-grad")
def _gradient(node: Apply, operands: Values, run: Runner) -> Value:
    """The gradients of the operand, the scale and the offset."""
    x, scale, mean, variance, gradient = _doubles(operands)
    axes, between = _axes(node, x)
    centred = _normalised(node, x, mean.reshape(between), variance.reshape(between))
    offset_gradient, scale_gradient = gradient.sum(axes), (gradient * centred).sum(axes)
    count = x.size / max(x.shape[node.attribute("feature_index")], 1)
    shared = (offset_gradient.reshape(between) + centred * scale_gradient.reshape(between)) / count
    factor = (scale / np.sqrt(variance + node.attribute("epsilon"))).reshape(between)
    return _rounded(operands, factor * (gradient - shared), scale_gradient, offset_gradient)


def _doubles(operands: Values) -> list[np.ndarray]:
    return [array.astype(np.float64) for array in arrays_of(operands)]


def _axes(node: Apply, x: np.ndarray) -> tuple[tuple[int, ...], list[int]]:
    """The dimensions to sum over, and the shape in which one value per feature broadcasts to the operand."""
    feature = node.attribute("feature_index") % x.ndim
    axes = tuple(axis for axis in range(x.ndim) if axis != feature)
    return axes, [-1 if axis == feature else 1 for axis in range(x.ndim)]


def _normalised(node: Apply, x: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    return (x - mean) / np.sqrt(variance + node.attribute("epsilon"))


def _rounded(operands: Values, *results: np.ndarray) -> tuple[np.ndarray, ...]:
    kinds = [dtype_of(result.dtype) for result in arrays_of(operands)]
    kinds = [kinds[0], kinds[1], kinds[1]]
    return tuple(
        round_doubles(result.reshape(-1), type_).reshape(result.shape)
        for result, type_ in zip(results, kinds, strict=False)
    )
