"""Arrays of weights by any of their names, checked against what a program takes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from hloom.compress.quantization import ParameterNames, checked_array
from hloom.ir import Module, Parameter, TensorType
from hloom.text import HloomError


def weight_arrays(
    module: Module, arrays: Mapping[str, Any] | Sequence[Any], numbers: Collection[int]
) -> dict[int, np.ndarray]:
    """The arrays of the weights of these numbers, checked; a sequence holds all inputs of the program, in order."""
    parameters = module.entry.parameters
    if isinstance(arrays, Mapping):
        keys = ParameterNames(parameters).keys(arrays, numbers)
        return {number: checked(parameters[number], arrays[keys[number]]) for number in numbers}
    given = list(arrays)
    check_count(module, given)
    return {number: checked(parameters[number], given[number]) for number in numbers}


def check_count(module: Module, arrays: Sequence[Any]) -> None:
    """Raise HloomError unless there is an array for every parameter."""
    if len(arrays) != len(module.entry.parameters):
        raise HloomError(f"the program takes {len(module.entry.parameters)} arrays, {len(arrays)} are given")


def checked(parameter: Parameter, array: Any) -> np.ndarray:
    """A weight's array; raises HloomError where it is of another shape or type, or not finite."""
    assert isinstance(parameter.type, TensorType), "weights are arrays"
    values = checked_array(parameter.name, parameter.type.with_layout(None), array)
    if values.size and not np.isfinite(values.astype(np.promote_types(np.float32, values.dtype), copy=False)).all():
        count = int((~np.isfinite(values.astype(np.float64))).sum())
        raise HloomError(
            f"{parameter.name} cannot be pruned: {count:,} of its {values.size:,} values are NaN or infinite"
        )
    return values
