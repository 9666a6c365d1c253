"""A quantised program, and the conversion of the original's arrays and results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hloom.analysis import leaf_bytes
from hloom.compress.quantization.arithmetic import QuantizedArray, quantize_array
from hloom.compress.quantization.integer_products import QuantizedActivation
from hloom.compress.quantization.parameter_names import ParameterNames, checked_array
from hloom.compress.quantization.quantized_cache import QuantizedCache
from hloom.compress.quantization.quantized_value import SCALE
from hloom.compress.quantization.recipe import Recipe, WeightFormat
from hloom.compress.quantization.smooth_quant import Smoothing
from hloom.compress.quantization.weights import Exclusion
from hloom.ir import Module, TensorType
from hloom.text import Display, Displayed, DisplayTable, HloomError, Record


@dataclass(frozen=True, slots=True)
class QuantizedWeight(Record):
    """A parameter that now has a narrow type, and the parameters needed to interpret it.

    Elements of a block of `blocks` share a scale. `uses` are the instructions that read it, by name.
    """

    name: str
    number: int
    type: TensorType
    quantized_type: TensorType
    blocks: tuple[int, ...]
    uses: tuple[str, ...]
    companions: Mapping[str, int]
    """The numbers of the additional parameters: `scale`, and `zero_point` if there is one."""
    companion_types: Mapping[str, TensorType]
    format: WeightFormat
    summed_count: int
    """The number of elements a product sums up."""
    json_keys = "name type=type.__str__ quantized_type=bare_type format=format.__str__ blocks bytes used_by=uses"

    @property
    def bytes_before(self) -> int:
        return leaf_bytes(self.type)

    @property
    def bytes_after(self) -> int:
        return leaf_bytes(self.quantized_type) + sum(map(leaf_bytes, self.companion_types.values()))

    @property
    def bytes(self) -> tuple[int, int]:
        """Bytes before and after, scales included."""
        return self.bytes_before, self.bytes_after

    @property
    def bare_type(self) -> str:
        """The narrow type without its layout."""
        return str(self.quantized_type.with_layout(None))


@dataclass(frozen=True, slots=True, repr=False)
class Quantization(Displayed):
    """A quantised program.

    `module` takes the original's parameters, with weights in their narrow types, followed by the scales (and zero
    points): `convert` makes these from the original's. `exclusions` lists what the recipe covers but skips, and why.
    `stops` are the instructions to treat as constants in derivatives: `hloom.grad(module, stop=stops)`.
    """

    module: Module
    original: Module
    recipe: Recipe
    weights: tuple[QuantizedWeight, ...]
    exclusions: tuple[Exclusion, ...]
    caches: tuple[QuantizedCache, ...] = ()
    stops: tuple[str, ...] = ()
    smoothing: Smoothing | None = None
    activations: tuple[QuantizedActivation, ...] = ()
    rounders: Mapping[int, Callable[[QuantizedWeight, np.ndarray, QuantizedArray], QuantizedArray]] = field(
        default_factory=dict
    )
    """For each weight that is not rounded to nearest, the function that rounds it."""

    def display(self) -> Display:
        left = [(one.name, one.reason) for one in self.exclusions]
        weights = (
            (one.name, str(one.type), str(one.quantized_type), one.bytes_before, one.bytes_after)
            for one in self.weights
        )
        columns = ("weight", "type", "quantised type", "bytes before", "bytes after")
        tables = (
            DisplayTable("weights", columns, weights, len(self.weights)),
            DisplayTable("left as they are", ("name", "why"), left, len(left)),
        )
        before, after = (sum(getattr(one, f"bytes_{when}") for one in self.weights) for when in ("before", "after"))
        held = f"{len(self.weights)} weights of {before:,} bytes in {after:,}"
        return Display(f"<{self.original.name} quantised to {self.recipe}: {held}>", tables)

    @property
    def base(self) -> Module:
        """The program that is quantised: the original, or its smoothed form."""
        return self.original if self.smoothing is None else self.smoothing.module

    def base_arrays(self, arrays: Sequence[Any]) -> list[Any]:
        """The arrays that `base` takes, of the original's."""
        return list(arrays) if self.smoothing is None else self.smoothing.convert(arrays)

    def convert(self, arrays: Mapping[str, Any] | Sequence[Any]) -> Any:
        """The quantised program's arrays, of the original's.

        A sequence holds all inputs of the original in order, and all of the quantised program's are returned. A mapping
        may hold any of them, by parameters' names, numbers or paths (`params.layers.w`), including the weights: these
        are converted, with `NAME.scale` added for each NAME, and the others are kept. Raises HloomError for a weight
        that is missing, of another shape or type, or not finite.
        """
        if isinstance(arrays, Mapping):
            return self._convert_by_name(arrays)
        given = list(arrays)
        if len(given) != len(self.original.entry.parameters):
            raise HloomError(f"the program takes {len(self.original.entry.parameters)} arrays, {len(given)} are given")
        base = self.base_arrays(given)
        result = [*base, *([None] * (len(self.module.entry.parameters) - len(base)))]
        for weight in (*self.weights, *self.caches):
            if weight.number is None:
                continue
            made = self.quantized(weight, base[weight.number])
            result[weight.number] = made.values
            for name, number in weight.companions.items():
                result[number] = companion_of(made, name)
        return result

    def restored(self, outputs: Sequence[Any]) -> list[Any]:
        """The original's outputs, of the quantised program's: caches are dequantised, scales left out."""
        result = list(outputs)
        gone: set[int] = set()
        for cache in self.caches:
            if cache.output is None:
                continue
            scale = np.asarray(outputs[cache.output_companions[SCALE]])
            held = QuantizedArray(np.asarray(outputs[cache.output]), scale, None, cache.blocks)
            result[cache.output] = held.dequantized(cache.type.dtype.numpy)
            gone.update(cache.output_companions.values())
        return [array for number, array in enumerate(result) if number not in gone]

    def carried(self, arrays: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
        """The quantised program's arrays for the next step: those given, with the caches of a step's `outputs`."""
        result = list(arrays)
        for cache in self.caches:
            if cache.number is None or cache.output is None:
                continue
            result[cache.number] = outputs[cache.output]
            for name, number in cache.companions.items():
                result[number] = outputs[cache.output_companions[name]]
        return result

    def quantized(self, weight: QuantizedWeight | QuantizedCache, array: Any) -> QuantizedArray:
        """One weight's array, or a cache's, as `base` takes it, in its narrow type."""
        values = checked_array(weight.name, weight.type, array)
        nearest = quantize_array(
            values,
            weight.format.number_format,
            weight.blocks,
            is_symmetric=self.recipe.is_symmetric or isinstance(weight, QuantizedCache),
            name=weight.name,
        )
        if isinstance(weight, QuantizedCache):
            return nearest
        rounder = self.rounders.get(weight.number)
        return nearest if rounder is None else rounder(weight, values, nearest)

    def dequantized(self, arrays: Sequence[Any]) -> list[Any]:
        """The inputs of `base` with weights replaced by the values the quantised program computes with."""
        result = self.base_arrays(arrays)
        for weight in (*self.weights, *self.caches):
            if weight.number is not None:
                made = self.quantized(weight, result[weight.number])
                result[weight.number] = made.dequantized(weight.type.dtype.numpy)
        return result

    def _convert_by_name(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        names = ParameterNames(self.original.entry.parameters)
        weights = {weight.number: weight for weight in (*self.weights, *self.caches) if weight.number is not None}
        keys = names.keys(arrays, weights, [weight.number for weight in self.weights])
        by_key = {key: weights[number] for number, key in keys.items()}
        result: dict[str, Any] = {}
        for key, array in arrays.items():
            parameter = names.get(key)
            if parameter is not None and self.smoothing is not None:
                array = self.smoothing.scaled(parameter.number, array)
            weight = by_key.get(key)
            if weight is None:
                result[key] = array
                continue
            made = self.quantized(weight, array)
            result[key] = made.values
            for name in weight.companions:
                result[f"{key}.{name}"] = companion_of(made, name)
        if self.smoothing is not None:
            result |= dict(self.smoothing.added)
        return result


def companion_of(array: QuantizedArray, name: str) -> np.ndarray:
    """The scales of a quantised array, or its zero points."""
    companion = array.scale if name == SCALE else array.zero
    assert companion is not None, "asymmetric arrays have zero points"
    return companion
