"""The lowering of products of matrices, convolution, the gated linear unit and fused attention."""

from __future__ import annotations

import math

from hloom.dialects.arrays import HloArray, table_of
from hloom.dialects.oneflow.attention import joined_dims, read_attention, split_dims
from hloom.dialects.oneflow.elementwise_lowering import ACTIVATIONS
from hloom.dialects.oneflow.linear import CONVOLUTION, common, glu_operands
from hloom.dialects.oneflow.lowering_context import Given
from hloom.dialects.oneflow.normalisation_lowering import softmax
from hloom.dialects.oneflow.rows import SEGMENTS, optional_operands
from hloom.ir import ConvolutionDimensions, Window, WindowDimension
from hloom.text import Unsupported

TABLE, lowers = table_of("oneflow.")
_FIRST = ConvolutionDimensions("bf01", "oi01", "bf01")
_LAST = ConvolutionDimensions("b01f", "o01i", "b01f")


@lowers("matmul", "batch_matmul", "broadcast_matmul")
def _matmul(given: Given) -> HloArray:
    left = given.operands[0].swapped() if given["transpose_a"] else given.operands[0]
    right = given.operands[1].swapped() if given["transpose_b"] else given.operands[1]
    batch = common(left.type, right.type)
    left, right = (side.stretch((*batch, *side.dims[-2:])) for side in (left, right))
    return given.added(_scaled(left.product(right), given["alpha"]), 2)


def _scaled(product: HloArray, alpha: float) -> HloArray:
    return product if alpha == 1 else product * alpha


@lowers("fused_matmul_bias")
def _matmul_bias(given: Given) -> HloArray:
    product = _scaled(_linear(given, given.operands[1], None), given["alpha"])
    return given.added(product + given.operands[2].spread(product.dims, (product.rank - 1,)), 3)


@lowers("conv2d")
def _conv2d(given: Given) -> HloArray:
    places = optional_operands(CONVOLUTION, len(given.operands), given.node.attribute(SEGMENTS))
    is_last = given["data_format"] == "channels_last"
    kernel = given.operands[places["weight"]]
    sides = kernel.dims[1:3] if is_last else kernel.dims[2:]
    numbers = zip(sides, given["strides"], given["padding_before"], given["dilation_rate"], strict=True)
    window = Window(
        tuple(WindowDimension(size, stride, pad, pad, window_dilation=gap) for size, stride, pad, gap in numbers)
    )
    labels = _LAST if is_last else _FIRST
    attributes = {"window": window, "dim_labels": labels, "feature_group_count": given["groups"]}
    result = given.x.op("convolution", kernel, **attributes)
    if "bias" in places:
        result = result + given.operands[places["bias"]].spread(result.dims, (3 if is_last else 1,))
    if "_add_to_output" in places:
        result = result + given.operands[places["_add_to_output"]]
    return result


@lowers("fused_glu")
def _glu(given: Given) -> tuple[HloArray, ...]:
    places = glu_operands(len(given.operands), given.node.attribute(SEGMENTS))
    name = "identity" if given["activation"] == "none" else given["activation"]
    activation = ACTIVATIONS.get(name)
    if activation is None:
        raise Unsupported(f"{given.node.name}: the activation '{name}' is not known")
    operands = {name: given.operands[index] for name, index in places.items()}
    products = _linear(given, operands["w"], operands.get("b"))
    if "v" in operands:
        gates = _linear(given, operands["v"], operands.get("c"))
        return products * activation(gates), products, gates
    last, half = products.rank - 1, products.dims[-1] // 2
    hidden, gate = (products.narrowed(last, start, half) for start in (0, half))
    return hidden * activation(gate), products


def _linear(given: Given, weights: HloArray, bias: HloArray | None) -> HloArray:
    """The last dimension times weights whose rows are its results, plus a bias."""
    last = given.x.rank - 1
    result = given.x.op("dot", weights, lhs_contracting_dims=(last,), rhs_contracting_dims=(1,))
    return result if bias is None else result + bias.spread(result.dims, (last,))


_HEADS = "BHMK"


@lowers("fused_multi_head_attention_inference")
def _attention(given: Given) -> HloArray:
    """softmax(query . key * scale + bias, masked) . value, head by head."""
    types = [operand.type for operand in given.operands]
    said = read_attention(types, given.node.attribute)
    widths = (said.head_size, said.head_size, said.value_size)
    query, key, value = (
        _heads(x, split_dims(x.type, layout, size))
        for x, layout, size in zip(given.operands[:3], said.layouts[:3], widths, strict=True)
    )
    scores = query.product(key.swapped()) * said.scale
    if said.bias is not None:
        scores = scores + given.operands[said.bias].stretch(scores.dims)
    rows, columns = scores.dims[-2:]
    if said.mask != "none":
        diagonal = said.diagonal_offset + (columns - rows if said.mask == "causal_from_bottom_right" else 0)
        scores = scores.lower_triangle(diagonal, -math.inf)
    yielded = softmax(scores).product(value)
    sizes = dict(zip(_HEADS, yielded.dims, strict=True))
    letters = said.layouts[3].replace("(", "").replace(")", "")
    ordered = yielded.transpose([_HEADS.index(letter) for letter in letters])
    return ordered.reshape(joined_dims(sizes, said.layouts[3]))


def _heads(x: HloArray, sizes: dict[str, int]) -> HloArray:
    """The array as batch, heads, sequence, head size."""
    letters = list(sizes)
    return x.reshape(tuple(sizes.values())).transpose([letters.index(letter) for letter in _HEADS])
