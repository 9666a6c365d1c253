"""How the files of what ops compute put functions into the table of `hloom.evaluate`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hloom.dialects.oneflow.rows import plain
from hloom.evaluate import Runner, Value, evaluator
from hloom.ir import Apply, TensorType, TupleType

Arrays = tuple[np.ndarray, ...]
Function = Callable[[Apply, Arrays], Any]


def of(*names: str) -> Callable[[Function], Function]:
    """Let a function of a node and its operands' arrays compute these ops; results get the node's element types."""

    def register(function: Function) -> Function:
        @evaluator(*[f"oneflow.{name}" for name in names])
        def evaluate(node: Apply, operands: tuple[Value, ...], run: Runner) -> Value:
            result = function(node, tuple(np.asarray(operand) for operand in operands))
            if isinstance(node.type, TupleType):
                return tuple(map(_typed, result, node.type.elements))
            return _typed(result, node.type)

        return function

    return register


def _typed(array: np.ndarray, array_type: Any) -> np.ndarray:
    return np.asarray(array, array_type.dtype.numpy) if isinstance(array_type, TensorType) else array


def attribute(node: Apply, name: str) -> Any:
    """A plain attribute, defaults included."""
    return plain(node.attribute(name))


def along(x: np.ndarray, values: np.ndarray, axis: int) -> np.ndarray:
    """One value for each index of an axis, shaped to meet an array."""
    return values.reshape([-1 if dim == axis % x.ndim else 1 for dim in range(x.ndim)])
