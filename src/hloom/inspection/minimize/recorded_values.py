"""Recorded values: what a program computes on its inputs, for parameters that replace instructions.

    y = f32[4] tanh(x)   ->   y.value = f32[4] parameter(1)      given what tanh(x) was

A parameter says by its name which instruction it stands for. Where shapes have become smaller, it is given the part of
the value around the element that differed most.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from hloom.evaluator import Value, evaluate, leaves_of
from hloom.inspection.minimize.cuts import VALUE, is_plain, yield_leaves
from hloom.ir import TOKEN, Apply, Module, Node, TensorType, dtype_of
from hloom.runtime import input_domains, random_array
from hloom.text import HloomError

MOST_BYTES = 1 << 30
"""The maximum bytes of values to record."""

Leaves = list[np.ndarray]
"""The arrays of a value, tuples flattened."""
Execution = Callable[[Module, Sequence[np.ndarray]], Sequence[np.ndarray]]
"""Runs a module on arrays: what records values that numpy does not compute."""


class TooLarge(HloomError):
    """The values of a program take more memory than is allowed."""


class RecordedValues:
    """What the entry's parameters are given, and what its instructions compute of it, when first asked for."""

    def __init__(self, module: Module, inputs: Mapping[str, Leaves], execution: Execution) -> None:
        self.module, self.inputs = module, inputs
        self._execution = execution
        self._values: dict[str, Leaves] | None = None
        self._is_tried = False

    def values(self) -> dict[str, Leaves] | None:
        """What the entry's instructions compute, by name; None where nobody can say, or it is too large."""
        if not self._is_tried:
            self._is_tried = True
            arrays = [array for leaves in self.inputs.values() for array in leaves]
            try:
                self._values = recorded(self.module, arrays, self._execution)
            except HloomError:
                self._values = None
        return self._values

    def leaves(self, name: str) -> Leaves | None:
        """What a parameter of this name is given: what that of the module is, or the value that it stands for."""
        if name in self.inputs:
            return self.inputs[name]
        values = self.values() if name.endswith(VALUE) else None
        return None if values is None else values.get(name.removesuffix(VALUE))


def recorded(module: Module, inputs: Sequence[np.ndarray], execution: Execution) -> dict[str, Leaves]:
    """The values of the entry's instructions, by numpy, or where it refuses, by what runs the module."""
    _check_size(module)
    values: dict[str, Leaves] = {}

    def observe(node: Node, value: Value) -> None:
        if node.graph is module.entry:
            values[node.name] = list(leaves_of(value))

    try:
        evaluate(module, inputs, observe=observe)
    except HloomError:
        return _executed(module, inputs, execution)
    return values


def _check_size(module: Module) -> None:
    leaves = [leaf for node in module.entry.nodes if node.type is not None for leaf in node.type.leaves()]
    count = sum(leaf.byte_count for leaf in leaves if isinstance(leaf, TensorType) and leaf.is_static)
    if count > MOST_BYTES:
        raise TooLarge(f"the values of {module.name} take {count:,} bytes")


def _executed(module: Module, inputs: Sequence[np.ndarray], execution: Execution) -> dict[str, Leaves]:
    copy = module.clone()
    copy.index_users()
    nodes = [node for node in copy.entry.nodes if isinstance(node, Apply) and is_plain(node)]
    counts = yield_leaves(copy, nodes)
    waiting = iter(execution(copy, inputs))
    return {node.name: [next(waiting) for _ in range(count)] for node, count in zip(nodes, counts, strict=True)}


def given_inputs(
    module: Module, source: Callable[[str], Leaves | None], starts: Mapping[int, int], seed: int
) -> dict[str, Leaves] | None:
    """The arrays that a module's parameters are given: those of a source, or random ones of the seed where it has none.

    Where a dimension is smaller than that of what is given, `starts` says by the larger size where the part begins.
    None where a parameter is neither an array nor a tuple of arrays.
    """
    inputs: dict[str, Leaves] = {}
    domains = input_domains(module)
    number = 0
    for parameter in module.entry.parameters:
        types = (
            [leaf for leaf in parameter.type.leaves() if leaf is not TOKEN] if parameter.type is not None else [None]
        )
        if not all(isinstance(leaf, TensorType) and leaf.is_static for leaf in types):
            return None
        types = [leaf for leaf in types if isinstance(leaf, TensorType)]
        arrays = source(parameter.name)
        fitted = None if arrays is None else _fitted(arrays, types, starts)
        if fitted is None:
            fitted = [
                random_array(leaf, np.random.default_rng([seed, number + index]), domains[number + index])
                for index, leaf in enumerate(types)
            ]
        inputs[parameter.name] = fitted
        number += len(types)
    return inputs


def _fitted(arrays: Leaves, types: list[TensorType], starts: Mapping[int, int]) -> Leaves | None:
    """Arrays of some types, cut out where they are larger; None where they do not go together."""
    if len(arrays) != len(types):
        return None
    result: Leaves = []
    for array, wanted in zip(arrays, types, strict=True):
        if array.ndim != wanted.rank or dtype_of(array.dtype) is not wanted.dtype:
            return None
        if any(size > had for size, had in zip(wanted.dims, array.shape, strict=True)):
            return None
        parts = []
        for size, had in zip(wanted.dims, array.shape, strict=True):
            start = min(starts.get(had, 0), had - size)
            parts.append(slice(start, start + size))
        result.append(np.ascontiguousarray(array[tuple(parts)]).reshape(wanted.dims))
    return result
