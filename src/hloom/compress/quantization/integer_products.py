"""Dots and convolutions on integers or fp8: activations are quantised in the program, and scales multiply the result.

    y = f32[M,N] dot(x, dequantised(q, scale))
      ->
    xs = f32[M] max|x| / 127                      (dynamic: per row; static: a constant)
    xq = s8[M,K] clamp(-127, round(x / xs), 127)
    y = f32[M,N] convert(s32[M,N] dot(xq, q)) * xs * scale

Of weights in e4m3 or e5m2 activations are of the same format, their scales max|x| over its largest number, and products
are summed in f32.

Source: AQT (Abdolrashidi et al. 2021) and LLM.int8 (Dettmers et al. 2022, section 2.1: vector-wise quantisation).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from hloom.compress.quantization.formats import FORMATS, NumberFormat
from hloom.compress.quantization.insertion_point import InsertionPoint, replace_node
from hloom.compress.quantization.movement import result_dims
from hloom.compress.quantization.quantized_value import F32, SCALE, QuantizedValue
from hloom.ir import DTYPES, Apply, DType, Node, TensorType
from hloom.ops import OPS

_INTEGERS = FORMATS["int8"]
MOST_SUMMED = (2**31 - 1) // (127 * (127 + 1))
"""The maximum number of s8 products whose sum certainly fits in s32: weights may be -128."""
S32 = DTYPES["s32"]
PRECISION = ("operand_precision", "algorithm")


@dataclass(frozen=True, slots=True)
class QuantizedActivation:
    """The operand of a product that gets a narrow type; names are those of the original's canonical form.

    `clip` is the maximum magnitude, None if the program finds it; `summed_dims` are the dimensions it is found over;
    `format` is the format it is rounded to.
    """

    computation: str
    product: str
    operand_index: int
    summed_dims: tuple[int, ...]
    clip: float | None
    format: NumberFormat


@dataclass(frozen=True, slots=True)
class Product:
    """A dot or convolution, which of its operands is the weight, and the weight in its narrow type."""

    node: Apply
    weight_index: int
    weight: QuantizedValue

    @property
    def activation_index(self) -> int:
        return 1 - self.weight_index

    def quantized_activation(self, clip: float | None) -> QuantizedActivation:
        """What is rounded, and how."""
        node = self.node
        return QuantizedActivation(
            node.graph.name, node.name, self.activation_index, self.summed_dims[0], clip, self.activation_format
        )

    @property
    def activation_format(self) -> NumberFormat:
        """What the activation is rounded to: int8 beside integers of any width, else the weight's format."""
        return activation_format(self.weight.node.array_type.dtype)

    @property
    def summed_dims(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The dimensions of the activation and of the weight that are summed over."""
        if self.node.opcode == "dot":
            sides = [tuple(self.node.attribute(f"{side}_contracting_dims") or ()) for side in ("lhs", "rhs")]
            return sides[self.activation_index], sides[self.weight_index]
        labels = self.node.attributes["dim_labels"]
        image = tuple(dim for dim, letter in enumerate(labels.lhs) if letter != "b")
        if (self.node.attribute("batch_group_count") or 1) > 1:
            image = tuple(range(len(labels.lhs)))
        return image, tuple(dim for dim, letter in enumerate(labels.rhs) if letter != "o")


def activation_format(element: DType) -> NumberFormat:
    """The format of activations beside weights of an element type."""
    return _INTEGERS if element.is_integer else next(form for form in FORMATS.values() if form.dtype is element)


def product_of(node: Apply, dequantized: Mapping[Node, QuantizedValue]) -> Product | None:
    """A product one of whose operands is dequantised, perhaps converted; None where none is."""
    for operand_index in (1, 0) if node.opcode == "dot" else (1,):
        operand = node.operands[operand_index]
        while operand.opcode == "convert":
            if operand in dequantized:
                break
            operand = operand.operands[0]
        if operand in dequantized and operand.array_type.dims == node.operands[operand_index].array_type.dims:
            return Product(node, operand_index, dequantized[operand])
    return None


def reason_against(product: Product) -> str | None:
    """Why a product cannot use narrow types; None if it can."""
    activation = product.node.operands[product.activation_index].array_type
    if not activation.dtype.is_float or not product.node.array_type.dtype.is_float:
        return f"its activation is {activation}: only real ones are quantised"
    weight = product.weight.node.array_type
    _, summed = product.summed_dims
    count = prod(weight.dims[dim] for dim in summed)
    if not count:
        return "it sums up nothing"
    if weight.dtype.is_integer and count > MOST_SUMMED:
        return f"it sums {count:,} products: s32 holds {MOST_SUMMED:,}"
    if set(product.weight.companions) != {SCALE}:
        return "its weight has zero points"
    scales = product.weight.companions[SCALE].array_type.dims
    if any(scales[dim] != 1 for dim in summed):
        return "scales of its weight differ within a sum"
    return None


def write_integer_product(product: Product, clip: float | None, *, straight_through: bool = False) -> str | None:
    """Compute a product on integers, or fp8; `clip` is the maximum activation, or None to find it in the program.

    With `straight_through` the original product stays, and the quantisation
    error added to it is a separate instruction, whose name is returned: treating it as a constant gives the original's
    derivative.
    """
    node = product.node
    graph, point = node.graph, InsertionPoint(node.graph, node)
    summed, _ = product.summed_dims
    activation = point.convert(node.operands[product.activation_index], F32)
    kept = [dim for dim in range(activation.array_type.rank) if dim not in summed]
    form = product.activation_format
    steps, scale = activation_steps(point, activation, summed, clip, form)
    operands: list[Node] = [point.convert(_clamped_steps(point, steps, form), form.dtype)] * 2
    operands[product.weight_index] = point.convert(product.weight.node, form.dtype)
    result = node.array_type
    name = node.name
    sums = graph.add_apply(
        OPS[node.opcode],
        operands,
        TensorType(S32 if form.is_integer else F32, result.dims),
        node.attributes.changed(**dict.fromkeys(PRECISION)),
        f"{name}.integer" if form.is_integer else f"{name}.{form}",
        before=node,
        metadata=node.raw_metadata,
    )
    value = point.convert(sums, F32)
    into = _result_dims(product)
    if clip is None:
        value = point.mul(value, point.broadcast(scale, result.dims, [into[0][dim] for dim in kept]))
    else:
        value = point.mul(value, point.broadcast(scale, result.dims, ()))
    weight_scale = product.weight.companions[SCALE]
    counts = weight_scale.array_type.dims
    varying = [dim for dim, count in enumerate(counts) if count != 1]
    flat = point.convert(point.reshape(weight_scale, [counts[dim] for dim in varying]), F32)
    value = point.mul(value, point.broadcast(flat, result.dims, [into[1][dim] for dim in varying]))
    value = point.convert(value, result.dtype)
    if not straight_through:
        replace_node(node, value)
        return None
    dequantized = graph.add_apply(
        node.op,
        node.operands,
        node.type,
        node.attributes,
        f"{name}.dequantized",
        before=node,
        metadata=node.raw_metadata,
    )
    added = point.op("subtract", value, dequantized, name=f"{name}.added")
    total = point.op("add", dequantized, added)
    replace_node(node, total)
    return added.name


def activation_steps(
    point: InsertionPoint,
    activation: Node,
    summed: Sequence[int],
    clip: float | None,
    form: NumberFormat,
) -> tuple[Node, Node]:
    """An activation of f32 over its scale, and the scale: a scalar, or found for what is not summed."""
    type_ = activation.array_type.with_layout(None)
    if clip is not None:
        constant = static_scale(clip, form)
        scale = point.constant(float(constant), F32)
        return point.mul(activation, point.constant(float(np.float32(1) / constant), type_)), scale
    kept = [dim for dim in range(type_.rank) if dim not in summed]
    magnitudes = point.op("abs", activation)
    greatest = point.maximum(magnitudes, summed) if summed else magnitudes
    share = point.mul(greatest, point.constant(1 / form.largest, greatest.array_type))
    scale = point.op("maximum", share, point.constant(float(np.finfo(np.float32).tiny), share.array_type))
    return point.div(activation, point.broadcast(scale, type_.dims, kept)), scale


def round_steps(point: InsertionPoint, steps: Node, form: NumberFormat) -> Node:
    """An activation over its scale as a format holds it, in f32."""
    made = _clamped_steps(point, steps, form)
    return made if form.is_integer else point.convert(point.convert(made, form.dtype), F32)


def _clamped_steps(point: InsertionPoint, steps: Node, form: NumberFormat) -> Node:
    """An activation over its scale within a format's range, integers rounded; floats are by their conversion."""
    limits = [point.constant(float(limit), F32) for limit in (-form.largest, form.largest)]
    rounded = point.op("round-nearest-even", steps) if form.is_integer else steps
    return point.op("clamp", limits[0], rounded, limits[1])


def static_scale(clip: float, form: NumberFormat = _INTEGERS) -> np.float32:
    """The scale of activations that are clipped at a magnitude; 1 where all are zero."""
    return np.float32(max(clip / form.largest, np.finfo(np.float32).tiny)) if clip else np.float32(1)


def _result_dims(product: Product) -> tuple[dict[int, int], dict[int, int]]:
    """Where the dimensions of the activation and of the weight that are not summed over are in the result."""
    node = product.node
    if node.opcode == "convolution":
        labels = node.attributes["dim_labels"]
        return {labels.lhs.index("b"): labels.output.index("b")}, {labels.rhs.index("o"): labels.output.index("f")}
    sides = result_dims(node)
    return sides[product.activation_index], sides[product.weight_index]
