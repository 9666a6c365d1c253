"""Fake quantisation for fine-tuning: weights and activations stay floats, and the program rounds them.

    v = clamp(w / scale + zero, lowest - 0.51, greatest + 0.51)
    w' = (v + stop(round(v) - v) - zero) * scale

With the straight-through estimator (Bengio et al. 2013) the derivative of w' by w is 1 within the range and 0 beyond it
(in MX formats, whose scales follow the values, 1); that by the scale, which is a parameter, is the one of learned step
sizes (Esser et al. 2020, equation 3). If the program itself finds the range of an activation, x' = x + stop(round(x /
scale) * scale - x). The stopped instructions are listed in `stops`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hloom.compress.quantization.arithmetic import with_scale
from hloom.compress.quantization.dequantization import finish_program
from hloom.compress.quantization.formats import NumberFormat, wide_type
from hloom.compress.quantization.insertion_point import (
    InsertionPoint,
    first_instruction,
    first_of,
    redirect,
)
from hloom.compress.quantization.integer_products import (
    QuantizedActivation,
    activation_steps,
    round_steps,
)
from hloom.compress.quantization.parameter_names import checked_array
from hloom.compress.quantization.quantization import Quantization, QuantizedWeight
from hloom.compress.quantization.quantized_value import F32, SCALE, ZERO, stretch
from hloom.ir import Graph, Module, Node, Parameter
from hloom.passes import canonicalize_in_place
from hloom.text import HloomError

_BEYOND_INTEGERS = 0.51
_BEYOND_FLOATS = 1.01
"""How far beyond a format's largest values others still count as in range, for derivatives."""


@dataclass(frozen=True, slots=True)
class FakeQuantization:
    """A program of floats that computes the same as a quantised one: `hloom.grad(module, stop=stops)` differentiates
    it.

    `module` takes the arrays of `quantization.base`, and after them the scales (and zero points) of `quantization`. So
    fine-tuning a smoothed program changes smoothed weights, which the quantised program rounds, and not the original's.
    """

    module: Module
    stops: tuple[str, ...]
    quantization: Quantization

    def convert(self, arrays: Sequence[Any]) -> list[Any]:
        """The program's arrays, of the original's."""
        narrow = self.quantization.convert(arrays)
        base = self.quantization.base_arrays(arrays)
        return [*base, *narrow[len(base) :]]

    def quantized(self, arrays: Sequence[Any]) -> list[Any]:
        """The quantised program's arrays, of this one's: weights rounded by the scales that are given with them."""
        if len(arrays) != len(self.module.entry.parameters):
            raise HloomError(
                f"the program takes {len(self.module.entry.parameters)} arrays, {len(arrays)} are given",
                hint="convert() adds the scales",
            )
        result = list(arrays)
        for weight in self.quantization.weights:
            wide = checked_array(weight.name, weight.type, arrays[weight.number]).astype(np.float64)
            if not np.isfinite(wide).all():
                raise HloomError(f"{weight.name} cannot be quantised: some of its values are NaN or infinite")
            scale = np.asarray(arrays[weight.companions[SCALE]])
            zero = np.asarray(arrays[weight.companions[ZERO]]) if ZERO in weight.companions else None
            made = with_scale(wide, weight.format.number_format, scale, zero, weight.blocks)
            result[weight.number] = made.values
        return result


def fake_quantize(quantization: Quantization) -> FakeQuantization:
    """The program that was quantised (the original, or its smoothed form) with weights and activations rounded.

    Raises HloomError for caches, which programs round themselves.
    """
    if quantization.caches:
        raise HloomError(
            "caches are quantised: their rows are rounded by the program",
            hint="fine-tune the program without cache=, and quantise its weights by the same recipe",
        )
    module = quantization.base.clone()
    canonicalize_in_place(module)
    former = tuple(module.entry.parameters)
    first = first_instruction(module.entry)
    stops: list[str] = []
    companions = [_add_companions(module.entry, weight, first) for weight in quantization.weights]
    for weight, held in zip(quantization.weights, companions, strict=True):
        stops.append(_round_weight(module.entry.parameters[weight.number], weight, held))
    stops += [_round_activation(module, activation) for activation in quantization.activations]
    finish_program(module, former)
    return FakeQuantization(module, tuple(stops), quantization)


