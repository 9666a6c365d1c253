"""Moving, repeating and regrouping elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hloom.evaluator.table import Runner, Value, Values, array_type, arrays_of, evaluator
from hloom.ir import Apply, PaddingDimension, TensorType, from_doubles
from hloom.text import Unsupported


@evaluator("broadcast")
def _broadcast(node: Apply, operands: Values, run: Runner) -> Value:
    """Operand dimension i becomes result dimension dimensions[i]; dynamic ones keep the operand's present size."""
    (operand,) = arrays_of(operands)
    operand_type = array_type(node)
    dimensions = node.attribute("dimensions") or ()
    sizes, between = list(operand_type.dims), [1] * operand_type.rank
    for dim, dimension in enumerate(dimensions):
        between[dimension] = operand.shape[dim]
        if operand_type.dynamic and operand_type.dynamic[dimension]:
            sizes[dimension] = operand.shape[dim]
    if any(moves and dim not in dimensions for dim, moves in enumerate(operand_type.dynamic or ())):
        raise Unsupported("the size of a dynamic dimension is not known")
    order = sorted(range(operand.ndim), key=lambda dim: dimensions[dim])
    return np.broadcast_to(operand.transpose(order).reshape(between), sizes)


@evaluator("reshape")
def _reshape(node: Apply, operands: Values, run: Runner) -> Value:
    (operand,) = arrays_of(operands)
    operand_type = array_type(node)
    if operand_type.dynamic is None:
        return operand.reshape(operand_type.dims)
    if sum(operand_type.dynamic) != 1:
        raise Unsupported("the sizes of several dynamic dimensions are not known")
    return operand.reshape(
        [-1 if moves else size for size, moves in zip(operand_type.dims, operand_type.dynamic, strict=True)]
    )


@evaluator("dynamic-reshape")
def _dynamic_reshape(node: Apply, operands: Values, run: Runner) -> Value:
    operand, *sizes = arrays_of(operands)
    return operand.reshape([int(size) for size in sizes])


@evaluator("transpose")
def _transpose(node: Apply, operands: Values, run: Runner) -> Value:
    (operand,) = arrays_of(operands)
    return operand.transpose(node.attribute("dimensions"))


@evaluator("slice")
def _slice(node: Apply, operands: Values, run: Runner) -> Value:
    (operand,) = arrays_of(operands)
    return operand[tuple(slice(part.start, part.limit, part.stride) for part in node.attribute("slice"))]


@evaluator("pad")
def _pad(node: Apply, operands: Values, run: Runner) -> Value:
    operand, value = arrays_of(operands)
    return padded(operand, value, node.attribute("padding"))


def padded(operand: np.ndarray, value: np.ndarray, padding: Sequence[PaddingDimension]) -> np.ndarray:
    """An array with elements of this value before, after and between its own; negative padding crops.

    >>> padded(np.array([1, 2, 3]), np.array(0), [PaddingDimension(-1, 2, 1)])
    array([0, 2, 0, 3, 0, 0])
    """
    spread = [size + max(size - 1, 0) * padded.interior for size, padded in zip(operand.shape, padding, strict=True)]
    sizes = [max(padded.low + size + padded.high, 0) for size, padded in zip(spread, padding, strict=True)]
    result = np.full(sizes, value, operand.dtype)
    target, source = [], []
    for count, spread_size, size, padded in zip(operand.shape, spread, sizes, padding, strict=True):
        step = padded.interior + 1
        first = -(min(padded.low, 0) // step)  # the first element that is not cropped away
        last = min(count, -(-(min(size - padded.low, spread_size)) // step))  # and the first behind that is
        start = padded.low + first * step
        target.append(slice(start, max(start + (last - first - 1) * step + 1, start) if last > first else start, step))
        source.append(slice(first, max(last, first)))
    result[tuple(target)] = operand[tuple(source)]
    return result


@evaluator("concatenate")
def _concatenate(node: Apply, operands: Values, run: Runner) -> Value:
    return np.concatenate(arrays_of(operands), axis=node.attribute("dimensions")[0])


@evaluator("reverse")
def _reverse(node: Apply, operands: Values, run: Runner) -> Value:
    (operand,) = arrays_of(operands)
    return np.flip(operand, node.attribute("dimensions"))


@evaluator("iota")
def _iota(node: Apply, operands: Values, run: Runner) -> Value:
    operand_type = array_type(node)
    dimension = node.attribute("iota_dimension")
    between = [1] * operand_type.rank
    between[dimension] = operand_type.dims[dimension]
    return np.broadcast_to(counted(operand_type, operand_type.dims[dimension]).reshape(between), operand_type.dims)


def counted(array_type: TensorType, count: int) -> np.ndarray:
    """0, 1, 2, ... in an element type; integers wrap around."""
    numbers = np.arange(count)
    if array_type.dtype.is_float:
        return from_doubles(numbers.astype(np.float64), array_type.dtype)[0]
    return numbers.astype(array_type.dtype.numpy)


@evaluator("get-dimension-size")
def _dimension_size(node: Apply, operands: Values, run: Runner) -> Value:
    (operand,) = arrays_of(operands)
    return np.asarray(operand.shape[node.attribute("dimensions")[0]], np.int32)


@evaluator("set-dimension-size")
def _set_dimension_size(node: Apply, operands: Values, run: Runner) -> Value:
    """Keep the first elements of a dimension; where it grows, zeros stand for what XLA leaves undefined."""
    operand, size = arrays_of(operands)
    dimension = node.attribute("dimensions")[0]
    growth = int(size) - operand.shape[dimension]
    padding = [PaddingDimension(0, growth if dim == dimension else 0) for dim in range(operand.ndim)]
    return padded(operand, np.zeros((), operand.dtype), padding)
