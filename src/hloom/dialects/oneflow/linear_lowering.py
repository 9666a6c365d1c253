"""The lowering of products of matrices, convolution, the gated linear unit and fused attention."""

from __future__ import annotations

import math

from hloom.dialects.oneflow.attention import joined_dims, read_attention, split_dims
from hloom.dialects.oneflow.builder import Given, HloBuilder, table_of, tensor
from hloom.dialects.oneflow.elementwise_lowering import ACTIVATIONS, lower_triangle, narrowed
from hloom.dialects.oneflow.linear import CONVOLUTION, common, glu_operands
from hloom.dialects.oneflow.normalisation_lowering import softmax
from hloom.dialects.oneflow.rows import SEGMENTS, optional_operands
from hloom.ir import ConvolutionDimensions, Node, Window, WindowDimension
from hloom.text import Unsupported

TABLE, lowers = table_of()
_FIRST = ConvolutionDimensions("bf01", "oi01", "bf01")
_LAST = ConvolutionDimensions("b01f", "o01i", "b01f")


@lowers("matmul", "batch_matmul", "broadcast_matmul")
def _matmul(given: Given) -> Node:
    build = given.build
    left = swapped(build, given.operands[0]) if given["transpose_a"] else given.operands[0]
    right = swapped(build, given.operands[1]) if given["transpose_b"] else given.operands[1]
    a, b = tensor(left), tensor(right)
    batch = common(a, b)
    left, right = build.stretch(left, (*batch, *a.dims[-2:])), build.stretch(right, (*batch, *b.dims[-2:]))
    product: Node = build.product(left, right)
    if given["alpha"] != 1:
        product = build.op("multiply", product, build.like(given["alpha"], product))
    return build.op("add", product, given.operands[2]) if len(given.operands) == 3 else product


def swapped(build: HloBuilder, x: Node) -> Node:
    """The last two dimensions exchanged."""
    rank = tensor(x).rank
    return build.transpose(x, (*range(rank - 2), rank - 1, rank - 2))


@lowers("fused_matmul_bias")
def _matmul_bias(given: Given) -> Node:
    product = _linear(given, given.operands[1], None)
    if given["alpha"] != 1:
        product = given.build.op("multiply", product, given.build.like(given["alpha"], product))
    total: Node = given.build.op("add", product, given.along(given.operands[2], given.x_type.rank - 1, product))
    return given.build.op("add", total, given.operands[3]) if len(given.operands) == 4 else total


@lowers("conv2d")
def _conv2d(given: Given) -> Node:
    places = optional_operands(CONVOLUTION, len(given.operands), given.node.attribute(SEGMENTS))
    is_last = given["data_format"] == "channels_last"
    kernel = given.operands[places["weight"]]
    sides = tensor(kernel).dims[1:3] if is_last else tensor(kernel).dims[2:]
    numbers = zip(sides, given["strides"], given["padding_before"], given["dilation_rate"], strict=True)
    window = Window(
        tuple(WindowDimension(size, stride, pad, pad, window_dilation=gap) for size, stride, pad, gap in numbers)
    )
    labels = _LAST if is_last else _FIRST
    attributes = {"window": window, "dim_labels": labels, "feature_group_count": given["groups"]}
    result: Node = given.build.op("convolution", given.x, kernel, **attributes)
    if "bias" in places:
        bias = given.along(given.operands[places["bias"]], 3 if is_last else 1, result)
        result = given.build.op("add", result, bias)
    if "_add_to_output" in places:
        result = given.build.op("add", result, given.operands[places["_add_to_output"]])
    return result


@lowers("fused_glu")
def _glu(given: Given) -> tuple[Node, ...]:
    build = given.build
    places = glu_operands(len(given.operands), given.node.attribute(SEGMENTS))
    name = "identity" if given["activation"] == "none" else given["activation"]
    activation = ACTIVATIONS.get(name)
    if activation is None:
        raise Unsupported(f"{given.node.name}: the activation '{name}' is not known")
    operands = {name: given.operands[index] for name, index in places.items()}
    products = _linear(given, operands["w"], operands.get("b"))
    if "v" in operands:
        gates = _linear(given, operands["v"], operands.get("c"))
        return build.op("multiply", products, activation(build, gates)), products, gates
    last = tensor(products).rank - 1
    half = tensor(products).dims[-1] // 2
    hidden = narrowed(build, products, last, 0, half)
    gate = narrowed(build, products, last, half, half)
    return build.op("multiply", hidden, activation(build, gate)), products


def _linear(given: Given, weights: Node, bias: Node | None) -> Node:
    """The last dimension times weights whose rows are its results, plus a bias."""
    last = given.x_type.rank - 1
    result = given.build.op("dot", given.x, weights, lhs_contracting_dims=(last,), rhs_contracting_dims=(1,))
    return result if bias is None else given.build.op("add", result, given.along(bias, last, result))


_HEADS = "BHMK"


@lowers("fused_multi_head_attention_inference")
def _attention(given: Given) -> Node:
    """softmax(query . key * scale + bias, masked) . value, head by head."""
    build = given.build
    kinds = [tensor(operand) for operand in given.operands]
    said = read_attention(kinds, given.node.attribute)
    widths = (said.head_size, said.head_size, said.value_size)
    query, key, value = (
        _heads(build, x, split_dims(array_type, layout, size))
        for x, array_type, layout, size in zip(given.operands[:3], kinds[:3], said.layouts[:3], widths, strict=True)
    )
    products = build.product(query, swapped(build, key))
    scores: Node = build.op("multiply", products, build.like(said.scale, products))
    if said.bias is not None:
        scores = build.op("add", scores, build.stretch(given.operands[said.bias], tensor(scores).dims))
    rows, columns = tensor(scores).dims[-2:]
    if said.mask != "none":
        diagonal = said.diagonal_offset + (columns - rows if said.mask == "causal_from_bottom_right" else 0)
        scores = lower_triangle(build, scores, diagonal, -math.inf)
    yielded = build.product(softmax(build, scores), value)
    sizes = dict(zip(_HEADS, tensor(yielded).dims, strict=True))
    letters = said.layouts[3].replace("(", "").replace(")", "")
    ordered = build.transpose(yielded, [_HEADS.index(letter) for letter in letters])
    return build.reshape(ordered, joined_dims(sizes, said.layouts[3]))


def _heads(build: HloBuilder, x: Node, sizes: dict[str, int]) -> Node:
    """The array as batch, heads, sequence, head size."""
    letters = list(sizes)
    return build.transpose(build.reshape(x, tuple(sizes.values())), [letters.index(letter) for letter in _HEADS])
