"""Batch normalisation: forward, at inference, and its gradient."""

from __future__ import annotations

import numpy as np

from hloom.evaluate.table import Runner, Value, Values, arrays_of, evaluator
from hloom.ir import Apply, dtype_of, round_doubles


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