def _add_companions(entry: Graph, weight: QuantizedWeight, first: Node | None) -> dict[str, Node]:
    """Parameters for a weight's scales, and zero points, with the numbers that they have in the quantised program."""
    made: dict[str, Node] = {}
    for name, number in weight.companions.items():
        parameter = entry.add_parameter(weight.companion_types[name], f"{weight.name}.{name}")
        assert parameter.number == number, "companions are in the order of the weights"
        if first is not None:
            entry.move_before(parameter, first)
        made[name] = parameter
    return made


def _round_weight(parameter: Parameter, weight: QuantizedWeight, companions: Mapping[str, Node]) -> str:
    """Round a weight for all that reads it; the name of what is stopped."""
    users = tuple(parameter.users)
    point, type_ = InsertionPoint(parameter.graph, first_of(users)), parameter.array_type.with_layout(None)
    wide = wide_type(type_.dtype)
    scale = stretch(point, point.convert(companions[SCALE], wide), type_.dims, weight.blocks)
    steps = point.div(point.convert(parameter, wide), scale)
    zero = None
    if ZERO in companions:
        zero = stretch(point, point.convert(companions[ZERO], wide), type_.dims, weight.blocks)
        steps = point.op("add", steps, zero)
    made, stopped = _round_through(point, steps, weight.format.number_format, f"{weight.name}.rounding")
    if zero is not None:
        made = point.sub(made, zero)
    made = point.convert(point.mul(made, scale), type_.dtype)
    redirect(parameter, users, made)
    return stopped


def _round_through(point: InsertionPoint, steps: Node, form: NumberFormat, name: str) -> tuple[Node, str]:
    """Values in units of their scale as a format holds them, with the derivative 1 where they are in its range."""
    element = steps.array_type.dtype
    if form.is_integer:
        low, high = (-form.largest, form.largest) if form.is_block_scaled else form.integer_range
        is_open = form.is_block_scaled
        near = steps if is_open else _clamped(point, steps, low - _BEYOND_INTEGERS, high + _BEYOND_INTEGERS)
        rounded = _clamped(point, point.op("round-nearest-even", near), low, high)
    else:
        limit = form.largest * _BEYOND_FLOATS
        near = steps if form.is_block_scaled else _clamped(point, steps, -limit, limit)
        narrow = point.convert(_clamped(point, near, -form.largest, form.largest), form.dtype)
        rounded = point.convert(narrow, element)
    stopped = point.op("subtract", rounded, near, name=name)
    return point.op("add", near, stopped), stopped.name


def _clamped(point: InsertionPoint, node: Node, low: float, high: float) -> Node:
    element = node.array_type.dtype
    return point.op("clamp", point.constant(low, element), node, point.constant(high, element))


def _round_activation(module: Module, activation: QuantizedActivation) -> str:
    """Round an operand of a product to what its format holds; the name of what is stopped."""
    node = module[activation.computation][activation.product]
    operand = node.operands[activation.operand_index]
    point, summed = InsertionPoint(node.graph, node), activation.summed_dims
    wide = point.convert(operand, F32)
    dims = wide.array_type.dims
    form = activation.format
    steps, scale = activation_steps(point, wide, summed, activation.clip, form)
    name = f"{activation.product}.rounding"
    if activation.clip is None:
        kept = [dim for dim in range(len(dims)) if dim not in summed]
        made = point.mul(round_steps(point, steps, form), point.broadcast(scale, dims, kept))
        stopped = point.op("subtract", made, wide, name=name)
        made = point.op("add", wide, stopped)
    else:
        limit = form.largest + _BEYOND_INTEGERS if form.is_integer else form.largest * _BEYOND_FLOATS
        near = _clamped(point, steps, -limit, limit)
        stopped = point.op("subtract", round_steps(point, near, form), near, name=name)
        made = point.mul(point.op("add", near, stopped), point.broadcast(scale, dims, ()))
    inputs = list(node.operands)
    inputs[activation.operand_index] = point.convert(made, operand.array_type.dtype)
    node.graph.set_operands(node, inputs)
    return stopped.name
