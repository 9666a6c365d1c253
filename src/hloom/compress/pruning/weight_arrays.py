"""Arrays of weights by any of their names, checked against what a program takes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from hloom.compress.quantization import ParameterNames
from hloom.ir import Module, Parameter, TensorType
from hloom.text import HloomError, near_names


def keys_of(module: Module, arrays: Mapping[str, Any], numbers: Collection[int]) -> dict[int, str]:
    """By number the keys of the weights of these numbers; raises HloomError where one is missing or named twice."""
    names = ParameterNames(module.entry.parameters)
    keys: dict[int, str] = {}
    for key in arrays:
        parameter = names.get(key)
        if parameter is None or parameter.number not in numbers:
            continue
        if parameter.number in keys:
            raise HloomError(f"'{keys[parameter.number]}' and '{key}' both name the parameter {parameter.name}")
        keys[parameter.number] = key
    missing = [module.entry.parameters[number].name for number in numbers if number not in keys]
    if missing:
        raise HloomError(
            f"there is no array for {', '.join(missing[:5])}{', ...' if len(missing) > 5 else ''}",
            hint=near_names(missing[0], arrays) or "arrays are named as parameters are, or by their paths",
        )
    return keys


def weight_arrays(
    module: Module, arrays: Mapping[str, Any] | Sequence[Any], numbers: Collection[int]
) -> dict[int, np.ndarray]:
    """The arrays of the weights of these numbers, checked; a sequence holds all inputs of the program, in order."""
    parameters = module.entry.parameters
    if isinstance(arrays, Mapping):
        keys = keys_of(module, arrays, numbers)
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
    values = np.asarray(array)
    type_ = parameter.type
    assert isinstance(type_, TensorType), "weights are arrays"
    if values.shape != type_.dims or values.dtype != type_.dtype.numpy:
        raise HloomError(
            f"{parameter.name} is {values.dtype}[{','.join(map(str, values.shape))}], "
            f"the program takes {type_.with_layout(None)}"
        )
    if values.size and not np.isfinite(values.astype(np.promote_types(np.float32, values.dtype), copy=False)).all():
        count = int((~np.isfinite(values.astype(np.float64))).sum())
        raise HloomError(
            f"{parameter.name} cannot be pruned: {count:,} of its {values.size:,} values are NaN or infinite"
        )
    return values
